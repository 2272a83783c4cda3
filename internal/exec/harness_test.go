package exec_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/toold/toold/internal/artifact"
	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/policy"
	"github.com/toold/toold/internal/server"
	"github.com/toold/toold/internal/session"
	"github.com/toold/toold/internal/store/sqlite"
	"github.com/toold/toold/internal/tool"
)

// act is what a test's tool does when it runs.
type act func(ctx context.Context, rt tool.Runtime) (tool.Result, error)

// probe is a tool made for a test.
type probe struct {
	spec tool.Spec
	act  act
}

func (p probe) Spec() tool.Spec { return p.spec }

func (p probe) Prepare(_ context.Context, _ tool.Env, args json.RawMessage) (tool.Action, error) {
	return tool.Action{Class: p.spec.Class, Effects: []tool.Effect{{Verb: tool.VerbRead, Target: "ws:/" + p.spec.Name}}, Do: p.act}, nil
}

func newProbe(name string, class tool.Class, a act) tool.Tool {
	return probe{tool.Spec{Name: name, Version: "1.0.0", Class: class, InputSchema: json.RawMessage(`{"type":"object"}`), DefaultTimeout: time.Minute, MaxTimeout: time.Hour}, a}
}

func say(text string) act {
	return func(context.Context, tool.Runtime) (tool.Result, error) {
		return tool.Result{Output: tool.Text{Text: text}}, nil
	}
}

var me = tool.Caller{Tenant: "default", Principal: tool.Principal{ID: "local", Kind: tool.PrincipalHuman}}

// world is an executor with everything below it, on a real SQLite file.
type world struct {
	t     *testing.T
	dir   string
	store *sqlite.Store
	log   *audit.Log
	exec  *exec.Executor
	sess  *session.Sessions
	tools []tool.Tool
	limit exec.Limits
	wrap  func(audit.Store) audit.Store
}

func newWorld(t *testing.T, tools ...tool.Tool) *world {
	w := &world{t: t, dir: t.TempDir(), tools: tools}
	w.open()
	return w
}

// open starts a process's worth of parts over the folder.
func (w *world) open() {
	t := w.t
	t.Helper()
	ctx := t.Context()
	var err error
	check := func(what string) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	w.store, err = sqlite.Open(ctx, filepath.Join(w.dir, "toold.db"), sqlite.Options{})
	check("store")
	var s audit.Store = w.store
	if w.wrap != nil {
		s = w.wrap(s)
	}
	newID := func() string { return uuid.Must(uuid.NewV7()).String() }
	w.log, err = audit.Open(ctx, audit.Options{Store: s, Replica: "r1", Now: time.Now, NewID: newID})
	check("log")
	reg, err := tool.NewRegistry(w.tools...)
	check("registry")
	ws, err := tool.OpenWorkspace("default", w.dir)
	check("workspace")
	spaces, err := session.NewWorkspaces(ws)
	check("workspaces")
	disk, err := artifact.OpenDisk(filepath.Join(w.dir, "artifacts"))
	check("artifacts")
	pol, err := policy.New(policy.Options{Profile: "ci"})
	check("policy")
	w.sess = &session.Sessions{Store: w.store, Log: w.log, Now: time.Now, NewID: newID}
	w.exec, err = exec.New(exec.Options{
		Registry: reg, Policy: pol, Log: w.log, Sessions: w.sess, Workspaces: spaces, Artifacts: disk,
		Codec: codec{}, Limits: w.limit, Replica: "r1",
	})
	check("executor")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = w.exec.Drain(ctx)
		_ = w.log.Close(ctx)
		_ = w.store.Close()
		_ = disk.Close()
		_ = spaces.Close()
	})
}

// codec is the edge's, but for requests, which tests do not get as proto.
type codec struct{ server.Codec }

func (codec) Request(encoded []byte) (tool.Caller, exec.Request, error) {
	var r exec.Request
	err := json.Unmarshal(encoded, &r)
	r.Encoded = encoded
	return me, r, err
}

// request makes a request as the edge would: encoded, and with its digest.
func request(t *testing.T, r exec.Request) exec.Request {
	t.Helper()
	var err error
	if r.Encoded, err = json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	for _, c := range r.Calls {
		_, _ = fmt.Fprintf(h, "%q %q %q\n", c.ID, c.Tool, c.Arguments)
	}
	copy(r.Digest[:], h.Sum(nil))
	return r
}

func calls(names ...string) []exec.Call {
	var out []exec.Call
	for _, n := range names {
		out = append(out, exec.Call{Tool: n})
	}
	return out
}

// story is everything that a follower saw of a batch.
type story struct {
	events  []exec.Event
	results map[int]exec.Finished
	summary exec.Summary
}

func (s story) outcomes() []tool.Outcome {
	var out []tool.Outcome
	for _, c := range s.summary.Calls {
		out = append(out, c.Outcome)
	}
	return out
}

func (w *world) execute(r exec.Request) *exec.Batch {
	w.t.Helper()
	b, _, err := w.exec.Execute(w.t.Context(), me, request(w.t, r))
	if err != nil {
		w.t.Fatalf("execute: %v", err)
	}
	return b
}

// run executes a batch and follows it to its end, checking what holds for every
// story: numbers dense from 1, `accepted` first, one result a call, summary last.
func (w *world) run(r exec.Request) story {
	w.t.Helper()
	return w.follow(w.execute(r), 0, exec.FollowOptions{})
}

func (w *world) follow(b *exec.Batch, after int64, o exec.FollowOptions) story {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	f, err := b.Follow(ctx, after, o)
	if err != nil {
		w.t.Fatalf("follow: %v", err)
	}
	defer f.Close()
	s := story{results: make(map[int]exec.Finished)}
	for {
		item, err := f.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			w.t.Fatalf("following: %v", err)
		}
		e, err := codec{}.Decode(item.Wire)
		if err != nil {
			w.t.Fatalf("decoding: %v", err)
		}
		if item.Seq > 0 {
			if after++; item.Seq != after || e.Seq != item.Seq {
				w.t.Fatalf("event %d (inside %d), want %d", item.Seq, e.Seq, after)
			}
		}
		s.add(w.t, e)
	}
	return s
}

func (s *story) add(t *testing.T, e exec.Event) {
	t.Helper()
	if s.summary.State != "" {
		t.Fatalf("%T after the summary", e.Body)
	}
	s.events = append(s.events, e)
	if b, ok := e.Body.(exec.Finished); ok {
		if _, twice := s.results[e.Index]; twice {
			t.Fatalf("call %d has two results", e.Index)
		}
		s.results[e.Index] = b
	}
	if b, ok := e.Body.(exec.Summary); ok {
		s.summary = b
		for _, c := range b.Calls {
			if c.Seq == 0 {
				t.Errorf("the summary names no result for call %s", c.Call)
			}
		}
	}
}

// gate is a tool that says when it runs and waits until it may end.
type gate struct {
	entered chan struct{}
	leave   chan struct{}
	once    sync.Once
}

func newGate() *gate { return &gate{entered: make(chan struct{}, 100), leave: make(chan struct{})} }

func (g *gate) open() { g.once.Do(func() { close(g.leave) }) }

func (g *gate) act(ctx context.Context, _ tool.Runtime) (tool.Result, error) {
	g.entered <- struct{}{}
	select {
	case <-g.leave:
		return tool.Result{Output: tool.Text{Text: "through"}}, nil
	case <-ctx.Done():
		return tool.Result{}, ctx.Err()
	}
}
