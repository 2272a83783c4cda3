package server

import (
	"encoding/hex"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/tool"
	pb "github.com/toold/toold/proto/toold/v1"
)

// The conversions in this file go from the vocabulary of the daemon to the wire;
// parse.go holds the way back. Enums that are numbered as in the proto are cast,
// those that are words in the ledger go through the proto's own name tables.

// domain is the ErrorInfo and ErrorDetail domain of every reason of ours.
const domain = "toold"

// decider is how the ledger names the policy engine as the one who decided.
const decider = "policy"

func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func duration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// hexDigest gives 64 hex digits, or nothing for the zero digest.
func hexDigest(d audit.Digest) string {
	if d == (audit.Digest{}) {
		return ""
	}
	return hex.EncodeToString(d[:])
}

// enum finds an enum's number by its name without the prefix; 0 for others.
func enum[E ~int32](values map[string]int32, prefix, name string) E {
	return E(values[prefix+name])
}

// word is the inverse of enum: the name without the prefix, empty for 0.
func word[E ~int32](names map[int32]string, prefix string, e E) string {
	if e == 0 {
		return ""
	}
	name := names[int32(e)]
	if len(name) < len(prefix) {
		return ""
	}
	return name[len(prefix):]
}

func principalToProto(p tool.Principal) *pb.Principal {
	return &pb.Principal{Id: p.ID, Kind: pb.PrincipalKind(p.Kind), DisplayName: p.DisplayName}
}

func effectsToProto(effects []tool.Effect) []*pb.Effect {
	out := make([]*pb.Effect, 0, len(effects))
	for _, e := range effects {
		out = append(out, &pb.Effect{Verb: string(e.Verb), Target: e.Target})
	}
	return out
}

func decisionToProto(d audit.Decision, effects []tool.Effect) *pb.PermissionDecision {
	out := &pb.PermissionDecision{
		DecisionId:       d.ID,
		Allowed:          d.Verdict == "ALLOW",
		Reason:           d.Reason,
		PolicyId:         d.PolicyID,
		PolicyVersion:    d.PolicyVersion,
		Verdict:          enum[pb.Verdict](pb.Verdict_value, "VERDICT_", d.Verdict),
		Stage:            enum[pb.DecisionStage](pb.DecisionStage_value, "DECISION_STAGE_", d.Stage),
		ReasonCode:       d.ReasonCode,
		SideEffect:       pb.SideEffect(d.Class),
		ArgumentsDigest:  hexDigest(d.ArgsDigest),
		ApprovalId:       d.ApprovalID,
		MatchedPolicyIds: d.Matched,
		DecideTime:       timestamp(d.DecidedAt),
		Effects:          effectsToProto(effects),
	}
	if d.DecidedBy != "" {
		kind := pb.PrincipalKind_PRINCIPAL_KIND_HUMAN
		if d.DecidedBy == decider {
			kind = pb.PrincipalKind_PRINCIPAL_KIND_POLICY
		}
		out.DecidedBy = &pb.Principal{Id: d.DecidedBy, Kind: kind}
	}
	return out
}

func hintsToProto(hints []tool.Hint) []*pb.Hint {
	out := make([]*pb.Hint, 0, len(hints))
	for _, h := range hints {
		out = append(out, &pb.Hint{
			Level: pb.HintLevel(h.Level), Message: h.Message, Suggestion: h.Suggestion, Code: h.Code,
		})
	}
	return out
}

func artifactToProto(a *tool.ArtifactRef) *pb.ArtifactRef {
	if a == nil {
		return nil
	}
	return &pb.ArtifactRef{Uri: a.URI, SizeBytes: a.Size, Sha256: a.SHA256, MediaType: a.MediaType}
}

// outputToProto panics on Captured: the executor has turned it into one of the
// others by the time that there is a result.
func outputToProto(o tool.Output) *pb.ToolOutput {
	switch o := o.(type) {
	case nil:
		return nil
	case tool.Text:
		return &pb.ToolOutput{Output: &pb.ToolOutput_Text{Text: &pb.Text{
			Text: o.Text, MediaType: o.MediaType, Lossy: o.Lossy, Artifact: artifactToProto(o.Artifact),
		}}}
	case tool.Structured:
		return &pb.ToolOutput{Output: &pb.ToolOutput_Structured{Structured: &pb.Structured{
			Json: string(o.JSON), TextRendering: o.Rendering,
		}}}
	case tool.Binary:
		return &pb.ToolOutput{Output: &pb.ToolOutput_Binary{Binary: &pb.Binary{
			Data: o.Data, MediaType: o.MediaType, SizeBytes: o.Size, Sha256: o.SHA256, Artifact: artifactToProto(o.Artifact),
		}}}
	case tool.Truncated:
		return &pb.ToolOutput{Output: &pb.ToolOutput_Truncated{Truncated: truncatedToProto(o)}}
	case tool.Captured:
		panic("server: captured output in a result")
	}
	return nil
}

func truncatedToProto(t tool.Truncated) *pb.Truncated {
	out := &pb.Truncated{
		OriginalKind:   pb.OutputKind(t.Kind),
		Visible:        t.Visible,
		Full:           artifactToProto(t.Full),
		OriginalBytes:  t.OriginalBytes,
		KeptBytes:      t.KeptBytes,
		OriginalTokens: t.OriginalTokens,
		KeptTokens:     t.KeptTokens,
		Reason:         pb.TruncationReason(t.Reason),
	}
	for _, r := range t.Kept {
		out.Kept = append(out.Kept, &pb.ByteRange{Offset: r.Offset, Length: r.Length})
	}
	return out
}

func errorToProto(e *tool.Error) *pb.ErrorDetail {
	if e == nil {
		return nil
	}
	out := &pb.ErrorDetail{
		Reason:     e.Reason,
		Domain:     domain,
		Message:    e.Message,
		Retryable:  e.Retryable,
		RetryAfter: duration(e.RetryAfter),
		Metadata:   e.Metadata,
	}
	for _, v := range e.Violations {
		out.Violations = append(out.Violations, &pb.FieldViolation{Path: v.Path, Description: v.Description, Reason: v.Reason})
	}
	return out
}

func changesToProto(changes []tool.Change) []*pb.Change {
	out := make([]*pb.Change, 0, len(changes))
	for _, c := range changes {
		out = append(out, &pb.Change{
			Path:         c.Path,
			BeforeSha256: c.BeforeSHA256,
			AfterSha256:  c.AfterSHA256,
			BeforeBytes:  c.BeforeBytes,
			AfterBytes:   c.AfterBytes,
			LinesAdded:   int32(c.LinesAdded),
			LinesRemoved: int32(c.LinesRemoved),
			Diff:         artifactToProto(c.Diff),
			BeforeImage:  artifactToProto(c.BeforeImage),
		})
	}
	return out
}

func resultToProto(f exec.Finished) *pb.CallResult {
	out := &pb.CallResult{
		Outcome:  pb.ToolOutcome(f.Outcome),
		Output:   outputToProto(f.Output),
		Hints:    hintsToProto(f.Hints),
		Error:    errorToProto(f.Error),
		Metadata: f.Metadata,
		Changes:  changesToProto(f.Changes),
		Usage: &pb.CallUsage{
			QueueWait:    duration(f.Usage.Queue),
			RunTime:      duration(f.Usage.Run),
			CpuTime:      duration(f.Usage.CPU),
			MaxRssBytes:  f.Usage.MaxRSSBytes,
			OutputBytes:  f.Usage.OutputBytes,
			OutputTokens: f.Usage.OutputTokens,
		},
	}
	for _, a := range f.Attachments {
		out.Attachments = append(out.Attachments, outputToProto(a))
	}
	if f.Exit != nil {
		out.Exit = &pb.ProcessExit{Code: int32(f.Exit.Code), Signal: f.Exit.Signal, OomKilled: f.Exit.OOMKilled}
	}
	return out
}

func summaryToProto(s exec.Summary) *pb.BatchSummary {
	out := &pb.BatchSummary{
		State: enum[pb.BatchState](pb.BatchState_value, "BATCH_STATE_", s.State),
		Usage: &pb.BatchUsage{
			WallTime:     duration(s.Usage.Wall),
			BudgetTokens: s.Usage.BudgetTokens,
			UsedTokens:   s.Usage.UsedTokens,
			OutputBytes:  s.Usage.OutputBytes,
		},
	}
	for _, c := range s.Calls {
		out.Calls = append(out.Calls, &pb.CallSummary{
			CallId: string(c.Call), Outcome: pb.ToolOutcome(c.Outcome), ResultSeq: c.Seq,
		})
	}
	return out
}

// eventToProto gives the event with its number.
func eventToProto(batch tool.BatchID, e exec.Event) *pb.BatchEvent {
	out := &pb.BatchEvent{BatchId: string(batch), Seq: e.Seq, Time: timestamp(e.Time), CallId: string(e.Call)}
	if e.Index >= 0 {
		index := int32(e.Index)
		out.CallIndex = &index
	}
	switch b := e.Body.(type) {
	case exec.Accepted:
		out.Event = &pb.BatchEvent_Accepted{Accepted: &pb.BatchAccepted{
			RequestId:       b.RequestID,
			CallCount:       int32(b.Calls),
			Deadline:        timestamp(b.Deadline),
			CatalogRevision: b.CatalogRevision,
			PolicyVersion:   b.PolicyVersion,
			Hints:           hintsToProto(b.Hints),
		}}
	case exec.Decided:
		out.Event = &pb.BatchEvent_Decision{Decision: decisionToProto(b.Decision, b.Effects)}
	case exec.Started:
		out.Event = &pb.BatchEvent_Started{Started: &pb.CallStarted{
			Executor: b.Executor, Attempt: int32(b.Attempt), WorkspaceFence: b.Fence, QueueWait: duration(b.Queue),
		}}
	case exec.Finished:
		out.Event = &pb.BatchEvent_Result{Result: resultToProto(b)}
	case exec.Summary:
		out.Event = &pb.BatchEvent_Summary{Summary: summaryToProto(b)}
	case exec.Chunk:
		out.Event = &pb.BatchEvent_Chunk{Chunk: &pb.OutputChunk{
			Channel: pb.OutputChannel(b.Channel), Offset: b.Offset, Data: b.Data,
		}}
	case exec.Gap:
		out.Event = &pb.BatchEvent_Gap{Gap: &pb.OutputGap{
			Channel: pb.OutputChannel(b.Channel), FromOffset: b.From, ToOffset: b.To, Artifact: artifactToProto(b.Artifact),
		}}
	case exec.Progress:
		out.Event = &pb.BatchEvent_Progress{Progress: &pb.Progress{Done: b.Done, Total: b.Total, Message: b.Message}}
	case exec.Draining:
		out.Event = &pb.BatchEvent_Draining{Draining: &pb.Draining{ReattachAfter: duration(b.After)}}
	}
	return out
}
