package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/toold/toold/internal/session"
)

const sessionColumns = `session_id, team_id, owner, mode, epoch, workspace_id, labels, request_id, ttl_s, created_at, expires_at, closed_at`

// InsertSession implements session.Store.
func (s *Store) InsertSession(ctx context.Context, n session.Session) error {
	err := s.lane.transact(ctx, func(ctx context.Context) error {
		return s.lane.exec(ctx, `INSERT INTO exec_sessions (`+sessionColumns+`) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)`,
			string(n.ID), n.Tenant, n.Owner, n.Mode.String(), n.Epoch, null(n.Workspace), labels(n.Labels), null(n.RequestID),
			int64(n.TTL/time.Second), stamp(n.CreatedAt), stamp(n.ExpiresAt), maybeStamp(n.ClosedAt))
	})
	if e := (*driver.Error)(nil); errors.As(err, &e) && e.Code() == lib.SQLITE_CONSTRAINT_UNIQUE {
		return session.ErrConflict
	}
	return err
}

// UpdateSession implements session.Store.
func (s *Store) UpdateSession(ctx context.Context, n session.Session, epoch int64) error {
	return s.lane.transact(ctx, func(ctx context.Context) error {
		st, err := s.lane.prepare(ctx, `UPDATE exec_sessions SET mode = ?, epoch = ?, expires_at = ?, closed_at = ?
			WHERE session_id = ? AND epoch = ?`)
		if err != nil {
			return err
		}
		r, err := st.ExecContext(ctx, n.Mode.String(), n.Epoch, stamp(n.ExpiresAt), maybeStamp(n.ClosedAt), string(n.ID), epoch)
		if err != nil {
			return err
		}
		if rows, err := r.RowsAffected(); err != nil || rows == 1 {
			return err
		}
		return session.ErrConflict
	})
}

// Sessions implements session.Store.
func (s *Store) Sessions(ctx context.Context, f session.Filter) ([]session.Session, error) {
	var w where
	w.add("team_id = ?", true, f.Tenant)
	w.add("owner = ?", true, f.Owner)
	w.add("session_id = ?", f.ID != "", string(f.ID))
	w.add("request_id = ?", f.RequestID != "", f.RequestID)
	w.add("session_id < ?", f.OlderThan != "", string(f.OlderThan))
	return rows(ctx, s.read, scanSession, `SELECT `+sessionColumns+` FROM exec_sessions `+w.String()+`ORDER BY session_id DESC`+limit(f.Limit), w.args...)
}

func scanSession(r rowScanner, s *session.Session, _ ...any) error {
	var mode string
	var ttl int64
	err := r.Scan(&s.ID, &s.Tenant, &s.Owner, &mode, &s.Epoch, text[string]{&s.Workspace}, decoded{&s.Labels}, text[string]{&s.RequestID},
		&ttl, at{&s.CreatedAt}, at{&s.ExpiresAt}, at{&s.ClosedAt})
	s.TTL = time.Duration(ttl) * time.Second
	switch mode {
	case session.Normal.String():
		s.Mode = session.Normal
	case session.Plan.String():
		s.Mode = session.Plan
	default:
		err = fmt.Errorf("session %s has the mode %q", s.ID, mode)
	}
	return err
}
