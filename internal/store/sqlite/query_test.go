package sqlite

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// asked gives the rows of a statement, the names of the columns first.
func asked(ctx context.Context, path, statement string) (rows [][]any, err error) {
	err = Query(ctx, path, statement, func(row []any) error {
		rows = append(rows, append([]any(nil), row...))
		return nil
	})
	return rows, err
}

// TestAQuestionReads holds with the store open, as a daemon has it, and closed.
func TestAQuestionReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a question?.db")
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(t *testing.T) {
		for statement, want := range map[string][][]any{
			"SELECT 1 AS a, NULL AS b, ';' AS c;":                                                                   {{"a", "b", "c"}, {int64(1), nil, ";"}},
			" -- why; so\n SELECT /* ; */ 'it''s; so' AS \"a;b\" ;; -- z":                                           {{"a;b"}, {"it's; so"}},
			"SELECT 1 AS [a;b], 2 AS `c;d` /* no end":                                                               {{"a;b", "c;d"}, {int64(1), int64(2)}},
			"WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i+1 FROM n WHERE i < 3) SELECT max(i) AS m FROM n": {{"m"}, {int64(3)}},
			"SELECT count(*) AS n FROM audit_api_calls":                                                             {{"n"}, {int64(0)}},
			"SELECT count(*) AS n FROM audit_api_effects":                                                           {{"n"}, {int64(0)}},
			"SELECT count(*) AS n FROM audit_api_decisions":                                                         {{"n"}, {int64(0)}},
			"SELECT name FROM pragma_table_info('exec_calls') LIMIT 1":                                              {{"name"}, {"batch_id"}},
			"PRAGMA quick_check": {{"quick_check"}, {"ok"}},
		} {
			got, err := asked(t.Context(), path, statement)
			if err != nil {
				t.Errorf("%s: %v", statement, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", statement, diff)
			}
		}
		if got, err := asked(t.Context(), path, "EXPLAIN QUERY PLAN SELECT * FROM audit_batches"); err != nil || len(got) < 2 {
			t.Errorf("explain: %v, %v", got, err)
		}
	}
	t.Run("with a daemon", ask)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Run("without", ask)
}

func TestAQuestionSeesWhatADaemonCommits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toold.db")
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	writer(t, path)
	got, err := asked(t.Context(), path, "SELECT batch_id FROM exec_calls")
	if diff := cmp.Diff([][]any{{"batch_id"}, {"b"}}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestAQuestionDoesNothingElse(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	path := filepath.Join(dir, "toold.db")
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	db := writer(t, path)
	before := state(t, db, dir)
	for name, test := range map[string]struct{ statement, want string }{
		"delete":                    {"DELETE FROM exec_calls", "would write"},
		"insert":                    {"INSERT INTO exec_calls VALUES ('c', 1, x'00')", "would write"},
		"update":                    {"UPDATE exec_calls SET call_index = 9", "would write"},
		"replace":                   {"REPLACE INTO exec_calls VALUES ('b', 1, x'01')", "would write"},
		"delete and say what":       {"DELETE FROM exec_calls RETURNING batch_id", "would write"},
		"a delete after a CTE":      {"WITH x AS (SELECT 1) DELETE FROM exec_calls WHERE 1 IN x RETURNING *", "would write"},
		"explained":                 {"EXPLAIN DELETE FROM exec_calls", "would write"},
		"drop":                      {"DROP TABLE exec_calls", "would write"},
		"create":                    {"CREATE TABLE t (a)", "would write"},
		"create as":                 {"CREATE TABLE t AS SELECT 1", "would write"},
		"a temporary table":         {"CREATE TEMP TABLE t (a)", "would write"},
		"a temporary trigger":       {"CREATE TEMP TRIGGER t AFTER INSERT ON exec_calls BEGIN DELETE FROM exec_calls; END", ""},
		"a virtual table":           {"CREATE VIRTUAL TABLE temp.t USING fts5(a)", "would write"},
		"alter":                     {"ALTER TABLE exec_calls ADD COLUMN z", "would"},
		"reindex":                   {"REINDEX", "would write"},
		"analyze":                   {"ANALYZE", "would"},
		"attach":                    {"ATTACH 'new.db' AS n", "attach another file"},
		"attach by expression":      {"ATTACH 'new' || '.db' AS n", "attach another file"},
		"attach by URI":             {"ATTACH DATABASE 'file:new.db?mode=rwc' AS n", "attach another file"},
		"attach in memory":          {"ATTACH ':memory:' AS n", "attach another file"},
		"detach":                    {"DETACH main", "attach another file"},
		"vacuum":                    {"VACUUM", ""},
		"vacuum into":               {"VACUUM INTO 'new.db'", ""},
		"vacuum main into":          {"VACUUM main INTO 'file:new.db?mode=rwc'", ""},
		"writable again":            {"PRAGMA query_only=0", "pragma query_only"},
		"writable again, as a call": {"PRAGMA main.query_only(OFF)", "pragma query_only"},
		"pragma, hidden":            {"/* SELECT */ pragma\n/**/journal_mode = delete -- SELECT", "pragma journal_mode"},
		"writable schema":           {"PRAGMA writable_schema=ON", "pragma writable_schema"},
		"user version":              {"PRAGMA user_version=7", "pragma user_version"},
		"checkpoint":                {"PRAGMA wal_checkpoint(TRUNCATE)", "pragma wal_checkpoint"},
		"temporary folder":          {"PRAGMA temp_store_directory='/'", "pragma temp_store_directory"},
		"optimize":                  {"PRAGMA optimize", "pragma optimize"},
		"a pragma in a select":      {"SELECT * FROM pragma_user_version", "pragma user_version"},
		"an extension":              {"SELECT load_extension('x.so')", "load an extension"},
		"begin":                     {"BEGIN IMMEDIATE", "transaction"},
		"savepoint":                 {"SAVEPOINT a", "transaction"},
		"pragma, then delete":       {"PRAGMA query_only=0; DELETE FROM exec_calls", "second statement"},
		"select, then delete":       {"SELECT 1; DELETE FROM exec_calls", "second statement"},
		"after a comment":           {"SELECT 1; -- and\n DELETE FROM exec_calls", "second statement"},
		"after two semicolons":      {"SELECT 1;;DELETE FROM exec_calls", "second statement"},
		"after a text":              {"SELECT 'a''';DELETE FROM exec_calls", "second statement"},
		"after a comment's end":     {"SELECT 1 /* -- */; DELETE FROM exec_calls", "second statement"},
		"after /*/":                 {"SELECT 1 /*/ ; */; DELETE FROM exec_calls", "second statement"},
		"after a name":              {"SELECT 1 AS [a'];DELETE FROM exec_calls --'", "second statement"},
		"after a NUL":               {"SELECT 1\x00; DELETE FROM exec_calls", "NUL"},
		"two questions":             {"SELECT 1; SELECT 2", "second statement"},
		"nothing":                   {"", "no statement"},
		"semicolons":                {" ; ;", "no statement"},
		"a comment":                 {"-- SELECT 1", "no statement"},
		"no SQL":                    {"what happened?", "syntax error"},
		"an open text":              {"SELECT 'a", "unrecognized token"},
		"no such table":             {"SELECT * FROM nope", "no such table"},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := asked(t.Context(), path, test.statement)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, %v, want an error with %q", rows, err, test.want)
			}
			if diff := cmp.Diff(before, state(t, db, dir)); diff != "" {
				t.Errorf("it did something (-before +after):\n%s", diff)
			}
		})
	}
}

// TestEachGuardHoldsAlone asks past the judge: the file itself is read-only.
func TestEachGuardHoldsAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "toold.db")
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	db, err := openReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), "PRAGMA query_only=0; DELETE FROM exec_calls"); err == nil || !strings.Contains(err.Error(), "readonly") {
		t.Errorf("got %v", err)
	}
	absent, err := openReadOnly(filepath.Join(dir, "absent.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = absent.Close() }()
	if err := absent.PingContext(t.Context()); err == nil {
		t.Error("a database was made")
	}
	if _, err := os.Stat(filepath.Join(dir, "absent.db")); err == nil {
		t.Error("a file was made")
	}
}

// writer is another connection on the file, which has committed a row.
func writer(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := connect(path, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), "INSERT INTO exec_calls (batch_id, call_index, result) VALUES ('b', 1, x'00')"); err != nil {
		t.Fatal(err)
	}
	return db
}

// state is what a statement could have changed: rows, schema, files.
func state(t *testing.T, db *sql.DB, dir string) map[string]any {
	t.Helper()
	out := make(map[string]any)
	for _, q := range []string{
		"SELECT group_concat(batch_id || call_index || hex(result)) FROM exec_calls",
		"SELECT count(*) || group_concat(name) FROM sqlite_schema", "PRAGMA user_version", "PRAGMA journal_mode",
	} {
		var v any
		if err := db.QueryRowContext(t.Context(), q).Scan(&v); err != nil {
			t.Fatal(err)
		}
		out[q] = v
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out["file "+e.Name()] = true
	}
	return out
}

func FuzzOneStatement(f *testing.F) {
	for _, s := range []string{"SELECT 1;", "/*", "'", "[", "--", "a;b", "/*/;*/", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if oneStatement(text) == nil && oneStatement(text+"\n;\n;") != nil && strings.Count(text, ";") == 0 {
			t.Errorf("%q is one statement, and with a semicolon it is not", text)
		}
	})
}
