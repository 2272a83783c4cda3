// Package exec is the pipeline: every call of every batch is resolved, decided,
// recorded, scheduled, run, fitted, recorded again and streamed here.
// Executor.Execute is the only way in, and the only way anything runs.
package exec

import (
	"time"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/budget"
	"github.com/toold/toold/internal/tool"
)

// ScheduleMode orders the calls of a batch.
type ScheduleMode uint8

// The modes, numbered as in the proto; 0 is ReadsFirst.
const (
	ReadsFirst   ScheduleMode = 1
	ProgramOrder ScheduleMode = 2
	Serial       ScheduleMode = 3
)

func (m ScheduleMode) String() string {
	switch m {
	case ProgramOrder:
		return "PROGRAM_ORDER"
	case Serial:
		return "SERIAL"
	default:
		return "READS_FIRST"
	}
}

// FailurePolicy says which later calls still run when one went wrong.
type FailurePolicy uint8

// The policies, numbered as in the proto; 0 is StopOnUnknown.
const (
	Continue      FailurePolicy = 1
	StopOnUnknown FailurePolicy = 2
	StopOnFailure FailurePolicy = 3
)

// DisconnectPolicy says what becomes of a batch that nobody follows.
type DisconnectPolicy uint8

// The policies, numbered as in the proto; 0 is Grace.
const (
	Grace        DisconnectPolicy = 1
	Detach       DisconnectPolicy = 2
	CancelUnread DisconnectPolicy = 3
)

// ResultOrder says when a result's event is given.
type ResultOrder uint8

// The orders, numbered as in the proto; 0 is AsCompleted.
const (
	AsCompleted ResultOrder = 1
	CallOrder   ResultOrder = 2
)

// AskPolicy says what becomes of a call that only a human could allow.
type AskPolicy uint8

// The policies, numbered as in the proto; 0 is Wait.
const (
	Wait   AskPolicy = 1
	Reject AskPolicy = 2
)

// Call is one call as the caller sent it.
type Call struct {
	ID          tool.CallID // empty = its position
	Tool        string
	ToolVersion string // empty = any
	Arguments   []byte // JSON text as sent; empty = {}
	Timeout     time.Duration
	Workspace   string // empty = the batch's
	Rationale   string
}

// Agent is what the caller says of itself: correlation only.
type Agent struct {
	ID, Version, Conversation, Model, Parent string
}

// Peer is where the request came from.
type Peer struct {
	Addr      string // IP address; empty for a Unix socket
	UserAgent string
	TraceID   string
}

// Request is a batch as the caller sent it. The zero value of each field is its
// documented default.
type Request struct {
	ID               string // request id; empty = one is made
	Session          tool.SessionID
	Workspace        string
	Mode             ScheduleMode
	Failure          FailurePolicy
	Disconnect       DisconnectPolicy
	Budget           budget.Limits
	BatchTimeout     time.Duration
	CallTimeout      time.Duration
	Agent            Agent
	Peer             Peer
	MaxParallelReads int
	Labels           map[string]string
	Order            ResultOrder
	Ask              AskPolicy
	Calls            []Call
	// Digest covers session, workspace, schedule, policies and calls, as the edge
	// defines it. Requests with the same id and another digest are refused.
	Digest audit.Digest
	// Encoded is the whole request in a form that Codec.Request reads back.
	Encoded []byte
}

// Kind groups errors by what the caller can do about them. The edge maps each
// to a status code.
type Kind uint8

// The kinds.
const (
	KindInvalid      Kind = iota + 1 // the request is wrong: fix it
	KindNotFound                     // no such thing, or not the caller's
	KindExists                       // the name is taken
	KindPrecondition                 // the state forbids it
	KindRange                        // beyond what exists
	KindExhausted                    // over a limit
	KindUnavailable                  // cannot serve now: retry
	KindDataLoss                     // what was stored is not what was written
)

// Error says that a request could not be served; nothing of it ran. What goes
// wrong inside a call is that call's result instead.
type Error struct {
	Kind       Kind
	Reason     string // UPPER_SNAKE, stable
	Message    string
	Field      string // of the request, where one is at fault
	RetryAfter time.Duration
	Metadata   map[string]string
	Err        error // cause, may be nil
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// Limits bound what one caller can ask for. Zero fields get the defaults.
type Limits struct {
	Calls           int           // of a batch; 256
	ArgumentsBytes  int           // of a call; 1 MiB
	RunningBatches  int           // of the daemon; 256
	ParallelReads   int           // of a batch, default and daemon-wide share; 10
	ParallelCalls   int           // of the daemon; 64
	CallTimeout     time.Duration // most a call may ask for; 1 h
	BatchTimeout    time.Duration // default and most; 1 h and 24 h
	MaxBatchTimeout time.Duration
	InlineBytes     int64 // of binary output; 256 KiB
	StoredBytes     int64 // of a result body kept in the store; 64 KiB
	CaptureBytes    int64 // of one call's output; 4 GiB
	UnreadGrace     time.Duration
	ToolGrace       time.Duration // how long a tool may take to stop; 10 s
	FollowerBytes   int           // live output kept for a slow reader; 1 MiB
	Budget          budget.Caps
}

func (l Limits) withDefaults() Limits {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	dur := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	big := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&l.Calls, 256)
	def(&l.ArgumentsBytes, 1<<20)
	def(&l.RunningBatches, 256)
	def(&l.ParallelReads, 10)
	def(&l.ParallelCalls, 64)
	def(&l.FollowerBytes, 1<<20)
	dur(&l.CallTimeout, time.Hour)
	dur(&l.BatchTimeout, time.Hour)
	dur(&l.MaxBatchTimeout, 24*time.Hour)
	dur(&l.UnreadGrace, 2*time.Minute)
	dur(&l.ToolGrace, 10*time.Second)
	big(&l.InlineBytes, 256<<10)
	big(&l.StoredBytes, 64<<10)
	big(&l.CaptureBytes, 4<<30)
	if l.Budget == (budget.Caps{}) {
		l.Budget = budget.DefaultCaps
	}
	return l
}
