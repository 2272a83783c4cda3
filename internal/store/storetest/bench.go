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
