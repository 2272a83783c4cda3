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
		Long: `sql runs one statement on the database that the same flags would have toold
use, on a connection that cannot write. A daemon may be running.

Start with the views: audit_api_calls, audit_api_decisions, audit_api_effects
(on Postgres audit_api.calls and so on).`,
		Example: `  toold sql "SELECT tool, verdict, policy_id, count(*) FROM audit_api_decisions GROUP BY 1, 2, 3"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := load(cmd.Flags(), os.LookupEnv)
			if err != nil {
				return err
			}
			write, flush := table(cmd.OutOrStdout(), asCSV)
			return errors.Join(query(cmd.Context(), c, args[0], write), flush())
		},
	}
	addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print comma-separated values")
	return cmd
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
