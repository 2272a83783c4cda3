package tool

import (
	"errors"
	"fmt"
	"time"
)

// Outcome is how a call ended.
type Outcome uint8

// The outcomes, numbered as in the proto.
const (
	OutcomeUnspecified Outcome = iota
	Succeeded
	Failed
	Invalid
	Denied
	Rejected
	Skipped
	Cancelled
	TimedOut
	Interrupted
	Unknown
)

var outcomeNames = [...]string{
	"UNSPECIFIED", "SUCCEEDED", "FAILED", "INVALID", "DENIED", "REJECTED",
	"SKIPPED", "CANCELLED", "TIMED_OUT", "INTERRUPTED", "UNKNOWN",
}

// String gives the outcome as it stands in the proto and in SQL.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return outcomeNames[0]
}

// ParseOutcome is the inverse of String; anything else is OutcomeUnspecified.
func ParseOutcome(s string) Outcome {
	for i, n := range outcomeNames {
		if n == s {
			return Outcome(i)
		}
	}
	return OutcomeUnspecified
}

// Output is what a call returns: one of Text, Structured, Binary, Captured,
// Truncated.
//
//sumtype:decl
type Output interface{ output() }

// Text is prose or source: valid UTF-8.
type Text struct {
	Text      string
	MediaType string // empty = text/plain
	Lossy     bool   // invalid bytes became U+FFFD; the raw bytes are in Artifact
	Artifact  *ArtifactRef
}

// Structured is one JSON value.
type Structured struct {
	JSON      []byte
	Rendering string // the same as prose, for models that want it
}

// Binary is bytes of a known media type, given inline up to the inline limit.
type Binary struct {
	Data      []byte
	MediaType string
	Size      int64
	SHA256    string
	Artifact  *ArtifactRef
}

// Captured says: my output is what I wrote to the Runtime. The executor turns
// it into Text, or Truncated with the whole in an artifact.
type Captured struct{ MediaType string }

// Truncated is an output that did not fit. Only the budget makes it.
type Truncated struct {
	Kind           OutputKind
	Visible        string // kept part, marker line in it
	Kept           []ByteRange
	Full           *ArtifactRef
	OriginalBytes  int64
	KeptBytes      int64
	OriginalTokens int64
	KeptTokens     int64
	Reason         TruncationReason
}

func (Text) output()       {}
func (Structured) output() {}
func (Binary) output()     {}
func (Captured) output()   {}
func (Truncated) output()  {}

// OutputKind names a variant, numbered as in the proto.
type OutputKind uint8

// The kinds of output that can be cut.
const (
	KindText       OutputKind = 1
	KindStructured OutputKind = 2
	KindBinary     OutputKind = 3
)

// TruncationReason says which limit cut, numbered as in the proto.
type TruncationReason uint8

// The limits.
const (
	CutByCallBytes     TruncationReason = 1
	CutByBatchBytes    TruncationReason = 2
	CutByContextTokens TruncationReason = 3
	CutByCaptureLimit  TruncationReason = 4
)

var truncationNames = [...]string{"", "CALL_BYTES", "BATCH_BYTES", "CONTEXT_TOKENS", "CAPTURE_LIMIT"}

// String gives the reason as it stands in metadata and SQL.
func (r TruncationReason) String() string {
	if int(r) < len(truncationNames) {
		return truncationNames[r]
	}
	return ""
}

// ByteRange is Length bytes from Offset.
type ByteRange struct{ Offset, Length int64 }

// HintLevel ranks hints, numbered as in the proto.
type HintLevel uint8

// The levels.
const (
	Info    HintLevel = 1
	Warning HintLevel = 2
	Err     HintLevel = 3
)

// Hint is advice beside a result. Hints are never cut and never counted in the
// budget; all hints of a call together are at most MaxHints bytes.
type Hint struct {
	Level      HintLevel
	Message    string
	Suggestion string
	Code       string // stable, UPPER_SNAKE
}

// Change is one file that a call changed.
type Change struct {
	Path         string // workspace-relative, "/"-separated
	BeforeSHA256 string // hex; empty: created
	AfterSHA256  string // hex; empty: deleted
	BeforeBytes  int64
	AfterBytes   int64
	LinesAdded   int
	LinesRemoved int
	Diff         *ArtifactRef // unified diff, where text
	BeforeImage  *ArtifactRef // nil: created
}

// Exit is how a command's process ended.
type Exit struct {
	Code      int
	Signal    string // "SIGKILL"; empty when it exited by itself
	OOMKilled bool
}

// Usage is what a run cost.
type Usage struct {
	CPU         time.Duration
	MaxRSSBytes int64
}

// Result is what a tool gives back. Outcome is Succeeded or Failed; the other
// outcomes are the executor's to give.
type Result struct {
	Outcome     Outcome // zero = Succeeded
	Output      Output  // nil = no output
	Attachments []Output
	Hints       []Hint
	Error       *Error // required when Failed
	Exit        *Exit
	Usage       Usage
	Metadata    map[string]string
	Changes     []Change
}

// Error is why a call did not succeed. Reason is UPPER_SNAKE and stable.
type Error struct {
	Reason     string
	Message    string
	Retryable  bool // a new call with new ids may succeed
	RetryAfter time.Duration
	Violations []Violation
	Metadata   map[string]string
}

// Violation is one thing wrong with the arguments.
type Violation struct {
	Path        string // JSON pointer into the arguments, "/path"; "" = the whole
	Description string // what is wrong and the form that is expected
	Reason      string // UPPER_SNAKE
}

// ArgumentError makes a call INVALID: it never ran, or it looked and changed
// nothing.
type ArgumentError struct {
	Reason     string // ARGUMENTS_SCHEMA, PATH_OUTSIDE_WORKSPACE …
	Message    string
	Violations []Violation
	Hints      []Hint
}

func (e *ArgumentError) Error() string {
	if e.Message != "" {
		return e.Message
	}
	if len(e.Violations) > 0 {
		return fmt.Sprintf("%s: %s", e.Violations[0].Path, e.Violations[0].Description)
	}
	return e.Reason
}

// BadArgument is an ArgumentError for one field.
func BadArgument(pointer, reason, format string, args ...any) *ArgumentError {
	d := fmt.Sprintf(format, args...)
	m := d
	if pointer != "" {
		m = pointer[1:] + ": " + d
	}
	return &ArgumentError{Reason: reason, Message: m, Violations: []Violation{{Path: pointer, Description: d, Reason: reason}}}
}

// Failure is an error of a run with its own reason: FAILED/Reason.
type Failure struct {
	Reason    string
	Message   string
	Retryable bool
	Hints     []Hint
}

func (e *Failure) Error() string { return e.Message }

// Fail makes a Failure.
func Fail(reason, format string, args ...any) *Failure {
	return &Failure{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// ErrOutputCapped is what Runtime.Write returns when the capture limit is
// reached: the call ends FAILED/OUTPUT_CAPPED.
var ErrOutputCapped = errors.New("output capture limit reached")

// Reasons that more than one package gives. The whole list is in docs/errors.md.
const (
	ReasonArgumentsSchema  = "ARGUMENTS_SCHEMA"
	ReasonArgumentsNotJSON = "ARGUMENTS_NOT_JSON"
	ReasonOutsideWorkspace = "PATH_OUTSIDE_WORKSPACE"
	ReasonUnresolvable     = "PATH_UNRESOLVABLE"
	ReasonEffectChanged    = "EFFECT_CHANGED"
	ReasonToolError        = "TOOL_ERROR"
	ReasonNonZeroExit      = "NON_ZERO_EXIT"
	ReasonOutputCapped     = "OUTPUT_CAPPED"
	ReasonNotFound         = "FILE_NOT_FOUND"
	ReasonNoWorkspace      = "NO_WORKSPACE"
)
