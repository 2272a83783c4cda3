package sqlite_test

import (
	"context"
	"path/filepath"
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
