package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	driver "modernc.org/sqlite"
)

// Query runs one statement for a person and gives each the names of the columns,
// then the rows. NULL is nil. The database at path must exist; a daemon may have
// it open.
//
// It reads and does nothing else, which three things see to, each alone: the
// file is opened read-only, SQLite asks a judge about every action of the
// statement before it runs, and there is one statement.
func Query(ctx context.Context, path, statement string, each func(row []any) error) (err error) {
	if err := oneStatement(statement); err != nil {
		return err
	}
	db, err := openReadOnly(path)
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	var j judge
	if err := conn.Raw(func(c any) error { return c.(driver.AuthorizerRegisterer).RegisterAuthorizer(j.allow) }); err != nil {
		return fmt.Errorf("opening %s to read: %w", path, err)
	}
	rows, err := conn.QueryContext(ctx, statement)
	if err != nil && j.refused != "" {
		return fmt.Errorf("the database is read-only here, and this statement would %s", j.refused)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	return eachRow(rows, each)
}

func eachRow(rows *sql.Rows, each func(row []any) error) error {
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	row := make([]any, len(names))
	for i, n := range names {
		row[i] = n
	}
	if err := each(row); err != nil {
		return err
	}
	into := make([]any, len(row))
	for i := range row {
		into[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := each(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// openReadOnly has one connection on the file, which cannot write it. It is not
// opened as immutable: what a running daemon commits is seen.
func openReadOnly(path string) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	q := url.Values{"mode": {"ro"}, "_defensive": {"1"}, "_pragma": {"busy_timeout(5000)", "query_only(1)", "trusted_schema(0)"}}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// judge allows what reads, and keeps what it refused first.
type judge struct{ refused string }

// looks are the pragmas that, without a value or with a name as theirs, only
// tell about the schema.
var looks = map[string]bool{
	"table_info": true, "table_xinfo": true, "table_list": true, "index_list": true, "index_info": true,
	"index_xinfo": true, "foreign_key_list": true, "function_list": true, "database_list": true,
	"integrity_check": true, "quick_check": true,
}

// allow is SQLite's authorizer. Arguments of the actions:
// https://www.sqlite.org/c3ref/c_alter_table.html
func (j *judge) allow(action driver.AuthorizerActionCode, arg1, arg2, _, _ string) driver.AuthorizerReturnCode {
	would := ""
	switch action {
	case driver.AuthSelect, driver.AuthRead, driver.AuthRecursive:
	case driver.AuthFunction:
		if strings.EqualFold(arg2, "load_extension") {
			would = "load an extension"
		}
	case driver.AuthPragma:
		if !looks[strings.ToLower(arg1)] {
			would = "use the pragma " + arg1
		}
	case driver.AuthAttach, driver.AuthDetach:
		would = "attach another file"
	case driver.AuthTransaction, driver.AuthSavepoint:
		would = "begin or end a transaction"
	default:
		would = "write"
	}
	if would == "" {
		return driver.AuthorizerOK
	}
	if j.refused == "" {
		j.refused = would
	}
	return driver.AuthorizerDeny
}

// oneStatement refuses a text that holds none, or more than one.
func oneStatement(text string) error {
	if strings.ContainsRune(text, 0) {
		return errors.New("the statement holds a NUL")
	}
	var begun, ended bool
	for text != "" {
		word, rest := token(text)
		switch {
		case word == "":
		case word == ";":
			ended = ended || begun
		case ended:
			return errors.New("there is a second statement after the semicolon; give one")
		default:
			begun = true
		}
		text = rest
	}
	if !begun {
		return errors.New("there is no statement")
	}
	return nil
}

// token splits off what cannot hold a semicolon that ends a statement: a quoted
// text or name, a comment or white space (both given as ""), or one byte.
func token(text string) (word, rest string) {
	span := func(end string) int {
		if i := strings.Index(text[1:], end); i >= 0 {
			return 1 + i + len(end)
		}
		return len(text)
	}
	switch c := text[0]; {
	case strings.ContainsRune(" \t\n\f\r", rune(c)):
		return "", text[1:]
	case strings.HasPrefix(text, "--"):
		return "", text[span("\n"):]
	case strings.HasPrefix(text, "/*"):
		if i := strings.Index(text[2:], "*/"); i >= 0 {
			return "", text[2+i+2:]
		}
		return "", ""
	case c == '\'' || c == '"' || c == '`': // a doubled quote is two texts, which is as good
		n := span(text[:1])
		return text[:n], text[n:]
	case c == '[':
		n := span("]")
		return text[:n], text[n:]
	default:
		return text[:1], text[1:]
	}
}
