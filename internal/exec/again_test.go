package exec_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/session"
	"github.com/toold/toold/internal/tool"
)

func counted(n *atomic.Int32) act {
	return func(context.Context, tool.Runtime) (tool.Result, error) { n.Add(1); return tool.Result{}, nil }
}

func TestNothingOfAClosedSessionStartsAfterARestart(t *testing.T) {
	g := newGate()
	t.Cleanup(g.open)
	var wrote atomic.Int32
	w := newWorld(t, newProbe("read", tool.ReadOnly, g.act), newProbe("write", tool.Write, counted(&wrote)))
	s, err := w.sess.Create(t.Context(), me, session.Request{})
	if err != nil {
		t.Fatal(err)
	}
	b := w.execute(exec.Request{Session: s.ID, Mode: exec.Serial, Disconnect: exec.Detach, Calls: calls("read", "write")})
	<-g.entered
	if _, err := w.sess.Close(t.Context(), me, s.ID, ""); err != nil {
		t.Fatal(err)
	}
	w.crash()
	w.open()
	if err := w.exec.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b, err = w.exec.Attach(t.Context(), me, exec.Ref{Batch: b.ID()}); err != nil {
		t.Fatal(err)
	}
	story := w.follow(b, 0, exec.FollowOptions{})
	if d := cmp.Diff([]tool.Outcome{tool.Cancelled, tool.Cancelled}, story.outcomes()); d != "" || wrote.Load() != 0 {
		t.Errorf("wrote %d times (-want +got)\n%s", wrote.Load(), d)
	}
	if r := story.results[1].Error.Reason; r != "SESSION_CLOSED" {
		t.Errorf("cancelled for %s", r)
	}
}

// flaky is a store that fails commits while they carry a decision made again.
type flaky struct {
	audit.Store
	failures atomic.Int32
}

func (f *flaky) Commit(ctx context.Context, g audit.Group) error {
	again := func(l audit.Leaf[audit.Decision]) bool { return l.Row.No > 1 }
	if b := g.Seal(make([]*audit.TakenError, len(g.Claims))); b != nil && slices.ContainsFunc(b.Decisions, again) && f.failures.Add(-1) >= 0 {
		return errors.New("disk on fire")
	}
	return f.Store.Commit(ctx, g)
}

func TestADecisionMadeAgainIsOnRecordWhateverFails(t *testing.T) {
	for _, tc := range []struct {
		name    string
		modes   []session.Mode
		want    tool.Outcome
		verdict string
	}{
		{"now denied", []session.Mode{session.Plan}, tool.Denied, "DENY"},
		{"allowed again", []session.Mode{session.Plan, session.Normal}, tool.Succeeded, "ALLOW"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGate()
			f := &flaky{}
			w := &world{
				t: t, dir: t.TempDir(), wrap: func(s audit.Store) audit.Store { f.Store = s; return f },
				tools: []tool.Tool{newProbe("read", tool.ReadOnly, g.act), newProbe("write", tool.Write, say("w"))},
			}
			w.open()
			s, err := w.sess.Create(t.Context(), me, session.Request{})
			if err != nil {
				t.Fatal(err)
			}
			b := w.execute(exec.Request{Session: s.ID, Calls: calls("read", "write")})
			<-g.entered
			for _, m := range tc.modes {
				if s, err = w.sess.SetMode(t.Context(), me, s.ID, m, 0, ""); err != nil {
					t.Fatal(err)
				}
			}
			f.failures.Store(2) // a flush tries twice
			g.open()
			if d := cmp.Diff([]tool.Outcome{tool.Succeeded, tc.want}, w.follow(b, 0, exec.FollowOptions{}).outcomes()); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			trail, err := w.store.Trail(t.Context(), b.ID())
			if err != nil {
				t.Fatal(err)
			}
			last := trail.Decisions[len(trail.Decisions)-1]
			if last.Call != "1" || last.Verdict != tc.verdict || last.SessionEpoch != s.Epoch {
				t.Errorf("the last decision is %s on call %s in epoch %d", last.Verdict, last.Call, last.SessionEpoch)
			}
			for _, start := range trail.Starts {
				if start.Decision != last.ID {
					t.Error("the start stands on another decision")
				}
			}
		})
	}
}

func TestAnOpenBatchThatNobodyRunsIsNotTakenForEnded(t *testing.T) {
	g := newGate()
	t.Cleanup(g.open)
	w := newWorld(t, newProbe("read", tool.ReadOnly, g.act))
	b := w.execute(exec.Request{Disconnect: exec.Detach, Calls: calls("read")})
	<-g.entered
	w.crash()
	w.open()
	open, err := w.exec.Attach(t.Context(), me, exec.Ref{Batch: b.ID()})
	if err != nil {
		t.Fatal(err)
	}
	f, err := open.Follow(t.Context(), 0, exec.FollowOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Next(t.Context())
	}
	for what, err := range map[string]error{"following": err, "cancelling": w.exec.Cancel(t.Context(), me, b.ID(), "", "", false)} {
		if e := (*exec.Error)(nil); !errors.As(err, &e) || e.Kind != exec.KindUnavailable {
			t.Errorf("%s: %v", what, err)
		}
	}
}
