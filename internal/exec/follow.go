package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
)

// FollowOptions choose what a follower gets beside the numbered events.
type FollowOptions struct{ Chunks, Progress bool }

// Item is one event for a follower.
type Item struct {
	Seq  int64 // 0 = live only
	Wire []byte
}

// ErrDraining ends a follower of a batch that is not over but that this replica
// has stopped: attach elsewhere. A Draining item came before, while calls still
// ran here.
var ErrDraining = errors.New("draining")

// Follower reads the events of a batch: every numbered one after a given
// number, in order, and live output as far as it keeps up. It is for one
// goroutine.
type Follower struct {
	b       *Batch
	options FollowOptions
	last    int64 // number of the last event given
	told    bool  // that the replica drains
	page    []audit.Numbered

	// Under b.mu.
	queue []live
	bytes int
	gaps  map[gapKey]*live
}

type gapKey struct {
	call    int
	channel tool.Channel
}

// live is a live event in a follower's queue.
type live struct {
	after int64 // numbered events up to this one come first
	event Event
}

// Follow starts reading after an event number; 0 reads from the start. Close it.
func (b *Batch) Follow(ctx context.Context, after int64, o FollowOptions) (*Follower, error) {
	f := &Follower{b: b, options: o, last: after, gaps: make(map[gapKey]*live)}
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.lastSeq()
	if after > last {
		return nil, &Error{
			Kind: KindRange, Reason: "SEQ_AHEAD", Field: "after_seq", Metadata: map[string]string{"last_seq": fmt.Sprint(last)},
			Message: fmt.Sprintf("after_seq is %d, but the batch's last event is %d", after, last),
		}
	}
	if !b.stored {
		b.followers[f] = struct{}{}
		if b.unread != nil {
			b.unread.Stop()
			b.unread = nil
		}
	}
	return f, nil
}

func (b *Batch) lastSeq() int64 {
	if n := len(b.events); n > 0 {
		return b.events[n-1].Seq
	}
	return 0
}

// LastSeq is the number of the batch's newest durable event.
func (f *Follower) LastSeq() int64 {
	f.b.mu.Lock()
	defer f.b.mu.Unlock()
	return f.b.lastSeq()
}

// Close stops following. A batch that nobody follows goes on as its disconnect
// policy says.
func (f *Follower) Close() {
	b := f.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.followers[f]; !ok {
		return
	}
	delete(b.followers, f)
	b.watchUnread()
	if len(b.followers) == 0 && b.req.Disconnect == CancelUnread && !b.over && !b.draining {
		go b.cancel(stopGone, false)
	}
}

// Next gives the next event. It ends with io.EOF after the summary, with
// ErrDraining after the news that the replica drains, or with ctx's error.
func (f *Follower) Next(ctx context.Context) (Item, error) {
	if f.b.stored {
		return f.nextStored(ctx)
	}
	for {
		item, changed, err := f.take()
		if item.Wire != nil || err != nil {
			return item, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Item{}, ctx.Err()
		}
	}
}

// take gives what is there, or the channel that says when to look again.
func (f *Follower) take() (Item, <-chan struct{}, error) {
	b := f.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(f.queue) > 0 && f.queue[0].after <= f.last {
		l := f.queue[0]
		f.queue = f.queue[1:]
		if c, ok := l.event.Body.(Chunk); ok {
			f.bytes -= len(c.Data)
		} else if g, ok := l.event.Body.(Gap); ok {
			delete(f.gaps, gapKey{l.event.Index, g.Channel})
		}
		wire, _ := b.x.Codec.Encode(b.id, l.event, 0)
		return Item{Wire: wire}, nil, nil
	}
	if int(f.last) < len(b.events) {
		e := b.events[f.last]
		f.last = e.Seq
		return Item{Seq: e.Seq, Wire: e.Wire}, nil, nil
	}
	switch {
	case b.over:
		return Item{}, nil, io.EOF
	case b.broken != nil:
		return Item{}, nil, &Error{Kind: KindUnavailable, Reason: ReasonAuditUnavailable, Message: "the ledger was closed; attach later", Err: b.broken, RetryAfter: time.Second}
	case b.draining && !f.told:
		f.told = true
		wire, _ := b.x.Codec.Encode(b.id, b.stamp(nil, Draining{After: time.Second}), 0)
		return Item{Wire: wire}, nil, nil
	case b.left != 0 && b.gone: // what ran here has ended; another goes on
		return Item{}, nil, ErrDraining
	}
	return Item{}, b.changed, nil
}

// errElsewhere is about a batch that has not ended and that this process does not
// run, or not yet.
func errElsewhere() *Error {
	return &Error{Kind: KindUnavailable, Reason: ReasonAuditUnavailable, Message: "the batch has not ended, and nobody here runs it yet; attach later", RetryAfter: time.Second}
}

// pageBytes is how much of a stored batch is read at a time.
const pageBytes = 1 << 20

func (f *Follower) nextStored(ctx context.Context) (Item, error) {
	x := f.b.x
	if len(f.page) == 0 {
		page, err := x.reader.Events(ctx, f.b.id, f.last, pageBytes)
		if err != nil {
			return Item{}, notFound(err, "batch", string(f.b.id))
		}
		switch {
		case len(page) == 0 && f.b.open:
			return Item{}, errElsewhere()
		case len(page) == 0:
			return Item{}, io.EOF
		}
		if page[0].Seq != f.last+1 {
			return Item{}, &Error{
				Kind: KindRange, Reason: "EVENTS_EXPIRED", Metadata: map[string]string{"oldest_seq": fmt.Sprint(page[0].Seq)},
				Message: "the events after that number are no longer kept; use GetBatch",
			}
		}
		f.page = page
	}
	e := f.page[0]
	f.page = f.page[1:]
	wire, err := x.Codec.Restore(ctx, e.Wire, x.bodies(f.b.caller.Tenant))
	if err != nil {
		return Item{}, &Error{Kind: KindDataLoss, Reason: "ARTIFACT_CORRUPT", Message: "putting a stored result together", Err: err}
	}
	f.last = e.Seq
	return Item{Seq: e.Seq, Wire: wire}, nil
}

// publish shows a live event to those who want it. It never blocks: a follower
// whose queue is full gets a gap instead.
func (b *Batch) publish(c *call, body Body) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.followers) == 0 {
		return
	}
	chunk, isChunk := body.(Chunk)
	var e Event
	for f := range b.followers {
		if isChunk && !f.options.Chunks || !isChunk && !f.options.Progress {
			continue
		}
		if e.Body == nil {
			if isChunk {
				chunk.Data = append([]byte(nil), chunk.Data...) // the tool reuses its buffer
				body = chunk
			}
			e = b.stamp(c, body)
		}
		f.push(b, e, chunk, isChunk)
	}
	if e.Body != nil {
		b.announce()
	}
}

// push queues a live event, or widens the gap that stands for it. b.mu is held.
func (f *Follower) push(b *Batch, e Event, chunk Chunk, isChunk bool) {
	if !isChunk {
		if len(f.queue) < maxQueued {
			f.queue = append(f.queue, live{b.lastSeq(), e})
		}
		return
	}
	key := gapKey{e.Index, chunk.Channel}
	if g := f.gaps[key]; g != nil { // nothing of this channel may overtake its gap
		gap := g.event.Body.(Gap)
		gap.To = chunk.Offset + int64(len(chunk.Data))
		g.event.Body = gap
		f.replace(key, g)
		return
	}
	if f.bytes+len(chunk.Data) <= b.x.Limits.FollowerBytes && len(f.queue) < maxQueued {
		f.bytes += len(chunk.Data)
		f.queue = append(f.queue, live{b.lastSeq(), e})
		return
	}
	e.Body = Gap{Channel: chunk.Channel, From: chunk.Offset, To: chunk.Offset + int64(len(chunk.Data))}
	l := live{b.lastSeq(), e}
	f.gaps[key] = &l
	f.queue = append(f.queue, l)
}

// maxQueued bounds the live events that wait for one follower, gaps aside.
const maxQueued = 4096

// replace puts a widened gap where it stands in the queue.
func (f *Follower) replace(key gapKey, g *live) {
	for i := len(f.queue) - 1; i >= 0; i-- {
		if q, ok := f.queue[i].event.Body.(Gap); ok && f.queue[i].event.Index == key.call && q.Channel == key.channel {
			f.queue[i] = *g
			return
		}
	}
}

// watchUnread starts the grace of a batch that nobody follows. b.mu is held.
func (b *Batch) watchUnread() {
	if len(b.followers) > 0 || b.over || b.req.Disconnect == Detach || b.unread != nil {
		return
	}
	b.unread = time.AfterFunc(b.x.Limits.UnreadGrace, func() {
		b.mu.Lock()
		gone := len(b.followers) == 0 && !b.over
		b.mu.Unlock()
		if gone {
			b.cancelUnstarted(stopGone)
		}
	})
}
