package server

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold/toold/internal/budget"
	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/tool"
	pb "github.com/toold/toold/proto/toold/v1"
)

func fullRequest() *pb.ExecuteBatchRequest {
	return &pb.ExecuteBatchRequest{
		Spec: &pb.BatchSpec{
			RequestId: "r-1", SessionId: "s-1", WorkspaceId: "w", ScheduleMode: pb.ScheduleMode_SCHEDULE_MODE_SERIAL,
			FailurePolicy: pb.FailurePolicy_FAILURE_POLICY_CONTINUE, DisconnectPolicy: pb.DisconnectPolicy_DISCONNECT_POLICY_DETACH,
			Budget: &pb.OutputBudget{
				ContextRemainingTokens: 1000, MaxBytesPerCall: 2000, MaxBytesPerBatch: 3000, Tokenizer: "o200k",
				TruncationStyle: pb.TruncationStyle_TRUNCATION_STYLE_TAIL, MaxTokensPerCall: 400,
			},
			BatchTimeout: durationpb.New(time.Minute), DefaultCallTimeout: durationpb.New(time.Second), ApprovalTimeout: durationpb.New(time.Hour),
			Caller:           &pb.CallerContext{AgentId: "a", AgentVersion: "1", ConversationId: "c", TurnId: "t", Model: "m", ParentBatchId: "p"},
			Stream:           &pb.StreamOptions{OutputChunks: true},
			MaxParallelReads: 3, Labels: map[string]string{"team": "blue"}, ResultOrder: pb.ResultOrder_RESULT_ORDER_CALL_ORDER,
			AskPolicy: pb.AskPolicy_ASK_POLICY_REJECT,
		},
		Calls: []*pb.ToolCall{{
			CallId: "call-1", Tool: "read", ToolVersion: "1.0.0", ArgumentsJson: `{"path": "a" }`, Timeout: durationpb.New(2 * time.Second),
			WorkspaceId: "other", Rationale: "to see",
		}, {}},
	}
}

func TestRequestsSurviveTheStore(t *testing.T) {
	caller := tool.Caller{
		Tenant: "default", Principal: tool.Principal{ID: "local", Kind: tool.PrincipalHuman, DisplayName: "me"},
		Groups: []string{"admin", "approver"}, OnBehalfOf: "user:x",
	}
	peer := exec.Peer{Addr: "127.0.0.1", UserAgent: "grpc-go", TraceID: "00ff"}
	in := fullRequest()
	encoded := encodeRequest(caller, peer, in)
	gotCaller, got, err := Codec{}.Request(encoded)
	if err != nil {
		t.Fatal(err)
	}
	tail := tool.CutTail
	want := exec.Request{
		ID: "r-1", Session: "s-1", Workspace: "w", Mode: exec.Serial, Failure: exec.Continue, Disconnect: exec.Detach,
		Budget: budget.Limits{
			ContextRemaining: 1000, MaxBytesPerCall: 2000, MaxBytesPerBatch: 3000, MaxTokensPerCall: 400, Tokenizer: budget.O200K, Cut: &tail,
		},
		BatchTimeout: time.Minute, CallTimeout: time.Second, Agent: exec.Agent{ID: "a", Version: "1", Conversation: "c", Model: "m", Parent: "p"},
		Peer: peer, MaxParallelReads: 3, Labels: map[string]string{"team": "blue"}, Order: exec.CallOrder, Ask: exec.Reject,
		Calls: []exec.Call{{
			ID: "call-1", Tool: "read", ToolVersion: "1.0.0", Arguments: []byte(`{"path": "a" }`), Timeout: 2 * time.Second, Workspace: "other", Rationale: "to see",
		}, {Arguments: []byte{}}},
		Encoded: encoded,
	}
	want.Digest = digest(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(caller, gotCaller); diff != "" {
		t.Errorf("caller (-want +got):\n%s", diff)
	}
	_, _, kept, err := decodeRequest(encoded)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, kept, protocmp.Transform()); diff != "" {
		t.Errorf("the request as sent (-want +got):\n%s", diff)
	}
}

func TestDigestCoversContentAndNothingElse(t *testing.T) {
	of := func(change func(*pb.ExecuteBatchRequest)) [32]byte {
		t.Helper()
		in := fullRequest()
		change(in)
		r, err := requestFromProto(in.GetSpec(), in.GetCalls())
		if err != nil {
			t.Fatal(err)
		}
		return digest(r)
	}
	plain := of(func(*pb.ExecuteBatchRequest) {})
	for name, test := range map[string]struct {
		same   bool
		change func(r *pb.ExecuteBatchRequest)
	}{
		"session":             {false, func(r *pb.ExecuteBatchRequest) { r.Spec.SessionId = "s-2" }},
		"workspace":           {false, func(r *pb.ExecuteBatchRequest) { r.Spec.WorkspaceId = "" }},
		"schedule":            {false, func(r *pb.ExecuteBatchRequest) { r.Spec.ScheduleMode = 0 }},
		"failure policy":      {false, func(r *pb.ExecuteBatchRequest) { r.Spec.FailurePolicy = 0 }},
		"disconnect policy":   {false, func(r *pb.ExecuteBatchRequest) { r.Spec.DisconnectPolicy = 0 }},
		"ask policy":          {false, func(r *pb.ExecuteBatchRequest) { r.Spec.AskPolicy = 0 }},
		"result order":        {false, func(r *pb.ExecuteBatchRequest) { r.Spec.ResultOrder = 0 }},
		"call id":             {false, func(r *pb.ExecuteBatchRequest) { r.Calls[0].CallId = "call-2" }},
		"tool":                {false, func(r *pb.ExecuteBatchRequest) { r.Calls[0].Tool = "write" }},
		"tool version":        {false, func(r *pb.ExecuteBatchRequest) { r.Calls[0].ToolVersion = "" }},
		"one byte":            {false, func(r *pb.ExecuteBatchRequest) { r.Calls[0].ArgumentsJson = `{"path":"a" }` }},
		"the call's place":    {false, func(r *pb.ExecuteBatchRequest) { r.Calls[0].WorkspaceId = "" }},
		"rationale":           {false, func(r *pb.ExecuteBatchRequest) { r.Calls[0].Rationale = "" }},
		"one call less":       {false, func(r *pb.ExecuteBatchRequest) { r.Calls = r.Calls[:1] }},
		"order of calls":      {false, func(r *pb.ExecuteBatchRequest) { r.Calls[0], r.Calls[1] = r.Calls[1], r.Calls[0] }},
		"request id":          {true, func(r *pb.ExecuteBatchRequest) { r.Spec.RequestId = "r-2" }},
		"budget":              {true, func(r *pb.ExecuteBatchRequest) { r.Spec.Budget = nil }},
		"batch timeout":       {true, func(r *pb.ExecuteBatchRequest) { r.Spec.BatchTimeout = nil }},
		"call timeout":        {true, func(r *pb.ExecuteBatchRequest) { r.Calls[0].Timeout = nil }},
		"stream":              {true, func(r *pb.ExecuteBatchRequest) { r.Spec.Stream = nil }},
		"caller":              {true, func(r *pb.ExecuteBatchRequest) { r.Spec.Caller = nil }},
		"labels":              {true, func(r *pb.ExecuteBatchRequest) { r.Spec.Labels = nil }},
		"parallel reads":      {true, func(r *pb.ExecuteBatchRequest) { r.Spec.MaxParallelReads = 0 }},
		"default id spelled":  {true, func(r *pb.ExecuteBatchRequest) { r.Calls[1].CallId = "1" }},
		"no arguments as {}":  {true, func(r *pb.ExecuteBatchRequest) { r.Calls[1].ArgumentsJson = "{}" }},
		"a moved length":      {false, func(r *pb.ExecuteBatchRequest) { r.Calls[0].Tool, r.Calls[0].ToolVersion = "read1", ".0.0" }},
		"an unread rationale": {false, func(r *pb.ExecuteBatchRequest) { r.Calls[1].Rationale = "x" }},
	} {
		if got := of(test.change) == plain; got != test.same {
			t.Errorf("%s: same digest = %v, want %v", name, got, test.same)
		}
	}
	if defaults, spelled := of(func(r *pb.ExecuteBatchRequest) {
		proto.Reset(r.Spec)
	}), of(func(r *pb.ExecuteBatchRequest) {
		r.Spec = &pb.BatchSpec{
			ScheduleMode: pb.ScheduleMode_SCHEDULE_MODE_READS_FIRST, FailurePolicy: pb.FailurePolicy_FAILURE_POLICY_STOP_ON_UNKNOWN,
			DisconnectPolicy: pb.DisconnectPolicy_DISCONNECT_POLICY_GRACE, AskPolicy: pb.AskPolicy_ASK_POLICY_WAIT,
			ResultOrder: pb.ResultOrder_RESULT_ORDER_AS_COMPLETED,
		}
	}); defaults != spelled {
		t.Error("defaults and the same spelled out have different digests")
	}
}

func TestByEffectIsRefused(t *testing.T) {
	_, err := requestFromProto(&pb.BatchSpec{ScheduleMode: pb.ScheduleMode_SCHEDULE_MODE_BY_EFFECT}, nil)
	var e *exec.Error
	if !errors.As(err, &e) || e.Reason != "BATCH_MALFORMED" || e.Field != "spec.schedule_mode" {
		t.Errorf("got %v, want BATCH_MALFORMED naming spec.schedule_mode", err)
	}
}

func TestPageTokensBelongToTheirList(t *testing.T) {
	id := "0190a1b2-0000-7000-8000-000000000001"
	first, err := newPage(&pb.ListBatchesRequest{SessionId: "s", Labels: map[string]string{"a": "1", "b": "2"}}, "", 50, isID)
	if err != nil {
		t.Fatal(err)
	}
	token := first.next(id)
	for name, test := range map[string]struct {
		in   pager
		salt string
		want string // reason; empty = taken
	}{
		"same filters":           {&pb.ListBatchesRequest{SessionId: "s", Labels: map[string]string{"b": "2", "a": "1"}, PageToken: token, PageSize: 3}, "", ""},
		"other filters":          {&pb.ListBatchesRequest{SessionId: "t", PageToken: token}, "", reasonBadPageToken},
		"another list":           {&pb.ListDecisionsRequest{PageToken: token}, "", reasonBadPageToken},
		"another revision":       {&pb.ListBatchesRequest{SessionId: "s", Labels: map[string]string{"b": "2", "a": "1"}, PageToken: token}, "x", reasonBadPageToken},
		"no base64":              {&pb.ListBatchesRequest{PageToken: "!"}, "", reasonBadPageToken},
		"no JSON":                {&pb.ListBatchesRequest{PageToken: "AAAA"}, "", reasonBadPageToken},
		"no id":                  {&pb.ListBatchesRequest{SessionId: "s", Labels: map[string]string{"a": "1", "b": "2"}, PageToken: first.next("x")}, "", reasonBadPageToken},
		"a filter with NUL":      {&pb.ListBatchesRequest{WorkspaceId: "a\x00"}, "", reasonMalformed},
		"a label with NUL in it": {&pb.ListBatchesRequest{Labels: map[string]string{"a": "\x00"}}, "", reasonMalformed},
	} {
		p, err := newPage(test.in, test.salt, 50, isID)
		var e *exec.Error
		_ = errors.As(err, &e)
		switch {
		case test.want == "" && (err != nil || p.after != id || p.size != 3):
			t.Errorf("%s: got %+v, %v", name, p, err)
		case test.want != "" && (e == nil || e.Reason != test.want):
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}

func FuzzPageToken(f *testing.F) {
	f.Add("")
	f.Add(page{list: "ListBatchesRequest:00"}.next("x"))
	f.Fuzz(func(t *testing.T, token string) {
		p, err := newPage(&pb.ListBatchesRequest{PageToken: token}, "", 50, isID)
		if err == nil && token != "" && !isID(p.after) {
			t.Errorf("%q was taken, and the page starts after %q", token, p.after)
		}
	})
}
