// Package pgtest gives tests and benchmarks a real Postgres: never a fake, and
// never a skipped test.
//
// One server is started per process, on first use, and is gone soon after the
// process ends, however it ends. It runs in a container when a Docker engine
// answers, else from the server binaries of the machine; where neither is to be
// had the test fails and says what to install.
//
// Environment:
//
//	TOOLD_TEST_POSTGRES        "docker", "local", or the DSN of a server to use
//	                           (a superuser's; databases are made and dropped in it)
//	TOOLD_TEST_POSTGRES_IMAGE  image for "docker"; its entry point must take the
//	                           official image's POSTGRES_* variables
//
// The server keeps Postgres' own durability settings: fsync, full_page_writes
// and synchronous_commit are on, as toold demands.
package pgtest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// startTimeout bounds the start of a server, an image's build or pull included.
const startTimeout = 5 * time.Minute

// shared is the one server of this process. Its watchdog ends it.
var shared = sync.OnceValues(func() (*Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return start(ctx, true)
})

// DSN makes an empty database and gives its URL, for a superuser. The database
// is dropped when the test ends, open connections or not.
func DSN(t testing.TB) string {
	t.Helper()
	return create(t, "template0")
}

func create(t testing.TB, template string) string {
	t.Helper()
	server, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	name := server.databaseName()
	if err := server.CreateDatabase(t.Context(), name, template); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := server.DropDatabase(ctx, name); err != nil {
			t.Error(err)
		}
	})
	return server.DSN(name)
}

// Template is a database that is prepared once and copied for each test, which
// costs tens of milliseconds however much Migrate does. Declare it as a variable
// of the test package.
type Template struct {
	// Migrate fills the database at dsn. It closes its connections before it
	// returns.
	Migrate func(ctx context.Context, dsn string) error

	once sync.Once
	name string
	err  error
}

// DSN makes a copy of the template and gives its URL. The copy is dropped when
// the test ends.
func (m *Template) DSN(t testing.TB) string {
	t.Helper()
	m.once.Do(m.prepare)
	if m.err != nil {
		t.Fatal(m.err)
	}
	return create(t, m.name)
}

func (m *Template) prepare() {
	server, err := shared()
	if err != nil {
		m.err = err
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	name := server.databaseName()
	if m.err = server.CreateDatabase(ctx, name, "template0"); m.err != nil {
		return
	}
	if err := m.Migrate(ctx, server.DSN(name)); err != nil {
		m.err = fmt.Errorf("migrating the template database: %w", err)
		return
	}
	m.name, m.err = name, server.seal(ctx, name)
}
