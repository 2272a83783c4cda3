package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/toold/toold/internal/session"
)

// InsertSession implements session.Store.
func (s *Store) InsertSession(ctx context.Context, n session.Session) error {
	labels := n.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	_, err := s.pool.Exec(ctx, `INSERT INTO exec.sessions (session_id, team_id, owner, mode, epoch, workspace_id, labels, request_id, ttl_s,
			created_at, expires_at, closed_at)
		VALUES ($1, $2, $3, $4, $5, nullif($6, ''), $7, nullif($8, ''), $9, $10, $11, $12)`,
		parseID(n.ID), n.Tenant, n.Owner, n.Mode.String(), n.Epoch, n.Workspace, labels, n.RequestID, int64(n.TTL/time.Second),
		n.CreatedAt, n.ExpiresAt, maybeTime(n.ClosedAt))
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == "23505" {
		return session.ErrConflict
	}
	return err
}

// UpdateSession implements session.Store.
func (s *Store) UpdateSession(ctx context.Context, n session.Session, epoch int64) error {
	tag, err := s.pool.Exec(ctx, `UPDATE exec.sessions SET mode = $1, epoch = $2, expires_at = $3, closed_at = $4
		WHERE session_id = $5 AND epoch = $6`, n.Mode.String(), n.Epoch, n.ExpiresAt, maybeTime(n.ClosedAt), parseID(n.ID), epoch)
	if err == nil && tag.RowsAffected() == 0 {
		err = session.ErrConflict
	}
	return err
}

// Sessions implements session.Store.
func (s *Store) Sessions(ctx context.Context, f session.Filter) ([]session.Session, error) {
	var w where
	w.add("team_id = ?", true, f.Tenant)
	w.add("owner = ?", true, f.Owner)
	w.add("session_id = ?", f.ID != "", parseID(f.ID))
	w.add("request_id = ?", f.RequestID != "", f.RequestID)
	w.add("session_id < ?", f.OlderThan != "", parseID(f.OlderThan))
	return query(ctx, s, scanSession, `SELECT session_id::text, team_id, owner, mode, epoch, coalesce(workspace_id, ''), labels,
			coalesce(request_id, ''), ttl_s, created_at, expires_at, closed_at
		FROM exec.sessions `+w.String()+`ORDER BY session_id DESC`+limit(f.Limit), w.args...)
}

func scanSession(r pgx.Rows, s *session.Session, _ ...any) error {
	var mode string
	var ttl int64
	if err := r.Scan(&s.ID, &s.Tenant, &s.Owner, &mode, &s.Epoch, &s.Workspace, &s.Labels, &s.RequestID, &ttl,
		at{&s.CreatedAt}, at{&s.ExpiresAt}, at{&s.ClosedAt}); err != nil {
		return err
	}
	s.TTL = time.Duration(ttl) * time.Second
	switch mode {
	case session.Normal.String():
		s.Mode = session.Normal
	case session.Plan.String():
		s.Mode = session.Plan
	default:
		return fmt.Errorf("session %s has the mode %q", s.ID, mode)
	}
	return nil
}

func maybeTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
