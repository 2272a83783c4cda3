package sqlite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
)

// maintainAtOnce bounds the batches erased in one transaction, so that the lane
// is never held for long.
const maintainAtOnce = 200

// Maintain erases what has outlived its retention at now: request ids, sessions,
// and the request bytes, events and held results of ended batches. The ledger
// stays.
func (s *Store) Maintain(ctx context.Context, now time.Time) error {
	before := stamp(now.Add(-s.retention))
	err := s.lane.transact(ctx, func(ctx context.Context) error {
		return first(s.lane.exec(ctx, `DELETE FROM exec_request_ids WHERE expires_at < ?`, stamp(now)), func() error {
			return s.lane.exec(ctx, `DELETE FROM exec_sessions WHERE coalesce(closed_at, expires_at) < ?`, before)
		})
	})
	for err == nil {
		var ended []tool.BatchID
		ended, err = rows(ctx, s.read, func(r rowScanner, id *tool.BatchID, _ ...any) error { return r.Scan(id) },
			`SELECT batch_id FROM exec_batches WHERE ended_at < ? AND request IS NOT NULL`+limit(maintainAtOnce), before)
		if err != nil || len(ended) == 0 {
			break
		}
		err = s.erase(ctx, ended)
	}
	if err != nil {
		return fmt.Errorf("erasing what has expired: %w", err)
	}
	return nil
}

func (s *Store) erase(ctx context.Context, ended []tool.BatchID) error {
	args := make([]any, len(ended))
	for i, id := range ended {
		args[i] = string(id)
	}
	of := ` WHERE batch_id IN (?` + strings.Repeat(",?", len(args)-1) + `)`
	return s.lane.transact(ctx, func(ctx context.Context) error {
		for _, text := range []string{`DELETE FROM exec_events`, `DELETE FROM exec_calls`, `UPDATE exec_batches SET request = NULL`} {
			if _, err := s.lane.conn.ExecContext(ctx, text+of, args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// Block reads a block back with the ledger rows that name it, in the order of
// their leaves; audit.ErrNotFound if there is no such block. It looks through
// whole tables: it is for verifying, not for serving.
func (s *Store) Block(ctx context.Context, writer string, no int64) (*audit.Block, error) {
	b, err := one(ctx, s.read, func(r rowScanner, b *audit.Block, _ ...any) error {
		return r.Scan(&b.Writer, &b.No, &b.Leaves, digest{&b.Root}, digest{&b.Prev}, digest{&b.Hash})
	}, `SELECT writer_id, block_no, leaf_count, root, prev_hash, block_hash FROM audit_blocks WHERE writer_id = ? AND block_no = ?`, writer, no)
	if err != nil {
		return nil, err
	}
	err = first(readLeaves(ctx, s, &b, &b.Batches, scanBatch, batches.name, batchColumns)(),
		readLeaves(ctx, s, &b, &b.Decisions, scanDecision, decisions.name, decisionColumns),
		readLeaves(ctx, s, &b, &b.Starts, scanStart, starts.name, startColumns),
		readLeaves(ctx, s, &b, &b.Outcomes, scanOutcome, outcomes.name, outcomeColumns),
		readLeaves(ctx, s, &b, &b.Artifacts, scanArtifact, artifacts.name, artifactColumns),
		readLeaves(ctx, s, &b, &b.Admin, scanAdmin, admin.name, adminColumns))
	return &b, err
}

func readLeaves[Row any](ctx context.Context, s *Store, b *audit.Block, to *[]audit.Leaf[Row],
	scan func(rowScanner, *Row, ...any) error, table, columns string,
) func() error {
	return func() (err error) {
		*to, err = rows(ctx, s.read, func(r rowScanner, l *audit.Leaf[Row], _ ...any) error {
			l.Row = new(Row)
			return scan(r, l.Row, &l.No)
		}, `SELECT `+columns+`, leaf_no FROM `+table+` WHERE writer_id = ? AND block_no = ? ORDER BY leaf_no`, b.Writer, b.No)
		return err
	}
}
