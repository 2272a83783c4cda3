package exec_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/tool"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

// crash drops the executor as kill -9 would: nothing that it knew is written,
// and what its tools do from here on goes nowhere.
func (w *world) crash() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = w.log.Close(ctx)
	_ = w.store.Close()
}

func TestAfterACrash(t *testing.T) {
	g := newGate()
	t.Cleanup(g.open)
	var writes, reads, later atomic.Int32
	blocked := atomic.Bool{}
	blocked.Store(true)
	wait := func(n *atomic.Int32) act {
		return func(ctx context.Context, rt tool.Runtime) (tool.Result, error) {
			n.Add(1)
			if blocked.Load() {
				return g.act(ctx, rt)
			}
			return tool.Result{Output: tool.Text{Text: "again"}}, nil
		}
	}
	w := newWorld(t, newProbe("write", tool.Write, wait(&writes)), newProbe("read", tool.ReadOnly, wait(&reads)), newProbe("quick", tool.ReadOnly, say("done")),
		newProbe("later", tool.Write, func(context.Context, tool.Runtime) (tool.Result, error) { later.Add(1); return tool.Result{}, nil }))
	writing := w.execute(exec.Request{ID: "writing", Disconnect: exec.Detach, Calls: calls("write", "later")})
	<-g.entered
	reading := w.execute(exec.Request{ID: "reading", Disconnect: exec.Detach, Calls: calls("quick", "read")})
	<-g.entered
	queued := w.execute(exec.Request{ID: "queued", Disconnect: exec.Detach, Calls: calls("later")})
	w.crash()
	blocked.Store(false)
	w.open()
	if err := w.exec.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		id   tool.BatchID
		want []tool.Outcome
	}{
		{writing.ID(), []tool.Outcome{tool.Unknown, tool.Skipped}},
		{reading.ID(), []tool.Outcome{tool.Succeeded, tool.Succeeded}},
		{queued.ID(), []tool.Outcome{tool.Succeeded}},
	} {
		b, err := w.exec.Attach(t.Context(), me, exec.Ref{Batch: tc.id})
		if err != nil {
			t.Fatal(err)
		}
		s := w.follow(b, 0, exec.FollowOptions{})
		if d := cmp.Diff(tc.want, s.outcomes()); d != "" {
			t.Errorf("%s (-want +got)\n%s", tc.id, d)
		}
		for _, e := range s.events {
			if st, ok := e.Body.(exec.Started); ok && tc.id == reading.ID() && st.Attempt != 2 {
				t.Errorf("the read ran again as attempt %d", st.Attempt)
			}
		}
	}
	if writes.Load() != 1 || reads.Load() != 2 || later.Load() != 1 {
		t.Errorf("writes ran %d times, reads %d, the queued one %d; want 1, 2, 1", writes.Load(), reads.Load(), later.Load())
	}
}

func TestAStoredBatchReplaysByteForByte(t *testing.T) {
	big := make([]byte, 80<<10)
	for i := range big {
		big[i] = 'a' + byte(i%23)
	}
	w := newWorld(t, newProbe("big", tool.ReadOnly, say(string(big))), newProbe("small", tool.Write, say("s")))
	b := w.execute(exec.Request{Calls: calls("big")})
	live := w.follow(b, 0, exec.FollowOptions{})
	w.crash()
	w.open()
	again, err := w.exec.Attach(t.Context(), me, exec.Ref{Batch: b.ID()})
	if err != nil {
		t.Fatal(err)
	}
	for after := range int64(len(live.events)) {
		s := w.follow(again, after, exec.FollowOptions{})
		if d := cmp.Diff(live.events[after:], s.events); d != "" {
			t.Fatalf("after %d (-live +stored)\n%s", after, d)
		}
	}
	other := me
	other.Principal.ID = "somebody else"
	if _, err := w.exec.Attach(t.Context(), other, exec.Ref{Batch: b.ID()}); err == nil {
		t.Error("somebody else could attach")
	}
}

func TestDrainLetsWhatRunsFinishAndLeavesTheRestToTheNextProcess(t *testing.T) {
	g := newGate()
	w := newWorld(t, newProbe("write", tool.Write, g.act), newProbe("later", tool.Write, say("l")))
	b := w.execute(exec.Request{Disconnect: exec.Detach, Calls: calls("write", "later")})
	<-g.entered
	f, err := b.Follow(t.Context(), 0, exec.FollowOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	drained := make(chan error, 1)
	go func() { drained <- w.exec.Drain(t.Context()) }()
	var story []string
	for {
		item, err := f.Next(t.Context())
		if err != nil {
			story = append(story, err.Error())
			break
		}
		var e tooldv1.BatchEvent
		if err := proto.Unmarshal(item.Wire, &e); err != nil {
			t.Fatal(err)
		}
		switch {
		case e.GetDraining() != nil:
			story = append(story, "draining")
			var refused *exec.Error
			if _, _, err := w.exec.Execute(t.Context(), me, request(t, exec.Request{Calls: calls("later")})); !errors.As(err, &refused) || refused.Reason != "REPLICA_DRAINING" {
				t.Errorf("a new batch while draining: %v", err)
			}
			g.open()
		case e.GetResult() != nil:
			story = append(story, e.GetCallId()+" "+e.GetResult().GetOutcome().String())
		}
	}
	if d := cmp.Diff([]string{"draining", "0 TOOL_OUTCOME_SUCCEEDED", exec.ErrDraining.Error()}, story); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	w.crash()
	w.open()
	if err := w.exec.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	next, err := w.exec.Attach(t.Context(), me, exec.Ref{Batch: b.ID()})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]tool.Outcome{tool.Succeeded, tool.Succeeded}, w.follow(next, 0, exec.FollowOptions{}).outcomes()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}
