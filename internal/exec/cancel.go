package exec

import (
	"context"
	"fmt"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
)

// Cancel ends a batch, or one call of it: what has not started and reads that
// run end CANCELLED; writes that run finish, or end INTERRUPTED by force. The
// wish is on record before it is carried out. What has ended stays as it is.
func (x *Executor) Cancel(ctx context.Context, caller tool.Caller, id tool.BatchID, callID tool.CallID, reason string, force bool) error {
	b, err := x.Attach(ctx, caller, Ref{Batch: id})
	if err != nil {
		return err
	}
	c := b.find(callID)
	if callID != "" && c == nil && !b.stored {
		return &Error{Kind: KindNotFound, Reason: "CALL_NOT_FOUND", Field: "call_id", Message: fmt.Sprintf("batch %s has no call %q", id, callID)}
	}
	if b.open {
		return errElsewhere()
	}
	if b.stored {
		return nil
	}
	subject := string(id)
	if callID != "" {
		subject += "/" + string(callID)
	}
	event := "BATCH_CANCELLED"
	if c != nil {
		event = "CALL_CANCELLED"
	}
	_, err = x.Log.Intend(ctx, &audit.Entry{Admin: []audit.AdminEvent{{
		At: cut(x.Now()), Tenant: caller.Tenant, Actor: caller.Principal.ID,
		Event: event, Subject: subject, Reason: reason, After: fmt.Sprintf(`{"force":%t}`, force),
	}}})
	if err != nil {
		return &Error{Kind: KindUnavailable, Reason: ReasonAuditUnavailable, Message: "the cancellation could not be recorded, so nothing was cancelled", Err: err}
	}
	why := &stop{"CANCEL_REQUESTED", "it was cancelled by " + caller.Principal.ID}
	if c != nil {
		b.cancelCall(c, why, force)
		return nil
	}
	b.cancel(why, force)
	return nil
}

// CancelSession cancels what has not started in the batches of a session.
func (x *Executor) CancelSession(id tool.SessionID) {
	x.mu.Lock()
	var of []*Batch
	for _, b := range x.batches {
		if b.req.Session == id {
			of = append(of, b)
		}
	}
	x.mu.Unlock()
	for _, b := range of {
		b.cancelUnstarted(stopSession)
	}
}

func (b *Batch) find(id tool.CallID) *call {
	for _, c := range b.calls {
		if c.id == id {
			return c
		}
	}
	return nil
}

func (b *Batch) cancel(why *stop, force bool) {
	b.cancelUnstarted(why)
	b.stopReading(why)
	if force {
		b.stopWriting(stopForce)
	}
}

func (b *Batch) cancelUnstarted(why *stop) {
	b.mu.Lock()
	b.cancelled = b.left > 0
	b.mu.Unlock()
	b.stopStarting(why)
}

// stopAll is for the deadline: nothing of the batch goes on.
func (b *Batch) stopAll(why *stop) {
	b.stopStarting(why)
	b.stopReading(why)
	b.stopWriting(why)
}

func (b *Batch) cancelCall(c *call, why *stop, force bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case c.result != nil:
	case !c.taken: // under one lock, so that it cannot start meanwhile
		b.finishNow(c, *unstarted(why), outcomeFacts{})
	case c.running == nil && (c.class == tool.ReadOnly || force):
		c.stop = why
	case c.running == nil:
	case c.class == tool.ReadOnly:
		c.running(why)
	case force:
		c.running(stopForce)
	}
}

// drain stops the batch in this process. What runs may go on until hard.
func (b *Batch) drain(hard bool) {
	b.mu.Lock()
	b.draining = true
	b.announce()
	b.mu.Unlock()
	b.stopStarting(stopDrain)
	if hard {
		b.stopReading(stopDrain)
		b.stopWriting(stopDrain)
	}
}
