package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	pb "github.com/toold/toold/proto/toold/v1"
)

// batchOf is the batch that a transcript is of.
func batchOf(transcript [][]byte) string {
	var m pb.ExecuteBatchResponse
	if len(transcript) == 0 || proto.Unmarshal(transcript[0], &m) != nil {
		return ""
	}
	return m.GetEvent().GetBatchId()
}

// audited copies the rows of one real batch again and again, under new ids: what
// recording the same costs at the least. Callers that come while a commit is
// under way share the next one, as in toold.
type audited struct {
	conn   *pgx.Conn
	tables []table
	mu     sync.Mutex
	queue  []chan error
	phases []bool // of the queued: false = before, true = after
	wake   chan struct{}
}

// table is the rows of the batch in one table.
type table struct {
	name    pgx.Identifier
	columns []string
	rows    [][]any
	after   []bool // row by row: written after the run
}

func openAudited(ctx context.Context, dsn, batch string) (*audited, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	f := &audited{conn: conn, wake: make(chan struct{}, 1)}
	for _, t := range []struct{ schema, name, where string }{
		{"exec", "request_ids", "batch_id = $1"},
		{"exec", "batches", "batch_id = $1"},
		{"audit", "batches", "batch_id = $1"},
		{"audit", "permission_decisions", "batch_id = $1"},
		{"audit", "outcomes", "batch_id = $1"},
		{"exec", "events", "batch_id = $1 ORDER BY first_seq"},
	} {
		if err := f.read(ctx, pgx.Identifier{t.schema, t.name}, t.where, batch); err != nil {
			return nil, fmt.Errorf("reading %s.%s: %w", t.schema, t.name, err)
		}
	}
	go f.write(ctx)
	return f, nil
}

// read takes the batch's rows of a table, generated columns left out.
func (f *audited) read(ctx context.Context, name pgx.Identifier, where, batch string) error {
	rows, err := f.conn.Query(ctx, `SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum`, name.Sanitize())
	if err != nil {
		return err
	}
	columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	rows, err = f.conn.Query(ctx, "SELECT "+strings.Join(columns, ", ")+" FROM "+name.Sanitize()+" WHERE "+where, batch)
	if err != nil {
		return err
	}
	t := table{name: name, columns: columns}
	if t.rows, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) ([]any, error) { return r.Values() }); err != nil {
		return err
	}
	if len(t.rows) == 0 {
		return fmt.Errorf("batch %s has no rows there", batch)
	}
	for i := range t.rows {
		t.after = append(t.after, name[1] == "outcomes" || name[1] == "events" && i > 0)
	}
	f.tables = append(f.tables, t)
	return nil
}

func (f *audited) before(ctx context.Context) error { return f.add(ctx, false) }
func (f *audited) after(ctx context.Context) error  { return f.add(ctx, true) }

func (f *audited) add(ctx context.Context, after bool) error {
	done := make(chan error, 1)
	f.mu.Lock()
	f.queue, f.phases = append(f.queue, done), append(f.phases, after)
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *audited) write(ctx context.Context) {
	for {
		select {
		case <-f.wake:
		case <-ctx.Done():
			return
		}
		f.mu.Lock()
		queue, phases := f.queue, f.phases
		f.queue, f.phases = nil, nil
		f.mu.Unlock()
		if len(queue) == 0 {
			continue
		}
		err := f.commit(ctx, phases)
		for _, done := range queue {
			done <- err
		}
	}
}

func (f *audited) commit(ctx context.Context, phases []bool) error {
	tx, err := f.conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	ids := make([]uuid.UUID, len(phases))
	for i := range ids {
		ids[i] = uuid.Must(uuid.NewV7())
	}
	now := time.Now()
	for _, t := range f.tables {
		var rows [][]any
		for p, after := range phases {
			for i, row := range t.rows {
				if t.after[i] == after {
					rows = append(rows, t.fresh(row, ids[p], now))
				}
			}
		}
		if len(rows) == 0 {
			continue
		}
		if _, err := tx.CopyFrom(ctx, t.name, t.columns, pgx.CopyFromRows(rows)); err != nil {
			return fmt.Errorf("copying into %s: %w", t.name.Sanitize(), err)
		}
	}
	return tx.Commit(ctx)
}

// fresh is a row under new keys.
func (t table) fresh(row []any, batch uuid.UUID, now time.Time) []any {
	out := append([]any(nil), row...)
	for i, c := range t.columns {
		switch c {
		case "batch_id":
			out[i] = batch
		case "decision_id":
			out[i] = uuid.Must(uuid.NewV7())
		case "request_id":
			out[i] = batch.String()
		case "accepted_at", "decided_at", "finished_at":
			out[i] = now
		}
	}
	return out
}
