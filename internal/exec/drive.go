package exec

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/policy"
	"github.com/toold/toold/internal/session"
	"github.com/toold/toold/internal/tool"
)

// begin sets an accepted batch going. Its acceptance is durable.
func (b *Batch) begin() {
	b.mu.Lock()
	b.timer = time.AfterFunc(time.Until(b.deadline), func() { b.stopAll(stopDeadline) })
	b.watchUnread()
	over := b.left == 0 && b.out == nil && !b.flushing
	b.mu.Unlock()
	if over {
		b.end()
		return
	}
	go b.drive()
}

// drive runs the waves. It is the only goroutine that starts calls of the batch.
func (b *Batch) drive() {
	for _, w := range b.waves {
		b.runWave(w)
	}
	b.mu.Lock()
	for !b.over && b.broken == nil && (b.left == 0 || b.flushing) {
		changed := b.changed
		b.mu.Unlock()
		<-changed
		b.mu.Lock()
	}
	b.mu.Unlock()
	b.end()
}

// end closes what an ended (or drained) batch holds.
func (b *Batch) end() {
	b.mu.Lock()
	b.timer.Stop()
	if b.unread != nil {
		b.unread.Stop()
	}
	b.over, b.gone = b.left == 0 && b.broken == nil, true
	b.announce()
	b.mu.Unlock()
	b.stopStarting(nil)
	b.stopReading(nil)
	b.stopWriting(nil)
	b.x.batchEnded(b)
}

// runWave runs the calls of a wave, reads at most MaxParallelReads at once, and
// waits for them. Calls that only wait count for nothing.
func (b *Batch) runWave(w Wave) {
	if len(w) == 1 {
		b.step(b.calls[w[0]])
		return
	}
	limit := b.req.MaxParallelReads
	if limit == 0 {
		limit = b.x.Limits.ParallelReads
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, limit)
	for _, i := range w {
		c := b.calls[i]
		if !c.action.Waits {
			slots <- struct{}{}
		}
		wg.Go(func() {
			b.step(c)
			if !c.action.Waits {
				<-slots
			}
		})
	}
	wg.Wait()
}

// step brings one call to its outcome: checks that it may still start, records
// what must be on record before, and runs it.
func (b *Batch) step(c *call) {
	defer b.giveBack(c)
	x := b.x
	began := x.Now()
	if f := b.blocked(c); f != nil {
		b.notStarted(c, f)
		return
	}
	if c.class != tool.ReadOnly && c.spec.Scope == tool.ScopeWorkspace && !c.locked {
		fence, err := x.locks.acquire(b.starting, b.workspaceName(c.req.Workspace))
		if err != nil {
			b.notStarted(c, unstarted(asStop(err)))
			return
		}
		c.fence, c.locked = fence, true
	}
	if !c.slot && !c.action.Waits {
		if x.slots.Acquire(b.starting, 1) != nil {
			b.notStarted(c, unstarted(asStop(context.Cause(b.starting))))
			return
		}
		c.slot = true
	}
	if f := b.blocked(c); f != nil { // waiting may have taken long
		b.notStarted(c, f)
		return
	}
	if !b.take(c) {
		return
	}
	if f := b.authorize(c); f != nil {
		b.notStarted(c, f)
		return
	}
	b.execute(c, x.Now().Sub(began))
	if c.locked {
		b.settled() // who writes here next finds this outcome on record
	}
}

// take marks a call as starting: from here on it is stopped, not dropped. It
// reports false when the call was cancelled meanwhile and has its outcome.
func (b *Batch) take(c *call) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.taken = c.result == nil
	return c.taken
}

// blocked says why a call must not start now, as its result; nil = it may.
func (b *Batch) blocked(c *call) *Finished {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.blockedNow(c)
}

func (b *Batch) blockedNow(c *call) *Finished {
	if c.stop != nil {
		return unstarted(c.stop)
	}
	if err := context.Cause(b.starting); err != nil {
		return unstarted(asStop(err))
	}
	if c.class == tool.ReadOnly || b.req.Failure == Continue {
		return nil
	}
	for _, p := range b.calls[:c.index] {
		if p.class == tool.ReadOnly || p.result == nil {
			continue
		}
		switch o := p.result.Outcome; {
		case o == tool.Unknown || o == tool.Interrupted:
			return skipped("PREDECESSOR_UNKNOWN", p, "what it did is not known; look at the state, then send the rest anew")
		case b.req.Failure == StopOnFailure && o != tool.Succeeded:
			return skipped("PREDECESSOR_FAILED", p, "the batch's failure policy is STOP_ON_FAILURE")
		}
	}
	return nil
}

func skipped(reason string, p *call, why string) *Finished {
	return &Finished{Outcome: tool.Skipped, Error: &tool.Error{
		Reason: reason, Metadata: map[string]string{"call_id": string(p.id)},
		Message: fmt.Sprintf("not run: call %q before it ended %s, and %s", p.id, p.result.Outcome, why),
	}}
}

func unstarted(s *stop) *Finished {
	return &Finished{Outcome: tool.Cancelled, Error: &tool.Error{Reason: s.reason, Message: "not run: " + s.message, Retryable: true}}
}

func asStop(err error) *stop {
	var s *stop
	if errors.As(err, &s) {
		return s
	}
	return stopGone
}

// notStarted ends a call that will not run; a drained one is left as it is, for
// whoever adopts the batch.
func (b *Batch) notStarted(c *call, f *Finished) {
	if !b.leftToNext() {
		b.finish(c, *f, outcomeFacts{})
	}
}

// leftToNext reports whether this process must start nothing more of the batch.
func (b *Batch) leftToNext() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.draining || b.broken != nil
}

// authorize makes sure that a call's receipt permits it to run now: a decision
// made in another session epoch is made again, and a call that is not READ_ONLY
// gets its start mark. It waits for a ledger that is away, until the batch must
// stop starting calls. A mark whose commit was in doubt is made again for the same
// attempt, since nothing ran: it may then be on record twice. What it gives, where
// not nil, is the call's outcome.
func (b *Batch) authorize(c *call) *Finished {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		n, err := b.needs(c)
		if err == nil && n.entry == nil {
			return n.refusal
		}
		if err == nil {
			var receipts []audit.Receipt
			if receipts, err = b.x.Log.Intend(context.WithoutCancel(b.starting), n.entry); err == nil {
				c.receipt, c.marked = receipts[len(receipts)-1], n.starts
				if n.starts {
					c.attempt++
				}
				if n.decision != nil {
					c.decision = *n.decision
				}
				return n.refusal
			}
			if !errors.Is(err, audit.ErrUnavailable) { // our own bug: it can never be recorded
				b.x.Logger.Error("a call's start cannot be recorded", "batch_id", b.id, "call_id", c.id, "error", err)
				return unstarted(stopUnrecorded)
			}
		}
		b.x.Logger.Warn("call waits for the ledger", "batch_id", b.id, "call_id", c.id, "error", err)
		select {
		case <-b.starting.Done():
			return unstarted(asStop(context.Cause(b.starting)))
		case <-time.After(wait):
		}
	}
}

// needs is what must be on record before a call may run, and what the call
// becomes once it is.
type needs struct {
	entry    *audit.Entry    // nil: nothing is missing
	decision *audit.Decision // made again; nil: the one there is stands
	refusal  *Finished       // it does not run
	starts   bool            // the entry has its start mark
}

func (b *Batch) needs(c *call) (n needs, err error) {
	if c.marked { // its start is on record: it has started
		return n, nil
	}
	e := &audit.Entry{Stream: b.stream}
	if b.req.Session != "" {
		s, err := b.x.Sessions.Get(context.WithoutCancel(b.starting), b.caller, b.req.Session)
		switch {
		case errors.Is(err, session.ErrClosed) || errors.Is(err, session.ErrNotFound):
			return needs{refusal: unstarted(stopSession)}, nil
		case err != nil:
			return n, err
		case s.Epoch != c.decision.SessionEpoch:
			n.decision, n.refusal = b.decideAgain(c, s)
			e.Decisions = append(e.Decisions, *n.decision)
			e.Events = append(e.Events, b.event(c, Decided{Decision: *n.decision, Effects: c.action.Effects}))
		}
	}
	if n.refusal == nil && (c.class != tool.ReadOnly || c.again) {
		attempt := c.attempt + 1
		start := b.startMark(c, attempt)
		if n.decision != nil {
			start.On, start.Decision = audit.Receipt{}, n.decision.ID
		}
		n.starts = true
		e.Starts = append(e.Starts, start)
		e.Events = append(e.Events, b.event(c, Started{Executor: builtin, Attempt: attempt, Fence: c.fence, Queue: b.x.Now().Sub(b.acceptedAt)}))
	}
	if n.starts || n.decision != nil {
		n.entry = e
	}
	return n, nil
}

// decideAgain judges a call in the session as it is now. The call is as before
// until the row is durable.
func (b *Batch) decideAgain(c *call, now session.Session) (*audit.Decision, *Finished) {
	began := b.x.Now()
	d := b.x.judge(b, c, now.Mode)
	row := b.decisionRow(c, d, now.Epoch, b.x.Now().Sub(began))
	b.x.metrics.decided(d)
	if d.Verdict != policy.Allow {
		return &row, refusal(b.req.Ask, d)
	}
	return &row, nil
}
