package exec

import (
	"context"
	"time"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
)

// outcomeFacts is what the ledger keeps of a run beside its result.
type outcomeFacts struct {
	attempt      int // 0 = never started
	queued, ran  time.Duration
	outputSHA256 audit.Digest // of the whole output
	keptTokens   int64
	artifacts    []audit.ArtifactEvent
	recovered    bool
}

// finish records a call's outcome and gives its event when it is due. It does
// not wait for the commit: results of one batch that end together share one.
func (b *Batch) finish(c *call, f Finished, facts outcomeFacts) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finishNow(c, f, facts)
}

// finishNow is finish with b.mu held.
func (b *Batch) finishNow(c *call, f Finished, facts outcomeFacts) {
	if c.result != nil {
		return
	}
	b.x.metrics.finished(c, &f, facts)
	if b.out == nil {
		b.out = &audit.Entry{Stream: b.stream}
	}
	b.addOutcome(b.out, c, f, facts)
	b.settleSoon()
}

// addOutcome puts an outcome, and the events that are due with it, into an
// entry. b.mu is held.
func (b *Batch) addOutcome(e *audit.Entry, c *call, f Finished, facts outcomeFacts) {
	f.Hints = boundHints(append(c.hints, f.Hints...))
	c.result = &f
	b.left--
	b.used.OutputBytes += f.Usage.OutputBytes
	b.used.UsedTokens += facts.keptTokens
	e.Outcomes = append(e.Outcomes, b.outcomeRow(c, &f, facts))
	e.Artifacts = append(e.Artifacts, facts.artifacts...)
	if b.req.Order == CallOrder {
		b.giveInOrder(e, c)
	} else {
		e.Events = append(e.Events, b.resultEvent(c))
	}
	if b.left == 0 {
		b.addSummary(e)
	}
}

// giveInOrder gives the events of all results whose turn it is, and holds the
// one just made if its turn has not come.
func (b *Batch) giveInOrder(e *audit.Entry, c *call) {
	if c.index != b.nextDue {
		ev := b.resultEvent(c)
		body := ev.Stored
		if body == nil {
			body = ev.Wire
		}
		e.Held = append(e.Held, audit.Held{Index: c.index, Body: body})
		return
	}
	for b.nextDue < len(b.calls) && b.calls[b.nextDue].result != nil {
		e.Events = append(e.Events, b.resultEvent(b.calls[b.nextDue]))
		b.nextDue++
	}
}

func (b *Batch) resultEvent(c *call) audit.Event {
	ev := b.event(c, *c.result)
	ev.NumberedAs = func(seq int64) { c.seq = seq }
	return ev
}

// addSummary ends the batch. The summary names the numbers of the results, so it
// is built when those before it have theirs.
func (b *Batch) addSummary(e *audit.Entry) {
	e.End = "COMPLETED"
	if b.cancelled {
		e.End = "CANCELLED"
	}
	b.used.Wall = b.x.Now().Sub(b.acceptedAt)
	b.used.BudgetTokens = int64(b.share.Total)
	s := Summary{State: e.End, Usage: b.used, Calls: make([]Ended, len(b.calls))}
	for i, c := range b.calls {
		s.Calls[i] = Ended{Call: c.id, Outcome: c.result.Outcome}
	}
	e.Events = append(e.Events, audit.Event{Build: func() (wire, stored []byte) {
		for i, c := range b.calls {
			s.Calls[i].Seq = c.seq
		}
		return b.x.Codec.Encode(b.id, b.stamp(nil, s), b.x.Limits.StoredBytes)
	}})
}

// settleSoon makes sure that somebody settles b.out. b.mu is held.
func (b *Batch) settleSoon() {
	if b.flushing || b.broken != nil {
		return
	}
	b.flushing = true
	go b.settle()
}

// settled waits until all that has ended is on record.
func (b *Batch) settled() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for (b.flushing || b.out != nil) && b.broken == nil {
		changed := b.changed
		b.mu.Unlock()
		<-changed
		b.mu.Lock()
	}
}

// settle records what has ended until nothing is left to record.
func (b *Batch) settle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.out != nil && b.broken == nil {
		e := b.out
		b.out = nil
		b.mu.Unlock()
		err := b.x.Log.Settle(context.Background(), e)
		b.mu.Lock()
		if err != nil {
			// Only a closed log, or our own bug, gets here. What ended is found
			// without an outcome by the next start, and closed as unknown.
			b.broken = err
			b.x.Logger.Error("outcomes could not be recorded", "batch_id", b.id, "error", err)
		}
		if e.End != "" && err == nil {
			b.over = true
			b.stopStarting(nil) // a cancelled call may still wait for its turn
		}
	}
	b.flushing = false
	b.announce()
}

func (b *Batch) outcomeRow(c *call, f *Finished, facts outcomeFacts) audit.Outcome {
	o := audit.Outcome{
		FinishedAt: cut(b.x.Now()), Batch: b.id, Call: c.id, Attempt: facts.attempt, Tenant: b.caller.Tenant, Tool: ledgerName(c.req.Tool),
		Tier: "HOT", Class: c.class, Outcome: f.Outcome, Queue: facts.queued, Run: facts.ran,
		OutputBytes: f.Usage.OutputBytes, OutputSHA256: facts.outputSHA256, OutputTokens: f.Usage.OutputTokens, KeptTokens: facts.keptTokens,
	}
	if f.Error != nil {
		o.ErrorReason, o.ErrorDomain = f.Error.Reason, "toold"
	}
	if f.Exit != nil {
		o.ExitCode, o.ExitSignal = &f.Exit.Code, f.Exit.Signal
	}
	o.OutputKind, o.Truncated = kindOf(f.Output)
	for _, a := range facts.artifacts {
		o.ArtifactIDs = append(o.ArtifactIDs, a.Artifact)
	}
	if facts.recovered {
		o.RecoveredBy = b.x.Replica
	}
	return o
}

// kindOf names an output's kind as SQL has it.
func kindOf(out tool.Output) (kind string, truncated bool) {
	switch v := out.(type) {
	case tool.Text, tool.Captured:
		return "TEXT", false
	case tool.Structured:
		return "STRUCTURED", false
	case tool.Binary:
		return "BINARY", false
	case tool.Truncated:
		return map[tool.OutputKind]string{tool.KindText: "TEXT", tool.KindStructured: "STRUCTURED", tool.KindBinary: "BINARY"}[v.Kind], true
	default:
		return "", false
	}
}

// boundHints keeps the hints of one call under tool.MaxHints bytes, the first
// ones first.
func boundHints(hints []tool.Hint) []tool.Hint {
	total := 0
	for i, h := range hints {
		total += len(h.Message) + len(h.Suggestion) + len(h.Code)
		if total > tool.MaxHints {
			return hints[:i]
		}
	}
	return hints
}
