package exec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/semaphore"

	"github.com/toold/toold/internal/artifact"
	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/budget"
	"github.com/toold/toold/internal/policy"
	"github.com/toold/toold/internal/session"
	"github.com/toold/toold/internal/tool"
)

// Options are what an Executor works with. All but Now, Meter, Logger, MaskKey
// and Isolation are required.
type Options struct {
	Registry   *tool.Registry
	Policy     *policy.Policy
	Log        *audit.Log
	Sessions   *session.Sessions
	Workspaces *session.Workspaces
	Artifacts  *artifact.Disk
	Codec      Codec
	Limits     Limits
	Replica    string
	Now        func() time.Time
	Meter      metric.Meter
	Logger     *slog.Logger
	MaskKey    []byte // keys the marks that stand for masked secrets
	Isolation  bool   // commands are confined and have no network
}

// Executor runs batches. It is safe for concurrent use.
type Executor struct {
	Options
	reader  audit.Reader
	locks   *writerLocks
	slots   *semaphore.Weighted // calls running in the daemon
	metrics *metrics

	mu         sync.Mutex
	batches    map[tool.BatchID]*Batch // running, and the last few that ended
	requests   map[requestKey]*claim
	ended      []*Batch // oldest first
	endedBytes int      // of their events
	running    int
	draining   bool
	wg         sync.WaitGroup // one per running batch
}

// How many ended batches stay in memory, and with how many bytes of events, so
// that a client that lost the end of its stream need not go to the store.
const (
	keepEnded = 256
	keepBytes = 64 << 20
)

type requestKey struct{ tenant, principal, id string }

// claim is a request id that this process knows: being accepted, or accepted.
type claim struct {
	done  chan struct{} // closed once batch is set, or acceptance failed
	batch *Batch        // nil when acceptance failed
}

// New makes an executor. Call Recover before the first Execute.
func New(o Options) (*Executor, error) {
	o.Limits = o.Limits.withDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m, err := newMetrics(o.Meter)
	if err != nil {
		return nil, fmt.Errorf("making the executor's metrics: %w", err)
	}
	return &Executor{
		Options: o, reader: o.Log.Reader(), locks: newWriterLocks(), metrics: m,
		slots:   semaphore.NewWeighted(int64(o.Limits.ParallelCalls)),
		batches: make(map[tool.BatchID]*Batch), requests: make(map[requestKey]*claim),
	}, nil
}

// Execute accepts a batch: when it returns without an error the batch and every
// decision in it are durable, and it will run to its end whoever follows it. A
// request id that is known attaches to the batch that has it (attached is true)
// if the digest is the same. Errors are *Error, and nothing ran.
func (x *Executor) Execute(ctx context.Context, caller tool.Caller, req Request) (b *Batch, attached bool, err error) {
	if err := x.check(req); err != nil {
		return nil, false, err
	}
	if req.ID == "" {
		req.ID = uuid.NewString()
	}
	key := requestKey{caller.Tenant, caller.Principal.ID, req.ID}
	c, mine, err := x.claim(ctx, key)
	if err != nil {
		return nil, false, err
	}
	if !mine {
		return c.batch, true, sameContent(c.batch.req.Digest, req.Digest, c.batch.id)
	}
	began := x.Now()
	// Whether the caller still waits does not matter from here on: a request that
	// is withdrawn halfway would leave its caller in doubt.
	func() {
		defer func() { x.settleClaim(key, c, b) }() // also if acceptance panics
		b, err = x.accept(context.WithoutCancel(ctx), caller, req)
	}()
	var taken *audit.TakenError
	var bad *audit.InvalidError
	switch {
	case errors.As(err, &taken):
		if err := sameContent(taken.Digest, req.Digest, taken.Batch); err != nil {
			return nil, false, err
		}
		b, err = x.Attach(ctx, caller, Ref{Batch: taken.Batch})
		return b, true, err
	case errors.Is(err, audit.ErrInDoubt):
		return nil, false, &Error{
			Kind: KindUnavailable, Reason: ReasonAuditUnavailable, Err: err, RetryAfter: time.Second,
			Message: "whether the batch was recorded is not known; attach by its request id, then execute again with the same id", Metadata: map[string]string{"accepted": "unknown"},
		}
	case errors.Is(err, audit.ErrUnavailable):
		return nil, false, &Error{
			Kind: KindUnavailable, Reason: ReasonAuditUnavailable, Err: err, RetryAfter: time.Second,
			Message: "the decision could not be recorded, so nothing may run; retry with the same request id",
		}
	case errors.As(err, &bad):
		return nil, false, &Error{Kind: KindInvalid, Reason: "BATCH_MALFORMED", Message: "the batch cannot be recorded", Err: err}
	case err != nil:
		return nil, false, err
	}
	x.metrics.accepted(x.Now().Sub(began))
	return b, false, nil
}

// ReasonAuditUnavailable is the reason of every refusal that comes of the
// ledger being away.
const ReasonAuditUnavailable = "AUDIT_UNAVAILABLE"

func sameContent(have, want audit.Digest, id tool.BatchID) error {
	if have == want {
		return nil
	}
	return &Error{
		Kind: KindExists, Reason: "REQUEST_ID_REUSED", Field: "spec.request_id", Metadata: map[string]string{"batch_id": string(id)},
		Message: "this request id named a batch with other content; use a new one for a new batch",
	}
}

// check refuses what is wrong with the request as a whole.
func (x *Executor) check(req Request) error {
	over := func(what string, limit, value int) error {
		return &Error{
			Kind: KindExhausted, Reason: "TOO_MANY_CALLS", Field: "calls",
			Message:  fmt.Sprintf("%d %s, and the limit is %d; split the batch", value, what, limit),
			Metadata: map[string]string{"limit": fmt.Sprint(limit), "value": fmt.Sprint(value)},
		}
	}
	switch n := len(req.Calls); {
	case n == 0:
		return &Error{Kind: KindInvalid, Reason: "BATCH_MALFORMED", Field: "calls", Message: "there are no calls; send at least one"}
	case n > x.Limits.Calls:
		return over("calls", x.Limits.Calls, n)
	}
	if _, err := budget.Divide(req.Budget, x.Limits.Budget, len(req.Calls)); err != nil {
		return &Error{Kind: KindInvalid, Reason: "BATCH_MALFORMED", Field: "spec.budget", Message: err.Error()}
	}
	return nil
}

// claim takes a request id for a new batch (mine), or gives the claim of the
// batch that has it in this process.
func (x *Executor) claim(ctx context.Context, key requestKey) (c *claim, mine bool, err error) {
	for {
		x.mu.Lock()
		switch c = x.requests[key]; {
		case c != nil:
		case x.draining:
			x.mu.Unlock()
			return nil, false, errDraining()
		case x.running >= x.Limits.RunningBatches:
			x.mu.Unlock()
			return nil, false, &Error{
				Kind: KindExhausted, Reason: "QUEUE_FULL", RetryAfter: 250 * time.Millisecond,
				Message:  fmt.Sprintf("%d batches are running, which is the limit; retry with the same request id", x.Limits.RunningBatches),
				Metadata: map[string]string{"limit": fmt.Sprint(x.Limits.RunningBatches), "value": fmt.Sprint(x.Limits.RunningBatches)},
			}
		default:
			c = &claim{done: make(chan struct{})}
			x.requests[key] = c
			x.running++
			x.wg.Add(1)
			x.mu.Unlock()
			return c, true, nil
		}
		x.mu.Unlock()
		select {
		case <-c.done:
			if c.batch != nil {
				return c, false, nil
			}
		case <-ctx.Done():
			return nil, false, &Error{Kind: KindUnavailable, Reason: "CLIENT_GONE", Message: "the caller left", Err: ctx.Err()}
		}
	}
}

func errDraining() *Error {
	return &Error{Kind: KindUnavailable, Reason: "REPLICA_DRAINING", RetryAfter: time.Second, Message: "this replica is shutting down; retry with the same request id"}
}

// settleClaim says what became of a claim: a batch that now runs, or nothing.
func (x *Executor) settleClaim(key requestKey, c *claim, b *Batch) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c.batch = b
	close(c.done)
	if b == nil {
		delete(x.requests, key)
		x.running--
		x.wg.Done()
	}
}

// accept prepares, decides and records a batch, and sets it going.
func (x *Executor) accept(ctx context.Context, caller tool.Caller, req Request) (*Batch, error) {
	s, err := x.useSession(ctx, caller, req.Session)
	if err != nil {
		return nil, err
	}
	b, err := x.newBatch(caller, req, s)
	if err != nil {
		return nil, err
	}
	for _, c := range b.calls {
		x.decide(ctx, b, c)
	}
	b.plan()
	b.mu.Lock()
	entry := b.acceptEntry()
	b.mu.Unlock()
	x.publish(b)
	receipts, err := x.Log.Intend(ctx, entry)
	if err != nil {
		b.withdraw()
		x.mu.Lock()
		delete(x.batches, b.id)
		x.mu.Unlock()
		return nil, err
	}
	for i, c := range b.calls {
		c.receipt = receipts[i]
	}
	b.begin()
	return b, nil
}

// publish makes a batch one that can be found. One that comes while the executor
// drains, having been claimed before, is told so like those that Drain saw.
func (x *Executor) publish(b *Batch) {
	x.mu.Lock()
	x.batches[b.id] = b
	draining := x.draining
	x.mu.Unlock()
	if draining {
		b.drain(false)
	}
}

// batchEnded moves a batch from the running ones to the remembered ones.
func (x *Executor) batchEnded(b *Batch) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.running--
	x.wg.Done()
	x.ended = append(x.ended, b)
	x.endedBytes += b.shrink()
	for len(x.ended) > keepEnded || x.endedBytes > keepBytes && len(x.ended) > 1 {
		oldest := x.ended[0]
		x.forget(oldest)
		x.endedBytes -= oldest.size
		x.ended[0] = nil
		x.ended = x.ended[1:]
	}
}

// forget drops a batch from memory. x.mu is held.
func (x *Executor) forget(b *Batch) {
	delete(x.batches, b.id)
	delete(x.requests, requestKey{b.caller.Tenant, b.caller.Principal.ID, b.req.ID})
}

// Ref names a batch by its id or, when that is not known, by its request id.
type Ref struct {
	Batch   tool.BatchID
	Request string
}

// Attach finds a batch of the caller's, running or ended. Errors are *Error:
// BATCH_NOT_FOUND covers batches of others.
func (x *Executor) Attach(ctx context.Context, caller tool.Caller, ref Ref) (*Batch, error) {
	if ref.Batch == "" {
		x.mu.Lock()
		c := x.requests[requestKey{caller.Tenant, caller.Principal.ID, ref.Request}]
		x.mu.Unlock()
		if c != nil {
			select {
			case <-c.done:
			case <-ctx.Done():
				return nil, &Error{Kind: KindUnavailable, Reason: "CLIENT_GONE", Message: "the caller left", Err: ctx.Err()}
			}
			if c.batch != nil {
				return c.batch, nil
			}
		}
		id, _, err := x.reader.Request(ctx, caller.Tenant, caller.Principal.ID, ref.Request)
		if err != nil {
			return nil, notFound(err, "request", ref.Request)
		}
		ref.Batch = id
	}
	x.mu.Lock()
	b := x.batches[ref.Batch]
	x.mu.Unlock()
	if b != nil && b.recorded() {
		if b.caller.Tenant != caller.Tenant || b.caller.Principal.ID != caller.Principal.ID {
			return nil, notFound(audit.ErrNotFound, "batch", string(ref.Batch))
		}
		return b, nil
	}
	row, err := x.row(ctx, caller, ref.Batch)
	if err != nil {
		return nil, err
	}
	return x.storedBatch(row), nil
}

// row reads a batch's live row, if it is the caller's.
func (x *Executor) row(ctx context.Context, caller tool.Caller, id tool.BatchID) (audit.LiveBatch, error) {
	if _, err := uuid.Parse(string(id)); err != nil {
		return audit.LiveBatch{}, notFound(audit.ErrNotFound, "batch", string(id))
	}
	row, err := x.reader.Batch(ctx, caller.Tenant, id)
	if err == nil && row.Principal != caller.Principal.ID {
		err = audit.ErrNotFound
	}
	if err != nil {
		return row, notFound(err, "batch", string(id))
	}
	return row, nil
}

func notFound(err error, what, name string) error {
	if errors.Is(err, audit.ErrNotFound) {
		return &Error{
			Kind: KindNotFound, Reason: "BATCH_NOT_FOUND", Message: fmt.Sprintf("no %s %q of yours is known", what, name),
			Metadata: map[string]string{"resource": what, "name": name},
		}
	}
	return &Error{Kind: KindUnavailable, Reason: ReasonAuditUnavailable, Message: "looking up the " + what, Err: err, RetryAfter: time.Second}
}

// Drain stops accepting, tells the followers, and waits for the calls that run;
// followers get their results. When ctx ends first, running writes are ended INTERRUPTED; running reads and
// what has not started are left to whoever opens the store next.
func (x *Executor) Drain(ctx context.Context) error {
	x.mu.Lock()
	x.draining = true
	x.mu.Unlock()
	x.drainAll(false)
	done := make(chan struct{})
	go func() { x.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	x.drainAll(true)
	select {
	case <-done:
		return nil
	case <-time.After(x.Limits.ToolGrace + 5*time.Second):
		return errors.New("some calls did not stop in time")
	}
}

func (x *Executor) drainAll(hard bool) {
	x.mu.Lock()
	all := slices.Collect(maps.Values(x.batches))
	x.mu.Unlock()
	for _, b := range all {
		b.drain(hard)
	}
}

// IsDraining reports whether Drain was called.
func (x *Executor) IsDraining() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.draining
}

func cut(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
