package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toold/toold/internal/tool"
)

// Errors of the log and its stores.
var (
	// ErrUnavailable: the ledger cannot be written now. Nothing of the entry is
	// durable and nothing may run.
	ErrUnavailable = errors.New("audit ledger unavailable")
	// ErrInDoubt is an ErrUnavailable whose entry may be durable all the same: the
	// commit was cut off and the store could not be asked. Nothing may run on it.
	ErrInDoubt = fmt.Errorf("%w: the commit was cut off and its fate is not known yet", ErrUnavailable)
	// ErrNotFound: no such batch, request or artifact for this tenant.
	ErrNotFound = errors.New("not found")
)

// TakenError says that a request id is another batch's already.
type TakenError struct {
	Batch  tool.BatchID
	Digest Digest
}

func (e *TakenError) Error() string { return "request id belongs to batch " + string(e.Batch) }

// InvalidError says that an entry can never be written as it is: our own bug, or
// a string that nobody checked.
type InvalidError struct{ Field, Problem string }

func (e *InvalidError) Error() string { return e.Field + " " + e.Problem }

// Claim is the wish to own a request id.
type Claim struct {
	Tenant, Principal, RequestID string
	Digest                       Digest
	Batch                        tool.BatchID
	ExpiresAt                    time.Time
}

// Group is one group commit. The store opens a transaction, tries the claims,
// calls Seal with as many *TakenErrors as there are claims (nil for a won one),
// writes what Seal returns, and commits durably. A nil block means that there is
// nothing to write. A store that hopes for the best may call Seal before it knows
// and again when a claim turns out lost: the last block is the one that counts.
type Group struct {
	Claims []Claim
	Seal   func(lost []*TakenError) *Block
}

// Leaf is a row's place in its block.
type Leaf[Row any] struct {
	Row *Row
	No  int // from 0
}

// Block is what one group commit writes.
type Block struct {
	Writer string // {replica}/{incarnation}
	No     int64  // dense from 1 per writer
	Leaves int
	Root   Digest // RFC 6962 tree over the leaves
	Prev   Digest
	Hash   Digest // see BlockHash

	Batches   []Leaf[Batch]
	Decisions []Leaf[Decision]
	Starts    []Leaf[StartRow]
	Outcomes  []Leaf[Outcome]
	Artifacts []Leaf[ArtifactEvent]
	Admin     []Leaf[AdminEvent]

	Live   []LiveBatch
	Events []EventRow
	Held   []HeldRow
	Ends   []EndRow
}

// StartRow is a Start with what its receipt knows.
type StartRow struct {
	Start
	Batch   tool.BatchID
	Call    tool.CallID
	Tenant  string
	Args    Digest
	Replica string
}

// LiveBatch is a row of exec.batches.
type LiveBatch struct {
	ID         tool.BatchID
	Tenant     string
	Principal  string
	RequestID  string
	Session    tool.SessionID
	Workspace  string
	Labels     map[string]string
	State      string // RUNNING, WAITING_APPROVAL, COMPLETED, CANCELLED
	Request    []byte
	AcceptedAt time.Time
	Deadline   time.Time
	EndedAt    time.Time // zero while it runs
	LastSeq    int64
}

// EventRow is a row of exec.events: consecutive events of a batch, each
// preceded by its length as a varint.
type EventRow struct {
	Batch       tool.BatchID
	First, Last int64
	Bytes       []byte
}

// HeldRow is a row of exec.calls with a result that waits for its turn.
type HeldRow struct {
	Batch tool.BatchID
	Index int
	Body  []byte
}

// EndRow ends a batch.
type EndRow struct {
	Batch   tool.BatchID
	State   string
	EndedAt time.Time
	LastSeq int64
}

// Store keeps the ledger and the live state. Both implementations pass the same
// suite (store/storetest).
type Store interface {
	// Commit writes one block, all or nothing. When it returns nil the block
	// survives a crash of daemon and database. An error means that it is not
	// known whether it was written: ask Head.
	Commit(ctx context.Context, g Group) error
	// Head is the number and hash of a writer's last durable block; 0 when it
	// has none.
	Head(ctx context.Context, writer string) (no int64, hash Digest, err error)
	// LastHead is the newest durable block of any writer: a new writer's first
	// block is chained to it.
	LastHead(ctx context.Context) (Digest, error)
	// DataError reports whether err says that a row itself is unacceptable
	// (SQLSTATE classes 22, 23 and their SQLite twins), so that the same group
	// without the row could be written.
	DataError(err error) bool
	Reader
}

// Trail is what the ledger says of one batch's calls.
type Trail struct {
	Decisions []Decision
	Starts    []StartRow
	Outcomes  []Outcome
	Held      []HeldRow
}

// BatchFilter selects batches. Zero fields do not filter.
type BatchFilter struct {
	Tenant, Principal, Workspace string
	Session                      tool.SessionID
	States                       []string
	After, Before                time.Time         // accepted in [After, Before)
	Labels                       map[string]string // all must match
	OlderThan                    tool.BatchID      // page: ids below this one
	Limit                        int
}

// DecisionFilter selects decisions. Zero fields do not filter.
type DecisionFilter struct {
	Tenant, PolicyID, Tool, Principal, Verdict string
	From, Until                                time.Time // decided in [From, Until)
	Batch                                      tool.BatchID
	OlderThan                                  string // page: decision ids below this one (UUIDv7 order)
	Limit                                      int
}

// Reader is the read side. Everything is of one tenant, newest first.
type Reader interface {
	// Request finds a batch by its request id.
	Request(ctx context.Context, tenant, principal, requestID string) (tool.BatchID, Digest, error)
	// Batch gives the live row, ErrNotFound if there is none.
	Batch(ctx context.Context, tenant string, id tool.BatchID) (LiveBatch, error)
	Batches(ctx context.Context, f BatchFilter) ([]LiveBatch, error)
	// Unfinished gives every batch of every tenant that has no end, oldest first.
	Unfinished(ctx context.Context) ([]LiveBatch, error)
	// Events gives the stored events after a number, in order, at most about
	// maxBytes of them but at least one.
	Events(ctx context.Context, id tool.BatchID, after int64, maxBytes int) ([]Numbered, error)
	Trail(ctx context.Context, id tool.BatchID) (Trail, error)
	Decisions(ctx context.Context, f DecisionFilter) ([]Decision, error)
	// Artifact finds an artifact's CREATED row.
	Artifact(ctx context.Context, tenant, id string) (ArtifactEvent, error)
	Artifacts(ctx context.Context, tenant string, batch tool.BatchID, call tool.CallID, olderThan string, limit int) ([]ArtifactEvent, error)
}
