package exec

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
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
	b.over = b.left == 0 && b.broken == nil
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
	if b.leftToNext() {
		return
	}
	if f := b.blocked(c); f != nil {
		b.finish(c, *f, outcomeFacts{})
		return
	}
	if c.class != tool.ReadOnly && c.spec.Scope == tool.ScopeWorkspace && !c.locked {
		fence, err := x.locks.acquire(b.starting, b.workspaceName(c.req.Workspace))
		if err != nil {
			b.notStarted(c)
			return
		}
		c.fence, c.locked = fence, true
	}
	if !c.slot && !c.action.Waits {
		if x.slots.Acquire(b.starting, 1) != nil {
			b.notStarted(c)
			return
		}
		c.slot = true
	}
	if f := b.blocked(c); f != nil { // waiting may have taken long
		b.finish(c, *f, outcomeFacts{})
		return
	}
	if !b.take(c) {
		return
	}
	if err := b.authorize(c); err != nil {
		b.notStarted(c)
		return
	}
	if c.refusal != nil {
		b.finish(c, *c.refusal, outcomeFacts{})
		return
	}
	b.execute(c, x.Now().Sub(began))
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
	return &Finished{Outcome: tool.Skipped, Error: &tool.Error{Reason: reason, Metadata: map[string]string{"call_id": string(p.id)},
		Message: fmt.Sprintf("not run: call %q before it ended %s, and %s", p.id, p.result.Outcome, why)}}
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

// notStarted ends a call whose wait to start was cut short; a drained one is
// left as it is, for whoever adopts the batch.
func (b *Batch) notStarted(c *call) {
	if b.leftToNext() {
		return
	}
	f := b.blocked(c)
	if f == nil {
		f = unstarted(stopGone)
	}
	b.finish(c, *f, outcomeFacts{})
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
// stop starting calls; then it fails with that cause. A call that is refused
// now has c.refusal set, its decision recorded.
func (b *Batch) authorize(c *call) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		entry, err := b.startEntry(c)
		if err == nil && entry == nil {
			return nil
		}
		var receipts []audit.Receipt
		if err == nil {
			receipts, err = b.x.Log.Intend(context.WithoutCancel(b.starting), entry)
		}
		if err == nil {
			c.receipt, c.marked = receipts[len(receipts)-1], len(entry.Starts) > 0
			return nil
		}
		b.x.Logger.Warn("call waits for the ledger", "batch_id", b.id, "call_id", c.id, "error", err)
		select {
		case <-b.starting.Done():
			return context.Cause(b.starting)
		case <-time.After(wait):
		}
	}
}

// startEntry is what must be on record before the call runs; nil when it is
// already.
func (b *Batch) startEntry(c *call) (*audit.Entry, error) {
	e := &audit.Entry{Stream: b.stream}
	if b.req.Session != "" {
		s, err := b.x.Sessions.Get(context.WithoutCancel(b.starting), b.caller, b.req.Session)
		switch {
		case errors.Is(err, session.ErrClosed) || errors.Is(err, session.ErrNotFound):
			c.refusal = unstarted(stopSession)
			return nil, nil
		case err != nil:
			return nil, err
		case s.Epoch != c.decision.SessionEpoch:
			b.decideAgain(c, s)
			e.Decisions = append(e.Decisions, c.decision)
			e.Events = append(e.Events, b.event(c, Decided{Decision: c.decision, Effects: c.action.Effects}))
		}
	}
	if c.refusal == nil && (c.class != tool.ReadOnly || c.again) && !c.marked {
		c.attempt++ // a try that failed may have left its mark
		start := b.startMark(c)
		if len(e.Decisions) > 0 {
			start.On, start.Decision = audit.Receipt{}, c.decision.ID
		}
		e.Starts = append(e.Starts, start)
		e.Events = append(e.Events, b.event(c, Started{Executor: builtin, Attempt: c.attempt, Fence: c.fence, Queue: b.x.Now().Sub(b.acceptedAt)}))
	}
	if len(e.Decisions)+len(e.Starts) == 0 {
		return nil, nil
	}
	return e, nil
}

// decideAgain judges a call in the session as it is now.
func (b *Batch) decideAgain(c *call, now session.Session) {
	began := b.x.Now()
	d := b.x.Policy.Decide(policy.Input{Caller: b.caller, SessionMode: policy.Mode(now.Mode), Tool: c.spec.Name, Class: c.class,
		Effects: c.action.Effects, Commands: c.action.Commands, Findings: c.action.Findings, Isolated: b.x.Isolation})
	b.recordDecision(c, d, b.x.Now().Sub(began))
	c.decision.SessionEpoch = now.Epoch
	if d.Verdict != policy.Allow {
		c.refusal = refusal(b.req.Ask, c.req.Tool, d)
	}
	b.x.metrics.decided(d)
}

// execute runs a call that may run, and records how it ended. A tool that
// panics, hangs or floods harms its own call only.
func (b *Batch) execute(c *call, queued time.Duration) {
	x := b.x
	parent := b.writing
	if c.class == tool.ReadOnly {
		parent = b.reading
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	ctx, stopTimer := context.WithTimeoutCause(ctx, c.timeout, stopTimeout)
	defer stopTimer()
	rt, err := newRuntime(b, c)
	if err != nil {
		b.finish(c, Finished{Outcome: tool.Failed, Error: &tool.Error{Reason: "STORAGE_UNAVAILABLE", Message: err.Error(), Retryable: true}}, outcomeFacts{queued: queued})
		return
	}
	b.mu.Lock()
	c.running, c.runSince = cancel, x.Now()
	if c.stop != nil {
		cancel(c.stop)
	}
	b.mu.Unlock()
	x.metrics.started(c.class)
	type end struct {
		result tool.Result
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		r, err := guard(ctx, c, b.id, rt)
		ended <- end{r, err}
	}()
	var e end
	hung := false
	select {
	case e = <-ended:
	case <-ctx.Done():
		timer := time.NewTimer(x.Limits.ToolGrace)
		select {
		case e = <-ended:
		case <-timer.C:
			hung = true
		}
		timer.Stop()
	}
	b.mu.Lock()
	c.running = nil
	b.mu.Unlock()
	took := x.Now().Sub(c.runSince)
	x.metrics.finishedRun(c.class)
	f := b.ended(ctx, c, e.result, e.err, hung)
	if f == nil { // drained read: the adopter runs it again
		rt.discard()
		return
	}
	f.Usage.Queue, f.Usage.Run = queued, took
	facts := outcomeFacts{queued: queued, ran: took, attempt: max(c.attempt, 1)}
	rt.fit(f, e.result, &facts)
	b.finish(c, *f, facts)
}

// guard turns a panic of the tool into its error.
func guard(ctx context.Context, c *call, batch tool.BatchID, rt tool.Runtime) (r tool.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = tool.Result{}, &panicked{p, debug.Stack()}
		}
	}()
	return run(ctx, c.receipt, batch, c, rt)
}

type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("the tool panicked: %v", p.value) }

// run is the one place where an action is done. Without a receipt that permits
// exactly this call with exactly these arguments it does nothing but panic: that
// is our own bug, and better loud.
func run(ctx context.Context, r audit.Receipt, batch tool.BatchID, c *call, rt tool.Runtime) (tool.Result, error) {
	if !r.Permits(batch, c.id, c.digest) {
		panic(fmt.Sprintf("exec: call %s/%s has no receipt that permits it", batch, c.id))
	}
	return c.action.Do(ctx, rt)
}

// ended says how a run ended; nil when the call is left to the batch's next
// owner.
func (b *Batch) ended(ctx context.Context, c *call, r tool.Result, err error, hung bool) *Finished {
	f := &Finished{Outcome: tool.Succeeded, Attachments: r.Attachments, Hints: r.Hints, Error: r.Error, Exit: r.Exit, Metadata: r.Metadata, Changes: r.Changes,
		Usage: Usage{CPU: r.Usage.CPU, MaxRSSBytes: r.Usage.MaxRSSBytes}}
	if r.Outcome != tool.OutcomeUnspecified {
		f.Outcome = r.Outcome
	}
	fail := func(o tool.Outcome, reason, format string, args ...any) *Finished {
		f.Outcome, f.Error = o, &tool.Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
		return f
	}
	cause := context.Cause(ctx)
	if hung && c.class != tool.ReadOnly {
		return fail(tool.Unknown, "TOOL_HUNG", "%s, and the tool did not stop within %v: what it did is not known", cause, b.x.Limits.ToolGrace)
	}
	if hung || err != nil && cause != nil {
		return b.stopped(c, f, asStop(cause))
	}
	var ae *tool.ArgumentError
	var fe *tool.Failure
	var pe *panicked
	switch {
	case err == nil:
		if f.Outcome != tool.Succeeded && f.Error == nil {
			f.Error = &tool.Error{Reason: tool.ReasonToolError, Message: "the tool reported a failure"}
		}
		return f
	case errors.As(err, &ae):
		f.Hints = append(f.Hints, ae.Hints...)
		f.Outcome, f.Error = tool.Invalid, &tool.Error{Reason: ae.Reason, Message: ae.Error(), Violations: ae.Violations}
		return f
	case errors.As(err, &fe):
		f.Hints = append(f.Hints, fe.Hints...)
		f.Outcome, f.Error = tool.Failed, &tool.Error{Reason: fe.Reason, Message: fe.Message, Retryable: fe.Retryable}
		return f
	case errors.Is(err, tool.ErrOutputCapped):
		return fail(tool.Failed, tool.ReasonOutputCapped, "the output passed %d bytes, which is the limit, and the tool was stopped", b.x.Limits.CaptureBytes)
	case errors.As(err, &pe):
		b.x.Logger.Error("tool panicked", "batch_id", b.id, "call_id", c.id, "tool", c.spec.Name, "panic", pe.value, "stack", string(pe.stack))
		return fail(tool.Failed, "TOOL_PANIC", "%v; this is a bug of the tool, and the daemon's log has the details", pe)
	default:
		return fail(tool.Failed, tool.ReasonToolError, "%v", err)
	}
}

// stopped is the result of a call that we stopped while it ran.
func (b *Batch) stopped(c *call, f *Finished, s *stop) *Finished {
	read := c.class == tool.ReadOnly
	switch {
	case s == stopTimeout:
		f.Outcome = tool.TimedOut
	case s == stopDrain && read:
		return nil
	case read:
		f.Outcome = tool.Cancelled
	case s == stopDeadline:
		f.Outcome = tool.TimedOut
	default:
		f.Outcome = tool.Interrupted
	}
	f.Error = &tool.Error{Reason: s.reason, Message: s.message + ", and the call was stopped", Retryable: read}
	if s == stopTimeout {
		f.Error.Message = fmt.Sprintf("the call was stopped after %v, its time limit", c.timeout)
	}
	if !read {
		f.Error.Message += "; what it had changed by then stays"
	}
	return f
}
