package postgres_test

import (
	"context"
	"testing"

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
