package server

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/tool"
	pb "github.com/toold/toold/proto/toold/v1"
)

// execution is toold.v1.ExecutionService.
type execution struct {
	pb.UnimplementedExecutionServiceServer
	*Server
}

func (s execution) ExecuteBatch(in *pb.ExecuteBatchRequest, stream grpc.ServerStreamingServer[pb.ExecuteBatchResponse]) error {
	ctx := stream.Context()
	caller := callerOf(ctx)
	r, err := s.request(ctx, in)
	if err != nil {
		return refuse(err)
	}
	batch, attached, err := s.Executor.Execute(ctx, caller, r)
	if err != nil {
		var own *exec.Error
		if reused := errors.As(err, &own) && own.Kind == exec.KindExists; attached && !reused {
			return err // this very request was accepted before, and may run
		}
		return refuse(err)
	}
	v := &view{s: s.Server, caller: caller, batch: batch, stream: stream, options: in.GetSpec().GetStream(), attached: attached}
	return v.serve(ctx, 0)
}

// request is what the executor gets of a request.
func (s execution) request(ctx context.Context, in *pb.ExecuteBatchRequest) (exec.Request, error) {
	r, err := requestFromProto(in.GetSpec(), in.GetCalls())
	if err != nil {
		return r, err
	}
	if err := s.knowsWorkspace(r.Workspace); err != nil {
		return r, err
	}
	r.Peer, r.Digest = peerOf(ctx), digest(r)
	r.Encoded = encodeRequest(callerOf(ctx), r.Peer, in)
	return r, nil
}

// knowsWorkspace refuses the name of a workspace that is not there.
func (s *Server) knowsWorkspace(name string) error {
	if name == "" {
		return nil
	}
	if _, err := s.Workspaces.Get(name); err != nil {
		return &exec.Error{
			Kind: exec.KindPrecondition, Reason: reasonWorkspaceUnknown,
			Message: err.Error() + "; name one of " + strings.Join(s.Workspaces.List(), ", "),
		}
	}
	return nil
}

func (s execution) AttachBatch(in *pb.AttachBatchRequest, stream grpc.ServerStreamingServer[pb.AttachBatchResponse]) error {
	ctx := stream.Context()
	caller := callerOf(ctx)
	batch, err := s.Executor.Attach(ctx, caller, refOf(in))
	if err != nil {
		return err
	}
	v := &view{s: s.Server, caller: caller, batch: batch, stream: stream, options: in.GetStream(), attached: true}
	return v.serve(ctx, in.GetAfterSeq())
}

// refOf names the batch that a request means.
func refOf(in interface {
	GetBatchId() string
	GetRequestId() string
},
) exec.Ref {
	return exec.Ref{Batch: tool.BatchID(in.GetBatchId()), Request: in.GetRequestId()}
}

func (s execution) GetBatch(ctx context.Context, in *pb.GetBatchRequest) (*pb.GetBatchResponse, error) {
	brief := in.GetResultDetail() == pb.ResultDetail_RESULT_DETAIL_OUTCOME_ONLY
	batch, err := s.snapshot(ctx, refOf(in), brief)
	if err != nil {
		return nil, err
	}
	out := &pb.GetBatchResponse{Batch: batch}
	return out, fits(out, "ask for RESULT_DETAIL_OUTCOME_ONLY, or attach")
}

// snapshot is a batch of the caller's as it stands.
func (s execution) snapshot(ctx context.Context, ref exec.Ref, brief bool) (*pb.Batch, error) {
	row, events, err := s.Executor.Snapshot(ctx, callerOf(ctx), ref)
	if err != nil {
		return nil, err
	}
	return batchToProto(row, events, s.Replica, brief)
}

func (s execution) ListBatches(ctx context.Context, in *pb.ListBatchesRequest) (*pb.ListBatchesResponse, error) {
	p, err := newPage(in, "", 50, isID)
	if err != nil {
		return nil, err
	}
	filter := audit.BatchFilter{
		Tenant:    callerOf(ctx).Tenant,
		Workspace: in.GetWorkspaceId(),
		Session:   tool.SessionID(in.GetSessionId()),
		After:     timeFromProto(in.GetAcceptedAfter()),
		Before:    timeFromProto(in.GetAcceptedBefore()),
		Labels:    in.GetLabels(),
		OlderThan: tool.BatchID(p.after),
		Limit:     p.size + 1,
	}
	for _, state := range in.GetStates() {
		if w := word(pb.BatchState_name, "BATCH_STATE_", state); w != "" {
			filter.States = append(filter.States, w)
		}
	}
	rows, err := s.Ledger.Batches(ctx, filter)
	if err != nil {
		return nil, err
	}
	var out pb.ListBatchesResponse
	room := maxReply
	for i, row := range rows {
		events, err := s.events(ctx, row.ID)
		if err != nil {
			return nil, err
		}
		batch, err := batchToProto(row, events, s.Replica, true)
		if err != nil {
			return nil, err
		}
		// A page ends early rather than with a message that is too large.
		room -= proto.Size(batch) + 16
		if i == p.size || (room < 0 && i > 0) {
			out.NextPageToken = p.next(out.GetBatches()[i-1].GetBatchId())
			break
		}
		out.Batches = append(out.Batches, batch)
	}
	return &out, fits(&out, "get the batches one by one")
}

// eventPage is how much of a batch's story is read at a time.
const eventPage = 1 << 20

// events reads a batch's events as they are stored, bodies left out where they
// are.
func (s execution) events(ctx context.Context, id tool.BatchID) ([]exec.Event, error) {
	var out []exec.Event
	for after := int64(0); ; {
		page, err := s.Ledger.Events(ctx, id, after, eventPage)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return out, nil
		}
		for _, n := range page {
			e, err := Codec{}.Decode(n.Wire)
			if err != nil {
				return nil, err
			}
			out, after = append(out, e), n.Seq
		}
	}
}

func (s execution) CancelBatch(ctx context.Context, in *pb.CancelBatchRequest) (*pb.CancelBatchResponse, error) {
	id := tool.BatchID(in.GetBatchId())
	err := s.Executor.Cancel(ctx, callerOf(ctx), id, "", in.GetReason(), in.GetMode() == pb.CancelMode_CANCEL_MODE_FORCE)
	if err != nil {
		return nil, err
	}
	batch, err := s.snapshot(ctx, exec.Ref{Batch: id}, true)
	if err != nil {
		return nil, err
	}
	out := &pb.CancelBatchResponse{Batch: batch}
	return out, fits(out, "it is cancelled; attach to see how its calls end")
}

func (s execution) CancelCall(ctx context.Context, in *pb.CancelCallRequest) (*pb.CancelCallResponse, error) {
	id, call := tool.BatchID(in.GetBatchId()), in.GetCallId()
	err := s.Executor.Cancel(ctx, callerOf(ctx), id, tool.CallID(call), in.GetReason(), in.GetMode() == pb.CancelMode_CANCEL_MODE_FORCE)
	if err != nil {
		return nil, err
	}
	batch, err := s.snapshot(ctx, exec.Ref{Batch: id}, true)
	if err != nil {
		return nil, err
	}
	for _, c := range batch.GetCalls() {
		if c.GetCall().GetCallId() == call {
			return &pb.CancelCallResponse{Call: c}, nil
		}
	}
	return nil, &exec.Error{
		Kind: exec.KindNotFound, Reason: reasonCallNotFound, Message: "the batch has no such call",
		Metadata: map[string]string{"resource": "call", "name": in.GetBatchId() + "/" + call},
	}
}

func (s execution) ExplainBatch(ctx context.Context, in *pb.ExplainBatchRequest) (*pb.ExplainBatchResponse, error) {
	caller := callerOf(ctx)
	r, err := s.request(ctx, &pb.ExecuteBatchRequest{Spec: in.GetSpec(), Calls: in.GetCalls()})
	if err != nil {
		return nil, refuse(err)
	}
	planned, err := s.Executor.Explain(ctx, caller, r)
	if err != nil {
		return nil, refuse(err)
	}
	var out pb.ExplainBatchResponse
	for _, c := range planned {
		out.Calls = append(out.Calls, &pb.PlannedCall{
			CallId: string(c.Call), Wave: int32(c.Wave), Decision: decisionToProto(c.Decision, c.Effects), Hints: hintsToProto(c.Hints),
		})
	}
	return &out, fits(&out, "split the batch")
}
