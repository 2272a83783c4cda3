package server

import (
	"encoding/hex"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/tool"
	pb "github.com/toold/toold/proto/toold/v1"
)

// timeFromProto gives the zero time for an unset timestamp, UTC otherwise.
func timeFromProto(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// durationFromProto gives 0 for an unset duration; too long ones are cut to the
// longest that time.Duration holds.
func durationFromProto(d *durationpb.Duration) time.Duration { return d.AsDuration() }

// digestFromHex gives the zero digest for anything but 64 hex digits.
func digestFromHex(s string) audit.Digest {
	var d audit.Digest
	if len(s) == hex.EncodedLen(len(d)) {
		if _, err := hex.Decode(d[:], []byte(s)); err != nil {
			return audit.Digest{}
		}
	}
	return d
}

func principalFromProto(p *pb.Principal) tool.Principal {
	return tool.Principal{ID: p.GetId(), Kind: tool.PrincipalKind(p.GetKind()), DisplayName: p.GetDisplayName()}
}

func effectsFromProto(effects []*pb.Effect) []tool.Effect {
	var out []tool.Effect
	for _, e := range effects {
		out = append(out, tool.Effect{Verb: tool.Verb(e.GetVerb()), Target: e.GetTarget()})
	}
	return out
}

// decisionFromProto gives what the wire has of a decision: not the tenant, the
// session, the numbering and the timing, which only the ledger knows.
func decisionFromProto(e *pb.BatchEvent, d *pb.PermissionDecision) exec.Decided {
	return exec.Decided{
		Decision: audit.Decision{
			DecidedAt:     timeFromProto(d.GetDecideTime()),
			ID:            d.GetDecisionId(),
			Batch:         tool.BatchID(e.GetBatchId()),
			Call:          tool.CallID(e.GetCallId()),
			Class:         tool.Class(d.GetSideEffect()),
			Verdict:       word(pb.Verdict_name, "VERDICT_", d.GetVerdict()),
			Reason:        d.GetReason(),
			ReasonCode:    d.GetReasonCode(),
			PolicyID:      d.GetPolicyId(),
			PolicyVersion: d.GetPolicyVersion(),
			Matched:       d.GetMatchedPolicyIds(),
			Stage:         word(pb.DecisionStage_name, "DECISION_STAGE_", d.GetStage()),
			ArgsDigest:    digestFromHex(d.GetArgumentsDigest()),
			ApprovalID:    d.GetApprovalId(),
			DecidedBy:     d.GetDecidedBy().GetId(),
		},
		Effects: effectsFromProto(d.GetEffects()),
	}
}

func hintsFromProto(hints []*pb.Hint) []tool.Hint {
	var out []tool.Hint
	for _, h := range hints {
		out = append(out, tool.Hint{
			Level: tool.HintLevel(h.GetLevel()), Message: h.GetMessage(), Suggestion: h.GetSuggestion(), Code: h.GetCode(),
		})
	}
	return out
}

func artifactFromProto(a *pb.ArtifactRef) *tool.ArtifactRef {
	if a == nil {
		return nil
	}
	return &tool.ArtifactRef{URI: a.GetUri(), Size: a.GetSizeBytes(), SHA256: a.GetSha256(), MediaType: a.GetMediaType()}
}

func outputFromProto(o *pb.ToolOutput) tool.Output {
	switch o := o.GetOutput().(type) {
	case *pb.ToolOutput_Text:
		t := o.Text
		return tool.Text{Text: t.GetText(), MediaType: t.GetMediaType(), Lossy: t.GetLossy(), Artifact: artifactFromProto(t.GetArtifact())}
	case *pb.ToolOutput_Structured:
		return tool.Structured{JSON: []byte(o.Structured.GetJson()), Rendering: o.Structured.GetTextRendering()}
	case *pb.ToolOutput_Binary:
		b := o.Binary
		return tool.Binary{
			Data: b.GetData(), MediaType: b.GetMediaType(), Size: b.GetSizeBytes(), SHA256: b.GetSha256(),
			Artifact: artifactFromProto(b.GetArtifact()),
		}
	case *pb.ToolOutput_Truncated:
		t := o.Truncated
		out := tool.Truncated{
			Kind:           tool.OutputKind(t.GetOriginalKind()),
			Visible:        t.GetVisible(),
			Full:           artifactFromProto(t.GetFull()),
			OriginalBytes:  t.GetOriginalBytes(),
			KeptBytes:      t.GetKeptBytes(),
			OriginalTokens: t.GetOriginalTokens(),
			KeptTokens:     t.GetKeptTokens(),
			Reason:         tool.TruncationReason(t.GetReason()),
		}
		for _, r := range t.GetKept() {
			out.Kept = append(out.Kept, tool.ByteRange{Offset: r.GetOffset(), Length: r.GetLength()})
		}
		return out
	}
	return nil
}

func errorFromProto(e *pb.ErrorDetail) *tool.Error {
	if e == nil {
		return nil
	}
	out := &tool.Error{
		Reason:     e.GetReason(),
		Message:    e.GetMessage(),
		Retryable:  e.GetRetryable(),
		RetryAfter: durationFromProto(e.GetRetryAfter()),
		Metadata:   e.GetMetadata(),
	}
	for _, v := range e.GetViolations() {
		out.Violations = append(out.Violations, tool.Violation{Path: v.GetPath(), Description: v.GetDescription(), Reason: v.GetReason()})
	}
	return out
}

func changesFromProto(changes []*pb.Change) []tool.Change {
	var out []tool.Change
	for _, c := range changes {
		out = append(out, tool.Change{
			Path:         c.GetPath(),
			BeforeSHA256: c.GetBeforeSha256(),
			AfterSHA256:  c.GetAfterSha256(),
			BeforeBytes:  c.GetBeforeBytes(),
			AfterBytes:   c.GetAfterBytes(),
			LinesAdded:   int(c.GetLinesAdded()),
			LinesRemoved: int(c.GetLinesRemoved()),
			Diff:         artifactFromProto(c.GetDiff()),
			BeforeImage:  artifactFromProto(c.GetBeforeImage()),
		})
	}
	return out
}

func resultFromProto(r *pb.CallResult) exec.Finished {
	u := r.GetUsage()
	out := exec.Finished{
		Outcome:  tool.Outcome(r.GetOutcome()),
		Output:   outputFromProto(r.GetOutput()),
		Hints:    hintsFromProto(r.GetHints()),
		Error:    errorFromProto(r.GetError()),
		Metadata: r.GetMetadata(),
		Changes:  changesFromProto(r.GetChanges()),
		Usage: exec.Usage{
			Queue:        durationFromProto(u.GetQueueWait()),
			Run:          durationFromProto(u.GetRunTime()),
			CPU:          durationFromProto(u.GetCpuTime()),
			MaxRSSBytes:  u.GetMaxRssBytes(),
			OutputBytes:  u.GetOutputBytes(),
			OutputTokens: u.GetOutputTokens(),
		},
	}
	for _, a := range r.GetAttachments() {
		out.Attachments = append(out.Attachments, outputFromProto(a))
	}
	if x := r.GetExit(); x != nil {
		out.Exit = &tool.Exit{Code: int(x.GetCode()), Signal: x.GetSignal(), OOMKilled: x.GetOomKilled()}
	}
	return out
}

func summaryFromProto(s *pb.BatchSummary) exec.Summary {
	u := s.GetUsage()
	out := exec.Summary{
		State: word(pb.BatchState_name, "BATCH_STATE_", s.GetState()),
		Usage: exec.BatchUsage{
			Wall:         durationFromProto(u.GetWallTime()),
			BudgetTokens: u.GetBudgetTokens(),
			UsedTokens:   u.GetUsedTokens(),
			OutputBytes:  u.GetOutputBytes(),
		},
	}
	for _, c := range s.GetCalls() {
		out.Calls = append(out.Calls, exec.Ended{Call: tool.CallID(c.GetCallId()), Outcome: tool.Outcome(c.GetOutcome()), Seq: c.GetResultSeq()})
	}
	return out
}

// eventFromProto is the inverse of eventToProto for the numbered events: the
// others are never stored.
func eventFromProto(e *pb.BatchEvent) (exec.Event, error) {
	out := exec.Event{Seq: e.GetSeq(), Time: timeFromProto(e.GetTime()), Call: tool.CallID(e.GetCallId()), Index: -1}
	if e.CallIndex != nil {
		out.Index = int(e.GetCallIndex())
	}
	switch b := e.GetEvent().(type) {
	case *pb.BatchEvent_Accepted:
		a := b.Accepted
		out.Body = exec.Accepted{
			RequestID:       a.GetRequestId(),
			Calls:           int(a.GetCallCount()),
			Deadline:        timeFromProto(a.GetDeadline()),
			CatalogRevision: a.GetCatalogRevision(),
			PolicyVersion:   a.GetPolicyVersion(),
			Hints:           hintsFromProto(a.GetHints()),
		}
	case *pb.BatchEvent_Decision:
		out.Body = decisionFromProto(e, b.Decision)
	case *pb.BatchEvent_Started:
		s := b.Started
		out.Body = exec.Started{
			Executor: s.GetExecutor(), Attempt: int(s.GetAttempt()), Fence: s.GetWorkspaceFence(),
			Queue: durationFromProto(s.GetQueueWait()),
		}
	case *pb.BatchEvent_Result:
		out.Body = resultFromProto(b.Result)
	case *pb.BatchEvent_Summary:
		out.Body = summaryFromProto(b.Summary)
	default:
		return exec.Event{}, fmt.Errorf("event %d of batch %s is a %T, which is never numbered", e.GetSeq(), e.GetBatchId(), b)
	}
	return out, nil
}
