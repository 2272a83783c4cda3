package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/toold/toold/internal/audit"
)

// BenchmarkBatches runs batches of ten reads of 1 KiB with 64 callers: one Intend,
// a Settle for each call, and the end. It reports batches, ledger and live rows
// a second.
func BenchmarkBatches(b *testing.B, s Store) {
	const callers, calls, size = 64, 10, 1 << 10
	flushes := 0
	l := OpenLog(b, s, func(o *audit.Options) {
		o.FlushTimeout = time.Minute
		o.Metrics.Flushed = func(time.Duration, int) { flushes++ }
	})
	ctx := context.Background()
	b.ReportAllocs()
	next := make(chan struct{}, callers)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range next {
				batch := NewBatch(calls)
				if _, err := l.Intend(ctx, batch.Accept()); err != nil {
					b.Error(err)
					continue
				}
				var results sync.WaitGroup
				for i := range calls {
					results.Go(func() {
						if err := l.Settle(ctx, batch.Outcome(i, size)); err != nil {
							b.Error(err)
						}
					})
				}
				results.Wait()
				if err := l.Settle(ctx, batch.End()); err != nil {
					b.Error(err)
				}
			}
		})
	}
	b.ResetTimer()
	for range b.N {
		next <- struct{}{}
	}
	close(next)
	wg.Wait()
	sec := b.Elapsed().Seconds()
	b.ReportMetric(float64(b.N)/sec, "batches/s")
	b.ReportMetric(float64(b.N*calls)/sec, "calls/s")
	b.ReportMetric(float64(flushes)/sec, "commits/s")
}

// BenchmarkFloor writes the same rows with nothing around it: sixteen whole
// batches in each commit, one commit after the other, nobody waiting, nothing
// hashed.
func BenchmarkFloor(b *testing.B, s Store) {
	const together, calls, size = 16, 10, 1 << 10
	commits := (b.N + together - 1) / together
	blocks := make([]*audit.Block, commits)
	var claims [][]audit.Claim
	for i := range blocks {
		block := &audit.Block{Writer: "floor", No: int64(i + 1)}
		var mine []audit.Claim
		for range together {
			mine = append(mine, addWhole(block, NewBatch(calls), size))
		}
		blocks[i] = block
		claims = append(claims, mine)
	}
	b.ResetTimer()
	for i, block := range blocks {
		if err := s.Commit(context.Background(), audit.Group{Claims: claims[i], Seal: func([]*audit.TakenError) *audit.Block { return block }}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(commits*together)/b.Elapsed().Seconds(), "batches/s")
	b.ReportMetric(float64(commits*together*calls)/b.Elapsed().Seconds(), "calls/s")
}

// addWhole puts all rows of a batch into a block.
func addWhole(to *audit.Block, b *Batch, size int) audit.Claim {
	leaf := func() int { to.Leaves++; return to.Leaves - 1 }
	e := b.Accept()
	f := &e.Accept.Facts
	to.Batches = append(to.Batches, audit.Leaf[audit.Batch]{Row: f, No: leaf()})
	for i := range e.Decisions {
		to.Decisions = append(to.Decisions, audit.Leaf[audit.Decision]{Row: &e.Decisions[i], No: leaf()})
		to.Outcomes = append(to.Outcomes, audit.Leaf[audit.Outcome]{Row: &b.Outcome(i, 0).Outcomes[0], No: leaf()})
	}
	to.Live = append(to.Live, audit.LiveBatch{
		ID: b.ID, Tenant: f.Tenant, Principal: f.Principal, RequestID: f.RequestID, Labels: f.Labels, State: "COMPLETED",
		Request: e.Accept.Request, AcceptedAt: f.AcceptedAt, Deadline: e.Accept.Deadline, EndedAt: Now(), LastSeq: int64(b.Calls + 2),
	})
	to.Events = append(to.Events, audit.EventRow{Batch: b.ID, First: 1, Last: int64(b.Calls + 2), Bytes: prose(b.Calls*size + 320)})
	return audit.Claim{
		Tenant: f.Tenant, Principal: f.Principal, RequestID: f.RequestID, Digest: f.RequestDigest, Batch: b.ID, ExpiresAt: f.AcceptedAt.Add(time.Hour),
	}
}
