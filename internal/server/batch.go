package server

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/exec"
	pb "github.com/toold/toold/proto/toold/v1"
)

// maxReply is the largest message that every gRPC client takes by default, less
// some room for headers.
const maxReply = 4<<20 - 4<<10

// batchToProto is a batch as it stands: the fold of its numbered events over
// what was asked. events are in order from 1, perhaps incomplete at the end.
// replica is who runs batches here. brief leaves out inline content: arguments
// and outputs.
func batchToProto(row audit.LiveBatch, events []exec.Event, replica string, brief bool) (*pb.Batch, error) {
	caller, _, request, err := decodeRequest(row.Request)
	if err != nil {
		return nil, fmt.Errorf("batch %s: %w", row.ID, err)
	}
	out := &pb.Batch{
		BatchId:      string(row.ID),
		RequestId:    row.RequestID,
		State:        enum[pb.BatchState](pb.BatchState_value, "BATCH_STATE_", row.State),
		Spec:         request.GetSpec(),
		LastSeq:      row.LastSeq,
		AcceptTime:   timestamp(row.AcceptedAt),
		EndTime:      timestamp(row.EndedAt),
		Principal:    principalToProto(caller.Principal),
		OwnerReplica: replica,
	}
	if out.Spec == nil { // erased with the replay window
		out.Spec = &pb.BatchSpec{SessionId: string(row.Session), WorkspaceId: row.Workspace, Labels: row.Labels}
		out.Principal = &pb.Principal{Id: row.Principal}
	}
	out.Spec.RequestId = row.RequestID
	for i, call := range request.GetCalls() {
		if call.GetCallId() == "" {
			call.CallId = strconv.Itoa(i)
		}
		out.Calls = append(out.Calls, &pb.CallStatus{Call: call, State: pb.CallState_CALL_STATE_QUEUED})
	}
	for _, e := range events {
		fold(out, e)
	}
	if terminal(out.GetState()) {
		out.OwnerReplica = ""
	}
	if brief {
		for _, c := range out.GetCalls() {
			dropCallContent(c)
		}
	}
	return out, nil
}

func terminal(s pb.BatchState) bool {
	return s == pb.BatchState_BATCH_STATE_COMPLETED || s == pb.BatchState_BATCH_STATE_CANCELLED
}

// fold adds one event to the state of a batch.
func fold(b *pb.Batch, e exec.Event) {
	b.LastSeq = max(b.GetLastSeq(), e.Seq)
	switch body := e.Body.(type) {
	case exec.Summary:
		s := summaryToProto(body)
		b.State, b.Usage, b.EndTime = s.GetState(), s.GetUsage(), timestamp(e.Time)
	case exec.Decided:
		c := callOf(b, e)
		c.Decision = decisionToProto(body.Decision, body.Effects)
		switch c.GetDecision().GetVerdict() {
		case pb.Verdict_VERDICT_ALLOW:
			c.State = pb.CallState_CALL_STATE_ALLOWED
		case pb.Verdict_VERDICT_ASK:
			c.State = pb.CallState_CALL_STATE_WAITING_APPROVAL
		}
	case exec.Started:
		callOf(b, e).State = pb.CallState_CALL_STATE_RUNNING
	case exec.Finished:
		c := callOf(b, e)
		c.Result, c.State = resultToProto(body), pb.CallState_CALL_STATE_DONE
	case exec.Accepted, exec.Chunk, exec.Gap, exec.Progress, exec.Draining: // change nothing
	}
}

// callOf is the call that an event is about.
func callOf(b *pb.Batch, e exec.Event) *pb.CallStatus {
	for e.Index >= len(b.GetCalls()) { // the request was erased: events are all there is
		id := strconv.Itoa(len(b.GetCalls()))
		b.Calls = append(b.Calls, &pb.CallStatus{Call: &pb.ToolCall{CallId: id}, State: pb.CallState_CALL_STATE_QUEUED})
	}
	c := b.GetCalls()[e.Index]
	c.Call.CallId = string(e.Call)
	return c
}

func dropCallContent(c *pb.CallStatus) {
	c.Call.ArgumentsJson = ""
	if c.GetResult() != nil {
		dropContent(c.GetResult())
	}
}

// fits refuses a reply that does not fit a message that every client takes.
func fits(m proto.Message, advice string) error {
	size := proto.Size(m)
	if size <= maxReply {
		return nil
	}
	return &exec.Error{
		Kind: exec.KindExhausted, Reason: reasonReplyTooLarge,
		Message:  fmt.Sprintf("the reply has %d bytes, and a message takes %d; %s", size, maxReply, advice),
		Metadata: map[string]string{"limit": strconv.Itoa(maxReply), "value": strconv.Itoa(size)},
	}
}
