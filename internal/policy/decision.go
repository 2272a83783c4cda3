// Package policy decides whether a caller may cause the effects of a call, now.
// It is pure: the same policy and the same input give the same decision, without
// a clock, a lookup or a side effect.
package policy

import "github.com/toold/toold/internal/tool"

// Verdict is a decision's answer, numbered as in the proto.
type Verdict uint8

// The verdicts. Ask is a refusal until a human has answered.
const (
	Allow Verdict = iota + 1
	Deny
	Ask
)

// String gives the verdict as it stands in SQL.
func (v Verdict) String() string {
	switch v {
	case Allow:
		return "ALLOW"
	case Deny:
		return "DENY"
	case Ask:
		return "ASK"
	default:
		return "UNSPECIFIED"
	}
}

// Stage is the step that decided, numbered as in the proto. Explain is for rows
// of decisions that were only explained; the proto does not have it.
type Stage uint8

// The stages.
const (
	Invalid      Stage = iota + 1 // the tool or the arguments are wrong
	Availability                  // no policy is to be had
	Catastrophic                  // command safety, tier 1
	Freeze                        // the kill switch
	ModeStage                     // plan mode
	Command                       // command safety, tier 2; protected paths; egress
	Rule                          // a rule of a policy file
	Grant                         // a remembered approval
	Approval                      // a human
	Quota                         // a limit
	Default                       // the profile's answer for the class
	Explain                       // nobody asked to run it
)

// String gives the stage as it stands in SQL.
func (s Stage) String() string {
	names := [...]string{"UNSPECIFIED", "INVALID", "AVAILABILITY", "CATASTROPHIC", "FREEZE", "MODE", "COMMAND", "RULE", "GRANT", "APPROVAL", "QUOTA", "DEFAULT", "EXPLAIN"}
	if int(s) >= len(names) {
		return names[0]
	}
	return names[s]
}

// Mode is the mode that a session is in.
type Mode uint8

// The modes. In Plan only READ_ONLY calls are decided by the rest of the policy.
const (
	Normal Mode = iota
	Plan
)

// String gives the mode as it stands in SQL.
func (m Mode) String() string {
	if m == Plan {
		return "PLAN"
	}
	return "NORMAL"
}

// Input is all that a decision depends on, beside the policy.
type Input struct {
	Caller      tool.Caller
	SessionMode Mode
	Tool        string
	Class       tool.Class // of this very call
	Effects     []tool.Effect
	Commands    []tool.Command
	Findings    []tool.Finding
	// Isolated says that commands run in a sandbox that is enforced, with its
	// network off.
	Isolated bool
}

// Decision is the answer. It is written into the audit log as it is.
type Decision struct {
	Verdict Verdict
	Stage   Stage
	// Reason is for the agent, in whole sentences: what was refused, why, and
	// what would be accepted instead.
	Reason string
	// ReasonCode is one of the Code constants.
	ReasonCode string
	// PolicyID names what decided: a rule, a finding, a mode, a default. It is
	// never empty.
	PolicyID string
	// Matched are the ids of all that had something to say, in the order in which
	// it was met.
	Matched []string
	// Fix says what an operator could set so that this very call would be allowed,
	// or why nothing would; empty for Allow. A piece of a policy file in it stands
	// between backquotes. It is not part of the record.
	Fix string
}

// The reason codes of decisions.
const (
	CodeUnavailable  = "POLICY_UNAVAILABLE"
	CodePlanMode     = "PLAN_MODE"
	CodeCatastrophic = "CATASTROPHIC_COMMAND"
	CodeDangerous    = "DANGEROUS_COMMAND"
	CodeProtected    = "PROTECTED_PATH"
	CodeEgress       = "EGRESS_ASKS"
	CodeRuleAllows   = "POLICY_ALLOWED"
	CodeRuleDenies   = "POLICY_DENIED"
	CodeRuleAsks     = "POLICY_ASKS"
	CodeDefaultAllow = "DEFAULT_ALLOWED"
	CodeDefaultDeny  = "DEFAULT_DENIED"
	CodeDefaultAsk   = "DEFAULT_ASKS"
)
