// Package audit is the ledger: what was asked, judged, started and how it ended,
// written before and after anything happens. Log is the only writer of
// execution state and audit rows, and Log.Intend the only maker of a Receipt
// that permits anything to run.
package audit

import (
	"time"

	"github.com/toold/toold/internal/tool"
)

// Digest is a SHA-256.
type Digest [32]byte

// Times in records are cut to whole microseconds, UTC, before they are hashed:
// that is what both stores keep.

// Batch is a row of audit.batches: one accepted batch.
type Batch struct {
	AcceptedAt       time.Time
	ID               tool.BatchID
	Tenant           string
	RequestID        string
	RequestDigest    Digest
	Session          tool.SessionID // empty = none (NULL)
	Workspace        string         // empty = none (NULL)
	Principal        string
	OnBehalfOf       string
	AgentID          string
	AgentVersion     string
	Model            string
	ConversationID   string
	ScheduleMode     string // "READS_FIRST" …; "EXPLAIN" for a dry run
	CallCount        int
	ContextRemaining int64 // tokens; 0 = not given
	Labels           map[string]string
	PeerAddr         string // IP address; empty for a Unix socket
	UserAgent        string
	TraceID          string
	Replica          string
	PolicyVersion    string
	CatalogRevision  string
}

// Decision is a row of audit.permission_decisions.
type Decision struct {
	DecidedAt     time.Time
	ID            string // UUIDv7
	Tenant        string
	Batch         tool.BatchID
	Call          tool.CallID
	No            int // 1, 2 after an approval or a re-decision, …
	Tool          string
	Class         tool.Class
	Verdict       string // ALLOW, DENY, ASK
	Reason        string // never empty unless ALLOW
	ReasonCode    string
	PolicyID      string // never empty
	PolicyVersion string
	Matched       []string
	Stage         string // INVALID … EXPLAIN
	ArgsDigest    Digest // of the exact bytes judged
	ApprovalID    string
	DecidedBy     string // "policy" or a principal
	Principal     string
	OnBehalfOf    string
	Session       tool.SessionID
	SessionEpoch  int64
	EvalMicros    int64
	First         *CallFacts // required when No is 1, nil otherwise
}

// CallFacts is the call itself, kept on its first decision.
type CallFacts struct {
	Index         int
	ToolVersion   string
	Tier          string // HOT, COLD
	DeclaredClass tool.Class
	Idempotency   tool.Idempotency
	Effects       []tool.Effect
	ArgsMasked    string // canonical JSON, secrets masked
	Rationale     string
}

// Start is a row of audit.call_starts: the intent to start a call that is not
// READ_ONLY (or a second attempt of one that is). What allows it is either a
// decision of the same entry, named by Decision, or one that is durable already
// and is proved by On.
type Start struct {
	StartedAt time.Time
	Attempt   int // from 1
	Executor  string
	Workspace string
	Decision  string  // id of an ALLOW in the same entry; ignored where On is set
	On        Receipt // of an ALLOW that an earlier Intend returned
}

// Outcome is a row of audit.outcomes: how a call ended. Every accepted call has
// exactly one.
type Outcome struct {
	FinishedAt   time.Time
	Batch        tool.BatchID
	Call         tool.CallID
	Attempt      int // 0 = never started
	Tenant       string
	Tool         string
	Tier         string
	Class        tool.Class
	Outcome      tool.Outcome
	ErrorReason  string
	ErrorDomain  string
	ExitCode     *int
	ExitSignal   string
	Queue        time.Duration // whole milliseconds are kept
	Approval     time.Duration
	Run          time.Duration
	OutputKind   string // TEXT, STRUCTURED, BINARY; empty = no output
	OutputBytes  int64
	OutputSHA256 Digest // of the whole output; zero = none
	OutputTokens int64
	KeptTokens   int64
	Truncated    bool
	ArtifactIDs  []string
	RecoveredBy  string // replica that closed it after a crash
}

// ArtifactEvent is a row of audit.artifact_events. A CREATED row is also how an
// artifact is found by its id.
type ArtifactEvent struct {
	At        time.Time
	EventID   string // filled by the log where empty
	Artifact  string // UUIDv7
	Tenant    string
	Batch     tool.BatchID
	Call      tool.CallID
	Event     string // CREATED, READ, DELETED, EXPIRED
	Actor     string
	Name      string // output, stderr, diff, before …
	Size      int64
	SHA256    Digest
	MediaType string
}

// AdminEvent is a row of audit.admin_events: what people and the daemon did
// besides calls (sessions, modes, refusals of RPCs, restarts).
type AdminEvent struct {
	At      time.Time
	EventID string // filled by the log where empty
	Tenant  string
	Actor   string
	Event   string // SESSION_CREATED, DAEMON_STARTED …
	Subject string
	Before  string // JSON; empty = none
	After   string
	Reason  string
}

// Accept opens a batch: its facts, the claim on its request id, and what
// recovery needs to go on with it.
type Accept struct {
	Facts Batch
	// Request is the whole request as accepted, encoded by whoever can decode it
	// again. It is erased when the batch's replay window ends.
	Request  []byte
	Deadline time.Time
	// Dry marks an explained batch: facts and decisions only, no request id, no
	// live state.
	Dry bool
}

// Event is one numbered event of a batch before it has its number. Wire is what
// streams get; Stored, where not nil, is kept instead (bodies left out that are
// artifacts). The number is appended as protobuf field 2 (varint) to both.
type Event struct {
	Wire   []byte
	Stored []byte
	// NumberedAs, where set, is told the number as soon as it is given, before
	// the commit: again with another number if that commit fails.
	NumberedAs func(seq int64)
	// Build, where set, makes Wire and Stored after the events before it have
	// their numbers (a summary names them).
	Build func() (wire, stored []byte)
}

// Numbered is an event with its number: seq is dense from 1 per batch.
type Numbered struct {
	Seq  int64
	Wire []byte
}

// Held is a result whose event is not due yet (results in call order).
type Held struct {
	Index int
	Body  []byte // the event as it will be, without its number
}

// Entry is what one caller adds to the ledger in one piece: all of it becomes
// durable, or none. It belongs to the log, with all that it points at, from the
// call that passes it on.
//
// Ids (batches, decisions, artifacts, events) are UUIDs in canonical text; every
// string is valid UTF-8 without NUL. Anything else is an *InvalidError.
type Entry struct {
	// Stream is the batch that Events, Held and End belong to.
	Stream    *Stream
	Accept    *Accept
	Decisions []Decision
	Starts    []Start
	Outcomes  []Outcome
	Artifacts []ArtifactEvent
	Admin     []AdminEvent
	Events    []Event
	Held      []Held
	// End, where not empty, is the batch's final state: COMPLETED or CANCELLED.
	End string
}

// Stream numbers the events of one batch. Deliver gets them, in order, after
// they are durable and before the Intend or Settle that brought them returns.
// It is called by the log's writer: it must be quick and must not block.
type Stream struct {
	Batch   tool.BatchID
	Deliver func([]Numbered)
	next    int64 // owned by the writer; last number given
}

// NewStream makes the stream of a batch whose last durable event is last (0 for
// a new one).
func NewStream(id tool.BatchID, last int64, deliver func([]Numbered)) *Stream {
	return &Stream{Batch: id, Deliver: deliver, next: last}
}

// Receipt proves that a decision is durable. The zero value, and the receipt of
// anything but an ALLOW, permits nothing.
type Receipt struct {
	batch    tool.BatchID
	call     tool.CallID
	decision string
	tenant   string
	digest   Digest
	class    tool.Class
	allowed  bool
	started  bool // the start mark is durable too
}

// Permits reports whether the call may run now, with exactly the arguments of
// this digest: its decision is a durable ALLOW and, unless it is READ_ONLY, its
// start mark is durable as well.
func (r Receipt) Permits(batch tool.BatchID, call tool.CallID, args Digest) bool {
	return r.allowed && (r.started || r.class == tool.ReadOnly) &&
		r.batch == batch && r.call == call && r.digest == args
}

// Decision is the id of the decision, empty for the zero receipt.
func (r Receipt) Decision() string { return r.decision }
