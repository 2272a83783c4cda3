package exec

import (
	"context"
	"time"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
)

// Event is one thing that happens in a batch. Seq is its number, 0 for the ones
// that are only for those who look on now.
type Event struct {
	Seq   int64
	Time  time.Time
	Call  tool.CallID // empty for events of the batch
	Index int         // position of the call; -1 for events of the batch
	Body  Body
}

// Body is what happened: one of the types below.
//
//sumtype:decl
type Body interface{ body() }

// Accepted says that the batch is durable.
type Accepted struct {
	RequestID       string
	Calls           int
	Deadline        time.Time
	CatalogRevision string
	PolicyVersion   string
	Hints           []tool.Hint
}

// Decided is a decision that is on record.
type Decided struct {
	Decision audit.Decision
	Effects  []tool.Effect
}

// Started says that a call that is not READ_ONLY is about to run.
type Started struct {
	Executor string
	Attempt  int
	Fence    int64
	Queue    time.Duration
}

// Finished is a call's result.
type Finished struct {
	Outcome     tool.Outcome
	Output      tool.Output // never Captured
	Attachments []tool.Output
	Hints       []tool.Hint
	Error       *tool.Error // for every outcome but Succeeded
	Exit        *tool.Exit
	Usage       Usage
	Metadata    map[string]string
	Changes     []tool.Change
}

// Usage is what a call took.
type Usage struct {
	Queue, Run, CPU time.Duration
	MaxRSSBytes     int64
	OutputBytes     int64
	OutputTokens    int64
}

// Summary is the last event: every outcome, in call order.
type Summary struct {
	Calls []Ended
	State string // COMPLETED, CANCELLED
	Usage BatchUsage
}

// Ended is one line of a summary.
type Ended struct {
	Call    tool.CallID
	Outcome tool.Outcome
	Seq     int64 // of the result's event
}

// BatchUsage is what the whole batch took.
type BatchUsage struct {
	Wall         time.Duration
	BudgetTokens int64 // granted; 0 = no token limit
	UsedTokens   int64
	OutputBytes  int64
}

// Chunk is output of a call that is still running.
type Chunk struct {
	Channel tool.Channel
	Offset  int64 // of Data's first byte in that channel
	Data    []byte
}

// Gap stands for chunks that a follower was too slow to take.
type Gap struct {
	Channel  tool.Channel
	From, To int64
	Artifact *tool.ArtifactRef
}

// Progress is how far a call is.
type Progress struct {
	Done, Total float64
	Message     string
}

// Draining says that followers must soon attach elsewhere.
type Draining struct{ After time.Duration }

func (Accepted) body() {}
func (Decided) body()  {}
func (Started) body()  {}
func (Finished) body() {}
func (Summary) body()  {}
func (Chunk) body()    {}
func (Gap) body()      {}
func (Progress) body() {}
func (Draining) body() {}

// Codec turns requests and events into the bytes that are stored and streamed,
// and back. The edge implements it, so that its format stays there.
type Codec interface {
	// Encode gives an event without its number (field 2, which the log adds).
	// stored, where not nil, leaves out bodies of more than limit bytes that
	// artifacts hold; Restore puts them back.
	Encode(batch tool.BatchID, e Event, limit int64) (wire, stored []byte)
	// Decode is the inverse, for events of this batch that were numbered.
	Decode(wire []byte) (Event, error)
	// Restore undoes what Encode left out, reading bodies by artifact URI.
	Restore(ctx context.Context, stored []byte, body func(ctx context.Context, uri string) ([]byte, error)) ([]byte, error)
	// Request reads Request.Encoded back, with who sent it.
	Request(encoded []byte) (tool.Caller, Request, error)
}
