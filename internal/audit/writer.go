package audit

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// run is the writer: it owns writer, no, head and doubt.
func (l *Log) run() {
	defer close(l.gone)
	for {
		items, ok := l.next()
		if !ok {
			return
		}
		l.attempt(items)
	}
}

// next waits for work and takes as much of it as goes into one commit. It is
// false when the log is closed and nothing is left, or must be.
func (l *Log) next() ([]*item, bool) {
	for {
		l.mu.Lock()
		pause := l.pause()
		if pause <= 0 && (len(l.queue) > 0 || l.doubt != nil) {
			items := l.take()
			l.mu.Unlock()
			return items, true
		}
		done := l.closing && len(l.queue) == 0 && l.doubt == nil
		l.mu.Unlock()
		if done {
			return nil, false
		}
		if pause <= 0 {
			pause = time.Hour
		}
		retry := time.NewTimer(pause)
		select {
		case <-l.wake:
		case <-retry.C:
		case <-l.ctx.Done():
		}
		retry.Stop()
		if l.ctx.Err() != nil {
			return nil, false
		}
	}
}

// pause is how long to leave a failing store alone. An intent in the queue has
// waited long enough already, or it would have been refused.
func (l *Log) pause() time.Duration {
	if l.down == nil || l.intents > 0 {
		return 0
	}
	return retryEvery - time.Since(l.tried)
}

// take is called with mu held.
func (l *Log) take() []*item {
	var items []*item
	n, size := 0, 0
	for _, it := range l.queue {
		if len(items) > 0 && (len(items) == maxGroupEntries || size+it.size > maxGroupBytes) {
			break
		}
		n++
		if it.intent {
			l.intents--
		}
		if it.withdrawn {
			continue
		}
		it.taken = true
		size += it.size
		items = append(items, it)
	}
	clear(l.queue[:n])
	l.queue = l.queue[n:]
	if len(l.queue) == 0 {
		l.queue = nil
	}
	return items
}

// attempt finds out about the doubtful group, if there is one, and then writes.
// All of it together takes FlushTimeout at most.
func (l *Log) attempt(items []*item) {
	ctx, cancel := context.WithTimeout(l.ctx, l.o.FlushTimeout)
	defer cancel()
	if g := l.doubt; g != nil {
		durable, err := l.find(ctx, g)
		if err != nil {
			l.fail(err, items)
			return
		}
		l.doubt = nil
		if durable {
			g.landed()
		} else {
			items = append(g.unanswered(), items...)
		}
	}
	if len(items) == 0 {
		l.recovered()
		return
	}
	l.write(ctx, items)
}

// write commits items in order. Where one cannot be written, it halves the group
// until it has found it, answers it, and goes on with all that is left.
func (l *Log) write(ctx context.Context, items []*item) {
	n := len(items)
	for len(items) > 0 {
		n = min(n, len(items))
		g := l.newGroup(items[:n])
		begun := time.Now()
		err := l.commit(ctx, g)
		switch {
		case err == nil:
			if g.block != nil && l.o.Metrics.Flushed != nil {
				l.o.Metrics.Flushed(time.Since(begun), g.block.Leaves)
			}
			l.recovered()
			g.landed()
			items = items[n:]
		case errors.Is(err, ErrInDoubt):
			l.doubt = g
			l.fail(err, items[n:])
			for _, it := range g.items {
				if it.intent {
					it.answer(err)
				}
			}
			return
		case !l.o.Store.DataError(err):
			l.fail(err, items)
			return
		case n > 1:
			n /= 2
		default:
			l.o.Logger.Error("an entry cannot be written to the audit ledger", "error", err, "intent", items[0].intent)
			items[0].answer(fmt.Errorf("writing to the audit ledger: %w", err))
			items = items[1:]
			n = len(items)
		}
	}
}

// commit tries twice, since a database that was restarted fails the first time
// only. It never leaves open whether the group is durable without saying so: a
// nil error means that it is, ErrInDoubt that nobody knows, any other that it is
// not.
func (l *Log) commit(ctx context.Context, g *group) error {
	var err error
	for range 2 {
		// A quarter of the time is kept for asking what became of it.
		deadline, _ := ctx.Deadline()
		sending, cancel := context.WithDeadline(ctx, deadline.Add(-l.o.FlushTimeout/4))
		err = l.o.Store.Commit(sending, Group{Claims: g.claims, Seal: g.seal})
		cancel()
		if err == nil || l.o.Store.DataError(err) || g.block == nil {
			return err
		}
		if l.o.Metrics.Ambiguous != nil {
			l.o.Metrics.Ambiguous()
		}
		durable, unknown := l.find(ctx, g)
		if durable {
			return nil
		}
		if unknown != nil {
			return errors.Join(ErrInDoubt, err, unknown)
		}
	}
	return err
}

// find asks the store whether a group's block is there.
func (l *Log) find(ctx context.Context, g *group) (durable bool, err error) {
	no, hash, err := l.o.Store.Head(ctx, l.writer)
	switch {
	case err != nil:
		return false, err
	case no == g.block.No && hash == g.block.Hash:
		return true, nil
	case no == l.no:
		return false, nil
	}
	// The database has lost blocks that were durable once (a standby that lagged
	// was promoted). This writer's chain cannot go on; a new one starts.
	l.o.Logger.Error("the database lost committed audit blocks", "writer", l.writer, "found", no, "written", l.no)
	return false, l.newWriter(ctx)
}

// fail marks the store as away: who intends is told, what happened waits at the
// head of the queue.
func (l *Log) fail(err error, items []*item) {
	l.mu.Lock()
	was := l.down
	l.down, l.tried = err, time.Now()
	items = append(items[:len(items):len(items)], l.queue...)
	l.queue, l.intents = nil, 0
	var intents []*item
	for _, it := range items {
		if !it.intent {
			l.queue = append(l.queue, it)
		} else if !it.withdrawn {
			it.taken = true
			intents = append(intents, it)
		}
	}
	l.mu.Unlock()
	for _, it := range intents {
		it.answer(unavailable(err))
	}
	if l.o.Metrics.Failed != nil {
		l.o.Metrics.Failed()
	}
	if was == nil {
		l.o.Logger.Error("audit ledger unavailable: nothing can start", "error", err)
		l.available(false)
	}
}

func (l *Log) recovered() {
	l.mu.Lock()
	was := l.down
	l.down = nil
	l.mu.Unlock()
	if was != nil {
		l.o.Logger.Info("audit ledger available again")
		l.available(true)
	}
}

// canonicalAddr is an IP address in its one text form, without zone; empty for
// anything else.
func canonicalAddr(s string) string {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return ""
	}
	return a.Unmap().WithZone("").String()
}
