// Package sqlite keeps the ledger and the live state in one SQLite file: the
// store of the embedded mode.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Store is an open database file. It is safe for concurrent use: one connection
// writes, a few read.
type Store struct {
	write, read *sql.DB
	lane        *lane
	retention   time.Duration
	closing     sync.Once
}

// Options of a store.
type Options struct {
	Retention time.Duration // of request bytes and events of ended batches; 0 = 7 days
}

// Open opens the database in the file at path, makes it where there is none
// (mode 0600, in a folder that must exist), and migrates it. It refuses a file
// whose schema is newer than this program.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	s, err := open(ctx, path, o)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	return s, nil
}

func open(ctx context.Context, path string, o Options) (_ *Store, err error) {
	if o.Retention == 0 {
		o.Retention = 7 * 24 * time.Hour
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	// SQLite gives its journal files the mode of the database.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
		return nil, err
	}
	s := &Store{retention: o.Retention}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.write, err = connect(path, 1, "synchronous(FULL)", "fullfsync(1)", "journal_mode(WAL)", "wal_autocheckpoint(4000)", "cache_size(-8000)"); err != nil {
		return nil, err
	}
	if err := migrate(ctx, s.write); err != nil {
		return nil, err
	}
	if s.read, err = connect(path, 4, "query_only(1)"); err != nil {
		return nil, err
	}
	file, err := newPresent(path)
	if err != nil {
		return nil, err
	}
	s.lane, err = newLane(ctx, s.write, file)
	return s, err
}

func connect(path string, conns int, pragmas ...string) (*sql.DB, error) {
	q := url.Values{"_pragma": append([]string{"busy_timeout(1000)"}, pragmas...), "_txlock": {"immediate"}}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

func migrate(ctx context.Context, db *sql.DB) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir)
	if err != nil {
		return err
	}
	have, know, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("reading the schema version: %w", err)
	}
	if have > know {
		return fmt.Errorf("the schema is version %d, this program knows %d: use a newer toold", have, know)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrating the schema: %w", err)
	}
	return nil
}

// Close waits for a write that is under way and releases the file.
func (s *Store) Close() error {
	var errs []error
	s.closing.Do(func() {
		if s.lane != nil {
			errs = append(errs, s.lane.close())
		}
		if s.read != nil {
			errs = append(errs, s.read.Close())
		}
		if s.write != nil {
			errs = append(errs, s.write.Close())
		}
	})
	return errors.Join(errs...)
}

// DataError implements audit.Store. A block number taken twice is not the
// fault of a row.
func (s *Store) DataError(err error) bool {
	var e *driver.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH, lib.SQLITE_TOOBIG, lib.SQLITE_RANGE:
		return !strings.Contains(e.Error(), "audit_blocks")
	}
	return false
}
