package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/tool"
	pb "github.com/toold/toold/proto/toold/v1"
)

const (
	// maxChunk bounds the live output in one message.
	maxChunk = 32 << 10
	// maxRepeated bounds the results that a summary repeats.
	maxRepeated = 1 << 20
)

// view is one client's stream of one batch.
type view struct {
	s        *Server
	caller   tool.Caller
	batch    *exec.Batch
	stream   grpc.ServerStream
	options  *pb.StreamOptions
	attached bool // say so in `accepted`
}

// serve sends the batch's events after a number, until the summary, the
// client's leave, or the daemon's.
//
// The sending is done by a goroutine of its own, because a Send that waits for a
// client that does not read can only be ended by leaving the handler.
func (v *view) serve(ctx context.Context, after int64) error {
	follower, err := v.batch.Follow(ctx, after, exec.FollowOptions{
		Chunks: v.options.GetOutputChunks(), Progress: v.options.GetProgress(),
	})
	if err != nil {
		return err
	}
	v.s.measures.opened(v.attached)
	defer v.s.measures.closed(v.attached)
	guard := newStall(v.s.sendTimeout)
	ended := make(chan error, 1)
	v.s.streams.Add(1)
	go func() {
		defer v.s.streams.Done()
		defer follower.Close()
		defer func() {
			if p := recover(); p != nil {
				ended <- recovered(ctx, v.s.log, p)
			}
		}()
		ended <- v.pump(ctx, follower, guard)
	}()
	select {
	case err := <-ended:
		return err
	case <-guard.stalled:
		v.s.measures.slow()
		return &exec.Error{
			Kind: exec.KindUnavailable, Reason: reasonSlowConsumer, RetryAfter: time.Second,
			Message: fmt.Sprintf("the stream was not read for %s; attach after the last number seen", v.s.sendTimeout),
		}
	}
}

// pump sends what the follower gives, and heartbeats when it gives nothing.
func (v *view) pump(ctx context.Context, follower *exec.Follower, guard *stall) error {
	every := heartbeatOf(v.options.GetHeartbeatInterval(), v.s.heartbeat)
	sent, wait := time.Now(), every
	for {
		err := v.relay(ctx, wait, follower, guard, &sent)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, exec.ErrDraining):
			return &exec.Error{
				Kind: exec.KindUnavailable, Reason: reasonDraining, RetryAfter: time.Second,
				Message: "this replica is shutting down; attach after the last number seen",
			}
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return err
		}
		if wait = every - time.Since(sent); wait <= 0 {
			if err := v.send(marshal(v.heartbeat(follower.LastSeq())), guard); err != nil {
				return err
			}
			sent, wait = time.Now(), every
		}
	}
}

// relay forwards events for a while, noting when it did last. One timer serves
// all of them: only pump looks at how long the stream has been quiet.
func (v *view) relay(ctx context.Context, wait time.Duration, follower *exec.Follower, guard *stall, sent *time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		item, err := follower.Next(ctx)
		if err != nil {
			return err
		}
		if err := v.forward(ctx, item, guard); err != nil {
			return err
		}
		*sent = time.Now()
	}
}

func (v *view) heartbeat(last int64) *pb.BatchEvent {
	return &pb.BatchEvent{
		BatchId: string(v.batch.ID()), Time: timestamppb.Now(),
		Event: &pb.BatchEvent_Heartbeat{Heartbeat: &pb.Heartbeat{LastSeq: last}},
	}
}

// forward sends an event as it is, unless this stream's options ask for another
// form of it.
func (v *view) forward(ctx context.Context, item exec.Item, guard *stall) error {
	var other bool
	switch item.Seq {
	case 0:
		other = len(item.Wire) > maxChunk
	case 1:
		other = v.attached
	default:
		other = v.brief() || v.options.GetResultsInSummary()
	}
	if !other {
		return v.send(item.Wire, guard)
	}
	var event pb.BatchEvent
	if err := proto.Unmarshal(item.Wire, &event); err != nil {
		return fmt.Errorf("decoding event %d of batch %s: %w", item.Seq, v.batch.ID(), err)
	}
	switch e := event.GetEvent().(type) {
	case *pb.BatchEvent_Accepted:
		e.Accepted.Attached = true
	case *pb.BatchEvent_Result:
		if v.brief() {
			dropContent(e.Result)
		}
	case *pb.BatchEvent_Summary:
		if v.options.GetResultsInSummary() {
			if err := v.repeatResults(ctx, e.Summary); err != nil {
				return err
			}
		}
	case *pb.BatchEvent_Chunk:
		return v.sendChunk(&event, e.Chunk, guard)
	}
	return v.send(marshal(&event), guard)
}

func (v *view) brief() bool {
	return v.options.GetResultDetail() == pb.ResultDetail_RESULT_DETAIL_OUTCOME_ONLY
}

// sendChunk sends live output in pieces of at most maxChunk.
func (v *view) sendChunk(event *pb.BatchEvent, chunk *pb.OutputChunk, guard *stall) error {
	for data := chunk.GetData(); len(data) > 0; {
		n := min(len(data), maxChunk)
		chunk.Data = data[:n]
		if err := v.send(marshal(event), guard); err != nil {
			return err
		}
		chunk.Offset += int64(n)
		data = data[n:]
	}
	return nil
}

// repeatResults puts the results into the summary, in call order, leaving out
// those that would make it larger than maxRepeated.
func (v *view) repeatResults(ctx context.Context, s *pb.BatchSummary) error {
	_, events, err := v.s.Executor.Snapshot(ctx, v.caller, exec.Ref{Batch: v.batch.ID()})
	if err != nil {
		return err
	}
	results := make(map[string]*pb.CallResult, len(s.GetCalls()))
	for _, e := range events {
		if f, ok := e.Body.(exec.Finished); ok {
			results[string(e.Call)] = resultToProto(f)
		}
	}
	left := maxRepeated
	for _, c := range s.GetCalls() {
		r := results[c.GetCallId()]
		if r == nil {
			continue
		}
		if v.brief() {
			dropContent(r)
		}
		if size := proto.Size(r); size <= left {
			c.Result, left = r, left-size
		}
	}
	return nil
}

func (v *view) send(event []byte, guard *stall) error {
	guard.start()
	err := v.stream.SendMsg(&frame{event})
	guard.stop()
	return err
}

// dropContent leaves of a result what RESULT_DETAIL_OUTCOME_ONLY promises:
// everything but inline content.
func dropContent(r *pb.CallResult) {
	for _, o := range append([]*pb.ToolOutput{r.GetOutput()}, r.GetAttachments()...) {
		switch o := o.GetOutput().(type) {
		case *pb.ToolOutput_Text:
			o.Text.Text = ""
		case *pb.ToolOutput_Structured:
			o.Structured.Json, o.Structured.TextRendering = "", ""
		case *pb.ToolOutput_Binary:
			o.Binary.Data = nil
		case *pb.ToolOutput_Truncated:
			o.Truncated.Visible = ""
		}
	}
}

// stall notices a Send that blocks for longer than a limit.
type stall struct {
	stalled chan struct{} // closed then
	limit   time.Duration
	timer   *time.Timer
}

func newStall(limit time.Duration) *stall {
	g := &stall{stalled: make(chan struct{}), limit: limit}
	g.timer = time.AfterFunc(limit, sync.OnceFunc(func() { close(g.stalled) }))
	g.timer.Stop()
	return g
}

func (g *stall) start() { g.timer.Reset(g.limit) }
func (g *stall) stop()  { g.timer.Stop() }
