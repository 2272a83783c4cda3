package exec

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
)

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
	// The tool gets copies: one that does not stop outlives the call.
	receipt, key, action := c.receipt, runKey{b.id, c.id, c.digest}, c.action
	go func() {
		r, err := guard(ctx, receipt, key, action, rt)
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
func guard(ctx context.Context, receipt audit.Receipt, key runKey, action tool.Action, rt tool.Runtime) (r tool.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = tool.Result{}, &panicked{p, debug.Stack()}
		}
	}()
	return run(ctx, receipt, key, action, rt)
}

type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("the tool panicked: %v", p.value) }

// run is the one place where an action is done. Without a receipt that permits
// exactly this call with exactly these arguments it does nothing but panic: that
// is our own bug, and better loud.
func run(ctx context.Context, r audit.Receipt, key runKey, action tool.Action, rt tool.Runtime) (tool.Result, error) {
	if !r.Permits(key.batch, key.call, key.args) {
		panic(fmt.Sprintf("exec: call %s/%s has no receipt that permits it", key.batch, key.call))
	}
	return action.Do(ctx, rt)
}

// runKey is which call it is, with which arguments.
type runKey struct {
	batch tool.BatchID
	call  tool.CallID
	args  audit.Digest
}

// ended says how a run ended; nil when the call is left to the batch's next
// owner.
func (b *Batch) ended(ctx context.Context, c *call, r tool.Result, err error, hung bool) *Finished {
	f := &Finished{
		Outcome: tool.Succeeded, Attachments: r.Attachments, Hints: r.Hints, Error: r.Error, Exit: r.Exit, Metadata: r.Metadata, Changes: r.Changes,
		Usage: Usage{CPU: r.Usage.CPU, MaxRSSBytes: r.Usage.MaxRSSBytes},
	}
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
