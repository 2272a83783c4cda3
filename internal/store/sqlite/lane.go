package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/toold/toold/internal/audit"
)

// lane is the one connection that writes, with its prepared statements.
type lane struct {
	conn  *sql.Conn
	turn  chan struct{} // holds a token while the lane is free
	stmts map[string]*sql.Stmt
	args  []any
	file  *present
}

func newLane(ctx context.Context, db *sql.DB, file *present) (*lane, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	l := &lane{conn: conn, turn: make(chan struct{}, 1), stmts: make(map[string]*sql.Stmt), file: file}
	l.turn <- struct{}{}
	return l, nil
}

func (l *lane) close() error {
	<-l.turn
	defer func() { l.turn <- struct{}{} }()
	var errs []error
	for _, s := range l.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, l.conn.Close())...)
}

// transact runs f in a transaction that holds the write lock from its start.
// Waiting for the lane ends with ctx; what runs is not interrupted: it is local
// and short, and the lock is waited for a second at most.
func (l *lane) transact(ctx context.Context, f func(ctx context.Context) error) error {
	select {
	case <-l.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { l.turn <- struct{}{} }()
	ctx = context.WithoutCancel(ctx)
	if err := l.file.check(); err != nil {
		return err
	}
	if err := l.exec(ctx, `BEGIN IMMEDIATE`); err != nil {
		return err
	}
	err := f(ctx)
	if err == nil {
		err = l.exec(ctx, `COMMIT`)
	}
	if err != nil {
		// Some errors have rolled back already; then there is nothing to roll back.
		_, _ = l.conn.ExecContext(ctx, `ROLLBACK`)
	}
	return err
}

func (l *lane) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	if s := l.stmts[text]; s != nil {
		return s, nil
	}
	s, err := l.conn.PrepareContext(ctx, text)
	if err == nil {
		l.stmts[text] = s
	}
	return s, err
}

func (l *lane) exec(ctx context.Context, text string, args ...any) error {
	s, err := l.prepare(ctx, text)
	if err != nil {
		return err
	}
	_, err = s.ExecContext(ctx, args...)
	return err
}

// table is how rows of a table are inserted, several at a time.
type table struct {
	name  string
	width int
	texts map[int]string // by number of rows
}

// chunks are the numbers of rows that have a statement.
var chunks = []int{32, 8, 1}

func newTable(name, columns string) *table {
	t := &table{name: name, width: strings.Count(columns, ",") + 1, texts: make(map[int]string)}
	row := "(" + strings.Repeat("?,", t.width-1) + "?)"
	for _, n := range chunks {
		t.texts[n] = "INSERT INTO " + name + " (" + columns + ") VALUES " + strings.Repeat(row+",", n-1) + row
	}
	return t
}

// insert writes the rows that row appends the columns of.
func (l *lane) insert(ctx context.Context, t *table, rows int, row func(args []any, i int) []any) error {
	for i := 0; i < rows; {
		n := 0
		for _, n = range chunks {
			if n <= rows-i {
				break
			}
		}
		l.args = l.args[:0]
		for range n {
			l.args = row(l.args, i)
			i++
		}
		if err := l.exec(ctx, t.texts[n], l.args...); err != nil {
			return fmt.Errorf("inserting into %s: %w", t.name, err)
		}
	}
	clear(l.args[:cap(l.args)])
	return nil
}

// Commit implements audit.Store.
func (s *Store) Commit(ctx context.Context, g audit.Group) error {
	return s.lane.transact(ctx, func(ctx context.Context) error {
		lost, err := s.lane.claim(ctx, g.Claims)
		if err != nil {
			return err
		}
		b := g.Seal(lost)
		if b == nil {
			return nil
		}
		return s.lane.write(ctx, b)
	})
}

func (l *lane) claim(ctx context.Context, claims []audit.Claim) ([]*audit.TakenError, error) {
	lost := make([]*audit.TakenError, len(claims))
	for i, c := range claims {
		s, err := l.prepare(ctx, `INSERT INTO exec_request_ids (team_id, principal, request_id, request_digest, batch_id, expires_at)
			VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
		if err != nil {
			return nil, err
		}
		res, err := s.ExecContext(ctx, c.Tenant, c.Principal, c.RequestID, c.Digest[:], string(c.Batch), stamp(c.ExpiresAt))
		if err != nil {
			return nil, fmt.Errorf("claiming a request id: %w", err)
		}
		if n, err := res.RowsAffected(); err != nil || n == 1 {
			if err != nil {
				return nil, err
			}
			continue
		}
		holder := new(audit.TakenError)
		if s, err = l.prepare(ctx, requestSQL); err != nil {
			return nil, err
		}
		if err := s.QueryRowContext(ctx, c.Tenant, c.Principal, c.RequestID).Scan(&holder.Batch, digest{&holder.Digest}); err != nil {
			return nil, fmt.Errorf("reading who has a request id: %w", err)
		}
		lost[i] = holder
	}
	return lost, nil
}

// Head implements audit.Store.
func (s *Store) Head(ctx context.Context, writer string) (no int64, hash audit.Digest, err error) {
	return s.head(ctx, `SELECT block_no, block_hash FROM audit_blocks WHERE writer_id = ? ORDER BY block_no DESC LIMIT 1`, writer)
}

// LastHead implements audit.Store.
func (s *Store) LastHead(ctx context.Context) (audit.Digest, error) {
	_, hash, err := s.head(ctx, `SELECT block_no, block_hash FROM audit_blocks ORDER BY rowid DESC LIMIT 1`)
	return hash, err
}

func (s *Store) head(ctx context.Context, query string, args ...any) (no int64, hash audit.Digest, err error) {
	err = s.read.QueryRowContext(ctx, query, args...).Scan(&no, digest{&hash})
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return no, hash, err
}
