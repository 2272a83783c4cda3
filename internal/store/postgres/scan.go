package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
)

// The expressions give the columns of rows.go in the same order; NULL is given as
// the zero value where that says the same.
const (
	selectBatch = `accepted_at, batch_id::text, team_id, request_id, request_digest, coalesce(session_id, ''), coalesce(workspace_id, ''),
		principal, coalesce(on_behalf_of, ''), coalesce(agent_id, ''), coalesce(agent_version, ''), coalesce(model, ''),
		coalesce(conversation_id, ''), schedule_mode, call_count, coalesce(context_remaining_tokens, 0), labels,
		coalesce(host(peer_addr), ''), coalesce(user_agent, ''), coalesce(trace_id, ''), replica_id, policy_version, catalog_revision`
	selectDecision = `decided_at, decision_id::text, team_id, batch_id::text, call_id, decision_no, tool, side_effect, verdict, reason,
		reason_code, policy_id, policy_version, matched_policy_ids, stage, args_digest, coalesce(approval_id::text, ''), decided_by,
		call_index, coalesce(tool_version, ''), coalesce(tier, ''), coalesce(declared_side_effect, ''), coalesce(idempotency, ''),
		coalesce(effects::text, ''), coalesce(args_masked, ''), coalesce(rationale, ''), principal, coalesce(on_behalf_of, ''),
		coalesce(session_id, ''), coalesce(session_epoch, 0), coalesce(eval_us, 0)`
	selectStart   = `started_at, batch_id::text, call_id, attempt, team_id, decision_id::text, args_digest, executor, replica_id, coalesce(workspace_id, '')`
	selectOutcome = `finished_at, batch_id::text, call_id, attempt, team_id, tool, tier, side_effect, outcome, coalesce(error_reason, ''),
		coalesce(error_domain, ''), exit_code, coalesce(exit_signal, ''), coalesce(queue_ms, 0), coalesce(approval_ms, 0),
		coalesce(run_ms, 0), coalesce(output_kind, ''), coalesce(output_bytes, 0), output_sha256, coalesce(output_tokens, 0),
		coalesce(kept_tokens, 0), truncated, artifact_ids::text[], coalesce(recovered_by, '')`
	selectArtifact = `at, event_id::text, artifact_id::text, team_id, coalesce(batch_id::text, ''), coalesce(call_id, ''), event, actor,
		coalesce(name, ''), coalesce(size_bytes, 0), sha256, coalesce(media_type, '')`
	selectAdmin = `at, event_id::text, team_id, actor, event, subject, coalesce(before::text, ''), coalesce(after::text, ''), coalesce(reason, '')`
)

// The functions below read a row by these columns; more is scanned behind them.

func scanBatch(r pgx.Rows, b *audit.Batch, more ...any) error {
	err := r.Scan(append([]any{
		at{&b.AcceptedAt},
		&b.ID, &b.Tenant, &b.RequestID,
		digest{&b.RequestDigest},
		&b.Session, &b.Workspace, &b.Principal, &b.OnBehalfOf,
		&b.AgentID, &b.AgentVersion, &b.Model, &b.ConversationID, &b.ScheduleMode, &b.CallCount, &b.ContextRemaining, &b.Labels,
		&b.PeerAddr, &b.UserAgent, &b.TraceID, &b.Replica, &b.PolicyVersion, &b.CatalogRevision,
	}, more...)...)
	b.PeerAddr = canonical(b.PeerAddr)
	return err
}

func scanDecision(r pgx.Rows, d *audit.Decision, more ...any) error {
	var (
		f                           audit.CallFacts
		index                       *int
		class, declared, idem, effs string
	)
	err := r.Scan(append([]any{
		at{&d.DecidedAt},
		&d.ID, &d.Tenant, &d.Batch, &d.Call, &d.No, &d.Tool, &class, &d.Verdict, &d.Reason, &d.ReasonCode, &d.PolicyID,
		&d.PolicyVersion, &d.Matched, &d.Stage,
		digest{&d.ArgsDigest},
		&d.ApprovalID, &d.DecidedBy, &index, &f.ToolVersion, &f.Tier,
		&declared, &idem, &effs, &f.ArgsMasked, &f.Rationale, &d.Principal, &d.OnBehalfOf, &d.Session, &d.SessionEpoch, &d.EvalMicros,
	}, more...)...)
	if err != nil {
		return err
	}
	d.Class, _ = tool.ParseClass(class)
	if len(d.Matched) == 0 {
		d.Matched = nil
	}
	if index == nil {
		return nil
	}
	f.Index = *index
	f.DeclaredClass, _ = tool.ParseClass(declared)
	if idem == tool.Idempotent.String() {
		f.Idempotency = tool.Idempotent
	}
	d.First = &f
	if effs == "[]" {
		return nil
	}
	return json.Unmarshal([]byte(effs), &f.Effects)
}

func scanStart(r pgx.Rows, s *audit.StartRow, more ...any) error {
	return r.Scan(append([]any{
		at{&s.StartedAt}, &s.Batch, &s.Call, &s.Attempt, &s.Tenant, &s.Decision, digest{&s.Args}, &s.Executor, &s.Replica, &s.Workspace,
	}, more...)...)
}

func scanOutcome(r pgx.Rows, o *audit.Outcome, more ...any) error {
	var class, outcome string
	var queue, approval, run int64
	err := r.Scan(append([]any{
		at{&o.FinishedAt},
		&o.Batch, &o.Call, &o.Attempt, &o.Tenant, &o.Tool, &o.Tier, &class, &outcome, &o.ErrorReason, &o.ErrorDomain,
		&o.ExitCode, &o.ExitSignal, &queue, &approval, &run, &o.OutputKind, &o.OutputBytes,
		digest{&o.OutputSHA256},
		&o.OutputTokens,
		&o.KeptTokens, &o.Truncated, &o.ArtifactIDs, &o.RecoveredBy,
	}, more...)...)
	o.Class, _ = tool.ParseClass(class)
	o.Outcome = tool.ParseOutcome(outcome)
	o.Queue, o.Approval, o.Run = millis(queue), millis(approval), millis(run)
	if len(o.ArtifactIDs) == 0 {
		o.ArtifactIDs = nil
	}
	return err
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func scanArtifact(r pgx.Rows, e *audit.ArtifactEvent, more ...any) error {
	return r.Scan(append([]any{
		at{&e.At}, &e.EventID, &e.Artifact, &e.Tenant, &e.Batch, &e.Call, &e.Event, &e.Actor, &e.Name, &e.Size, digest{&e.SHA256}, &e.MediaType,
	}, more...)...)
}

func scanAdmin(r pgx.Rows, e *audit.AdminEvent, more ...any) error {
	return r.Scan(append([]any{
		at{&e.At}, &e.EventID, &e.Tenant, &e.Actor, &e.Event, &e.Subject, &e.Before, &e.After, &e.Reason,
	}, more...)...)
}

// at scans a timestamptz: UTC, and NULL is the zero time.
type at struct{ to *time.Time }

// Scan implements sql.Scanner.
func (a at) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		return nil
	case time.Time:
		*a.to = v.UTC()
		return nil
	default:
		return fmt.Errorf("a time is %T", v)
	}
}

// digest scans 32 bytes of bytea; NULL is the zero digest.
type digest struct{ to *audit.Digest }

// ScanBytes implements pgtype.BytesScanner.
func (d digest) ScanBytes(v []byte) error {
	if v == nil {
		return nil
	}
	if len(v) != len(d.to) {
		return fmt.Errorf("a digest has %d bytes", len(v))
	}
	copy(d.to[:], v)
	return nil
}
