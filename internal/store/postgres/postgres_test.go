package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/pgtest"
	"github.com/toold/toold/internal/store/postgres"
	"github.com/toold/toold/internal/store/storetest"
)

var migrated = pgtest.Template{Migrate: postgres.Migrate}

func open(t testing.TB, dsn string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(context.Background(), dsn, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func BenchmarkBatches(b *testing.B) {
	storetest.BenchmarkBatches(b, open(b, migrated.DSN(b)))
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Database {
		dsn := migrated.DSN(t)
		return storetest.Database{Open: func(t testing.TB) storetest.Store { return open(t, dsn) }}
	})
}

func BenchmarkFloor(b *testing.B) {
	storetest.BenchmarkFloor(b, open(b, migrated.DSN(b)))
}

func TestOneDaemonADatabase(t *testing.T) {
	dsn := migrated.DSN(t)
	first := open(t, dsn)
	if s, err := postgres.Open(t.Context(), dsn, postgres.Options{}); err == nil || !strings.Contains(err.Error(), "another toold uses this database") {
		t.Errorf("a second one: %v, %v", s, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dsn)
}

func TestOpenRefuses(t *testing.T) {
	for name, c := range map[string]struct{ sql, want string }{
		"an older schema":         {`DELETE FROM goose_db_version WHERE version_id > 0`, "run toold migrate"},
		"no schema":               {`DROP TABLE goose_db_version`, "run toold migrate"},
		"a newer schema":          {`INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, true)`, "use a newer toold"},
		"synchronous_commit off":  {`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$`, "turn on synchronous_commit"},
		"nothing else of its own": {`SELECT 1`, ""},
	} {
		dsn := migrated.DSN(t)
		execute(t, dsn, c.sql)
		s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
		if err == nil {
			_ = s.Close()
		}
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func execute(t testing.TB, dsn, sql string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestEveryConnectionEnds(t *testing.T) {
	dsn := migrated.DSN(t)
	l := storetest.OpenLog(t, open(t, dsn))
	for range 3 {
		execute(t, dsn, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		if _, err := l.Intend(t.Context(), storetest.NewBatch(1).Accept()); err != nil {
			t.Errorf("after the server ended all connections: %v", err)
		}
	}
}

// A server that accepts everything and answers nothing is like one whose table
// is locked.
func TestTheServerDoesNotAnswer(t *testing.T) {
	dsn := migrated.DSN(t)
	l := storetest.OpenLog(t, open(t, dsn))
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), `BEGIN; LOCK TABLE audit.blocks`); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = l.Intend(t.Context(), storetest.NewBatch(1).Accept())
	if !errors.Is(err, audit.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Settle(t.Context(), &audit.Entry{Admin: []audit.AdminEvent{{At: time.Now(), Actor: "test", Event: "BACK"}}}); err != nil {
		t.Error(err)
	}
	if err := l.Available(); err != nil {
		t.Errorf("after it came back: %v", err)
	}
}

func TestMissingPartitionIsAnOutage(t *testing.T) {
	dsn := migrated.DSN(t)
	s := open(t, dsn)
	l := storetest.OpenLog(t, s)
	execute(t, dsn, `DO $$ DECLARE p regclass; BEGIN FOR p IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'audit.permission_decisions'::regclass
		LOOP EXECUTE format('DROP TABLE %s', p); END LOOP; END $$`)
	if _, err := l.Intend(t.Context(), storetest.NewBatch(1).Accept()); !errors.Is(err, audit.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	if err := s.Maintain(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := l.Settle(t.Context(), &audit.Entry{Decisions: []audit.Decision{storetest.NewBatch(1).Decision(0)}}); err != nil {
		t.Error(err)
	}
}

func TestViews(t *testing.T) {
	dsn := migrated.DSN(t)
	l := storetest.OpenLog(t, open(t, dsn))
	b := storetest.NewBatch(3)
	if _, err := l.Intend(t.Context(), b.Accept()); err != nil {
		t.Fatal(err)
	}
	if err := l.Settle(t.Context(), b.Outcome(1, 10)); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for sql, want := range map[string]int{
		`SELECT count(*) FROM audit_api.calls WHERE principal = 'agent-7' AND allowed`:                3,
		`SELECT count(*) FROM audit_api.calls WHERE outcome = 'SUCCEEDED'`:                            1,
		`SELECT count(*) FROM audit_api.decisions WHERE verdict = 'ALLOW' AND stage = 'DEFAULT'`:      3,
		`SELECT count(*) FROM audit_api.effects WHERE verb = 'read' AND target LIKE 'ws:/internal/%'`: 3,
	} {
		var got int
		if err := c.QueryRow(t.Context(), sql).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d, want %d: %v", sql, got, want, err)
		}
	}
}
