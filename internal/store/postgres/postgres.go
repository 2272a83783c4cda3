// Package postgres keeps the ledger and the live state in PostgreSQL 15 or later.
package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/toold/toold/internal/audit"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Options of a store.
type Options struct {
	Retention time.Duration // of request bytes and events of ended batches; 0 = 7 days
	ReadConns int32         // connections for reading, at most; 0 = 4
	// AllowUnsafe accepts a server that may lose what it has acknowledged. For
	// tests only.
	AllowUnsafe bool
}

// Store is a database with one connection that writes the ledger and a pool for
// all else. It is safe for concurrent use, and connects again by itself.
type Store struct {
	pool      *pgxpool.Pool
	lane      *lane
	retention time.Duration
}

// Open connects to the database at dsn (a URL or key=value words). It refuses a
// server that would lose acknowledged commits, and a schema that is older or
// newer than this program's.
func Open(ctx context.Context, dsn string, o Options) (*Store, error) {
	if o.Retention == 0 {
		o.Retention = 7 * 24 * time.Hour
	}
	if o.ReadConns == 0 {
		o.ReadConns = 4
	}
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	config.MaxConns = o.ReadConns
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the database: %w", err)
	}
	s := &Store{pool: pool, retention: o.Retention, lane: &lane{
		config: config.ConnConfig, unsafe: o.AllowUnsafe, key: rand.Int64(), turn: make(chan struct{}, 1),
	}}
	s.lane.turn <- struct{}{}
	if err := s.check(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// check looks at the schema's version, and at the server by connecting the lane.
func (s *Store) check(ctx context.Context) error {
	var have int64
	err := s.pool.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&have)
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == "42P01" { // no such table
		err = nil
	}
	if err != nil {
		return fmt.Errorf("reading the schema version: %w", err)
	}
	switch know, err := newest(); {
	case err != nil:
		return err
	case have < know:
		return fmt.Errorf("the database schema is version %d and this program needs %d: run toold migrate", have, know)
	case have > know:
		return fmt.Errorf("the database schema is version %d and this program knows %d: use a newer toold", have, know)
	}
	return s.lane.use(ctx, func(*pgconn.PgConn) error { return nil })
}

func newest() (int64, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return 0, err
	}
	return goose.NumericComponent(names[len(names)-1])
}

// Migrate brings the schema of the database at dsn up to this program's. Several
// may do so at once: they take turns.
func Migrate(ctx context.Context, dsn string) error {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("database URL: %w", err)
	}
	db := stdlib.OpenDB(*config)
	if err := migrate(ctx, db); err != nil {
		return errors.Join(fmt.Errorf("migrating the schema: %w", err), db.Close())
	}
	return db.Close()
}

func migrate(ctx context.Context, db *sql.DB) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	turn, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, dir, goose.WithSessionLocker(turn))
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

// Close waits for a write that is under way and releases all connections.
func (s *Store) Close() error {
	s.lane.close()
	s.pool.Close()
	return nil
}

// DataError implements audit.Store: SQLSTATE classes 22, 23 and 54 (a value, a
// constraint, a size). A missing partition and a block number taken twice are not
// the fault of a row.
func (s *Store) DataError(err error) bool { return isDataError(err) }

func isDataError(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || len(pg.Code) != 5 {
		return false
	}
	noPartition := pg.Code == "23514" && pg.ConstraintName == ""
	block := pg.SchemaName == "audit" && strings.HasPrefix(pg.TableName, "blocks")
	return strings.Contains("22 23 54", pg.Code[:2]) && !noPartition && !block
}

// Maintain makes partitions for four weeks from now, and erases what has outlived
// its retention: request ids, sessions, and the request bytes, events and held
// results of ended batches. The ledger stays.
func (s *Store) Maintain(ctx context.Context, now time.Time) error {
	// The week before is for rows that were stamped just before it ended.
	if _, err := s.pool.Exec(ctx, `SELECT audit.make_partitions(($1::timestamptz AT TIME ZONE 'UTC')::date - 7, 6)`, now); err != nil {
		return fmt.Errorf("making partitions: %w", err)
	}
	before := now.Add(-s.retention)
	for _, step := range []struct {
		sql  string
		time time.Time
	}{
		{`SELECT exec.drop_events($1)`, before},
		{`DELETE FROM exec.request_ids WHERE expires_at < $1`, now},
		{`DELETE FROM exec.sessions WHERE coalesce(closed_at, expires_at) < $1`, before},
		{`DELETE FROM exec.calls c USING exec.batches b WHERE b.batch_id = c.batch_id AND b.ended_at < $1`, before},
		{`UPDATE exec.batches SET request = NULL WHERE ended_at < $1 AND request IS NOT NULL`, before},
	} {
		if _, err := s.pool.Exec(ctx, step.sql, step.time); err != nil {
			return fmt.Errorf("erasing what has expired: %w", err)
		}
	}
	return nil
}

// Head implements audit.Store. It asks on the writing connection, so that it
// never overtakes a commit that is still under way.
func (s *Store) Head(ctx context.Context, writer string) (no int64, hash audit.Digest, err error) {
	err = s.lane.use(ctx, func(c *pgconn.PgConn) error {
		no, hash, err = head(ctx, c, `SELECT block_no, block_hash FROM audit.blocks WHERE writer_id = $1 ORDER BY block_no DESC LIMIT 1`, []byte(writer))
		return err
	})
	return no, hash, err
}

// LastHead implements audit.Store.
func (s *Store) LastHead(ctx context.Context) (hash audit.Digest, err error) {
	err = s.lane.use(ctx, func(c *pgconn.PgConn) error {
		_, hash, err = head(ctx, c, `SELECT block_no, block_hash FROM audit.blocks ORDER BY committed_at DESC LIMIT 1`)
		return err
	})
	return hash, err
}
