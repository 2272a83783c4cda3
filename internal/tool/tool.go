// Package tool is the vocabulary that the rest of toold speaks: what a tool is,
// what a call of it would do (Effect), what it did (Result), and in which words
// both are reported. It imports the standard library only.
package tool

import (
	"context"
	"encoding/json"
	"time"
)

// BatchID names a batch: a UUIDv7 in its canonical text form.
type BatchID string

// CallID names a call within its batch: the model's own tool-call id, or the
// call's position ("0", "1", …) where the model gave none.
type CallID string

// SessionID names a session; empty means "no session".
type SessionID string

// Class is a call's side-effect class. The zero value is not a class: treat it
// as SystemChange (see OrWidest).
type Class uint8

// The side-effect classes, from narrowest to widest.
const (
	ClassUnspecified Class = iota
	ReadOnly
	Write
	SystemChange
)

// String gives the class as it stands in the proto, in SQL and in rules.
func (c Class) String() string {
	switch c {
	case ReadOnly:
		return "READ_ONLY"
	case Write:
		return "WRITE"
	default:
		return "SYSTEM_CHANGE"
	}
}

// OrWidest maps the unspecified class to SystemChange: unknown is never "none".
func (c Class) OrWidest() Class {
	if c == ClassUnspecified || c > SystemChange {
		return SystemChange
	}
	return c
}

// ParseClass is the inverse of String. ok is false for anything else.
func ParseClass(s string) (c Class, ok bool) {
	for _, c := range []Class{ReadOnly, Write, SystemChange} {
		if c.String() == s {
			return c, true
		}
	}
	return ClassUnspecified, false
}

// Verb says what a call does to a target.
type Verb string

// The verbs in use. Rules and audit queries match on these words.
const (
	VerbRead    Verb = "read"    // target "ws:/path" or "toold://artifacts/…"
	VerbWrite   Verb = "write"   // target "ws:/path": created or changed
	VerbDelete  Verb = "delete"  // target "ws:/path"
	VerbExec    Verb = "exec"    // target: program and subcommand, "git push"
	VerbConnect Verb = "connect" // target "host:port"
	VerbUnknown Verb = "unknown" // target "*": what cannot be said beforehand
)

// Effect is one thing that a call would do. What a tool cannot say for sure it
// over-states.
type Effect struct {
	Verb   Verb   `json:"verb"`
	Target string `json:"target"`
}

// Command is one simple command inside a command line, as the parser saw it.
// Rules match on it, never on the text.
type Command struct {
	Program    string   // base name: "git"
	Subcommand string   // first operand where the program has subcommands: "push"; else empty
	Args       []string // argv[1:], decoded; an argument not known beforehand is "\x00unknown"
	Known      bool     // false: program or some argument could not be decided
}

// Tier ranks what command safety found.
type Tier uint8

// The tiers: a Catastrophic finding is refused and nothing can allow it; a
// Dangerous one asks a human.
const (
	TierNone Tier = iota
	TierDangerous
	TierCatastrophic
)

// Finding is one thing that command safety (or the protected-path list) has
// against a call.
type Finding struct {
	Tier    Tier
	Code    string // policy id: "command.catastrophic.recursive_delete_root"
	Reason  string // what would happen, for the agent
	Suggest string // what would be accepted instead; may be empty
}

// Idempotency says what may be done after a crash. The zero value is the
// cautious one.
type Idempotency uint8

// A READ_ONLY call may be run again whatever is declared; a NonIdempotent one
// that is not READ_ONLY never is.
const (
	NonIdempotent Idempotency = iota
	Idempotent
)

func (i Idempotency) String() string {
	if i == Idempotent {
		return "IDEMPOTENT"
	}
	return "NON_IDEMPOTENT"
}

// Scope says what a non-read of the tool locks while it runs.
type Scope uint8

// ScopeWorkspace takes the workspace's writer lock. ScopeSession and
// ScopeExternal are serial within their batch only.
const (
	ScopeWorkspace Scope = iota
	ScopeSession
	ScopeExternal
)

// Cut says which part of a text output is kept when it does not fit.
type Cut uint8

// The ways to cut.
const (
	CutHead     Cut = iota // listings and file reads
	CutTail                // logs
	CutHeadTail            // command output: 40 % head, 60 % tail
)

// Spec is what is known of a tool before any call of it.
type Spec struct {
	Name          string // ^[A-Za-z0-9_.-]{1,128}$
	Version       string // semver
	Title         string // a few words, for people
	Description   string // for the model: what it does, when to use it, when not
	UsageGuidance string // one line for the model
	Category      string // "file", "command", "schedule" …
	Class         Class  // the widest class a call can have
	InputSchema   json.RawMessage
	Idempotency   Idempotency
	Scope         Scope
	Cut           Cut
	// DefaultTimeout is the run time a call gets when nobody asks for another;
	// MaxTimeout bounds what may be asked for. Both > 0.
	DefaultTimeout time.Duration
	MaxTimeout     time.Duration
	// SensitivePointers are JSON pointers into the arguments whose values are
	// masked wherever arguments are stored or shown.
	SensitivePointers []string
}

// Tool is one tool. Implementations are safe for concurrent use.
type Tool interface {
	// Spec does not change during the life of the process.
	Spec() Spec
	// Prepare says what the call would do, without doing any of it. It may look
	// things up through env. args is a valid JSON object. An error means that
	// the call is INVALID and never ran; *ArgumentError carries the fields.
	Prepare(ctx context.Context, env Env, args json.RawMessage) (Action, error)
}

// PrincipalKind says what kind of party acts.
type PrincipalKind uint8

// The kinds of principals.
const (
	PrincipalUnspecified PrincipalKind = iota
	PrincipalWorkload
	PrincipalHuman
	PrincipalPolicy
	PrincipalSystem
)

// Principal is an authenticated party. It comes from the transport, never from
// a request field.
type Principal struct {
	ID          string
	Kind        PrincipalKind
	DisplayName string
}

// Caller is who makes a request, and for whom.
type Caller struct {
	Tenant     string // team; "default" in embedded mode
	Principal  Principal
	Groups     []string
	OnBehalfOf string // verified end user, may be empty
}

// Env is what Prepare may look at.
type Env struct {
	Caller    Caller
	Session   SessionID
	Batch     BatchID
	Call      CallID
	Workspace *Workspace // nil when the deployment has none
}

// Action is a prepared call: what it would do, and the way to do it. It is
// judged and recorded by the first, and run at most once by the executor.
type Action struct {
	// Class is the class of this very call: the tool's declared one or narrower.
	Class Class
	// Effects are what would happen, targets resolved. Empty only where the call
	// touches nothing outside the process.
	Effects []Effect
	// Commands and Findings are filled by tools that run command lines.
	Commands []Command
	Findings []Finding
	// Timeout is what the arguments ask for; 0 = nothing was asked.
	Timeout time.Duration
	// Waits marks a call that only waits (Sleep): it takes no worker slot.
	Waits bool
	// Do does it. It stops promptly, with all that it started, when ctx ends.
	// An *ArgumentError makes the call INVALID (nothing was changed), a *Failure
	// carries its own reason, any other error is FAILED/TOOL_ERROR.
	Do func(ctx context.Context, rt Runtime) (Result, error)
}

// Channel is where a running call's bytes go.
type Channel uint8

// The channels, numbered as in the proto.
const (
	Stdout Channel = 1
	Stderr Channel = 2
	Log    Channel = 3
)

// Runtime is what a running call may use. The executor implements it.
type Runtime interface {
	// Write appends p to the call's captured output and shows it to live
	// readers. It never blocks on a slow reader. It fails when the capture limit
	// is reached (ErrOutputCapped) or the disk does; the tool should then stop.
	// p is not kept.
	Write(ch Channel, p []byte) error
	// Progress tells live readers how far the call is; total 0 = unknown.
	Progress(done, total float64, message string)
	// Keep stores body durably as an artifact of this call.
	Keep(ctx context.Context, name, mediaType string, body []byte) (ArtifactRef, error)
}

// ArtifactRef points at bytes kept outside the result.
type ArtifactRef struct {
	URI       string // toold://artifacts/{id}
	Size      int64  // bytes
	SHA256    string // hex; empty while the artifact is still written
	MediaType string
}

// Timeouts and sizes that every part agrees on.
const (
	// MaxHints bounds the bytes of all hints of one call.
	MaxHints = 4 << 10
	// MaxStderrTail bounds the part of standard error that is never cut.
	MaxStderrTail = 2 << 10
)
