package exec_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/session"
	"github.com/toold/toold/internal/tool"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

func TestAToolThatMisbehavesHarmsOnlyItsOwnCall(t *testing.T) {
	stuck := make(chan struct{})
	t.Cleanup(func() { close(stuck) })
	for _, tc := range []struct {
		name    string
		class   tool.Class
		timeout time.Duration
		act     act
		outcome tool.Outcome
		reason  string
	}{
		{"panics", tool.ReadOnly, time.Minute, func(context.Context, tool.Runtime) (tool.Result, error) { panic("boom") }, tool.Failed, "TOOL_PANIC"},
		{"fails", tool.ReadOnly, time.Minute, func(context.Context, tool.Runtime) (tool.Result, error) { return tool.Result{}, errors.New("no") }, tool.Failed, "TOOL_ERROR"},
		{"failsWithReason", tool.Write, time.Minute, func(context.Context, tool.Runtime) (tool.Result, error) {
			return tool.Result{}, tool.Fail("CONFLICT", "changed")
		}, tool.Failed, "CONFLICT"},
		{"badArgument", tool.Write, time.Minute, func(context.Context, tool.Runtime) (tool.Result, error) {
			return tool.Result{}, tool.BadArgument("/path", "NO_MATCH", "is not there")
		}, tool.Invalid, "NO_MATCH"},
		{"hangsReading", tool.ReadOnly, 50 * time.Millisecond, func(context.Context, tool.Runtime) (tool.Result, error) { <-stuck; return tool.Result{}, nil }, tool.TimedOut, "CALL_TIMEOUT"},
		{"hangsWriting", tool.Write, 50 * time.Millisecond, func(context.Context, tool.Runtime) (tool.Result, error) { <-stuck; return tool.Result{}, nil }, tool.Unknown, "TOOL_HUNG"},
		{"floods", tool.ReadOnly, time.Minute, func(_ context.Context, rt tool.Runtime) (tool.Result, error) {
			for {
				if err := rt.Write(tool.Stdout, make([]byte, 1<<16)); err != nil {
					return tool.Result{Output: tool.Captured{}}, err
				}
			}
		}, tool.Failed, "OUTPUT_CAPPED"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := &world{
				t: t, dir: t.TempDir(), limit: exec.Limits{ToolGrace: 50 * time.Millisecond, CaptureBytes: 1 << 20},
				tools: []tool.Tool{newProbe("bad", tc.class, tc.act), newProbe("good", tool.ReadOnly, say("fine"))},
			}
			w.open()
			s := w.run(exec.Request{Calls: []exec.Call{{Tool: "bad", Timeout: tc.timeout}, {Tool: "good"}}})
			if got := s.results[0]; got.Outcome != tc.outcome || got.Error == nil || got.Error.Reason != tc.reason {
				t.Errorf("bad call ended %v %+v, want %v %s", got.Outcome, got.Error, tc.outcome, tc.reason)
			}
			if got := s.results[1].Outcome; got != tool.Succeeded {
				t.Errorf("its sibling ended %v", got)
			}
		})
	}
}

func TestInvalidUTF8IsShownLossyAndKeptWhole(t *testing.T) {
	w := newWorld(t, newProbe("raw", tool.ReadOnly, func(_ context.Context, rt tool.Runtime) (tool.Result, error) {
		return tool.Result{Output: tool.Captured{}}, rt.Write(tool.Stdout, []byte("a\xff\x00b"))
	}))
	s := w.run(exec.Request{Calls: calls("raw")})
	out, ok := s.results[0].Output.(tool.Text)
	if !ok || !out.Lossy || out.Artifact == nil || out.Artifact.Size != 4 {
		t.Errorf("got %+v, want lossy text with the raw bytes in an artifact", s.results[0].Output)
	}
}

func TestARequestIDRunsOnce(t *testing.T) {
	var runs atomic.Int32
	w := newWorld(t, newProbe("count", tool.Write, func(context.Context, tool.Runtime) (tool.Result, error) {
		runs.Add(1)
		return tool.Result{}, nil
	}))
	req := request(t, exec.Request{ID: "same", Calls: calls("count")})
	var wg sync.WaitGroup
	ids := make([]tool.BatchID, 64)
	for i := range ids {
		wg.Go(func() {
			b, _, err := w.exec.Execute(t.Context(), me, req)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = b.ID()
			w.follow(b, 0, exec.FollowOptions{})
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("two batches: %s and %s", id, ids[0])
		}
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("ran %d times", n)
	}
	var e *exec.Error
	_, _, err := w.exec.Execute(t.Context(), me, request(t, exec.Request{ID: "same", Calls: calls("count", "count")}))
	if !errors.As(err, &e) || e.Reason != "REQUEST_ID_REUSED" || e.Metadata["batch_id"] != string(ids[0]) {
		t.Errorf("other content under the same id: %v", err)
	}
}

func TestFailurePolicies(t *testing.T) {
	type o = tool.Outcome
	for _, tc := range []struct {
		policy exec.FailurePolicy
		first  string
		want   []o
	}{
		{exec.StopOnUnknown, "fail", []o{tool.Failed, tool.Succeeded, tool.Succeeded}},
		{exec.StopOnUnknown, "lost", []o{tool.Unknown, tool.Succeeded, tool.Skipped}},
		{exec.Continue, "lost", []o{tool.Unknown, tool.Succeeded, tool.Succeeded}},
		{exec.StopOnFailure, "fail", []o{tool.Failed, tool.Succeeded, tool.Skipped}},
		{exec.StopOnFailure, "no_such_tool", []o{tool.Invalid, tool.Succeeded, tool.Skipped}},
		{exec.StopOnFailure, "write", []o{tool.Succeeded, tool.Succeeded, tool.Succeeded}},
	} {
		t.Run(fmt.Sprintf("%d after %s", tc.policy, tc.first), func(t *testing.T) {
			t.Parallel()
			stuck := make(chan struct{})
			t.Cleanup(func() { close(stuck) })
			first := exec.Call{Tool: tc.first}
			if tc.first == "lost" {
				first.Timeout = 20 * time.Millisecond
			}
			w := &world{t: t, dir: t.TempDir(), limit: exec.Limits{ToolGrace: time.Millisecond}, tools: []tool.Tool{
				newProbe("fail", tool.Write, func(context.Context, tool.Runtime) (tool.Result, error) { return tool.Result{}, errors.New("no") }),
				newProbe("lost", tool.Write, func(context.Context, tool.Runtime) (tool.Result, error) { <-stuck; return tool.Result{}, nil }),
				newProbe("read", tool.ReadOnly, say("r")), newProbe("write", tool.Write, say("w")),
			}}
			w.open()
			s := w.run(exec.Request{Failure: tc.policy, Calls: []exec.Call{first, {Tool: "read"}, {Tool: "write"}}})
			if d := cmp.Diff(tc.want, s.outcomes()); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func TestResultsComeInCallOrderWhenAsked(t *testing.T) {
	g := newGate()
	done := make(chan struct{})
	w := newWorld(t, newProbe("slow", tool.ReadOnly, func(ctx context.Context, rt tool.Runtime) (tool.Result, error) {
		<-done
		return g.act(ctx, rt)
	}), newProbe("fast", tool.ReadOnly, func(context.Context, tool.Runtime) (tool.Result, error) { close(done); return tool.Result{}, nil }))
	g.open()
	s := w.run(exec.Request{Order: exec.CallOrder, Calls: calls("slow", "fast", "no_such_tool")})
	var order []int
	for _, e := range s.events {
		if _, ok := e.Body.(exec.Finished); ok {
			order = append(order, e.Index)
		}
	}
	if d := cmp.Diff([]int{0, 1, 2}, order); d != "" {
		t.Errorf("results came in another order (-want +got)\n%s", d)
	}
}

func TestReadsBehindAWriteSayThatTheyMoved(t *testing.T) {
	w := newWorld(t, newProbe("read", tool.ReadOnly, say("r")), newProbe("write", tool.Write, say("w")))
	for _, tc := range []struct {
		mode exec.ScheduleMode
		want []string
	}{
		{exec.ReadsFirst, []string{"READ_MOVED_BEFORE_WRITE"}},
		{exec.ProgramOrder, nil},
	} {
		var got []string
		for _, h := range w.run(exec.Request{Mode: tc.mode, Calls: calls("write", "read")}).results[1].Hints {
			got = append(got, h.Code)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%v (-want +got)\n%s", tc.mode, d)
		}
	}
}

func TestPlanModeDeniesWhatIsNotReadOnlyAlsoInTheMiddleOfABatch(t *testing.T) {
	g := newGate()
	var wrote atomic.Bool
	w := newWorld(t, newProbe("read", tool.ReadOnly, g.act), newProbe("write", tool.Write, func(context.Context, tool.Runtime) (tool.Result, error) {
		wrote.Store(true)
		return tool.Result{}, nil
	}))
	s, err := w.sess.Create(t.Context(), me, session.Request{Mode: session.Normal})
	if err != nil {
		t.Fatal(err)
	}
	b := w.execute(exec.Request{Session: s.ID, Calls: calls("read", "write")})
	<-g.entered
	if _, err := w.sess.SetMode(t.Context(), me, s.ID, session.Plan, 0, ""); err != nil {
		t.Fatal(err)
	}
	g.open()
	for _, got := range []story{w.follow(b, 0, exec.FollowOptions{}), w.run(exec.Request{Session: s.ID, Calls: calls("read", "write")})} {
		if d := cmp.Diff([]tool.Outcome{tool.Succeeded, tool.Denied}, got.outcomes()); d != "" {
			t.Errorf("(-want +got)\n%s", d)
		}
		if r := got.results[1].Error.Reason; r != "PLAN_MODE" {
			t.Errorf("denied for %s", r)
		}
	}
	if wrote.Load() {
		t.Error("the write ran")
	}
}

func TestCancel(t *testing.T) {
	for _, tc := range []struct {
		name    string
		running tool.Class
		call    tool.CallID
		force   bool
		want    []tool.Outcome // of the running call and of the one behind it
	}{
		{"a batch with a running read", tool.ReadOnly, "", false, []tool.Outcome{tool.Cancelled, tool.Cancelled}},
		{"a batch with a running write, by force", tool.Write, "", true, []tool.Outcome{tool.Interrupted, tool.Cancelled}},
		{"a running read", tool.ReadOnly, "0", false, []tool.Outcome{tool.Cancelled, tool.Succeeded}},
		{"a call that has not started", tool.ReadOnly, "1", false, []tool.Outcome{tool.Succeeded, tool.Cancelled}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := newGate()
			w := newWorld(t, newProbe("run", tc.running, g.act), newProbe("next", tool.Write, say("n")))
			b := w.execute(exec.Request{Calls: calls("run", "next")})
			<-g.entered
			if err := w.exec.Cancel(t.Context(), me, b.ID(), tc.call, "test", tc.force); err != nil {
				t.Fatal(err)
			}
			if tc.want[0] == tool.Succeeded {
				g.open()
			}
			if d := cmp.Diff(tc.want, w.follow(b, 0, exec.FollowOptions{}).outcomes()); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func TestOneWriterAWorkspaceAcrossBatches(t *testing.T) {
	var inside, most atomic.Int32
	w := newWorld(t, newProbe("write", tool.Write, func(context.Context, tool.Runtime) (tool.Result, error) {
		most.Store(max(most.Load(), inside.Add(1)))
		inside.Add(-1)
		return tool.Result{}, nil
	}))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { w.run(exec.Request{Calls: calls("write", "write", "write")}) })
	}
	wg.Wait()
	if n := most.Load(); n != 1 {
		t.Errorf("%d writers at once", n)
	}
}

func TestASlowReaderGetsGapsThatAddUp(t *testing.T) {
	g := newGate()
	const chunks, size = 200, 32 << 10
	w := &world{t: t, dir: t.TempDir(), limit: exec.Limits{FollowerBytes: 256 << 10}, tools: []tool.Tool{
		newProbe("print", tool.ReadOnly, func(ctx context.Context, rt tool.Runtime) (tool.Result, error) {
			<-g.leave
			for range chunks {
				if err := rt.Write(tool.Stdout, make([]byte, size)); err != nil {
					return tool.Result{}, err
				}
			}
			return tool.Result{Output: tool.Captured{}}, nil
		}),
	}}
	w.open()
	b := w.execute(exec.Request{Calls: calls("print")})
	f, err := b.Follow(t.Context(), 0, exec.FollowOptions{Chunks: true})
	if err != nil {
		t.Fatal(err)
	}
	g.open()
	w.follow(b, 0, exec.FollowOptions{}) // until its end, while f reads nothing
	f.Close()
	s := w.follow(b, 0, exec.FollowOptions{Chunks: true})
	if out, ok := s.results[0].Output.(tool.Truncated); !ok || out.OriginalBytes != chunks*size || out.Full.Size != chunks*size {
		t.Errorf("got %+v", s.results[0].Output)
	}
	var next, gaps int64
	for {
		item, err := f.Next(t.Context())
		if err != nil {
			break
		}
		var e tooldv1.BatchEvent
		if err := proto.Unmarshal(item.Wire, &e); err != nil {
			t.Fatal(err)
		}
		if c := e.GetChunk(); c != nil {
			if c.GetOffset() != next {
				t.Fatalf("chunk at %d, want %d", c.GetOffset(), next)
			}
			next += int64(len(c.GetData()))
		}
		if g := e.GetGap(); g != nil {
			if g.GetFromOffset() != next {
				t.Fatalf("gap from %d, want %d", g.GetFromOffset(), next)
			}
			gaps += g.GetToOffset() - g.GetFromOffset()
			next = g.GetToOffset()
		}
	}
	if next != chunks*size || gaps == 0 {
		t.Errorf("chunks and gaps add up to %d (gaps %d), want %d", next, gaps, chunks*size)
	}
}

// A store whose commits fail, in the two ways there are.
type failing struct {
	audit.Store
	mode atomic.Int32 // 0 works, 1 fails and stores nothing, 2 fails after it stored
}

func (f *failing) Commit(ctx context.Context, g audit.Group) error {
	switch f.mode.Load() {
	case 1:
		return errors.New("disk on fire")
	case 2:
		f.mode.Store(0)
		if err := f.Store.Commit(ctx, g); err != nil {
			return err
		}
		return errors.New("connection lost")
	}
	return f.Store.Commit(ctx, g)
}

func TestWithoutALedgerNothingRuns(t *testing.T) {
	var runs atomic.Int32
	f := &failing{}
	w := &world{
		t: t, dir: t.TempDir(), wrap: func(s audit.Store) audit.Store { f.Store = s; return f },
		tools: []tool.Tool{newProbe("read", tool.ReadOnly, func(context.Context, tool.Runtime) (tool.Result, error) { runs.Add(1); return tool.Result{}, nil })},
	}
	w.open()
	f.mode.Store(1)
	_, _, err := w.exec.Execute(t.Context(), me, request(t, exec.Request{Calls: calls("read")}))
	var e *exec.Error
	if !errors.As(err, &e) || e.Kind != exec.KindUnavailable || e.Reason != "AUDIT_UNAVAILABLE" {
		t.Errorf("got %v, want AUDIT_UNAVAILABLE", err)
	}
	if n := runs.Load(); n != 0 {
		t.Errorf("ran %d times", n)
	}
}

func TestARecordedAcceptanceWithALostReplyRunsOnce(t *testing.T) {
	var runs atomic.Int32
	f := &failing{}
	w := &world{
		t: t, dir: t.TempDir(), wrap: func(s audit.Store) audit.Store { f.Store = s; return f },
		tools: []tool.Tool{newProbe("write", tool.Write, func(context.Context, tool.Runtime) (tool.Result, error) { runs.Add(1); return tool.Result{}, nil })},
	}
	w.open()
	f.mode.Store(2)
	s := w.run(exec.Request{Calls: calls("write")})
	if d := cmp.Diff([]tool.Outcome{tool.Succeeded}, s.outcomes()); d != "" || runs.Load() != 1 {
		t.Errorf("ran %d times (-want +got)\n%s", runs.Load(), d)
	}
}

func TestUnknownToolNamesTheNearest(t *testing.T) {
	w := newWorld(t, newProbe("read", tool.ReadOnly, say("r")))
	r := w.run(exec.Request{Calls: []exec.Call{{Tool: "raed"}, {Tool: strings.Repeat("x\xff", 500)}, {Tool: "read", Arguments: []byte("[1")}}})
	if d := cmp.Diff([]tool.Outcome{tool.Invalid, tool.Invalid, tool.Invalid}, r.outcomes()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if h := r.results[0].Hints; len(h) != 1 || !strings.Contains(h[0].Message, "read") {
		t.Errorf("hints %+v", h)
	}
}
