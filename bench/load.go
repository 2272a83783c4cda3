package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// result is what a closed loop of clients measured.
type result struct {
	took       time.Duration
	latencies  []time.Duration // of each round, ascending
	perRound   int             // calls in a round
	transcript [][]byte        // messages of one round as they came
	cpu        string          // where its processor time went
}

func (r result) perSecond() float64 { return float64(len(r.latencies)) / r.took.Seconds() }

func (r result) quantile(q float64) time.Duration {
	if len(r.latencies) == 0 {
		return 0
	}
	return r.latencies[min(int(q*float64(len(r.latencies))), len(r.latencies)-1)]
}

func (r result) line() string {
	return fmt.Sprintf("%7.0f batches/s  %8.0f results/s  p50 %6.2f ms  p99 %6.2f ms",
		r.perSecond(), r.perSecond()*float64(r.perRound), ms(r.quantile(.5)), ms(r.quantile(.99)))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// loop lets clients do rounds, one after another each, for a while after a
// warm-up. The first error ends it.
func loop(ctx context.Context, clients int, warm, length time.Duration, round func(ctx context.Context, client int) error) (result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	from := time.Now().Add(warm)
	until := from.Add(length)
	for i := range clients {
		wg.Go(func() {
			var own []time.Duration
			for time.Now().Before(until) {
				began := time.Now()
				if err := round(ctx, i); err != nil {
					cancel(err)
					return
				}
				if began.After(from) {
					own = append(own, time.Since(began))
				}
			}
			mu.Lock()
			all = append(all, own...)
			mu.Unlock()
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return result{}, err
	}
	slices.Sort(all)
	return result{took: length, latencies: all}, nil
}
