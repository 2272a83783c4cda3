package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/toold/toold/internal/tool"
)

// Options of a Log. Store, Replica, Now and NewID are required.
type Options struct {
	Store   Store
	Replica string           // who writes; part of the writer id
	Now     func() time.Time // stamps ends and expiries, and bounds what times rows may have
	NewID   func() string    // UUIDv7 in canonical text
	// FlushTimeout bounds one flush, looking after its fate included; 0 = 2 s.
	FlushTimeout time.Duration
	// RequestRetention is how long a request id stays taken; 0 = 7 days.
	RequestRetention time.Duration
	Logger           *slog.Logger // nil = slog.Default()
	Metrics          Metrics
	// Orphaned is told of a batch whose Intend ended in ErrInDoubt and which turned
	// out to be durable: nobody runs it, so it must be adopted as after a crash.
	// The writer calls it: it must not block. nil = nobody is told.
	Orphaned func(tool.BatchID)
}

// Metrics are hooks for measuring. A nil hook is not called. They are called by
// the writer and must be quick.
type Metrics struct {
	Flushed   func(took time.Duration, rows int) // one durable group commit
	Failed    func()                             // one that was not
	Ambiguous func()                             // one whose fate had to be asked for
	Available func(bool)                         // on each change, and once at Open
}

// Limits of the log.
const (
	maxGroupEntries = 256
	maxGroupBytes   = 1 << 20
	maxIntents      = 4096
	retryEvery      = time.Second
)

// Log writes the ledger. One goroutine commits whatever has queued up while the
// commit before was under way; nobody waits for a timer. It is safe for
// concurrent use.
type Log struct {
	o    Options
	stop context.CancelFunc
	ctx  context.Context // ends what the writer does
	wake chan struct{}   // there may be something to do
	gone chan struct{}   // the writer has returned

	mu      sync.Mutex
	queue   []*item
	intents int // in the queue
	closing bool
	down    error     // why the last flush failed; nil when it did not
	tried   time.Time // when it failed

	// The writer's own.
	writer string
	no     int64
	head   Digest
	doubt  *group // sent, fate unknown
}

// Open starts a log under a new writer id, chained to the newest block there
// is. The store stays the caller's to close, after the log.
func Open(ctx context.Context, o Options) (*Log, error) {
	if o.FlushTimeout == 0 {
		o.FlushTimeout = 2 * time.Second
	}
	if o.RequestRetention == 0 {
		o.RequestRetention = 7 * 24 * time.Hour
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	l := &Log{o: o, wake: make(chan struct{}, 1), gone: make(chan struct{})}
	if err := l.newWriter(ctx); err != nil {
		return nil, err
	}
	l.ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.available(true)
	go l.run()
	return l, nil
}

func (l *Log) newWriter(ctx context.Context) error {
	last, err := l.o.Store.LastHead(ctx)
	if err != nil {
		return fmt.Errorf("finding the newest block: %w", err)
	}
	l.writer = l.o.Replica + "/" + l.o.NewID()
	l.no, l.head = 0, FirstPrev(last)
	return nil
}

// Reader is the store's read side.
func (l *Log) Reader() Reader { return l.o.Store }

// Available is nil when the last flush succeeded, else what was wrong with it,
// wrapped in ErrUnavailable.
func (l *Log) Available() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down == nil {
		return nil
	}
	return unavailable(l.down)
}

// Intend records what is about to happen and returns when it is durable: a
// receipt for each decision, then for each start, in order.
//
// After an error nothing of the entry is or will be durable: *InvalidError and a
// store's data error for an entry that can never be written, *TakenError when
// the request id is another batch's, ErrUnavailable within FlushTimeout, or at
// once where a flush failed less than a second ago, and ctx's error if it ended
// before the entry went into a flush. The one exception is ErrInDoubt.
func (l *Log) Intend(ctx context.Context, e *Entry) ([]Receipt, error) {
	receipts, starts, err := receiptsOf(e)
	if err != nil {
		return nil, err
	}
	it, err := l.newItem(e, starts)
	if err != nil {
		return nil, err
	}
	it.intent = true
	if err := l.enqueue(it); err != nil {
		return nil, err
	}
	select {
	case <-it.done:
	case <-ctx.Done():
		if l.withdraw(it) {
			return nil, fmt.Errorf("waiting for the audit ledger: %w", ctx.Err())
		}
		<-it.done
	}
	if it.err != nil {
		return nil, it.err
	}
	return receipts, nil
}

// Settle records what has happened already and returns when it is durable. The
// log keeps at it, in order, for as long as it is open: ctx bounds only the
// caller's waiting. Entries are never refused for want of room, since what is
// running bounds them. An entry that can never be written gives *InvalidError or
// the store's data error; a closed log gives ErrUnavailable.
func (l *Log) Settle(ctx context.Context, e *Entry) error {
	if e.Accept != nil || len(e.Starts) > 0 {
		return &InvalidError{Field: "entry", Problem: "opens a batch or starts a call, which must be intended first"}
	}
	it, err := l.newItem(e, nil)
	if err != nil {
		return err
	}
	if err := l.enqueue(it); err != nil {
		return err
	}
	select {
	case <-it.done:
		return it.err
	case <-ctx.Done():
		return fmt.Errorf("waiting for the audit ledger: %w", ctx.Err())
	}
}

// Close refuses new entries and returns when all that waited is durable, or ctx
// ends; what is not written by then fails with ErrUnavailable.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	l.poke()
	select {
	case <-l.gone:
	case <-ctx.Done():
		l.stop()
		<-l.gone
	}
	l.stop()
	l.mu.Lock()
	left := l.queue
	l.queue = nil
	l.mu.Unlock()
	if l.doubt != nil {
		left = append(l.doubt.unanswered(), left...)
	}
	for _, it := range left {
		it.answer(unavailable(errClosed))
	}
	if len(left) > 0 {
		return fmt.Errorf("closing the audit log with %d entries unwritten: %w", len(left), unavailable(ctx.Err()))
	}
	return nil
}

var (
	errClosed     = errors.New("the log is closed")
	errOverloaded = errors.New("too many entries wait")
)

func unavailable(why error) error { return fmt.Errorf("%w: %w", ErrUnavailable, why) }

func (l *Log) enqueue(it *item) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closing:
		return unavailable(errClosed)
	case it.intent && l.down != nil && time.Since(l.tried) < retryEvery:
		return unavailable(l.down)
	case it.intent && l.intents >= maxIntents:
		return unavailable(errOverloaded)
	}
	l.queue = append(l.queue, it)
	if it.intent {
		l.intents++
	}
	l.poke()
	return nil
}

// withdraw takes an entry back that the writer has not taken yet.
func (l *Log) withdraw(it *item) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if it.taken {
		return false
	}
	it.taken, it.withdrawn = true, true
	return true
}

func (l *Log) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *Log) available(yes bool) {
	if l.o.Metrics.Available != nil {
		l.o.Metrics.Available(yes)
	}
}

// receiptsOf checks that every start stands on an ALLOW, and makes the receipts
// that the entry is worth once it is durable.
func receiptsOf(e *Entry) ([]Receipt, []StartRow, error) {
	receipts := make([]Receipt, len(e.Decisions), len(e.Decisions)+len(e.Starts))
	dry := e.Accept != nil && e.Accept.Dry
	for i := range e.Decisions {
		d := &e.Decisions[i]
		receipts[i] = Receipt{
			batch: d.Batch, call: d.Call, decision: d.ID, tenant: d.Tenant,
			digest: d.ArgsDigest, class: d.Class.OrWidest(), allowed: d.Verdict == "ALLOW" && !dry,
		}
	}
	rows := make([]StartRow, 0, len(e.Starts))
	for _, s := range e.Starts {
		on := s.On
		if on == (Receipt{}) {
			for i := range e.Decisions {
				if r := &receipts[i]; r.decision == s.Decision && r.allowed {
					r.started, on = true, *r
					break
				}
			}
		}
		if !on.allowed {
			return nil, nil, &InvalidError{Field: "start", Problem: "stands on no decision that allows it"}
		}
		on.started = true
		receipts = append(receipts, on)
		s.Decision = on.decision
		rows = append(rows, StartRow{Start: s, Batch: on.batch, Call: on.call, Tenant: on.tenant, Args: on.digest})
	}
	return receipts, rows, nil
}
