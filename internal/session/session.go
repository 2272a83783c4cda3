// Package session keeps what outlives a batch: sessions with their mode, and the
// workspaces that calls may touch.
package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
)

// Limits of a session's life without use.
const (
	DefaultTTL = 24 * time.Hour
	MaxTTL     = 30 * 24 * time.Hour
)

// Errors of Sessions, besides those of the log and the store.
var (
	// ErrNotFound: no such session of this caller.
	ErrNotFound = errors.New("session not found")
	// ErrClosed: it was closed, or not used for longer than its time to live.
	ErrClosed = errors.New("session closed")
	// ErrRequestReused: the request id made another kind of session before.
	ErrRequestReused = errors.New("request id was used for a different session")
	// ErrConflict: somebody else changed the session meanwhile.
	ErrConflict = errors.New("session changed meanwhile")
)

// Session belongs to one principal of one tenant.
type Session struct {
	ID        tool.SessionID
	Tenant    string
	Owner     string // principal id
	Mode      Mode
	Epoch     int64 // from 1; +1 on each change of what is allowed
	Workspace string
	Labels    map[string]string
	RequestID string        // of the Create that made it; may be empty
	TTL       time.Duration // since last use, whole seconds
	CreatedAt time.Time
	ExpiresAt time.Time
	ClosedAt  time.Time // zero while it is open
}

func (s *Session) closed(now time.Time) bool { return !s.ClosedAt.IsZero() || !now.Before(s.ExpiresAt) }

// Filter selects sessions. Tenant and Owner always apply; other zero fields do
// not filter.
type Filter struct {
	Tenant, Owner string
	ID            tool.SessionID
	RequestID     string
	OlderThan     tool.SessionID // page: ids below this one
	Limit         int
}

// Store keeps sessions.
type Store interface {
	// InsertSession fails with ErrConflict when its owner has used its request id.
	InsertSession(ctx context.Context, s Session) error
	// UpdateSession writes mode, epoch, expiry and closing time, and fails with
	// ErrConflict unless the stored epoch is the given one.
	UpdateSession(ctx context.Context, s Session, epoch int64) error
	// Sessions lists newest first.
	Sessions(ctx context.Context, f Filter) ([]Session, error)
}

// Sessions gives sessions to their owners. Every change is in the audit ledger
// before it is visible.
type Sessions struct {
	Store Store
	Log   *audit.Log
	Now   func() time.Time
	NewID func() string // UUIDv7 in canonical text
}

// Request is the wish for a session.
type Request struct {
	ID        string // the same id again gives the session that it made; empty = always a new one
	Workspace string // empty = the deployment's default
	Mode      Mode
	Labels    map[string]string
	TTL       time.Duration // 0 = DefaultTTL; at most MaxTTL
}

// Create makes a session, or gives the one that the request id made before.
func (s *Sessions) Create(ctx context.Context, c tool.Caller, r Request) (Session, error) {
	now := s.Now().UTC().Truncate(time.Microsecond)
	ttl := min(max(r.TTL, 0), MaxTTL).Truncate(time.Second)
	if ttl == 0 {
		ttl = DefaultTTL
	}
	made := Session{
		ID: tool.SessionID(s.NewID()), Tenant: c.Tenant, Owner: c.Principal.ID, Mode: r.Mode, Epoch: 1, Workspace: r.Workspace,
		Labels: r.Labels, RequestID: r.ID, TTL: ttl, CreatedAt: now, ExpiresAt: now.Add(ttl),
	}
	if before, err := s.madeBy(ctx, made); !errors.Is(err, ErrNotFound) {
		return before, err
	}
	if err := s.record(ctx, "SESSION_CREATED", "", nil, &made); err != nil {
		return Session{}, err
	}
	err := s.Store.InsertSession(ctx, made)
	if errors.Is(err, ErrConflict) {
		return s.madeBy(ctx, made)
	}
	if err != nil {
		return Session{}, fmt.Errorf("keeping the session: %w", err)
	}
	return made, nil
}

// madeBy finds the session that the request id of like made.
func (s *Sessions) madeBy(ctx context.Context, like Session) (Session, error) {
	if like.RequestID == "" {
		return Session{}, ErrNotFound
	}
	found, err := s.find(ctx, Filter{Tenant: like.Tenant, Owner: like.Owner, RequestID: like.RequestID})
	if err == nil && (found.Workspace != like.Workspace || found.TTL != like.TTL || !maps.Equal(found.Labels, like.Labels)) {
		err = ErrRequestReused
	}
	return found, err
}

func (s *Sessions) find(ctx context.Context, f Filter) (Session, error) {
	f.Limit = 1
	found, err := s.Store.Sessions(ctx, f)
	if err != nil {
		return Session{}, fmt.Errorf("looking up the session: %w", err)
	}
	if len(found) == 0 {
		return Session{}, ErrNotFound
	}
	return found[0], nil
}

// Get gives a session, closed ones too, together with ErrClosed.
func (s *Sessions) Get(ctx context.Context, c tool.Caller, id tool.SessionID) (Session, error) {
	found, err := s.find(ctx, Filter{Tenant: c.Tenant, Owner: c.Principal.ID, ID: id})
	if err == nil && found.closed(s.Now()) {
		err = ErrClosed
	}
	return found, err
}

// Use is Get, and keeps the session from expiring. It writes at most a few dozen
// times per time to live.
func (s *Sessions) Use(ctx context.Context, c tool.Caller, id tool.SessionID) (Session, error) {
	found, err := s.Get(ctx, c, id)
	if err != nil {
		return found, err
	}
	fresh := s.Now().UTC().Truncate(time.Microsecond).Add(found.TTL)
	if fresh.Sub(found.ExpiresAt) < found.TTL/24 {
		return found, nil
	}
	found.ExpiresAt = fresh
	err = s.Store.UpdateSession(ctx, found, found.Epoch)
	if errors.Is(err, ErrConflict) {
		return s.Get(ctx, c, id)
	}
	if err != nil {
		return found, fmt.Errorf("renewing the session: %w", err)
	}
	return found, nil
}

// List gives the caller's sessions, newest first, closed ones too: at most limit
// of those made before olderThan (empty = the newest).
func (s *Sessions) List(ctx context.Context, c tool.Caller, olderThan tool.SessionID, limit int) ([]Session, error) {
	found, err := s.Store.Sessions(ctx, Filter{Tenant: c.Tenant, Owner: c.Principal.ID, OlderThan: olderThan, Limit: limit})
	if err != nil {
		return nil, fmt.Errorf("listing sessions: %w", err)
	}
	return found, nil
}

// SetMode changes what the session's calls may do from now on; calls that have
// not started are decided again, since the epoch grows. epoch, where not 0, is
// the one that the session must have: else it is given as it is, with
// ErrConflict.
func (s *Sessions) SetMode(ctx context.Context, c tool.Caller, id tool.SessionID, m Mode, epoch int64, reason string) (Session, error) {
	conflict := false
	after, err := s.change(ctx, c, id, "SESSION_MODE_CHANGED", reason, func(after *Session) bool {
		conflict = epoch != 0 && after.Epoch != epoch
		changed := !conflict && after.Mode != m
		after.Mode = m
		return changed
	})
	if err == nil && conflict {
		err = ErrConflict
	}
	return after, err
}

// Close ends the session. Closing a closed one does nothing.
func (s *Sessions) Close(ctx context.Context, c tool.Caller, id tool.SessionID, reason string) (Session, error) {
	closed, err := s.change(ctx, c, id, "SESSION_CLOSED", reason, func(after *Session) bool {
		after.ClosedAt = s.Now().UTC().Truncate(time.Microsecond)
		return true
	})
	if errors.Is(err, ErrClosed) {
		err = nil
	}
	return closed, err
}

// change records and makes one change; edit says whether there is one. If two
// want to change a session at once, both changes are made, one after the other.
func (s *Sessions) change(ctx context.Context, c tool.Caller, id tool.SessionID, event, reason string, edit func(*Session) bool) (Session, error) {
	for {
		before, err := s.Get(ctx, c, id)
		if err != nil {
			return before, err
		}
		after := before
		if !edit(&after) {
			return before, nil
		}
		after.Epoch++
		if err := s.record(ctx, event, reason, &before, &after); err != nil {
			return before, err
		}
		err = s.Store.UpdateSession(ctx, after, before.Epoch)
		if err == nil {
			return after, nil
		}
		if !errors.Is(err, ErrConflict) {
			return before, fmt.Errorf("changing the session: %w", err)
		}
	}
}

// record writes a change into the ledger. If the daemon ends before the session
// itself is written, the ledger has a change that never took effect: the epoch
// in it is given again to the next one.
func (s *Sessions) record(ctx context.Context, event, reason string, before, after *Session) error {
	_, err := s.Log.Intend(ctx, &audit.Entry{Admin: []audit.AdminEvent{{
		At: s.Now(), Tenant: after.Tenant, Actor: after.Owner, Event: event, Subject: string(after.ID),
		Before: describe(before), After: describe(after), Reason: reason,
	}}})
	if err != nil {
		return fmt.Errorf("recording the session's change: %w", err)
	}
	return nil
}

// describe is a session as an auditor wants to see it, in JSON.
func describe(s *Session) string {
	if s == nil {
		return ""
	}
	b, err := json.Marshal(struct {
		Mode      string            `json:"mode"`
		Epoch     int64             `json:"epoch"`
		Workspace string            `json:"workspace,omitempty"`
		Labels    map[string]string `json:"labels,omitempty"`
		Closed    bool              `json:"closed,omitempty"`
	}{s.Mode.String(), s.Epoch, s.Workspace, s.Labels, !s.ClosedAt.IsZero()})
	if err != nil {
		panic(err) // a struct of strings always has a form
	}
	return string(b)
}
