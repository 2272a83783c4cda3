package postgres

import (
	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
)

// place is where a ledger row is in its block: the last columns of each table.
const place = ", writer_id, block_no, leaf_no"

// The tables and the columns that are written, in the order of the functions
// below.
var (
	blocks  = into("audit.blocks", "writer_id, block_no, leaf_count, root, prev_hash, block_hash")
	batches = into("audit.batches", `accepted_at, batch_id, team_id, request_id, request_digest, session_id, workspace_id, principal,
		on_behalf_of, agent_id, agent_version, model, conversation_id, schedule_mode, call_count, context_remaining_tokens, labels,
		peer_addr, user_agent, trace_id, replica_id, policy_version, catalog_revision`+place)
	decisions = into("audit.permission_decisions", `decided_at, decision_id, team_id, batch_id, call_id, decision_no, tool, side_effect,
		verdict, reason, reason_code, policy_id, policy_version, matched_policy_ids, stage, args_digest, approval_id, decided_by,
		call_index, tool_version, tier, declared_side_effect, idempotency, effects, args_masked, rationale, principal, on_behalf_of,
		session_id, session_epoch, eval_us`+place)
	starts = into("audit.call_starts", `started_at, batch_id, call_id, attempt, team_id, decision_id, args_digest, executor, replica_id,
		workspace_id`+place)
	outcomes = into("audit.outcomes", `finished_at, batch_id, call_id, attempt, team_id, tool, tier, side_effect, outcome, error_reason,
		error_domain, exit_code, exit_signal, queue_ms, approval_ms, run_ms, output_kind, output_bytes, output_sha256, output_tokens,
		kept_tokens, truncated, artifact_ids, recovered_by`+place)
	artifacts = into("audit.artifact_events", `at, event_id, artifact_id, team_id, batch_id, call_id, event, actor, name, size_bytes,
		sha256, media_type`+place)
	admin    = into("audit.admin_events", "at, event_id, team_id, actor, event, subject, before, after, reason"+place)
	requests = into("exec.request_ids", "team_id, principal, request_id, request_digest, batch_id, expires_at")
	live     = into("exec.batches", `batch_id, team_id, principal, request_id, session_id, workspace_id, labels, state, request,
		accepted_at, deadline, ended_at, last_seq`)
	events = into("exec.events", "batch_id, first_seq, last_seq, events")
	held   = into("exec.calls", "batch_id, call_index, result")
)

// block writes claims and block, live state first.
func (m *message) block(claims []audit.Claim, b *audit.Block) {
	m.copy(requests, len(claims), func(i int) { m.claim(&claims[i]) })
	m.copy(live, len(b.Live), func(i int) { m.live(&b.Live[i]) })
	m.copy(events, len(b.Events), func(i int) {
		r := &b.Events[i]
		m.uuid(string(r.Batch))
		m.bigint(r.First)
		m.bigint(r.Last)
		m.bytea(r.Bytes)
	})
	m.copy(held, len(b.Held), func(i int) {
		r := &b.Held[i]
		m.uuid(string(r.Batch))
		m.integer(r.Index)
		m.bytea(r.Body)
	})
	if n := len(b.Ends); n > 0 {
		m.run("ends",
			literal(n, func(i int) string { return string(b.Ends[i].Batch) }),
			literal(n, func(i int) string { return b.Ends[i].State }),
			literal(n, func(i int) int64 { return b.Ends[i].EndedAt.UnixMicro() }),
			literal(n, func(i int) int64 { return b.Ends[i].LastSeq }))
	}
	leaves(m, batches, b, b.Batches, m.batch)
	leaves(m, decisions, b, b.Decisions, m.decision)
	leaves(m, starts, b, b.Starts, m.start)
	leaves(m, outcomes, b, b.Outcomes, m.outcome)
	leaves(m, artifacts, b, b.Artifacts, m.artifact)
	leaves(m, admin, b, b.Admin, m.admin)
	m.copy(blocks, 1, func(int) {
		m.text(b.Writer)
		m.bigint(b.No)
		m.integer(b.Leaves)
		m.bytea(b.Root[:])
		m.bytea(b.Prev[:])
		m.bytea(b.Hash[:])
	})
}

func leaves[Row any](m *message, t target, b *audit.Block, rows []audit.Leaf[Row], columns func(*Row)) {
	m.copy(t, len(rows), func(i int) {
		columns(rows[i].Row)
		m.text(b.Writer)
		m.bigint(b.No)
		m.integer(rows[i].No)
	})
}

func (m *message) claim(c *audit.Claim) {
	m.text(c.Tenant)
	m.text(c.Principal)
	m.text(c.RequestID)
	m.bytea(c.Digest[:])
	m.uuid(string(c.Batch))
	m.time(c.ExpiresAt)
}

func (m *message) live(b *audit.LiveBatch) {
	m.uuid(string(b.ID))
	m.text(b.Tenant)
	m.text(b.Principal)
	m.text(b.RequestID)
	m.maybe(string(b.Session))
	m.maybe(b.Workspace)
	m.labels(b.Labels)
	m.text(b.State)
	m.bytea(b.Request)
	m.time(b.AcceptedAt)
	m.maybeTime(b.Deadline)
	m.maybeTime(b.EndedAt)
	m.bigint(b.LastSeq)
}

func (m *message) batch(b *audit.Batch) {
	m.time(b.AcceptedAt)
	m.uuid(string(b.ID))
	m.text(b.Tenant)
	m.text(b.RequestID)
	m.bytea(b.RequestDigest[:])
	m.maybe(string(b.Session))
	m.maybe(b.Workspace)
	m.text(b.Principal)
	m.maybe(b.OnBehalfOf)
	m.maybe(b.AgentID)
	m.maybe(b.AgentVersion)
	m.maybe(b.Model)
	m.maybe(b.ConversationID)
	m.text(b.ScheduleMode)
	m.integer(b.CallCount)
	m.positive(b.ContextRemaining)
	m.labels(b.Labels)
	m.inet(b.PeerAddr)
	m.maybe(b.UserAgent)
	m.maybe(b.TraceID)
	m.text(b.Replica)
	m.text(b.PolicyVersion)
	m.text(b.CatalogRevision)
}

func (m *message) decision(d *audit.Decision) {
	m.time(d.DecidedAt)
	m.uuid(d.ID)
	m.text(d.Tenant)
	m.uuid(string(d.Batch))
	m.text(string(d.Call))
	m.smallint(d.No)
	m.text(d.Tool)
	m.text(d.Class.String())
	m.text(d.Verdict)
	m.text(d.Reason)
	m.text(d.ReasonCode)
	m.text(d.PolicyID)
	m.text(d.PolicyVersion)
	m.array(oidText, d.Matched, m.text)
	m.text(d.Stage)
	m.bytea(d.ArgsDigest[:])
	m.maybeUUID(d.ApprovalID)
	m.text(d.DecidedBy)
	m.callFacts(d.First)
	m.text(d.Principal)
	m.maybe(d.OnBehalfOf)
	m.maybe(string(d.Session))
	m.bigint(d.SessionEpoch)
	m.integer(int(d.EvalMicros))
}

func (m *message) callFacts(f *audit.CallFacts) {
	if f == nil {
		for range 8 {
			m.null()
		}
		return
	}
	m.integer(f.Index)
	m.maybe(f.ToolVersion)
	m.maybe(f.Tier)
	m.text(f.DeclaredClass.String())
	m.text(f.Idempotency.String())
	m.effects(f.Effects)
	m.text(f.ArgsMasked)
	m.maybe(f.Rationale)
}

func (m *message) start(s *audit.StartRow) {
	m.time(s.StartedAt)
	m.uuid(string(s.Batch))
	m.text(string(s.Call))
	m.smallint(s.Attempt)
	m.text(s.Tenant)
	m.uuid(s.Decision)
	m.bytea(s.Args[:])
	m.text(s.Executor)
	m.text(s.Replica)
	m.maybe(s.Workspace)
}

func (m *message) outcome(o *audit.Outcome) {
	m.time(o.FinishedAt)
	m.uuid(string(o.Batch))
	m.text(string(o.Call))
	m.smallint(o.Attempt)
	m.text(o.Tenant)
	m.text(o.Tool)
	m.text(o.Tier)
	m.text(o.Class.String())
	m.text(o.Outcome.String())
	m.maybe(o.ErrorReason)
	m.maybe(o.ErrorDomain)
	if o.ExitCode == nil {
		m.null()
	} else {
		m.integer(*o.ExitCode)
	}
	m.maybe(o.ExitSignal)
	m.bigint(o.Queue.Milliseconds())
	m.bigint(o.Approval.Milliseconds())
	m.bigint(o.Run.Milliseconds())
	m.maybe(o.OutputKind)
	m.bigint(o.OutputBytes)
	m.maybeDigest(&o.OutputSHA256)
	m.bigint(o.OutputTokens)
	m.bigint(o.KeptTokens)
	m.boolean(o.Truncated)
	m.array(oidUUID, o.ArtifactIDs, m.uuid)
	m.maybe(o.RecoveredBy)
}

func (m *message) artifact(e *audit.ArtifactEvent) {
	m.time(e.At)
	m.uuid(e.EventID)
	m.uuid(e.Artifact)
	m.text(e.Tenant)
	m.maybeUUID(string(e.Batch))
	m.maybe(string(e.Call))
	m.text(e.Event)
	m.text(e.Actor)
	m.maybe(e.Name)
	m.bigint(e.Size)
	m.maybeDigest(&e.SHA256)
	m.maybe(e.MediaType)
}

func (m *message) admin(e *audit.AdminEvent) {
	m.time(e.At)
	m.uuid(e.EventID)
	m.text(e.Tenant)
	m.text(e.Actor)
	m.text(e.Event)
	m.text(e.Subject)
	m.maybe(e.Before)
	m.maybe(e.After)
	m.maybe(e.Reason)
}

func batchID(text []byte) tool.BatchID { return tool.BatchID(text) }
