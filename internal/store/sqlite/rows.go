package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
)

// place is where a ledger row is in its block: the last columns of each table.
const place = ", writer_id, block_no, leaf_no"

// The columns, in the order that the writing and the reading functions have.
const (
	batchColumns = `accepted_at, batch_id, team_id, request_id, request_digest, session_id, workspace_id, principal, on_behalf_of,
		agent_id, agent_version, model, conversation_id, schedule_mode, call_count, context_remaining_tokens, labels, peer_addr,
		user_agent, trace_id, replica_id, policy_version, catalog_revision`
	decisionColumns = `decided_at, decision_id, team_id, batch_id, call_id, decision_no, tool, side_effect, verdict, reason, reason_code,
		policy_id, policy_version, matched_policy_ids, stage, args_digest, approval_id, decided_by, call_index, tool_version, tier,
		declared_side_effect, idempotency, effects, args_masked, rationale, principal, on_behalf_of, session_id, session_epoch, eval_us`
	startColumns   = `started_at, batch_id, call_id, attempt, team_id, decision_id, args_digest, executor, replica_id, workspace_id`
	outcomeColumns = `finished_at, batch_id, call_id, attempt, team_id, tool, tier, side_effect, outcome, error_reason, error_domain,
		exit_code, exit_signal, queue_ms, approval_ms, run_ms, output_kind, output_bytes, output_sha256, output_tokens, kept_tokens,
		truncated, artifact_ids, recovered_by`
	artifactColumns = `at, event_id, artifact_id, team_id, batch_id, call_id, event, actor, name, size_bytes, sha256, media_type`
	adminColumns    = `at, event_id, team_id, actor, event, subject, before, after, reason`
	liveColumns     = `batch_id, team_id, principal, request_id, session_id, workspace_id, labels, state, request, accepted_at, deadline,
		ended_at, last_seq`
)

var (
	blocks    = newTable("audit_blocks", "writer_id, block_no, leaf_count, root, prev_hash, block_hash")
	batches   = newTable("audit_batches", batchColumns+place)
	decisions = newTable("audit_permission_decisions", decisionColumns+place)
	starts    = newTable("audit_call_starts", startColumns+place)
	outcomes  = newTable("audit_outcomes", outcomeColumns+place)
	artifacts = newTable("audit_artifact_events", artifactColumns+place)
	admin     = newTable("audit_admin_events", adminColumns+place)
	live      = newTable("exec_batches", liveColumns)
	events    = newTable("exec_events", "batch_id, first_seq, last_seq, events")
	held      = newTable("exec_calls", "batch_id, call_index, result")
)

// write puts a whole block into the open transaction.
func (l *lane) write(ctx context.Context, b *audit.Block) error {
	err := l.insert(ctx, blocks, 1, func(a []any, _ int) []any {
		return append(a, b.Writer, b.No, b.Leaves, b.Root[:], b.Prev[:], b.Hash[:])
	})
	return first(err,
		leaves(ctx, l, batches, b, b.Batches, batchArgs),
		leaves(ctx, l, decisions, b, b.Decisions, decisionArgs),
		leaves(ctx, l, starts, b, b.Starts, startArgs),
		leaves(ctx, l, outcomes, b, b.Outcomes, outcomeArgs),
		leaves(ctx, l, artifacts, b, b.Artifacts, artifactArgs),
		leaves(ctx, l, admin, b, b.Admin, adminArgs),
		func() error {
			return l.insert(ctx, live, len(b.Live), func(a []any, i int) []any { return liveArgs(a, &b.Live[i]) })
		},
		func() error {
			return l.insert(ctx, events, len(b.Events), func(a []any, i int) []any {
				r := &b.Events[i]
				return append(a, string(r.Batch), r.First, r.Last, r.Bytes)
			})
		},
		func() error {
			return l.insert(ctx, held, len(b.Held), func(a []any, i int) []any {
				r := &b.Held[i]
				return append(a, string(r.Batch), r.Index, r.Body)
			})
		},
		func() error {
			for _, r := range b.Ends {
				if err := l.exec(ctx, `UPDATE exec_batches SET state = ?, ended_at = ?, last_seq = ? WHERE batch_id = ?`,
					r.State, stamp(r.EndedAt), r.LastSeq, string(r.Batch)); err != nil {
					return fmt.Errorf("ending a batch: %w", err)
				}
			}
			return nil
		})
}

// first runs steps until one fails.
func first(err error, steps ...func() error) error {
	for _, step := range steps {
		if err != nil {
			return err
		}
		err = step()
	}
	return err
}

func leaves[Row any](ctx context.Context, l *lane, t *table, b *audit.Block, rows []audit.Leaf[Row], args func([]any, *Row) []any) func() error {
	return func() error {
		return l.insert(ctx, t, len(rows), func(a []any, i int) []any {
			return append(args(a, rows[i].Row), b.Writer, b.No, rows[i].No)
		})
	}
}

func batchArgs(a []any, b *audit.Batch) []any {
	return append(a, stamp(b.AcceptedAt), string(b.ID), b.Tenant, b.RequestID, b.RequestDigest[:], null(b.Session), null(b.Workspace),
		b.Principal, null(b.OnBehalfOf), null(b.AgentID), null(b.AgentVersion), null(b.Model), null(b.ConversationID), b.ScheduleMode,
		b.CallCount, positive(b.ContextRemaining), labels(b.Labels), null(b.PeerAddr), null(b.UserAgent), null(b.TraceID), b.Replica,
		b.PolicyVersion, b.CatalogRevision)
}

func decisionArgs(a []any, d *audit.Decision) []any {
	a = append(a, stamp(d.DecidedAt), d.ID, d.Tenant, string(d.Batch), string(d.Call), d.No, d.Tool, d.Class.String(), d.Verdict, d.Reason,
		d.ReasonCode, d.PolicyID, d.PolicyVersion, list(d.Matched), d.Stage, d.ArgsDigest[:], null(d.ApprovalID), d.DecidedBy)
	if f := d.First; f != nil {
		a = append(a, f.Index, null(f.ToolVersion), null(f.Tier), f.DeclaredClass.String(), f.Idempotency.String(), list(f.Effects),
			f.ArgsMasked, null(f.Rationale))
	} else {
		a = append(a, nil, nil, nil, nil, nil, nil, nil, nil)
	}
	return append(a, d.Principal, null(d.OnBehalfOf), null(d.Session), d.SessionEpoch, d.EvalMicros)
}

func startArgs(a []any, s *audit.StartRow) []any {
	return append(a, stamp(s.StartedAt), string(s.Batch), string(s.Call), s.Attempt, s.Tenant, s.Decision, s.Args[:], s.Executor, s.Replica,
		null(s.Workspace))
}

func outcomeArgs(a []any, o *audit.Outcome) []any {
	var exit any
	if o.ExitCode != nil {
		exit = *o.ExitCode
	}
	var sum any
	if o.OutputSHA256 != (audit.Digest{}) {
		sum = o.OutputSHA256[:]
	}
	return append(a, stamp(o.FinishedAt), string(o.Batch), string(o.Call), o.Attempt, o.Tenant, o.Tool, o.Tier, o.Class.String(),
		o.Outcome.String(), null(o.ErrorReason), null(o.ErrorDomain), exit, null(o.ExitSignal), o.Queue.Milliseconds(),
		o.Approval.Milliseconds(), o.Run.Milliseconds(), null(o.OutputKind), o.OutputBytes, sum, o.OutputTokens, o.KeptTokens,
		o.Truncated, list(o.ArtifactIDs), null(o.RecoveredBy))
}

func artifactArgs(a []any, e *audit.ArtifactEvent) []any {
	var sum any
	if e.SHA256 != (audit.Digest{}) {
		sum = e.SHA256[:]
	}
	return append(a, stamp(e.At), e.EventID, e.Artifact, e.Tenant, null(e.Batch), null(e.Call), e.Event, e.Actor, null(e.Name), e.Size, sum,
		null(e.MediaType))
}

func adminArgs(a []any, e *audit.AdminEvent) []any {
	return append(a, stamp(e.At), e.EventID, e.Tenant, e.Actor, e.Event, e.Subject, null(e.Before), null(e.After), null(e.Reason))
}

func liveArgs(a []any, b *audit.LiveBatch) []any {
	return append(a, string(b.ID), b.Tenant, b.Principal, b.RequestID, null(b.Session), null(b.Workspace), labels(b.Labels), b.State, b.Request,
		stamp(b.AcceptedAt), maybeStamp(b.Deadline), maybeStamp(b.EndedAt), b.LastSeq)
}

// stampLayout sorts as text and is what SQLite's date functions read.
const stampLayout = "2006-01-02 15:04:05.000000"

func stamp(t time.Time) string { return t.UTC().Format(stampLayout) }

func maybeStamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return stamp(t)
}

func null[S ~string](s S) any {
	if s == "" {
		return nil
	}
	return string(s)
}

func positive(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

func labels(m map[string]string) string {
	if len(m) == 0 {
		return "{}"
	}
	return encode(m)
}

func list[E string | tool.Effect](l []E) string {
	if len(l) == 0 {
		return "[]"
	}
	return encode(l)
}

// encode is for values that JSON always has a form for.
func encode(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
