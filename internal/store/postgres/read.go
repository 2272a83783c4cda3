package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
)

// query reads all rows of a query.
func query[T any](ctx context.Context, s *Store, scan func(pgx.Rows, *T, ...any) error, text string, args ...any) ([]T, error) {
	r, err := s.pool.Query(ctx, text, args...)
	if err != nil {
		return nil, fmt.Errorf("reading the database: %w", err)
	}
	defer r.Close()
	var out []T
	for r.Next() {
		var row T
		if err := scan(r, &row); err != nil {
			return nil, fmt.Errorf("reading the database: %w", err)
		}
		out = append(out, row)
	}
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("reading the database: %w", err)
	}
	return out, nil
}

// one reads the single row of a query, audit.ErrNotFound if there is none.
func one[T any](ctx context.Context, s *Store, scan func(pgx.Rows, *T, ...any) error, text string, args ...any) (row T, err error) {
	found, err := query(ctx, s, scan, text, args...)
	if err == nil && len(found) == 0 {
		err = audit.ErrNotFound
	}
	if err != nil {
		return row, err
	}
	return found[0], nil
}

// ids makes uuid parameters of ids; what is none finds nothing.
func parseID[S ~string](s S) uuid.UUID {
	id, _ := uuid.Parse(string(s))
	return id
}

// Request implements audit.Reader.
func (s *Store) Request(ctx context.Context, tenant, principal, requestID string) (tool.BatchID, audit.Digest, error) {
	t, err := one(ctx, s, func(r pgx.Rows, t *audit.TakenError, _ ...any) error {
		return r.Scan(&t.Batch, digest{&t.Digest})
	}, `SELECT batch_id::text, request_digest FROM exec.request_ids WHERE team_id = $1 AND principal = $2 AND request_id = $3`, tenant, principal, requestID)
	return t.Batch, t.Digest, err
}

// selectLive counts the events of what still runs; an ended batch knows.
const selectLive = `SELECT batch_id::text, team_id, principal, request_id, coalesce(session_id, ''), coalesce(workspace_id, ''), labels, state,
	request, accepted_at, deadline, ended_at, greatest(last_seq, (SELECT e.last_seq FROM exec.events e
		WHERE e.batch_id = b.batch_id AND b.ended_at IS NULL ORDER BY e.first_seq DESC LIMIT 1))
	FROM exec.batches b `

func scanLive(r pgx.Rows, b *audit.LiveBatch, _ ...any) error {
	return r.Scan(&b.ID, &b.Tenant, &b.Principal, &b.RequestID, &b.Session, &b.Workspace, &b.Labels, &b.State,
		&b.Request, at{&b.AcceptedAt}, at{&b.Deadline}, at{&b.EndedAt}, &b.LastSeq)
}

// Batch implements audit.Reader.
func (s *Store) Batch(ctx context.Context, tenant string, id tool.BatchID) (audit.LiveBatch, error) {
	return one(ctx, s, scanLive, selectLive+`WHERE batch_id = $1 AND team_id = $2`, parseID(id), tenant)
}

// Unfinished implements audit.Reader.
func (s *Store) Unfinished(ctx context.Context) ([]audit.LiveBatch, error) {
	return query(ctx, s, scanLive, selectLive+`WHERE ended_at IS NULL ORDER BY batch_id`)
}

// where collects conditions that are set; "?" in one stands for its argument.
type where struct {
	sql  []string
	args []any
}

func (w *where) add(cond string, set bool, arg any) {
	if set {
		w.args = append(w.args, arg)
		w.sql = append(w.sql, strings.ReplaceAll(cond, "?", fmt.Sprintf("$%d", len(w.args))))
	}
}

func (w *where) String() string {
	if len(w.sql) == 0 {
		return ""
	}
	return "WHERE " + strings.Join(w.sql, " AND ") + " "
}

// limit is a LIMIT clause; 0 = none.
func limit(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" LIMIT %d", n)
}

// Batches implements audit.Reader.
func (s *Store) Batches(ctx context.Context, f audit.BatchFilter) ([]audit.LiveBatch, error) {
	var w where
	w.add("team_id = ?", f.Tenant != "", f.Tenant)
	w.add("principal = ?", f.Principal != "", f.Principal)
	w.add("workspace_id = ?", f.Workspace != "", f.Workspace)
	w.add("session_id = ?", f.Session != "", string(f.Session))
	w.add("accepted_at >= ?", !f.After.IsZero(), f.After)
	w.add("accepted_at < ?", !f.Before.IsZero(), f.Before)
	w.add("batch_id < ?", f.OlderThan != "", parseID(f.OlderThan))
	w.add("state = ANY (?)", len(f.States) > 0, f.States)
	w.add("labels @> ?", len(f.Labels) > 0, f.Labels)
	return query(ctx, s, scanLive, selectLive+w.String()+"ORDER BY batch_id DESC"+limit(f.Limit), w.args...)
}

// eventRows bounds the rows of one page of events: what is not wanted would still
// come over the wire.
const eventRows = 64

// Events implements audit.Reader.
func (s *Store) Events(ctx context.Context, id tool.BatchID, after int64, maxBytes int) ([]audit.Numbered, error) {
	r, err := s.pool.Query(ctx, `SELECT first_seq, last_seq, events FROM exec.events WHERE batch_id = $1 AND last_seq > $2 ORDER BY first_seq LIMIT $3`,
		parseID(id), after, eventRows)
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
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	return out, nil
}

// since keeps weeks out of a query that are over when a batch began: its id says
// when that was.
func since(id tool.BatchID) time.Time {
	sec, nsec := parseID(id).Time().UnixTime()
	return time.Unix(sec, nsec).Add(-time.Hour)
}

// Trail implements audit.Reader.
func (s *Store) Trail(ctx context.Context, id tool.BatchID) (t audit.Trail, err error) {
	of := func(time, order string) string {
		return ` WHERE batch_id = $1 AND ` + time + ` >= $2 ORDER BY ` + order
	}
	key, from := parseID(id), since(id)
	t.Decisions, err = query(ctx, s, scanDecision, `SELECT `+selectDecision+` FROM audit.permission_decisions`+of("decided_at", "decision_id"), key, from)
	if err != nil {
		return t, err
	}
	t.Starts, err = query(ctx, s, scanStart, `SELECT `+selectStart+` FROM audit.call_starts`+of("started_at", "started_at, call_id"), key, from)
	if err != nil {
		return t, err
	}
	t.Outcomes, err = query(ctx, s, scanOutcome, `SELECT `+selectOutcome+` FROM audit.outcomes`+of("finished_at", "finished_at, call_id"), key, from)
	if err != nil {
		return t, err
	}
	t.Held, err = query(ctx, s, func(r pgx.Rows, h *audit.HeldRow, _ ...any) error {
		return r.Scan(&h.Batch, &h.Index, &h.Body)
	}, `SELECT batch_id::text, call_index, result FROM exec.calls WHERE batch_id = $1 ORDER BY call_index`, key)
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
	w.add("decided_at >= ?", !f.From.IsZero(), f.From)
	w.add("decided_at < ?", !f.Until.IsZero(), f.Until)
	w.add("batch_id = ?", f.Batch != "", parseID(f.Batch))
	w.add("decision_id < ?", f.OlderThan != "", parseID(f.OlderThan))
	return query(ctx, s, scanDecision, `SELECT `+selectDecision+` FROM audit.permission_decisions `+w.String()+
		`ORDER BY decision_id DESC`+limit(f.Limit), w.args...)
}

// Artifact implements audit.Reader.
func (s *Store) Artifact(ctx context.Context, tenant, id string) (audit.ArtifactEvent, error) {
	return one(ctx, s, scanArtifact, `SELECT `+selectArtifact+` FROM audit.artifact_events
		WHERE artifact_id = $1 AND team_id = $2 AND event = 'CREATED'`, parseID(id), tenant)
}

// Artifacts implements audit.Reader.
func (s *Store) Artifacts(ctx context.Context, tenant string, batch tool.BatchID, call tool.CallID, olderThan string, n int) ([]audit.ArtifactEvent, error) {
	var w where
	w.add("team_id = ? AND event = 'CREATED'", true, tenant)
	w.add("batch_id = ?", batch != "", parseID(batch))
	w.add("call_id = ?", call != "", string(call))
	w.add("artifact_id < ?", olderThan != "", parseID(olderThan))
	return query(ctx, s, scanArtifact, `SELECT `+selectArtifact+` FROM audit.artifact_events `+w.String()+
		`ORDER BY artifact_id DESC`+limit(n), w.args...)
}

// Block reads a block back with the ledger rows that name it, in the order of
// their leaves; audit.ErrNotFound if there is no such block. It looks through
// whole tables: it is for verifying, not for serving.
func (s *Store) Block(ctx context.Context, writer string, no int64) (*audit.Block, error) {
	b, err := one(ctx, s, func(r pgx.Rows, b *audit.Block, _ ...any) error {
		return r.Scan(&b.Writer, &b.No, &b.Leaves, digest{&b.Root}, digest{&b.Prev}, digest{&b.Hash})
	}, `SELECT writer_id, block_no, leaf_count, root, prev_hash, block_hash FROM audit.blocks WHERE writer_id = $1 AND block_no = $2`, writer, no)
	if err != nil {
		return nil, err
	}
	return &b, errors.Join(
		readLeaves(ctx, s, &b, &b.Batches, scanBatch, selectBatch, "batches"),
		readLeaves(ctx, s, &b, &b.Decisions, scanDecision, selectDecision, "permission_decisions"),
		readLeaves(ctx, s, &b, &b.Starts, scanStart, selectStart, "call_starts"),
		readLeaves(ctx, s, &b, &b.Outcomes, scanOutcome, selectOutcome, "outcomes"),
		readLeaves(ctx, s, &b, &b.Artifacts, scanArtifact, selectArtifact, "artifact_events"),
		readLeaves(ctx, s, &b, &b.Admin, scanAdmin, selectAdmin, "admin_events"))
}

func readLeaves[Row any](ctx context.Context, s *Store, b *audit.Block, to *[]audit.Leaf[Row],
	scan func(pgx.Rows, *Row, ...any) error, columns, table string,
) (err error) {
	*to, err = query(ctx, s, func(r pgx.Rows, l *audit.Leaf[Row], _ ...any) error {
		l.Row = new(Row)
		return scan(r, l.Row, &l.No)
	}, `SELECT `+columns+`, leaf_no FROM audit.`+table+` WHERE writer_id = $1 AND block_no = $2 ORDER BY leaf_no`, b.Writer, b.No)
	return err
}

// canonical is an address in the form in which it was hashed.
func canonical(inet string) string {
	if a, err := netip.ParseAddr(inet); err == nil {
		return a.String()
	}
	return inet
}
