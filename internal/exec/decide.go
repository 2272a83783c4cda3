package exec

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/policy"
	"github.com/toold/toold/internal/schema"
	"github.com/toold/toold/internal/session"
	"github.com/toold/toold/internal/tool"
)

// decide resolves and prepares a call, and judges it. Afterwards c.decision is
// what will be recorded and c.refusal is set if the call will not run.
func (x *Executor) decide(ctx context.Context, b *Batch, c *call) {
	began := x.Now()
	if c.refusal == nil {
		if err := x.prepare(ctx, b, c); err != nil {
			c.refusal = invalidCall(err)
		}
	}
	d := policy.Decision{Verdict: policy.Deny, Stage: policy.Invalid, PolicyID: "call.invalid"}
	if c.refusal != nil {
		d.Reason, d.ReasonCode = c.refusal.Error.Message, c.refusal.Error.Reason
	} else {
		d = x.judge(b, c, b.session.Mode)
	}
	c.decision = b.decisionRow(c, d, b.session.Epoch, x.Now().Sub(began))
	if c.refusal == nil && d.Verdict != policy.Allow {
		c.refusal = refusal(b.req.Ask, d)
	}
	x.metrics.decided(d)
}

// judge asks policy about a call in a session of that mode.
func (x *Executor) judge(b *Batch, c *call, mode session.Mode) policy.Decision {
	return x.Policy.Decide(policy.Input{
		Caller: b.caller, SessionMode: mode, Tool: c.spec.Name, Class: c.class,
		Effects: c.action.Effects, Commands: c.action.Commands, Findings: c.action.Findings, Isolated: x.Isolation,
	})
}

// prepare finds the tool, checks the arguments and asks the tool what the call
// would do.
func (x *Executor) prepare(ctx context.Context, b *Batch, c *call) error {
	raw := c.req.Arguments
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	c.digest = sha256.Sum256(raw)
	if len(raw) > x.Limits.ArgumentsBytes {
		return &tool.ArgumentError{Reason: "ARGUMENTS_TOO_LARGE", Message: fmt.Sprintf("arguments_json has %d bytes, and the limit is %d", len(raw), x.Limits.ArgumentsBytes)}
	}
	t, ok := x.Registry.Lookup(c.req.Tool)
	if !ok {
		return unknownTool(c.req.Tool, x.Registry.Nearest(c.req.Tool))
	}
	c.spec = t.Spec()
	c.class = c.spec.Class
	if v := c.req.ToolVersion; v != "" && v != c.spec.Version {
		return &tool.ArgumentError{Reason: "TOOL_VERSION_MISMATCH", Message: fmt.Sprintf("%s is at version %s here, not %s; ask for that one or leave tool_version empty", c.spec.Name, c.spec.Version, v)}
	}
	var err error
	if c.args, err = schema.Object(raw); err != nil {
		return err
	}
	env := tool.Env{Caller: b.caller, Session: b.req.Session, Batch: b.id, Call: c.id}
	name := b.workspaceName(c.req.Workspace)
	if env.Workspace, err = x.Workspaces.Get(name); err != nil && name != "" {
		return tool.BadArgument("", "WORKSPACE_UNKNOWN", "workspace %q is not one of this deployment's (%s)", name, strings.Join(x.Workspaces.List(), ", "))
	}
	a, err := safePrepare(ctx, t, env, c)
	if err != nil {
		return x.nameWorkspaces(err)
	}
	if a.Class = a.Class.OrWidest(); a.Class > c.spec.Class {
		return fmt.Errorf("tool %s declared %s and prepared %s", c.spec.Name, c.spec.Class, a.Class)
	}
	for i := range a.Effects { // a name on disk need not be UTF-8
		a.Effects[i].Target = clean(a.Effects[i].Target, maxTarget)
	}
	c.action, c.class = a, a.Class
	c.timeout = c.limitTime(b.req.CallTimeout, x.Limits.CallTimeout)
	return nil
}

// nameWorkspaces adds the names there are to a tool's complaint that it has no
// workspace.
func (x *Executor) nameWorkspaces(err error) error {
	var ae *tool.ArgumentError
	if names := x.Workspaces.List(); errors.As(err, &ae) && ae.Reason == tool.ReasonNoWorkspace && len(names) > 0 {
		ae.Message = "no workspace was named and there is no default; set workspace_id to one of " + strings.Join(names, ", ")
	}
	return err
}

// safePrepare keeps a panic in a tool's Prepare to its own call.
func safePrepare(ctx context.Context, t tool.Tool, env tool.Env, c *call) (a tool.Action, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("tool %s panicked while preparing: %v", c.spec.Name, p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	return t.Prepare(ctx, env, c.args)
}

// maxTarget bounds the target of one effect, in bytes.
const maxTarget = 4 << 10

// prepareTimeout bounds what a tool may spend on looking things up.
const prepareTimeout = 5 * time.Second

// limitTime is the run time of a call: what it or its arguments ask for (the
// shorter), else the batch's, else the tool's, never above the tool's and the
// daemon's maximum. Calls that only wait have the tool's maximum alone.
func (c *call) limitTime(batch, most time.Duration) time.Duration {
	t := c.req.Timeout
	if t <= 0 || c.action.Timeout > 0 && c.action.Timeout < t {
		t = c.action.Timeout
	}
	if t <= 0 {
		t = batch
	}
	if t <= 0 {
		t = c.spec.DefaultTimeout
	}
	if !c.action.Waits {
		t = min(t, most)
	}
	return min(t, c.spec.MaxTimeout)
}

func unknownTool(name string, nearest []string) error {
	e := &tool.ArgumentError{Reason: "UNKNOWN_TOOL", Message: fmt.Sprintf("there is no tool %.100q", name)}
	if len(nearest) > 0 {
		e.Hints = []tool.Hint{{Level: tool.Info, Code: "NEAREST_TOOLS", Message: "tools with a similar name: " + strings.Join(nearest, ", "), Suggestion: "call " + nearest[0]}}
	}
	return e
}

// decisionRow is a decision as the ledger has it: the call's next one.
func (b *Batch) decisionRow(c *call, d policy.Decision, epoch int64, took time.Duration) audit.Decision {
	no := c.decision.No + 1
	row := audit.Decision{
		DecidedAt: cut(b.x.Now()), ID: uuid.Must(uuid.NewV7()).String(), Tenant: b.caller.Tenant, Batch: b.id, Call: c.id, No: no,
		Tool: ledgerName(c.req.Tool), Class: c.class, Verdict: d.Verdict.String(), Reason: clean(d.Reason, maxReason), ReasonCode: d.ReasonCode, PolicyID: d.PolicyID,
		PolicyVersion: b.x.Policy.Version(), Matched: d.Matched, Stage: d.Stage.String(), ArgsDigest: c.digest, DecidedBy: "policy",
		Principal: b.caller.Principal.ID, OnBehalfOf: b.caller.OnBehalfOf, Session: b.req.Session, SessionEpoch: epoch,
		EvalMicros: took.Microseconds(),
	}
	if no == 1 {
		row.First = &audit.CallFacts{
			Index: c.index, ToolVersion: c.spec.Version, Tier: "HOT", DeclaredClass: c.spec.Class.OrWidest(),
			Idempotency: c.spec.Idempotency, Effects: c.action.Effects, ArgsMasked: b.masked(c), Rationale: c.req.Rationale,
		}
	}
	return row
}

// ledgerName keeps a hallucinated tool name from filling the ledger.
func ledgerName(name string) string { return clean(name, 128) }

// clean makes text fit for the ledger: valid UTF-8 without NUL, at most most
// bytes.
func clean(s string, most int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most-len("…")], "") + "…"
	}
	return s
}

// maxReason bounds the reason of a decision on record, in bytes.
const maxReason = 2 << 10

// masked is a call's arguments as they may be stored: canonical, secrets masked;
// the empty object where they are not valid (their digest is on record).
func (b *Batch) masked(c *call) string {
	if c.args == nil {
		return "{}"
	}
	return audit.Mask(c.args, c.spec.SensitivePointers, b.x.MaskKey)
}

// refusal is the result of a call that policy did not allow.
func refusal(ask AskPolicy, d policy.Decision) *Finished {
	f := &Finished{Outcome: tool.Denied, Error: &tool.Error{Reason: d.ReasonCode, Message: d.Reason, Metadata: map[string]string{"policy_id": d.PolicyID}}}
	if d.Fix != "" {
		f.Hints = []tool.Hint{{Level: tool.Info, Code: "HOW_TO_ALLOW", Message: "what would allow it", Suggestion: d.Fix}}
	}
	if d.Verdict != policy.Ask {
		return f
	}
	f.Outcome = tool.Rejected
	f.Error.Reason = "NO_APPROVER"
	f.Error.Message = d.Reason + " Nobody can answer: approvals are not served here."
	if ask == Reject {
		f.Error.Reason = "APPROVAL_NEEDED"
		f.Error.Message = d.Reason + " The batch's ask_policy is REJECT, so nobody was asked."
	}
	return f
}

// invalidCall is the result of a call whose tool or arguments are wrong.
func invalidCall(err error) *Finished {
	var ae *tool.ArgumentError
	if errors.As(err, &ae) {
		return &Finished{
			Outcome: tool.Invalid, Hints: ae.Hints,
			Error: &tool.Error{Reason: ae.Reason, Message: ae.Error(), Violations: ae.Violations},
		}
	}
	return invalid("PREPARE_FAILED", "%v", err)
}

func invalid(reason, format string, args ...any) *Finished {
	return &Finished{Outcome: tool.Invalid, Error: &tool.Error{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

func sessionError(err error) error {
	switch {
	case errors.Is(err, session.ErrClosed):
		return &Error{Kind: KindPrecondition, Reason: "SESSION_CLOSED", Field: "spec.session_id", Message: "the session is closed; make a new one"}
	case errors.Is(err, session.ErrNotFound):
		return &Error{Kind: KindNotFound, Reason: "SESSION_NOT_FOUND", Field: "spec.session_id", Message: "no such session of yours; make one, or leave session_id empty"}
	default:
		return &Error{Kind: KindUnavailable, Reason: ReasonAuditUnavailable, Message: "looking up the session", Err: err, RetryAfter: time.Second}
	}
}
