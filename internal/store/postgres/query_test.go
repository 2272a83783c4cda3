package postgres_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/toold/toold/internal/store/postgres"
)

func TestAQuestionReads(t *testing.T) {
	dsn := migrated.DSN(t)
	for statement, want := range map[string][][]any{
		"SELECT 1 AS a, NULL::text AS b, ';' AS c;":       {{"a", "b", "c"}, {int32(1), nil, ";"}},
		"WITH x AS (SELECT 2 AS n) SELECT n FROM x -- ok": {{"n"}, {int32(2)}},
		"SELECT count(*) AS n FROM audit_api.calls":       {{"n"}, {int64(0)}},
		"VALUES ('v')":               {{"column1"}, {"v"}},
		"SHOW transaction_read_only": {{"transaction_read_only"}, {"on"}},
	} {
		var got [][]any
		err := postgres.Query(t.Context(), dsn, statement, func(row []any) error {
			got = append(got, append([]any(nil), row...))
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", statement, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", statement, diff)
		}
	}
}

// TestAQuestionDoesNothingElse holds for a superuser, in whatever way the
// connection string would have statements sent.
func TestAQuestionDoesNothingElse(t *testing.T) {
	dsn := migrated.DSN(t)
	execute(t, dsn, "CREATE TABLE public.t (a int); INSERT INTO public.t VALUES (1)")
	execute(t, dsn, `CREATE FUNCTION public.wipe() RETURNS int LANGUAGE sql AS 'DELETE FROM public.t RETURNING a'`)
	execute(t, dsn, `CREATE PROCEDURE public.wipe_all(INOUT n int) LANGUAGE plpgsql AS 'BEGIN COMMIT; DELETE FROM public.t; END'`)
	simple := dsn + "?default_query_exec_mode=simple_protocol"
	if strings.Contains(dsn, "?") {
		simple = dsn + "&default_query_exec_mode=simple_protocol"
	}
	for name, test := range map[string]struct{ statement, want string }{
		"delete":                 {"DELETE FROM public.t", "read-only"},
		"delete and say what":    {"DELETE FROM public.t RETURNING a", "read-only"},
		"a delete in a CTE":      {"WITH x AS (DELETE FROM public.t RETURNING a) SELECT * FROM x", "read-only"},
		"explained for real":     {"EXPLAIN ANALYZE DELETE FROM public.t", "read-only"},
		"by a function":          {"SELECT public.wipe()", "read-only"},
		"by a procedure":         {"CALL public.wipe_all(1)", "invalid transaction termination"},
		"by a block":             {"DO $$ BEGIN DELETE FROM public.t; END $$", "read-only"},
		"by a block that sets":   {"DO $$ BEGIN SET TRANSACTION READ WRITE; DELETE FROM public.t; END $$", "read-only"},
		"by a setting":           {"SELECT set_config('transaction_read_only', 'off', true), public.wipe()", "transaction read-write mode must be set before any query"},
		"set":                    {"SET TRANSACTION READ WRITE", "gives no rows"},
		"commit":                 {"COMMIT", "gives no rows"},
		"create":                 {"CREATE TABLE public.u (a int)", "read-only"},
		"create as":              {"SELECT 1 AS a INTO public.u", "read-only"},
		"lock":                   {"SELECT * FROM public.t FOR UPDATE", "read-only"},
		"copy to a program":      {"COPY (SELECT 1) TO PROGRAM 'cat > /tmp/toold-copied'", "gives no rows"},
		"copy to a file":         {"COPY (SELECT 1) TO '/tmp/toold-copied'", "gives no rows"},
		"copy to us":             {"COPY (SELECT 1) TO STDOUT", "gives no rows"},
		"copy from a program":    {"COPY public.t FROM PROGRAM 'echo 2'", "gives no rows"},
		"a second statement":     {"SELECT 1; SELECT 2", "multiple commands"},
		"a second that writes":   {"SELECT 1; COMMIT; DELETE FROM public.t", "multiple commands"},
		"a second after comment": {"SELECT 1 /* ; */; -- x\nCOMMIT", "multiple commands"},
		"nothing":                {"", "gives no rows"},
		"a comment":              {"-- SELECT 1", "gives no rows"},
		"a parameter":            {"SELECT $1::int", "expected 1 arguments"},
		"no SQL":                 {"what happened?", "syntax error"},
	} {
		for how, dsn := range map[string]string{"as it is": dsn, "simple": simple} {
			t.Run(name+"/"+how, func(t *testing.T) {
				err := postgres.Query(t.Context(), dsn, test.statement, func([]any) error { return nil })
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %q in it", err, test.want)
				}
			})
		}
	}
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	var rows, made int
	if err := c.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM public.t), (SELECT count(*) FROM pg_class WHERE relname = 'u')").Scan(&rows, &made); err != nil || rows != 1 || made != 0 {
		t.Errorf("%d rows left of 1, %d tables made: %v", rows, made, err)
	}
}

// TestTheQuestionsOfTheAuditPageWork asks them under the role that the page
// makes for an auditor.
func TestTheQuestionsOfTheAuditPageWork(t *testing.T) {
	page, err := os.ReadFile("../../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	dsn := migrated.DSN(t)
	execute(t, dsn, "DROP ROLE IF EXISTS page_auditor; CREATE ROLE page_auditor")
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "GRANT ") {
			execute(t, dsn, strings.ReplaceAll(line, "TO auditor", "TO page_auditor"))
		}
	}
	defer execute(t, dsn, "DROP OWNED BY page_auditor; DROP ROLE page_auditor")
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	if _, err := c.Exec(t.Context(), "SET ROLE page_auditor"); err != nil {
		t.Fatal(err)
	}
	questions := strings.Split(string(page), "```sql\n")[1:]
	if len(questions) < 6 {
		t.Errorf("the page has %d questions", len(questions))
	}
	for _, q := range questions {
		q, _, _ = strings.Cut(q, "```")
		if _, err := c.Exec(t.Context(), strings.ReplaceAll(q, "audit_api_", "audit_api.")); err != nil {
			t.Errorf("%s\n%v", q, err)
		}
	}
	if _, err := c.Exec(t.Context(), "SELECT * FROM exec.batches"); err == nil {
		t.Error("the auditor reads the live state")
	}
}
