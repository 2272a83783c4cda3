package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/toold/toold/internal/artifact"
	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/policy"
	"github.com/toold/toold/internal/session"
	"github.com/toold/toold/internal/store/sqlite"
	"github.com/toold/toold/internal/tool"
	pb "github.com/toold/toold/proto/toold/v1"
)

// act is what a test's tool does when it runs.
type act func(ctx context.Context, rt tool.Runtime) (tool.Result, error)

type probe struct {
	spec tool.Spec
	act  act
}

func (p probe) Spec() tool.Spec { return p.spec }

func (p probe) Prepare(context.Context, tool.Env, json.RawMessage) (tool.Action, error) {
	return tool.Action{Class: p.spec.Class, Effects: []tool.Effect{{Verb: tool.VerbRead, Target: "ws:/"}}, Do: p.act}, nil
}

func newProbe(name string, class tool.Class, a act) tool.Tool {
	return probe{tool.Spec{
		Name: name, Version: "1.0.0", Title: name, Description: "a tool for tests", Category: "test", Class: class,
		InputSchema: json.RawMessage(`{"type":"object"}`), DefaultTimeout: time.Minute, MaxTimeout: time.Hour,
	}, a}
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

func say(text string) act {
	return func(context.Context, tool.Runtime) (tool.Result, error) {
		return tool.Result{Output: tool.Text{Text: text}}, nil
	}
}

// blob prints a text of many lines, more than fits any result.
func blob(_ context.Context, rt tool.Runtime) (tool.Result, error) {
	for range blobLines {
		if err := rt.Write(tool.Stdout, []byte(blobLine)); err != nil {
			return tool.Result{}, err
		}
	}
	return tool.Result{Output: tool.Captured{}}, nil
}

const (
	blobLine  = "0123456789abcdef0123456789abcde\n"
	blobLines = 8 << 10
	blobBytes = int64(len(blobLine) * blobLines)
)

// world is a server with everything below it, on a real SQLite file, reached
// over a connection in memory.
type world struct {
	*Server
	t        *testing.T
	ledger   *audit.Log
	executor *exec.Executor
	conn     *grpc.ClientConn
	exec     pb.ExecutionServiceClient
}

func newWorld(t *testing.T, change func(*Options), tools ...tool.Tool) *world {
	t.Helper()
	ctx, dir := t.Context(), t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	store, err := sqlite.Open(ctx, filepath.Join(dir, "toold.db"), sqlite.Options{})
	must(err)
	ledger, err := audit.Open(ctx, audit.Options{Store: store, Replica: "r1", Now: time.Now, NewID: newID})
	must(err)
	registry, err := tool.NewRegistry(append([]tool.Tool{newProbe("say", tool.ReadOnly, say("hello")), newProbe("blob", tool.ReadOnly, blob)}, tools...)...)
	must(err)
	place, err := tool.OpenWorkspace("default", t.TempDir())
	must(err)
	places, err := session.NewWorkspaces(place)
	must(err)
	disk, err := artifact.OpenDisk(filepath.Join(dir, "artifacts"))
	must(err)
	rules, err := policy.New(policy.Options{Profile: "ci"})
	must(err)
	sessions := &session.Sessions{Store: store, Log: ledger, Now: time.Now, NewID: newID}
	executor, err := exec.New(exec.Options{
		Registry: registry, Policy: rules, Log: ledger, Sessions: sessions, Workspaces: places, Artifacts: disk, Codec: Codec{}, Replica: "r1",
		MaskKey: make([]byte, 32),
	})
	must(err)
	o := Options{
		Executor: executor, Registry: registry, Sessions: sessions, Workspaces: places, Artifacts: disk, Ledger: ledger.Reader(),
		Available: ledger.Available, Identify: Local, Replica: "r1",
		Info: Info{Version: "1.2.3", Isolation: "none", Store: "sqlite", PolicyVersion: rules.Version, EventRetention: time.Hour, RequestRetention: time.Hour},
	}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	must(err)
	l := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	s.Ready()
	conn, err := grpc.NewClient("passthrough:memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10), // what an unread stream takes
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	must(err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(conn.Close(), executor.Drain(ctx)); err != nil {
			t.Error(err)
		}
		s.Shutdown(ctx)
		if err := errors.Join(<-served, ledger.Close(ctx), disk.Close(), store.Close(), places.Close()); err != nil {
			t.Error(err)
		}
	})
	return &world{Server: s, t: t, ledger: ledger, executor: executor, conn: conn, exec: pb.NewExecutionServiceClient(conn)}
}

// events reads a stream to its end.
func events[R interface{ GetEvent() *pb.BatchEvent }](t *testing.T, stream interface{ Recv() (R, error) }) ([]*pb.BatchEvent, error) {
	t.Helper()
	var out []*pb.BatchEvent
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, r.GetEvent())
	}
}

// run executes a batch of the given tools and gives its events.
func (w *world) run(spec *pb.BatchSpec, tools ...string) []*pb.BatchEvent {
	w.t.Helper()
	out, err := w.try(spec, tools...)
	if err != nil {
		w.t.Fatalf("execute: %v", err)
	}
	return out
}

func (w *world) try(spec *pb.BatchSpec, tools ...string) ([]*pb.BatchEvent, error) {
	w.t.Helper()
	in := &pb.ExecuteBatchRequest{Spec: spec}
	for _, name := range tools {
		in.Calls = append(in.Calls, &pb.ToolCall{Tool: name})
	}
	stream, err := w.exec.ExecuteBatch(w.t.Context(), in)
	if err != nil {
		w.t.Fatal(err)
	}
	return events(w.t, stream)
}

// kinds names the numbered events, in order.
func kinds(all []*pb.BatchEvent) []string {
	var out []string
	for _, e := range all {
		if e.GetSeq() == 0 {
			continue
		}
		switch e.GetEvent().(type) {
		case *pb.BatchEvent_Accepted:
			out = append(out, "accepted")
		case *pb.BatchEvent_Decision:
			out = append(out, "decision")
		case *pb.BatchEvent_Started:
			out = append(out, "started")
		case *pb.BatchEvent_Result:
			out = append(out, "result")
		case *pb.BatchEvent_Summary:
			out = append(out, "summary")
		}
	}
	return out
}

func resultsOf(all []*pb.BatchEvent) []*pb.CallResult {
	var out []*pb.CallResult
	for _, e := range all {
		if r := e.GetResult(); r != nil {
			out = append(out, r)
		}
	}
	return out
}

func summaryOf(all []*pb.BatchEvent) *pb.BatchSummary {
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1].GetSummary()
}
