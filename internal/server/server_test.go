package server

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/toold/toold/internal/tool"
	pb "github.com/toold/toold/proto/toold/v1"
)

func TestABatchIsToldFromAcceptedToSummary(t *testing.T) {
	w := newWorld(t, nil, newProbe("change", tool.Write, say("changed")))
	got := w.run(&pb.BatchSpec{RequestId: "r-1"}, "say", "change", "nobody")
	want := []string{"accepted", "decision", "decision", "decision", "result", "result", "started", "result", "summary"}
	if diff := cmp.Diff(len(want), len(kinds(got))); diff != "" {
		t.Fatalf("events: %v", kinds(got))
	}
	for i, e := range got {
		if e.GetSeq() != int64(i+1) {
			t.Errorf("event %d has number %d", i+1, e.GetSeq())
		}
	}
	if a := got[0].GetAccepted(); a.GetRequestId() != "r-1" || a.GetAttached() || a.GetCallCount() != 3 {
		t.Errorf("accepted: %v", a)
	}
	var outcomes []pb.ToolOutcome
	for _, c := range summaryOf(got).GetCalls() {
		outcomes = append(outcomes, c.GetOutcome())
	}
	if diff := cmp.Diff([]pb.ToolOutcome{1, 1, 3}, outcomes); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

func TestTheSameRequestAttachesAndAnotherIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	first := w.run(&pb.BatchSpec{RequestId: "r-1"}, "say")
	again := w.run(&pb.BatchSpec{RequestId: "r-1", Labels: map[string]string{"try": "2"}}, "say")
	if !again[0].GetAccepted().GetAttached() {
		t.Error("a replay does not say so")
	}
	again[0].GetAccepted().Attached = false
	if diff := cmp.Diff(first, again, protocmp.Transform()); diff != "" {
		t.Errorf("the replay tells another story (-first +again):\n%s", diff)
	}
	_, err := w.try(&pb.BatchSpec{RequestId: "r-1"}, "blob")
	want := told{
		Code: codes.AlreadyExists, Reason: "REQUEST_ID_REUSED",
		Metadata: map[string]string{"accepted": "false", "batch_id": first[0].GetBatchId()},
	}
	if diff := cmp.Diff(want, read(t, err)); diff != "" {
		t.Errorf("other content (-want +got):\n%s", diff)
	}
}

func TestAttachGivesWhatWasMissed(t *testing.T) {
	w := newWorld(t, nil)
	all := w.run(&pb.BatchSpec{RequestId: "r-1"}, "say", "say")
	id := all[0].GetBatchId()
	for name, in := range map[string]*pb.AttachBatchRequest{
		"by id":         {Batch: &pb.AttachBatchRequest_BatchId{BatchId: id}, AfterSeq: 2},
		"by request id": {Batch: &pb.AttachBatchRequest_RequestId{RequestId: "r-1"}, AfterSeq: 2},
	} {
		stream, err := w.exec.AttachBatch(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := events(t, stream)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(all[2:], got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	stream, err := w.exec.AttachBatch(t.Context(), &pb.AttachBatchRequest{Batch: &pb.AttachBatchRequest_BatchId{BatchId: id}, AfterSeq: 99})
	if err != nil {
		t.Fatal(err)
	}
	_, err = events(t, stream)
	if got := read(t, err); got.Code != codes.OutOfRange || got.Reason != "SEQ_AHEAD" {
		t.Errorf("beyond the end: %v", got)
	}
	stream, err = w.exec.AttachBatch(t.Context(), &pb.AttachBatchRequest{Batch: &pb.AttachBatchRequest_BatchId{BatchId: newID()}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = events(t, stream)
	if got := read(t, err); got.Code != codes.NotFound || got.Reason != "BATCH_NOT_FOUND" {
		t.Errorf("nobody's batch: %v", got)
	}
}

func TestGetBatchIsTheFoldOfItsEvents(t *testing.T) {
	w := newWorld(t, nil)
	all := w.run(&pb.BatchSpec{RequestId: "r-1", Caller: &pb.CallerContext{TurnId: "7"}}, "say", "nobody")
	got, err := w.exec.GetBatch(t.Context(), &pb.GetBatchRequest{Batch: &pb.GetBatchRequest_RequestId{RequestId: "r-1"}})
	if err != nil {
		t.Fatal(err)
	}
	b := got.GetBatch()
	if b.GetState() != pb.BatchState_BATCH_STATE_COMPLETED || b.GetLastSeq() != int64(len(all)) || b.GetEndTime() == nil || b.GetOwnerReplica() != "" {
		t.Errorf("batch: %v", b)
	}
	if b.GetSpec().GetCaller().GetTurnId() != "7" || b.GetPrincipal().GetId() != "local" || b.GetRequestId() != "r-1" {
		t.Errorf("who and what: %v, %v", b.GetSpec(), b.GetPrincipal())
	}
	results := map[string]*pb.CallResult{}
	for _, e := range all {
		if r := e.GetResult(); r != nil {
			results[e.GetCallId()] = r
		}
	}
	for i, c := range b.GetCalls() {
		if c.GetCall().GetCallId() != []string{"0", "1"}[i] || c.GetState() != pb.CallState_CALL_STATE_DONE || c.GetDecision() == nil {
			t.Errorf("call %d: %v", i, c)
		}
		if diff := cmp.Diff(results[c.GetCall().GetCallId()], c.GetResult(), protocmp.Transform()); diff != "" {
			t.Errorf("call %d differs from its event:\n%s", i, diff)
		}
	}
}

func TestListBatchesPagesNewestFirst(t *testing.T) {
	w := newWorld(t, nil)
	var want []string
	for range 5 {
		all := w.run(&pb.BatchSpec{Labels: map[string]string{"team": "blue"}}, "say")
		want = append([]string{all[0].GetBatchId()}, want...)
	}
	w.run(&pb.BatchSpec{Labels: map[string]string{"team": "red"}}, "say")
	in := &pb.ListBatchesRequest{PageSize: 2, Labels: map[string]string{"team": "blue"}}
	var got []string
	for {
		page, err := w.exec.ListBatches(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range page.GetBatches() {
			got = append(got, b.GetBatchId())
			if b.GetCalls()[0].GetResult().GetOutput().GetText().GetText() != "" {
				t.Error("a list has inline content")
			}
		}
		if in.PageToken = page.GetNextPageToken(); in.GetPageToken() == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCancelEndsWhatRuns(t *testing.T) {
	running := make(chan struct{})
	w := newWorld(t, nil, newProbe("hang", tool.ReadOnly, func(ctx context.Context, _ tool.Runtime) (tool.Result, error) {
		close(running)
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}))
	stream, err := w.exec.ExecuteBatch(t.Context(), &pb.ExecuteBatchRequest{Spec: &pb.BatchSpec{}, Calls: []*pb.ToolCall{{Tool: "hang"}}})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	<-running
	id := first.GetEvent().GetBatchId()
	if _, err := w.exec.CancelCall(t.Context(), &pb.CancelCallRequest{BatchId: id, CallId: "9"}); read(t, err).Reason != "CALL_NOT_FOUND" {
		t.Errorf("a call that is not there: %v", err)
	}
	if _, err := w.exec.CancelBatch(t.Context(), &pb.CancelBatchRequest{BatchId: id, Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	all, err := events(t, stream)
	if err != nil {
		t.Fatal(err)
	}
	if got := summaryOf(all).GetCalls()[0].GetOutcome(); got != pb.ToolOutcome_TOOL_OUTCOME_CANCELLED {
		t.Errorf("outcome: %v", got)
	}
}

func TestExplainRunsNothing(t *testing.T) {
	ran := false
	w := newWorld(t, nil, newProbe("change", tool.Write, func(context.Context, tool.Runtime) (tool.Result, error) {
		ran = true
		return tool.Result{}, nil
	}))
	got, err := w.exec.ExplainBatch(t.Context(), &pb.ExplainBatchRequest{Spec: &pb.BatchSpec{}, Calls: []*pb.ToolCall{{Tool: "change"}, {Tool: "say"}, {Tool: "nobody"}}})
	if err != nil {
		t.Fatal(err)
	}
	var waves []int32
	for _, c := range got.GetCalls() {
		waves = append(waves, c.GetWave())
	}
	if diff := cmp.Diff([]int32{1, 0, -1}, waves); diff != "" || ran {
		t.Errorf("ran %v, waves (-want +got):\n%s", ran, diff)
	}
}

func TestRefusalsSayThatNothingRan(t *testing.T) {
	w := newWorld(t, nil)
	huge := &pb.ExecuteBatchRequest{Spec: &pb.BatchSpec{}, Calls: []*pb.ToolCall{{ArgumentsJson: strings.Repeat(" ", maxRequest)}}}
	for name, test := range map[string]struct {
		in     *pb.ExecuteBatchRequest
		code   codes.Code
		reason string
	}{
		"no spec":       {&pb.ExecuteBatchRequest{}, codes.InvalidArgument, "BATCH_MALFORMED"},
		"no calls":      {&pb.ExecuteBatchRequest{Spec: &pb.BatchSpec{}}, codes.InvalidArgument, "BATCH_MALFORMED"},
		"bad request":   {&pb.ExecuteBatchRequest{Spec: &pb.BatchSpec{RequestId: "a b"}, Calls: []*pb.ToolCall{{}}}, codes.InvalidArgument, "REQUEST_MALFORMED"},
		"no session":    {&pb.ExecuteBatchRequest{Spec: &pb.BatchSpec{SessionId: "x"}, Calls: []*pb.ToolCall{{Tool: "say"}}}, codes.NotFound, "SESSION_NOT_FOUND"},
		"too many":      {&pb.ExecuteBatchRequest{Spec: &pb.BatchSpec{}, Calls: make257()}, codes.ResourceExhausted, "TOO_MANY_CALLS"},
		"too large":     {huge, codes.ResourceExhausted, "REQUEST_TOO_LARGE"},
		"not served":    {&pb.ExecuteBatchRequest{Spec: &pb.BatchSpec{ScheduleMode: 4}, Calls: []*pb.ToolCall{{Tool: "say"}}}, codes.InvalidArgument, "BATCH_MALFORMED"},
		"unknown place": {&pb.ExecuteBatchRequest{Spec: &pb.BatchSpec{WorkspaceId: "moon"}, Calls: []*pb.ToolCall{{Tool: "say"}}}, codes.FailedPrecondition, "WORKSPACE_UNKNOWN"},
	} {
		t.Run(name, func(t *testing.T) {
			stream, err := w.exec.ExecuteBatch(t.Context(), test.in)
			if err == nil {
				_, err = events(t, stream)
			}
			got := read(t, err)
			if got.Code != test.code || got.Reason != test.reason || got.Metadata["accepted"] != "false" {
				t.Errorf("%v: got %+v", err, got)
			}
			if _, err := w.exec.ExplainBatch(t.Context(), &pb.ExplainBatchRequest{Spec: test.in.GetSpec(), Calls: test.in.GetCalls()}); read(t, err).Reason != test.reason {
				t.Errorf("explained: %v", err)
			}
		})
	}
}

func make257() []*pb.ToolCall {
	out := make([]*pb.ToolCall, 257)
	for i := range out {
		out[i] = &pb.ToolCall{Tool: "say"}
	}
	return out
}

func TestNothingIsSentBeforeAcceptance(t *testing.T) {
	w := newWorld(t, nil)
	stream, err := w.exec.ExecuteBatch(t.Context(), &pb.ExecuteBatchRequest{Spec: &pb.BatchSpec{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err == nil {
		t.Fatal("a batch without calls was taken")
	}
	// A refusal that comes as trailers only leaves no headers.
	if h, _ := stream.Header(); len(h.Get("content-type")) > 1 {
		t.Errorf("headers: %v", h)
	}
}

func TestAPanicIsABugAndHarmsNobodyElse(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Identify = func(ctx context.Context) (tool.Caller, error) {
			if md, _ := metadata.FromIncomingContext(ctx); len(md.Get("panic")) > 0 {
				panic("at the edge")
			}
			return Local(ctx)
		}
	})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "panic", "yes")
	_, err := pb.NewAdminServiceClient(w.conn).GetServerInfo(ctx, &pb.GetServerInfoRequest{})
	if got := read(t, err); got.Code != codes.Internal || got.Reason != "BUG" || strings.Contains(err.Error(), "at the edge") {
		t.Errorf("unary: %v", err)
	}
	stream, err := w.exec.ExecuteBatch(ctx, &pb.ExecuteBatchRequest{Spec: &pb.BatchSpec{}})
	if err == nil {
		_, err = stream.Recv()
	}
	if got := read(t, err); got.Reason != "BUG" {
		t.Errorf("stream: %v", err)
	}
	w.run(&pb.BatchSpec{}, "say")
}

func TestHealthFollowsTheLedgerAndTheDrain(t *testing.T) {
	var down error
	w := newWorld(t, func(o *Options) { o.Available = func() error { return down } })
	health := healthpb.NewHealthClient(w.conn)
	for _, service := range []string{"", "toold.v1.ExecutionService"} {
		got, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if err != nil || got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", service, got, err)
		}
	}
	if err := w.executor.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.Serving() {
		t.Error("serving while draining")
	}
	_, err := w.try(&pb.BatchSpec{}, "say")
	if got := read(t, err); got.Reason != "REPLICA_DRAINING" || got.Metadata["accepted"] != "false" || got.Retry == 0 {
		t.Errorf("draining: %+v", got)
	}
}

func TestUnknownFieldsAreForgotten(t *testing.T) {
	in := &pb.ExecuteBatchRequest{Spec: &pb.BatchSpec{Caller: &pb.CallerContext{}}}
	in.Spec.Caller.ProtoReflect().SetUnknown([]byte{0x32, 3, 't', 'o', 'k'}) // field 6
	raw, err := proto.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	c := newWireCodec()
	data, err := c.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var got pb.ExecuteBatchRequest
	if err := c.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if again, _ := proto.Marshal(&got); len(again) >= len(raw) || strings.Contains(string(again), "tok") {
		t.Errorf("a field that this version does not know was kept: %q", again)
	}
}
