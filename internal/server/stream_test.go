package server

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/toold/toold/internal/tool"
	pb "github.com/toold/toold/proto/toold/v1"
)

func TestStreamOptionsAreTheStreamsOwn(t *testing.T) {
	w := newWorld(t, nil)
	full := w.run(&pb.BatchSpec{RequestId: "r-1", Stream: &pb.StreamOptions{ResultsInSummary: true}}, "say")
	if got := resultsOf(full)[0].GetOutput().GetText().GetText(); got != "hello" {
		t.Errorf("result: %q", got)
	}
	if got := summaryOf(full).GetCalls()[0].GetResult().GetOutput().GetText().GetText(); got != "hello" {
		t.Errorf("result in the summary: %q", got)
	}
	brief := w.run(&pb.BatchSpec{RequestId: "r-1", Stream: &pb.StreamOptions{
		ResultDetail: pb.ResultDetail_RESULT_DETAIL_OUTCOME_ONLY, ResultsInSummary: true,
	}}, "say")
	for _, r := range []*pb.CallResult{resultsOf(brief)[0], summaryOf(brief).GetCalls()[0].GetResult()} {
		if r.GetOutcome() != pb.ToolOutcome_TOOL_OUTCOME_SUCCEEDED || r.GetOutput().GetText() == nil || r.GetOutput().GetText().GetText() != "" {
			t.Errorf("outcome only: %v", r)
		}
	}
	plain := w.run(&pb.BatchSpec{RequestId: "r-1"}, "say")
	if summaryOf(plain).GetCalls()[0].GetResult() != nil {
		t.Error("a summary repeats results unasked")
	}
}

func TestLiveOutputComesInSmallPieces(t *testing.T) {
	big := strings.Repeat("x", 100<<10)
	w := newWorld(t, nil, newProbe("flood", tool.ReadOnly, func(_ context.Context, rt tool.Runtime) (tool.Result, error) {
		return tool.Result{Output: tool.Captured{}}, rt.Write(tool.Stdout, []byte(big))
	}))
	var out []byte
	for _, e := range w.run(&pb.BatchSpec{Stream: &pb.StreamOptions{OutputChunks: true}}, "flood") {
		c := e.GetChunk()
		if c == nil {
			continue
		}
		if len(c.GetData()) > maxChunk || c.GetOffset() != int64(len(out)) {
			t.Errorf("a chunk of %d bytes at %d, after %d", len(c.GetData()), c.GetOffset(), len(out))
		}
		out = append(out, c.GetData()...)
	}
	if string(out) != big {
		t.Errorf("%d bytes of %d came", len(out), len(big))
	}
}

func TestAQuietStreamHasHeartbeats(t *testing.T) {
	release := make(chan struct{})
	w := newWorld(t, func(o *Options) { o.Heartbeat = 10 * time.Millisecond }, newProbe("wait", tool.ReadOnly, func(ctx context.Context, _ tool.Runtime) (tool.Result, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return tool.Result{}, nil
	}))
	stream, err := w.exec.ExecuteBatch(t.Context(), &pb.ExecuteBatchRequest{Spec: &pb.BatchSpec{}, Calls: []*pb.ToolCall{{Tool: "wait"}}})
	if err != nil {
		t.Fatal(err)
	}
	beats, numbered := 0, int64(0)
	for beats < 3 {
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if h := r.GetEvent().GetHeartbeat(); h != nil {
			if beats++; h.GetLastSeq() != numbered {
				t.Errorf("heartbeat says %d, %d were numbered", h.GetLastSeq(), numbered)
			}
		}
		numbered = max(numbered, r.GetEvent().GetSeq())
	}
	close(release)
	if _, err := events(t, stream); err != nil {
		t.Error(err)
	}
}

func TestAClientThatDoesNotReadIsCutAndLosesNothing(t *testing.T) {
	over := make(calledBack, 1)
	w := newWorld(t, func(o *Options) {
		o.SendTimeout, o.Logger = 50*time.Millisecond, slog.New(over)
	}, newProbe("page", tool.ReadOnly, say(strings.Repeat("y", 60<<10))))
	spec := &pb.BatchSpec{RequestId: "r-1"}
	in := &pb.ExecuteBatchRequest{Spec: spec}
	for range 8 {
		in.Calls = append(in.Calls, &pb.ToolCall{Tool: "page"})
	}
	spec.Budget = &pb.OutputBudget{MaxBytesPerBatch: 1 << 20}
	stream, err := w.exec.ExecuteBatch(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	<-over // nothing is read until the server has given up
	got, err := events(t, stream)
	if told := read(t, err); told.Code != codes.Unavailable || told.Reason != "SLOW_CONSUMER" {
		t.Fatalf("after %d events: %v", len(got), err)
	}
	last := got[len(got)-1].GetSeq()
	rest, err := w.exec.AttachBatch(t.Context(), &pb.AttachBatchRequest{Batch: &pb.AttachBatchRequest_RequestId{RequestId: "r-1"}, AfterSeq: last})
	if err != nil {
		t.Fatal(err)
	}
	more, err := events(t, rest)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(resultsOf(append(got, more...))); n != 8 {
		t.Errorf("%d results of 8", n)
	}
}

// calledBack is a log that notes the end of an RPC.
type calledBack chan struct{}

func (calledBack) Enabled(context.Context, slog.Level) bool { return true }
func (c calledBack) WithAttrs([]slog.Attr) slog.Handler     { return c }
func (c calledBack) WithGroup(string) slog.Handler          { return c }
func (c calledBack) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "rpc" {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	return nil
}
