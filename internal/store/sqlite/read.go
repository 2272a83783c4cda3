package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
)

// rows reads all rows of a query.
func rows[T any](ctx context.Context, db *sql.DB, scan func(rowScanner, *T, ...any) error, query string, args ...any) (out []T, err error) {
	r, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("reading the database: %w", err)
	}
	defer r.Close()
	for r.Next() {
		var row T
		if err := scan(r, &row); err != nil {
			return nil, fmt.Errorf("reading the database: %w", err)
		}
		out = append(out, row)
	}
	return out, r.Err()
}

// one reads the single row of a query, audit.ErrNotFound if there is none.
func one[T any](ctx context.Context, db *sql.DB, scan func(rowScanner, *T, ...any) error, query string, args ...any) (row T, err error) {
	found, err := rows(ctx, db, scan, query, args...)
	if err == nil && len(found) == 0 {
		err = audit.ErrNotFound
	}
	if err != nil {
		return row, err
	}
	return found[0], nil
}

const requestSQL = `SELECT batch_id, request_digest FROM exec_request_ids WHERE team_id = ? AND principal = ? AND request_id = ?`

// Request implements audit.Reader.
func (s *Store) Request(ctx context.Context, tenant, principal, requestID string) (id tool.BatchID, d audit.Digest, err error) {
	err = s.read.QueryRowContext(ctx, requestSQL, tenant, principal, requestID).Scan(&id, digest{&d})
	if errors.Is(err, sql.ErrNoRows) {
		err = audit.ErrNotFound
	}
	return id, d, err
}

// selectLive counts the events of what still runs; an ended batch knows.
const selectLive = `SELECT batch_id, team_id, principal, request_id, session_id, workspace_id, labels, state, request, accepted_at, deadline,
	ended_at, max(last_seq, coalesce((SELECT e.last_seq FROM exec_events e WHERE e.batch_id = b.batch_id AND b.ended_at IS NULL
		ORDER BY e.first_seq DESC LIMIT 1), 0))
	FROM exec_batches b `

// Batch implements audit.Reader.
func (s *Store) Batch(ctx context.Context, tenant string, id tool.BatchID) (audit.LiveBatch, error) {
	return one(ctx, s.read, scanLive, selectLive+`WHERE batch_id = ? AND team_id = ?`, string(id), tenant)
}

// Unfinished implements audit.Reader.
func (s *Store) Unfinished(ctx context.Context) ([]audit.LiveBatch, error) {
	return rows(ctx, s.read, scanLive, selectLive+`WHERE ended_at IS NULL ORDER BY batch_id`)
}

// where collects conditions that are set.
type where struct {
	sql  []string
	args []any
}

func (w *where) add(cond string, set bool, args ...any) {
	if set {
		w.sql = append(w.sql, cond)
		w.args = append(w.args, args...)
	}
}

func (w *where) String() string {
	if len(w.sql) == 0 {
		return ""
	}
	return "WHERE " + strings.Join(w.sql, " AND ") + " "
}

// Batches implements audit.Reader.
func (s *Store) Batches(ctx context.Context, f audit.BatchFilter) ([]audit.LiveBatch, error) {
	var w where
	w.add("team_id = ?", f.Tenant != "", f.Tenant)
	w.add("principal = ?", f.Principal != "", f.Principal)
	w.add("workspace_id = ?", f.Workspace != "", f.Workspace)
	w.add("session_id = ?", f.Session != "", string(f.Session))
	w.add("accepted_at >= ?", !f.After.IsZero(), stamp(f.After))
	w.add("accepted_at < ?", !f.Before.IsZero(), stamp(f.Before))
	w.add("batch_id < ?", f.OlderThan != "", string(f.OlderThan))
	if len(f.States) > 0 {
		var states []any
		for _, st := range f.States {
			states = append(states, st)
		}
		w.add("state IN (?"+strings.Repeat(",?", len(states)-1)+")", true, states...)
	}
	for k, v := range f.Labels {
		w.add("EXISTS (SELECT 1 FROM json_each(labels) WHERE key = ? AND value = ?)", true, k, v)
	}
	return rows(ctx, s.read, scanLive, selectLive+w.String()+"ORDER BY batch_id DESC"+limit(f.Limit), w.args...)
}

// limit is a LIMIT clause; 0 = none.
func limit(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" LIMIT %d", n)
}

// Events implements audit.Reader.
func (s *Store) Events(ctx context.Context, id tool.BatchID, after int64, maxBytes int) ([]audit.Numbered, error) {
	r, err := s.read.QueryContext(ctx, `SELECT first_seq, last_seq, events FROM exec_events WHERE batch_id = ? AND last_seq > ? ORDER BY first_seq`,
		string(id), after)
	if err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	defer r.Close()
	var out []audit.Numbered
	for size := 0; r.Next(); {
		row := audit.EventRow{Batch: id}
		if err := r.Scan(&row.First, &row.Last, &row.Bytes); err != nil {
			return nil, fmt.Errorf("reading events: %w", err)
		}
		for _, n := range row.Unpack(nil) {
			if n.Seq <= after {
				continue
			}
			if len(out) > 0 && size+len(n.Wire) > maxBytes {
				return out, nil
			}
			out = append(out, n)
			size += len(n.Wire)
		}
	}
	return out, r.Err()
}

// Trail implements audit.Reader.
func (s *Store) Trail(ctx context.Context, id tool.BatchID) (t audit.Trail, err error) {
	const of = ` WHERE batch_id = ? ORDER BY rowid`
	if t.Decisions, err = rows(ctx, s.read, scanDecision, `SELECT `+decisionColumns+` FROM audit_permission_decisions`+of, string(id)); err != nil {
		return t, err
	}
	if t.Starts, err = rows(ctx, s.read, scanStart, `SELECT `+startColumns+` FROM audit_call_starts`+of, string(id)); err != nil {
		return t, err
	}
	if t.Outcomes, err = rows(ctx, s.read, scanOutcome, `SELECT `+outcomeColumns+` FROM audit_outcomes`+of, string(id)); err != nil {
		return t, err
	}
	t.Held, err = rows(ctx, s.read, func(r rowScanner, h *audit.HeldRow, _ ...any) error {
		return r.Scan(&h.Batch, &h.Index, &h.Body)
	}, `SELECT batch_id, call_index, result FROM exec_calls WHERE batch_id = ? ORDER BY call_index`, string(id))
	return t, err
}

// Decisions implements audit.Reader.
func (s *Store) Decisions(ctx context.Context, f audit.DecisionFilter) ([]audit.Decision, error) {
	var w where
	w.add("team_id = ?", f.Tenant != "", f.Tenant)
	w.add("policy_id = ?", f.PolicyID != "", f.PolicyID)
	w.add("tool = ?", f.Tool != "", f.Tool)
	w.add("principal = ?", f.Principal != "", f.Principal)
	w.add("verdict = ?", f.Verdict != "", f.Verdict)
	w.add("decided_at >= ?", !f.From.IsZero(), stamp(f.From))
	w.add("decided_at < ?", !f.Until.IsZero(), stamp(f.Until))
	w.add("batch_id = ?", f.Batch != "", string(f.Batch))
	w.add("decision_id < ?", f.OlderThan != "", f.OlderThan)
	return rows(ctx, s.read, scanDecision, `SELECT `+decisionColumns+` FROM audit_permission_decisions `+w.String()+
		`ORDER BY decision_id DESC`+limit(f.Limit), w.args...)
}

// Artifact implements audit.Reader.
func (s *Store) Artifact(ctx context.Context, tenant, id string) (audit.ArtifactEvent, error) {
	return one(ctx, s.read, scanArtifact, `SELECT `+artifactColumns+` FROM audit_artifact_events
		WHERE artifact_id = ? AND team_id = ? AND event = 'CREATED'`, id, tenant)
}

// Artifacts implements audit.Reader.
func (s *Store) Artifacts(ctx context.Context, tenant string, batch tool.BatchID, call tool.CallID, olderThan string, n int) ([]audit.ArtifactEvent, error) {
	var w where
	w.add("event = 'CREATED'", true)
	w.add("team_id = ?", true, tenant)
	w.add("batch_id = ?", batch != "", string(batch))
	w.add("call_id = ?", call != "", string(call))
	w.add("artifact_id < ?", olderThan != "", olderThan)
	return rows(ctx, s.read, scanArtifact, `SELECT `+artifactColumns+` FROM audit_artifact_events `+w.String()+
		`ORDER BY artifact_id DESC`+limit(n), w.args...)
}
