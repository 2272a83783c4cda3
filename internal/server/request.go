package server

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/budget"
	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/tool"
	pb "github.com/toold/toold/proto/toold/v1"
)

// requestFromProto converts a validated request. Encoded and Digest are the
// caller's to fill. It refuses what the proto knows and this version does not
// serve.
func requestFromProto(spec *pb.BatchSpec, calls []*pb.ToolCall) (exec.Request, error) {
	if spec.GetScheduleMode() == pb.ScheduleMode_SCHEDULE_MODE_BY_EFFECT {
		return exec.Request{}, &exec.Error{
			Kind: exec.KindInvalid, Reason: "BATCH_MALFORMED", Field: "spec.schedule_mode",
			Message: "BY_EFFECT is not served yet; use READS_FIRST, PROGRAM_ORDER or SERIAL",
		}
	}
	c := spec.GetCaller()
	r := exec.Request{
		ID:           spec.GetRequestId(),
		Session:      tool.SessionID(spec.GetSessionId()),
		Workspace:    spec.GetWorkspaceId(),
		Mode:         orDefault(exec.ScheduleMode(spec.GetScheduleMode()), exec.ReadsFirst),
		Failure:      orDefault(exec.FailurePolicy(spec.GetFailurePolicy()), exec.StopOnUnknown),
		Disconnect:   orDefault(exec.DisconnectPolicy(spec.GetDisconnectPolicy()), exec.Grace),
		Budget:       budgetFromProto(spec.GetBudget()),
		BatchTimeout: durationFromProto(spec.GetBatchTimeout()),
		CallTimeout:  durationFromProto(spec.GetDefaultCallTimeout()),
		Agent: exec.Agent{
			ID: c.GetAgentId(), Version: c.GetAgentVersion(), Conversation: c.GetConversationId(),
			Model: c.GetModel(), Parent: c.GetParentBatchId(),
		},
		MaxParallelReads: int(spec.GetMaxParallelReads()),
		Labels:           spec.GetLabels(),
		Order:            orDefault(exec.ResultOrder(spec.GetResultOrder()), exec.AsCompleted),
		Ask:              orDefault(exec.AskPolicy(spec.GetAskPolicy()), exec.Wait),
		Calls:            make([]exec.Call, 0, len(calls)),
	}
	for _, c := range calls {
		r.Calls = append(r.Calls, exec.Call{
			ID:          tool.CallID(c.GetCallId()),
			Tool:        c.GetTool(),
			ToolVersion: c.GetToolVersion(),
			Arguments:   []byte(c.GetArgumentsJson()),
			Timeout:     durationFromProto(c.GetTimeout()),
			Workspace:   c.GetWorkspaceId(),
			Rationale:   c.GetRationale(),
		})
	}
	return r, nil
}

func orDefault[E ~uint8](v, otherwise E) E {
	if v == 0 {
		return otherwise
	}
	return v
}

func budgetFromProto(b *pb.OutputBudget) budget.Limits {
	out := budget.Limits{
		ContextRemaining: budget.Tokens(b.GetContextRemainingTokens()),
		MaxBytesPerCall:  b.GetMaxBytesPerCall(),
		MaxBytesPerBatch: b.GetMaxBytesPerBatch(),
		MaxTokensPerCall: budget.Tokens(b.GetMaxTokensPerCall()),
		Tokenizer:        budget.Tokenizer(b.GetTokenizer()),
	}
	if s := b.GetTruncationStyle(); s != 0 {
		cut := tool.Cut(s - 1)
		out.Cut = &cut
	}
	return out
}

// digest is what makes two requests with one request id the same: a SHA-256
// over session, workspace, schedule mode, policies and calls, each field
// preceded by its length. Defaults count as if they had been written. Budgets,
// time limits, stream options, labels and what the caller says of itself are
// not in it: a retry may differ in them.
func digest(r exec.Request) audit.Digest {
	w := digestWriter{sha256.New()}
	w.text("toold.request.v1")
	w.text(string(r.Session))
	w.text(r.Workspace)
	for _, n := range []uint8{uint8(r.Mode), uint8(r.Failure), uint8(r.Disconnect), uint8(r.Ask), uint8(r.Order)} {
		w.number(uint64(n))
	}
	w.number(uint64(len(r.Calls)))
	for i, c := range r.Calls {
		id, args := string(c.ID), c.Arguments
		if id == "" {
			id = strconv.Itoa(i)
		}
		if len(args) == 0 {
			args = []byte("{}")
		}
		w.text(id)
		w.text(c.Tool)
		w.text(c.ToolVersion)
		w.bytes(args)
		w.text(c.Workspace)
		w.text(c.Rationale)
	}
	return audit.Digest(w.Sum(nil))
}

type digestWriter struct{ hash.Hash }

func (w digestWriter) number(n uint64) { w.Write(binary.BigEndian.AppendUint64(nil, n)) }

func (w digestWriter) bytes(b []byte) {
	w.number(uint64(len(b)))
	w.Write(b)
}

func (w digestWriter) text(s string) { w.bytes([]byte(s)) }

// heartbeatOf is how long a stream may be silent.
func heartbeatOf(wish *durationpb.Duration, byDefault time.Duration) time.Duration {
	d := durationFromProto(wish)
	if d == 0 {
		return byDefault
	}
	return max(d, minHeartbeat)
}

const minHeartbeat = 5 * time.Second
