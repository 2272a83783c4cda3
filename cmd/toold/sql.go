package main

import (
	"context"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/toold/toold/internal/store/postgres"
	"github.com/toold/toold/internal/store/sqlite"
)

// sqlCommand lets people ask the audit log where no database client is at hand.
func sqlCommand() *cobra.Command {
	var asCSV bool
	cmd := &cobra.Command{
		Use:   "sql STATEMENT",
		Short: "ask the database, read-only: the audit log is there to be queried",
		Long: `sql runs one statement that reads, on the database that the same configuration
would have toold use; "-" reads the statement from standard input. What would
write, attach a file or change the connection is refused. A daemon may be running.
On Postgres it reads what the role of --database-url may read: give an auditor a
role that may only SELECT.

The views to start with, on SQLite and on Postgres:
  audit_api_calls      audit_api.calls       a row a call: asked, judged, ended
  audit_api_decisions  audit_api.decisions   a row a decision
  audit_api_effects    audit_api.effects     a row a thing touched`,
		Example: `  toold sql "SELECT tool, verdict, policy_id, count(*) FROM audit_api_decisions GROUP BY 1, 2, 3"
  toold sql "SELECT finished_at, tool, outcome FROM audit_api_calls ORDER BY received_at DESC LIMIT 10"
  toold sql --csv - <question.sql
  toold sql --database-url "$AUDIT_URL" "SELECT verb, target FROM audit_api.effects LIMIT 10"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				cmd.SetOut(cmd.ErrOrStderr())
				return errors.Join(cmd.Help(), usageError{errors.New("give a statement, or - to read it from standard input")})
			}
			return positional(cobra.ExactArgs(1))(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := load(cmd.Flags(), os.Environ())
			if err != nil {
				return err
			}
			statement, err := given(args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			write, flush := table(cmd.OutOrStdout(), asCSV)
			return errors.Join(query(cmd.Context(), c, statement, write), flush())
		},
	}
	addFlags(cmd.Flags(), databaseFlags...)
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print comma-separated values")
	return cmd
}

// maxStatement bounds what is read as a statement, in bytes.
const maxStatement = 1 << 20

// given is the argument, or what standard input holds.
func given(argument string, in io.Reader) (string, error) {
	if argument != "-" {
		return argument, nil
	}
	text, err := io.ReadAll(io.LimitReader(in, maxStatement+1))
	if err != nil {
		return "", fmt.Errorf("reading the statement: %w", err)
	}
	if len(text) > maxStatement {
		return "", fmt.Errorf("a statement of more than %d bytes is none", maxStatement)
	}
	return string(text), nil
}

func query(ctx context.Context, c Config, statement string, each func([]any) error) error {
	if c.DatabaseURL != "" {
		return postgres.Query(ctx, c.DatabaseURL, statement, each)
	}
	dir, err := c.dataPath()
	if err != nil {
		return err
	}
	path := filepath.Join(dir, databaseName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no database at %s yet; start toold once, or name its --data-dir or --database-url", path)
	}
	return sqlite.Query(ctx, path, statement, each)
}

// table prints rows, in columns or as CSV.
func table(out io.Writer, asCSV bool) (write func([]any) error, flush func() error) {
	if asCSV {
		w := csv.NewWriter(out)
		return func(row []any) error { return w.Write(cells(row)) }, func() error { w.Flush(); return w.Error() }
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	return func(row []any) error {
		_, err := fmt.Fprintln(w, strings.Join(cells(row), "\t"))
		return err
	}, w.Flush
}

func cells(row []any) []string {
	out := make([]string, len(row))
	for i, v := range row {
		out[i] = cell(v)
	}
	return out
}

// cell is a value as text on one line; what was recorded of a hostile call must
// not steer the terminal.
func cell(v any) string {
	var s string
	switch v := v.(type) {
	case nil:
		return ""
	case []byte:
		return hex.EncodeToString(v)
	case [16]byte:
		return uuid.UUID(v).String()
	case time.Time:
		return v.UTC().Format("2006-01-02 15:04:05.000000")
	default:
		s = fmt.Sprint(v)
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
