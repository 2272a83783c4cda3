package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Server is a running Postgres. Its methods are safe for concurrent use, except
// Stop, Kill and Restart among each other.
type Server struct {
	engine engine
	watch  *watchdog // nil for a server that is not ours
	prefix string    // of database names: other processes may share the server
	count  atomic.Int64
	copies sync.Mutex // a template is copied by one at a time
}

// engine is one way to run a server. After kill, restart brings the same data
// back at the same address, and returns when the server answers.
type engine interface {
	url() url.URL
	kill(ctx context.Context) error
	restart(ctx context.Context) error
}

// Start starts a server of its own for the caller and waits until it answers.
// Without a usable one the error says what to install. The server ends with
// Stop, or when the process does.
func Start(ctx context.Context) (*Server, error) { return start(ctx, false) }

// start makes a server. One that is never killed and restarted may have its data
// in the memory of its container, where making and dropping databases takes a
// tenth of the time.
func start(ctx context.Context, inMemory bool) (*Server, error) {
	s := &Server{prefix: "toold_test_" + uuid.NewString()[:8] + "_"}
	var err error
	switch want := os.Getenv("TOOLD_TEST_POSTGRES"); {
	case want == "docker":
		s.engine, s.watch, err = startContainer(ctx, inMemory)
	case want == "local":
		s.engine, s.watch, err = startLocal(ctx)
	case strings.Contains(want, "://"):
		s.engine, err = openExternal(want)
	case want != "":
		err = fmt.Errorf("TOOLD_TEST_POSTGRES=%q: want docker, local or a URL postgres://…", want)
	default:
		s.engine, s.watch, err = startAny(ctx, inMemory)
	}
	if err != nil {
		return nil, fmt.Errorf("starting a Postgres for tests: %w", err)
	}
	return s, nil
}

// startAny prefers Docker; an engine that cannot get an image does not keep the
// machine's own binaries from being used.
func startAny(ctx context.Context, inMemory bool) (engine, *watchdog, error) {
	c, w, dockerErr := startContainer(ctx, inMemory)
	if dockerErr == nil {
		return c, w, nil
	}
	l, w, localErr := startLocal(ctx)
	if localErr == nil {
		return l, w, nil
	}
	return nil, nil, fmt.Errorf("no Docker (%w) and no local server (%w): start Docker, or run 'make deps'", dockerErr, localErr)
}

// DSN is the URL of a database for a superuser. It stays the same over Kill and
// Restart.
func (s *Server) DSN(database string) string {
	u := s.engine.url()
	u.Path = "/" + database
	return u.String()
}

// CreateDatabase makes a database as a copy of a template: "template0" for an
// empty one. Nobody may be connected to the template.
func (s *Server) CreateDatabase(ctx context.Context, name, template string) error {
	s.copies.Lock()
	defer s.copies.Unlock()
	return s.admin(ctx, "CREATE DATABASE "+quote(name)+" TEMPLATE "+quote(template))
}

// DropDatabase drops a database and ends the connections to it. One that does
// not exist is no error.
func (s *Server) DropDatabase(ctx context.Context, name string) error {
	return s.admin(ctx, "DROP DATABASE IF EXISTS "+quote(name)+" WITH (FORCE)")
}

// Stop ends the server at once and removes its data. It may be called again.
func (s *Server) Stop() error {
	if s.watch == nil {
		return nil
	}
	return s.watch.release()
}

// Kill ends the server as a crash would, by SIGKILL, and returns when it is gone.
func (s *Server) Kill(ctx context.Context) error {
	if err := s.engine.kill(ctx); err != nil {
		return fmt.Errorf("killing Postgres: %w", err)
	}
	return nil
}

// Restart starts a killed server on its data, and returns when it has recovered
// and answers.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.engine.restart(ctx); err != nil {
		return fmt.Errorf("restarting Postgres: %w", err)
	}
	return nil
}

func (s *Server) databaseName() string {
	return fmt.Sprintf("%s%d", s.prefix, s.count.Add(1))
}

// seal makes a database a template that nobody connects to. A backend may
// outlive its client's close by a moment: it is ended.
func (s *Server) seal(ctx context.Context, name string) error {
	err := s.admin(ctx, "ALTER DATABASE "+quote(name)+" ALLOW_CONNECTIONS false")
	if err != nil {
		return err
	}
	return s.admin(ctx, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1", name)
}

func (s *Server) admin(ctx context.Context, sql string, args ...any) error {
	return execute(ctx, s.DSN("postgres"), sql, args...)
}

func execute(ctx context.Context, dsn, sql string, args ...any) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connecting to the test server: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// readyTimeout bounds how long a started server may take until it answers,
// recovery after a crash included.
const readyTimeout = time.Minute

// awaitReady returns when the server answers.
func awaitReady(ctx context.Context, server url.URL) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	server.Path = "/postgres"
	for {
		err := execute(ctx, server.String(), "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for Postgres: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func quote(identifier string) string { return pgx.Identifier{identifier}.Sanitize() }

// external is a server that somebody else runs.
type external struct{ base url.URL }

func openExternal(dsn string) (external, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return external{}, fmt.Errorf("TOOLD_TEST_POSTGRES: %w", err)
	}
	return external{*u}, nil
}

var errNotOurs = errors.New("the server of TOOLD_TEST_POSTGRES is not ours to kill; unset it for this test")

func (e external) url() url.URL                  { return e.base }
func (e external) kill(context.Context) error    { return errNotOurs }
func (e external) restart(context.Context) error { return errNotOurs }
