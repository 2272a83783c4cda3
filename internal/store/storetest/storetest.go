// Package storetest is the suite that every store of the ledger passes.
package storetest

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
)

// Store is what a store offers the suite besides audit.Store.
type Store interface {
	audit.Store
	Maintain(ctx context.Context, now time.Time) error
	Block(ctx context.Context, writer string, no int64) (*audit.Block, error)
	Close() error
}

// Now is the clock of the suite: a time with nanoseconds that no store keeps.
func Now() time.Time { return time.Now() }

// NewID makes an id.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// OpenLog starts a log over a store and closes it with the test.
func OpenLog(t testing.TB, s audit.Store, change ...func(*audit.Options)) *audit.Log {
	t.Helper()
	o := audit.Options{Store: s, Replica: "r1", Now: Now, NewID: NewID, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&o)
	}
	l, err := audit.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = l.Close(ctx)
	})
	return l
}

// Caught is what a stream delivered.
type Caught struct {
	mu     sync.Mutex
	events []audit.Numbered
}

func (c *Caught) deliver(n []audit.Numbered) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, n...)
}

// Events gives all of it.
func (c *Caught) Events() []audit.Numbered {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]audit.Numbered(nil), c.events...)
}

// Batch is a batch of n READ_ONLY calls in the making.
type Batch struct {
	ID      tool.BatchID
	Request string
	Calls   int
	Stream  *audit.Stream
	Caught  *Caught
}

// NewBatch makes a batch with a fresh id and request id.
func NewBatch(calls int) *Batch {
	b := &Batch{ID: tool.BatchID(NewID()), Request: "req-" + NewID(), Calls: calls, Caught: new(Caught)}
	b.Stream = audit.NewStream(b.ID, 0, b.Caught.deliver)
	return b
}

// Digest is some SHA-256, told apart by its first byte.
func Digest(first byte) audit.Digest { return audit.Digest{first, 1, 2, 3, 31: 9} }

// Accept is the entry that opens the batch with an ALLOW for each call.
func (b *Batch) Accept() *audit.Entry {
	now := Now()
	e := &audit.Entry{
		Stream: b.Stream,
		Accept: &audit.Accept{
			Facts: audit.Batch{
				AcceptedAt: now, ID: b.ID, Tenant: "default", RequestID: b.Request, RequestDigest: Digest(1), Workspace: "default",
				Principal: "agent-7", AgentID: "coder", Model: "m-1", ScheduleMode: "READS_FIRST", CallCount: b.Calls,
				ContextRemaining: 90_000, Labels: map[string]string{"run": "42"}, PeerAddr: "127.0.0.1", UserAgent: "grpc-go/1.85",
				Replica: "r1", PolicyVersion: "p-0123456789abcdef", CatalogRevision: "c-0123456789abcdef",
			},
			Request:  make([]byte, 600),
			Deadline: now.Add(time.Minute),
		},
		Events: []audit.Event{{Wire: make([]byte, 200)}},
	}
	for i := range b.Calls {
		e.Decisions = append(e.Decisions, b.Decision(i))
	}
	return e
}

// Decision is an ALLOW for the call at an index.
func (b *Batch) Decision(i int) audit.Decision {
	return audit.Decision{
		DecidedAt: Now(), ID: NewID(), Tenant: "default", Batch: b.ID, Call: b.Call(i), No: 1, Tool: "read", Class: tool.ReadOnly,
		Verdict: "ALLOW", ReasonCode: "DEFAULT", PolicyID: "profile.standard.read", PolicyVersion: "p-0123456789abcdef",
		Stage: "DEFAULT", ArgsDigest: Digest(byte(i)), DecidedBy: "policy", Principal: "agent-7", EvalMicros: 12,
		First: &audit.CallFacts{
			Index: i, ToolVersion: "1.0.0", Tier: "HOT", DeclaredClass: tool.ReadOnly, Idempotency: tool.Idempotent,
			Effects:    []tool.Effect{{Verb: tool.VerbRead, Target: "ws:/internal/audit/log.go"}},
			ArgsMasked: `{"file_path":"internal/audit/log.go"}`,
		},
	}
}

// Call is the id of the call at an index.
func (b *Batch) Call(i int) tool.CallID {
	return tool.CallID("toolu_01A09q90qw90lq917835lq9" + string(rune('a'+i)))
}

// Outcome is the entry that settles the call at an index with a result event of
// size bytes.
func (b *Batch) Outcome(i, size int) *audit.Entry {
	return &audit.Entry{
		Stream: b.Stream,
		Outcomes: []audit.Outcome{{
			FinishedAt: Now(), Batch: b.ID, Call: b.Call(i), Attempt: 1, Tenant: "default", Tool: "read", Tier: "HOT", Class: tool.ReadOnly,
			Outcome: tool.Succeeded, Queue: time.Millisecond, Run: 3 * time.Millisecond, OutputKind: "TEXT", OutputBytes: int64(size),
			OutputSHA256: Digest(byte(i)), OutputTokens: 250, KeptTokens: 250,
		}},
		Events: []audit.Event{{Wire: prose(size)}},
	}
}

// End is the entry that ends the batch.
func (b *Batch) End() *audit.Entry {
	return &audit.Entry{Stream: b.Stream, Events: []audit.Event{{Wire: make([]byte, 120)}}, End: "COMPLETED"}
}

// prose is n bytes that compress about as well as source code does.
func prose(n int) []byte {
	words := strings.Fields("if err != nil { return fmt.Errorf( writing %w ) } func ( l *Log ) for range := ctx type struct string append make")
	out := make([]byte, 0, n+16)
	for len(out) < n {
		out = append(append(out, words[rand.IntN(len(words))]...), " \t\n."[rand.IntN(4)])
		if rand.IntN(4) == 0 {
			out = strconv.AppendInt(out, rand.Int64N(1<<20), 36)
		}
	}
	return out[:n]
}
