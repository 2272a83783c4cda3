package exec

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/session"
	"github.com/toold/toold/internal/tool"
)

// storedBatch is a batch that ended before this process, or is open and not
// adopted: its events are read from the store as they are wanted.
func (x *Executor) storedBatch(row audit.LiveBatch) *Batch {
	return &Batch{
		x: x, id: row.ID, caller: tool.Caller{Tenant: row.Tenant, Principal: tool.Principal{ID: row.Principal}},
		req: Request{ID: row.RequestID}, stored: true, open: row.EndedAt.IsZero(), over: true, events: []audit.Numbered{{Seq: row.LastSeq}},
	}
}

// Snapshot gives a batch's live row and every numbered event so far, decoded
// and whole: the state of a batch is a fold over them.
func (x *Executor) Snapshot(ctx context.Context, caller tool.Caller, ref Ref) (audit.LiveBatch, []Event, error) {
	b, err := x.Attach(ctx, caller, ref)
	if err != nil {
		return audit.LiveBatch{}, nil, err
	}
	row, err := x.row(ctx, caller, b.id)
	if err != nil {
		return row, nil, err
	}
	events, err := x.storedEvents(ctx, caller.Tenant, b.id)
	return row, events, err
}

// storedEvents reads and decodes every event of a batch.
func (x *Executor) storedEvents(ctx context.Context, tenant string, id tool.BatchID) ([]Event, error) {
	var out []Event
	for after := int64(0); ; {
		page, err := x.reader.Events(ctx, id, after, pageBytes)
		if err != nil {
			return nil, notFound(err, "batch", string(id))
		}
		if len(page) == 0 {
			return out, nil
		}
		for _, n := range page {
			e, err := x.decode(ctx, tenant, n)
			if err != nil {
				return nil, err
			}
			out = append(out, e)
			after = n.Seq
		}
	}
}

func (x *Executor) decode(ctx context.Context, tenant string, n audit.Numbered) (Event, error) {
	wire, err := x.Codec.Restore(ctx, n.Wire, x.bodies(tenant))
	if err != nil {
		return Event{}, &Error{Kind: KindDataLoss, Reason: "ARTIFACT_CORRUPT", Message: "putting a stored result together", Err: err}
	}
	e, err := x.Codec.Decode(wire)
	if err != nil {
		return Event{}, fmt.Errorf("decoding event %d: %w", n.Seq, err)
	}
	e.Seq = n.Seq
	return e, nil
}

// Recover adopts what an earlier process left unfinished: ended calls keep
// their outcome, a non-read that had started ends UNKNOWN and is never run
// again, a read without a second start mark runs once more, and what had not
// started is decided again and goes on. Call it before serving; it returns once
// every batch is adopted, not once they have ended. One that cannot be read back
// stays as it is.
func (x *Executor) Recover(ctx context.Context) error {
	rows, err := x.reader.Unfinished(ctx)
	if err != nil {
		return fmt.Errorf("looking for unfinished batches: %w", err)
	}
	for _, row := range rows {
		if err := x.Adopt(ctx, row); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("adopting batch %s: %w", row.ID, err)
			}
			// What cannot be read back (a lost artifact, a newer daemon's request) must
			// not keep all others from being served.
			x.Logger.Error("a batch cannot be adopted and stays open", "batch_id", row.ID, "error", err)
		}
	}
	return nil
}

// Orphaned adopts a batch whose acceptance turned out to be durable after its
// caller had been told that this was in doubt.
//
// It returns at once: the log's writer calls it.
func (x *Executor) Orphaned(id tool.BatchID) {
	go func() {
		ctx := context.Background()
		rows, err := x.reader.Unfinished(ctx)
		for _, row := range rows {
			if row.ID == id {
				err = x.Adopt(ctx, row)
			}
		}
		if err != nil {
			x.Logger.Error("orphaned batch left to the next start", "batch_id", id, "error", err)
		}
	}()
}

// Adopt takes over one unfinished batch that no process runs.
func (x *Executor) Adopt(ctx context.Context, row audit.LiveBatch) error {
	caller, req, err := x.Codec.Request(row.Request)
	if err != nil {
		return fmt.Errorf("reading its request: %w", err)
	}
	caller.Tenant = row.Tenant
	var s session.Session
	closed := false
	if req.Session != "" {
		s, err = x.Sessions.Get(ctx, caller, req.Session)
		if closed = errors.Is(err, session.ErrClosed) || errors.Is(err, session.ErrNotFound); err != nil && !closed {
			return fmt.Errorf("looking up its session: %w", err)
		}
	}
	b, err := x.newBatch(caller, req, s)
	if err != nil {
		return err
	}
	b.id, b.acceptedAt, b.deadline = row.ID, row.AcceptedAt, row.Deadline
	if err := b.restore(ctx); err != nil {
		return err
	}
	if closed {
		b.stopStarting(stopSession) // what has not started never will
	}
	again := b.decideOpen(ctx)
	x.mu.Lock()
	x.batches[b.id] = b
	c := &claim{done: make(chan struct{}), batch: b}
	close(c.done)
	x.requests[requestKey{caller.Tenant, caller.Principal.ID, row.RequestID}] = c
	x.running++
	x.wg.Add(1)
	x.mu.Unlock()
	x.Logger.Info("batch adopted", "batch_id", b.id, "calls", len(b.calls))
	go b.goOn(again)
	return nil
}

// restore brings a batch to where its durable events and rows say it was.
func (b *Batch) restore(ctx context.Context) error {
	x := b.x
	var numbered []audit.Numbered
	for after := int64(0); ; {
		page, err := x.reader.Events(ctx, b.id, after, math.MaxInt32)
		if err != nil {
			return fmt.Errorf("reading its events: %w", err)
		}
		if len(page) == 0 {
			break
		}
		numbered = append(numbered, page...)
		after = page[len(page)-1].Seq
	}
	b.init(int64(len(numbered)))
	trail, err := x.reader.Trail(ctx, b.id)
	if err != nil {
		return fmt.Errorf("reading its trail: %w", err)
	}
	byID := make(map[tool.CallID]*call, len(b.calls))
	for _, c := range b.calls {
		byID[c.id] = c
	}
	for _, d := range trail.Decisions {
		if c := byID[d.Call]; c != nil && d.No > c.decision.No {
			c.decision, c.class = d, d.Class
		}
	}
	for _, s := range trail.Starts {
		if c := byID[s.Call]; c != nil {
			c.attempt = max(c.attempt, s.Attempt)
		}
	}
	for _, n := range numbered {
		wire, err := x.Codec.Restore(ctx, n.Wire, x.bodies(b.caller.Tenant))
		if err != nil {
			return fmt.Errorf("putting event %d together: %w", n.Seq, err)
		}
		b.events = append(b.events, audit.Numbered{Seq: n.Seq, Wire: wire})
		e, err := x.Codec.Decode(wire)
		if err != nil {
			return fmt.Errorf("decoding event %d: %w", n.Seq, err)
		}
		if f, ok := e.Body.(Finished); ok && e.Index >= 0 && e.Index < len(b.calls) {
			b.calls[e.Index].restored(b, f, n.Seq)
			b.nextDue = max(b.nextDue, e.Index+1)
		}
	}
	for _, h := range trail.Held {
		e, err := x.decode(ctx, b.caller.Tenant, audit.Numbered{Wire: h.Body})
		if err != nil {
			return err
		}
		if f, ok := e.Body.(Finished); ok && h.Index < len(b.calls) && b.calls[h.Index].result == nil {
			b.calls[h.Index].restored(b, f, 0)
		}
	}
	return nil
}

func (c *call) restored(b *Batch, f Finished, seq int64) {
	c.result, c.seq = &f, seq
	c.hints = nil
	b.left--
	b.used.OutputBytes += f.Usage.OutputBytes
}

// decideOpen decides again what has not started, and closes what a crash cut off:
// those calls get their outcome as a refusal. Nobody else knows the batch yet. It
// gives what must be recorded before the rest goes on.
func (b *Batch) decideOpen(ctx context.Context) *audit.Entry {
	again := &audit.Entry{Stream: b.stream}
	for _, c := range b.calls {
		if c.result != nil {
			continue
		}
		if c.attempt > 0 && (c.class != tool.ReadOnly || c.attempt > 1) {
			c.refusal = &Finished{Outcome: tool.Unknown, Error: &tool.Error{
				Reason:  "REPLICA_CRASHED",
				Message: "the daemon stopped while this call ran; what it did is not known, and it is not run again: look at the state first",
			}}
			continue
		}
		b.x.decide(ctx, b, c)
		if c.class == tool.ReadOnly {
			c.attempt, c.again = 1, true // it may have run: the next run is marked as the second
		}
		again.Decisions = append(again.Decisions, c.decision)
		again.Events = append(again.Events, b.event(c, Decided{Decision: c.decision, Effects: c.action.Effects}))
	}
	b.plan()
	return again
}

// intendAgain records the decisions of an adopted batch, waiting for a ledger
// that is away.
func (b *Batch) intendAgain(again *audit.Entry) ([]audit.Receipt, error) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		e := *again
		e.Decisions, e.Events = slices.Clone(again.Decisions), slices.Clone(again.Events)
		receipts, err := b.x.Log.Intend(context.Background(), &e)
		if err == nil || !errors.Is(err, audit.ErrUnavailable) || errors.Is(err, audit.ErrInDoubt) {
			return receipts, err
		}
		select {
		case <-b.starting.Done():
			return nil, err
		case <-time.After(wait):
		}
	}
}

// goOn records the decisions made again, then drives what is left.
func (b *Batch) goOn(again *audit.Entry) {
	if len(again.Decisions) > 0 {
		receipts, err := b.intendAgain(again)
		if err != nil { // leave the batch to the next start
			b.mu.Lock()
			b.broken = err
			b.mu.Unlock()
			b.x.Logger.Error("adopted batch left as it is", "batch_id", b.id, "error", err)
		}
		i := 0
		for _, c := range b.calls {
			if i < len(receipts) && again.Decisions[i].Call == c.id {
				c.receipt = receipts[i]
				i++
			}
		}
	}
	for _, c := range b.calls {
		if c.refusal != nil {
			facts := outcomeFacts{recovered: true}
			if c.refusal.Outcome == tool.Unknown {
				facts.attempt = c.attempt
			}
			b.finish(c, *c.refusal, facts)
		}
	}
	b.mu.Lock()
	if b.left == 0 && b.out == nil && !b.flushing { // everything had ended but the end was not recorded
		b.out = &audit.Entry{Stream: b.stream}
		b.addSummary(b.out)
		b.settleSoon()
	}
	b.mu.Unlock()
	b.begin()
}
