package exec

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/budget"
	"github.com/toold/toold/internal/session"
	"github.com/toold/toold/internal/tool"
)

// Batch is a batch in this process: running, or one of the last that ended.
type Batch struct {
	x          *Executor
	id         tool.BatchID
	caller     tool.Caller
	req        Request
	session    session.Session // as it was when the batch was accepted; zero = none
	acceptedAt time.Time
	deadline   time.Time
	calls      []*call
	waves      []Wave
	share      budget.Share
	stream     *audit.Stream
	stored     bool // not of this process: events are read from the store
	open       bool // stored, and without an end: nobody here runs it

	// What may start, what reads and what writes run under: canceled, with a
	// *stop as cause, by deadline, cancellation and drain.
	starting, reading, writing context.Context
	stopStarting               context.CancelCauseFunc
	stopReading, stopWriting   context.CancelCauseFunc
	timer                      *time.Timer // deadline

	mu        sync.Mutex
	events    []audit.Numbered // durable ones, dense from 1
	changed   chan struct{}    // closed and replaced when events, ended or draining change
	over      bool             // the summary is durable
	gone      bool             // nothing of it runs in this process any more
	broken    error            // the log was closed before the end
	draining  bool
	left      int // calls without an outcome
	nextDue   int // results in call order: whose turn it is
	cancelled bool
	out       *audit.Entry // what is to be settled next
	flushing  bool
	followers map[*Follower]struct{}
	unread    *time.Timer
	used      BatchUsage
	size      int // bytes of events of an ended batch; Executor.mu's
}

// call is one call of a batch in this process.
type call struct {
	index   int
	id      tool.CallID
	req     Call
	args    json.RawMessage // canonical
	digest  audit.Digest    // of the bytes as sent
	spec    tool.Spec       // zero when the tool is unknown
	action  tool.Action
	class   tool.Class // as judged
	hints   []tool.Hint
	timeout time.Duration

	decision audit.Decision
	receipt  audit.Receipt
	refusal  *Finished // set when the call will not run
	attempt  int       // start marks tried so far
	marked   bool      // the start mark is durable
	again    bool      // a crash cut an earlier run off: this one is marked too
	fence    int64
	locked   bool // holds the workspace's writer lock since acceptance
	slot     bool // holds a daemon slot since acceptance

	// Under Batch.mu.
	taken    bool // about to start, or started
	result   *Finished
	seq      int64 // of the result's event; written by the log before it builds the summary
	stop     *stop // cancelled by itself when it was taken but did not run yet
	running  context.CancelCauseFunc
	runSince time.Time
}

// stop is why something was not allowed to go on.
type stop struct {
	reason  string
	message string
}

func (s *stop) Error() string { return s.message }

var (
	stopDeadline = &stop{"BATCH_DEADLINE", "the batch's time was up"}
	stopTimeout  = &stop{"CALL_TIMEOUT", "the call's time was up"}
	stopGone     = &stop{"CLIENT_GONE", "nobody followed the batch"}
	stopDrain    = &stop{"DRAIN_DEADLINE", "the daemon was shut down"}
	stopSession  = &stop{"SESSION_CLOSED", "the session was closed"}
	stopForce    = &stop{"FORCE_CANCEL", "the call was cancelled by force"}

	stopUnrecorded = &stop{ReasonAuditUnavailable, "its start could not be recorded"}
)

// useSession finds the session that a request names, and keeps it from expiring;
// the zero Session for none.
func (x *Executor) useSession(ctx context.Context, caller tool.Caller, id tool.SessionID) (session.Session, error) {
	if id == "" {
		return session.Session{}, nil
	}
	s, err := x.Sessions.Use(ctx, caller, id)
	if err != nil {
		return s, sessionError(err)
	}
	return s, nil
}

// newBatch makes the frame of a batch in a session: deadline, calls, share.
func (x *Executor) newBatch(caller tool.Caller, req Request, s session.Session) (*Batch, error) {
	now := cut(x.Now())
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("making a batch id: %w", err)
	}
	b := &Batch{x: x, id: tool.BatchID(id.String()), caller: caller, req: req, session: s, acceptedAt: now, left: len(req.Calls)}
	timeout := x.Limits.BatchTimeout
	if req.BatchTimeout > 0 {
		timeout = min(req.BatchTimeout, x.Limits.MaxBatchTimeout)
	}
	b.deadline = now.Add(timeout)
	if b.share, err = budget.Divide(req.Budget, x.Limits.Budget, len(req.Calls)); err != nil {
		return nil, &Error{Kind: KindInvalid, Reason: "BATCH_MALFORMED", Field: "spec.budget", Message: err.Error()}
	}
	b.init(0)
	seen := make(map[tool.CallID]bool, len(req.Calls))
	for i, rc := range req.Calls {
		c := &call{index: i, id: rc.ID, req: rc, class: tool.SystemChange}
		if c.id == "" {
			c.id = tool.CallID(fmt.Sprint(i))
		}
		if seen[c.id] {
			c.refusal = invalid("DUPLICATE_CALL_ID", "an earlier call of the batch has the id %q; give each its own", c.id)
			c.id = tool.CallID(fmt.Sprintf("%s#%d", c.id, i)) // unique in the ledger
		}
		seen[c.id] = true
		b.calls = append(b.calls, c)
	}
	return b, nil
}

// init makes what a batch needs to run in this process, last being the number of
// its last durable event.
func (b *Batch) init(last int64) {
	b.changed = make(chan struct{})
	b.followers = make(map[*Follower]struct{})
	b.stream = audit.NewStream(b.id, last, b.deliver)
	b.starting, b.stopStarting = context.WithCancelCause(context.Background())
	b.reading, b.stopReading = context.WithCancelCause(context.Background())
	b.writing, b.stopWriting = context.WithCancelCause(context.Background())
}

// shrink drops what an ended batch no longer needs, which is all but its events
// and the outcomes, and gives the bytes of the events.
func (b *Batch) shrink() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.req.Encoded, b.req.Calls = nil, nil
	for _, c := range b.calls {
		c.req, c.args, c.action = Call{}, nil, tool.Action{}
		if c.result != nil {
			c.result = &Finished{Outcome: c.result.Outcome}
		}
	}
	for _, e := range b.events {
		b.size += len(e.Wire)
	}
	return b.size
}

// ID is the batch's id.
func (b *Batch) ID() tool.BatchID { return b.id }

// deliver takes events that have become durable. The log calls it.
func (b *Batch) deliver(events []audit.Numbered) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, events...)
	b.announce()
}

// announce wakes everybody who waits for a change. b.mu is held.
func (b *Batch) announce() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// recorded reports whether the batch's acceptance is durable.
func (b *Batch) recorded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.events) > 0
}

// event makes an event of this batch, encoded.
func (b *Batch) event(c *call, body Body) audit.Event {
	wire, stored := b.x.Codec.Encode(b.id, b.stamp(c, body), b.x.Limits.StoredBytes)
	return audit.Event{Wire: wire, Stored: stored}
}

func (b *Batch) stamp(c *call, body Body) Event {
	e := Event{Time: cut(b.x.Now()), Index: -1, Body: body}
	if c != nil {
		e.Call, e.Index = c.id, c.index
	}
	return e
}

// plan schedules the calls that were allowed.
func (b *Batch) plan() {
	classes := make([]tool.Class, len(b.calls))
	for i, c := range b.calls {
		if c.refusal == nil && c.result == nil {
			classes[i] = c.class
		}
	}
	b.waves = Plan(b.req.Mode, classes)
	for i := range MovedReads(b.req.Mode, classes) {
		b.calls[i].hints = append(b.calls[i].hints, movedHint)
	}
}

var movedHint = tool.Hint{
	Level: tool.Warning, Code: "READ_MOVED_BEFORE_WRITE",
	Message:    "this read ran before a change that stands before it in the batch, and shows the state before that change",
	Suggestion: "use schedule_mode PROGRAM_ORDER to read what an earlier call of the batch wrote",
}

// acceptEntry is what is recorded at acceptance: the batch, every decision, the
// outcomes of what will not run, and the start mark of a first call that can
// start at once. b.mu is held.
func (b *Batch) acceptEntry() *audit.Entry {
	x, r := b.x, &b.req
	e := &audit.Entry{Stream: b.stream, Accept: &audit.Accept{Facts: b.facts(), Request: r.Encoded, Deadline: b.deadline}}
	e.Events = append(e.Events, b.event(nil, Accepted{
		RequestID: r.ID, Calls: len(b.calls), Deadline: b.deadline,
		CatalogRevision: x.Registry.Revision(), PolicyVersion: x.Policy.Version(),
	}))
	for _, c := range b.calls {
		e.Decisions = append(e.Decisions, c.decision)
		e.Events = append(e.Events, b.event(c, Decided{Decision: c.decision, Effects: c.action.Effects}))
	}
	for _, c := range b.calls {
		if c.refusal != nil {
			b.addOutcome(e, c, *c.refusal, outcomeFacts{})
		}
	}
	if c := b.first(); c != nil {
		c.attempt, c.marked = 1, true
		start := b.startMark(c, c.attempt)
		start.Decision = c.decision.ID
		e.Starts = append(e.Starts, start)
		e.Events = append(e.Events, b.event(c, Started{Executor: builtin, Attempt: 1, Fence: c.fence}))
	}
	return e
}

// builtin is the executor of tools that run in this process.
const builtin = "builtin"

func (b *Batch) facts() audit.Batch {
	x, r := b.x, &b.req
	return audit.Batch{
		AcceptedAt: b.acceptedAt, ID: b.id, Tenant: b.caller.Tenant, RequestID: r.ID, RequestDigest: r.Digest,
		Session: r.Session, Workspace: b.workspaceName(""), Principal: b.caller.Principal.ID, OnBehalfOf: b.caller.OnBehalfOf,
		AgentID: r.Agent.ID, AgentVersion: r.Agent.Version, Model: r.Agent.Model, ConversationID: r.Agent.Conversation,
		ScheduleMode: r.Mode.String(), CallCount: len(b.calls), ContextRemaining: int64(r.Budget.ContextRemaining), Labels: r.Labels,
		PeerAddr: r.Peer.Addr, UserAgent: clean(r.Peer.UserAgent, 256), TraceID: r.Peer.TraceID, Replica: x.Replica,
		PolicyVersion: x.Policy.Version(), CatalogRevision: x.Registry.Revision(),
	}
}

// workspaceName is the workspace of a call that names own (or none).
func (b *Batch) workspaceName(own string) string {
	for _, name := range []string{own, b.req.Workspace, b.session.Workspace} {
		if name != "" {
			return name
		}
	}
	return b.x.Workspaces.Default()
}

// first gives the call that can start the moment the batch is accepted, with its
// lock and slot taken: the only one of the first wave, not READ_ONLY, and nobody
// else writes in its workspace. Any other call starts later. b.mu is held.
func (b *Batch) first() *call {
	if len(b.waves) == 0 || len(b.waves[0]) != 1 {
		return nil
	}
	c := b.calls[b.waves[0][0]]
	if c.class == tool.ReadOnly || b.blockedNow(c) != nil || !b.x.slots.TryAcquire(1) {
		return nil
	}
	if c.spec.Scope == tool.ScopeWorkspace {
		if c.fence, c.locked = b.x.locks.try(b.workspaceName(c.req.Workspace)); !c.locked {
			b.x.slots.Release(1)
			return nil
		}
	}
	c.slot = true
	return c
}

// withdraw gives back what first took, when acceptance failed.
func (b *Batch) withdraw() {
	for _, c := range b.calls {
		b.giveBack(c)
	}
}

// giveBack releases a call's lock and slot.
func (b *Batch) giveBack(c *call) {
	if c.locked {
		b.x.locks.release(b.workspaceName(c.req.Workspace))
		c.locked = false
	}
	if c.slot {
		b.x.slots.Release(1)
		c.slot = false
	}
}

func (b *Batch) startMark(c *call, attempt int) audit.Start {
	return audit.Start{StartedAt: cut(b.x.Now()), Attempt: attempt, Executor: builtin, Workspace: b.workspaceName(c.req.Workspace), On: c.receipt}
}
