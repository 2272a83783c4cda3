package sqlite_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toold/toold/internal/store/sqlite"
	"github.com/toold/toold/internal/store/storetest"
)

func open(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func BenchmarkBatches(b *testing.B) {
	storetest.BenchmarkBatches(b, open(b, filepath.Join(b.TempDir(), "toold.db")))
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Database {
		path := filepath.Join(t.TempDir(), "a ?#%25 name.db")
		return storetest.Database{Open: func(t testing.TB) storetest.Store { return open(t, path) }}
	})
}

func BenchmarkFloor(b *testing.B) {
	storetest.BenchmarkFloor(b, open(b, filepath.Join(b.TempDir(), "toold.db")))
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toold.db")
	s := open(t, path)
	l := storetest.OpenLog(t, s)
	b := storetest.NewBatch(3)
	if _, err := l.Intend(t.Context(), b.Accept()); err != nil {
		t.Fatal(err)
	}
	if err := l.Settle(t.Context(), b.Outcome(1, 10)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 2 {
		t.Fatalf("files: %v, %v", files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v, want mode 0600", f, info.Mode(), err)
		}
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for query, want := range map[string]int{
		`SELECT count(*) FROM audit_api_calls WHERE principal = 'agent-7' AND allowed`:                3,
		`SELECT count(*) FROM audit_api_calls WHERE outcome = 'SUCCEEDED'`:                            1,
		`SELECT count(*) FROM audit_api_decisions WHERE verdict = 'ALLOW' AND stage = 'DEFAULT'`:      3,
		`SELECT count(*) FROM audit_api_effects WHERE verb = 'read' AND target LIKE 'ws:/internal/%'`: 3,
		`SELECT count(*) FROM audit_blocks WHERE committed_at > datetime('now', '-1 hour')`:           2,
	} {
		var got int
		if err := db.QueryRow(query).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d, want %d: %v", query, got, want, err)
		}
	}
	if _, err := db.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); err == nil || !strings.Contains(err.Error(), "use a newer toold") {
		t.Errorf("a newer schema: %v", err)
	}
}
