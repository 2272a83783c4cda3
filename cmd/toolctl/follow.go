package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc/status"

	"github.com/toold/toold/client"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

// errInterrupted is the cause of a context that the user ended.
var errInterrupted = errors.New("interrupted")

// follower follows one batch to its end, or until the user leaves it.
type follower struct {
	*app
	client *client.Client
	board  *board
	view   view
	// cancelOnInterrupt: the first Ctrl-C cancels the batch and stays; the
	// second leaves.
	cancelOnInterrupt bool

	batchID  atomic.Value // string, once known; read by the watcher of signals
	draining bool         // it was said that toold is shutting down
	saidLost time.Time    // when it was last said that toold is away
}

// stream is Execute or Attach with its request.
type stream func(context.Context, func(*tooldv1.BatchEvent) error) (*tooldv1.BatchSummary, error)

// follow shows the events of a stream and ends with the exit status of the
// batch. Ctrl-C and --timeout leave the batch running and say how to go on.
func (f *follower) follow(ctx context.Context, s stream) error {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	if f.timeout > 0 { // ours alone: toold need not know when we leave
		defer time.AfterFunc(f.timeout, func() { leave(context.DeadlineExceeded) }).Stop()
	}
	defer f.onInterrupt(ctx, leave)()

	f.client.OnRetry = func(cause error, _ time.Duration) { f.lost(cause, time.Now()) }
	_, err := s(ctx, func(ev *tooldv1.BatchEvent) error {
		f.batchID.Store(ev.GetBatchId())
		return f.event(ev)
	})
	if shown := f.view.close(ctx); err == nil {
		err = shown
	}
	switch {
	case errors.Is(context.Cause(ctx), errInterrupted):
		if f.board.summary == nil {
			f.detached()
		}
		return &exitError{code: exitInterrupted}
	case err != nil:
		return err
	case !f.board.allSucceeded():
		return errCalls
	}
	return nil
}

// event shows an event, and once that toold is shutting down.
func (f *follower) event(ev *tooldv1.BatchEvent) error {
	err := f.view.event(ev)
	if ev.GetDraining() != nil && !f.draining {
		f.draining = true
		f.view.note("toold is shutting down; what runs may finish")
	}
	return err
}

// lostEvery is how often it is said that toold is away.
const lostEvery = 10 * time.Second

// lost says that the stream broke, and why.
func (f *follower) lost(cause error, now time.Time) {
	if now.Sub(f.saidLost) < lostEvery {
		return
	}
	f.saidLost = now
	what := "toold does not take the batch (%s); trying again"
	if f.board.batchID != "" {
		what = "lost toold (%s); looking for the batch again"
	}
	f.view.note(fmt.Sprintf(what, own(status.Convert(cause))))
}

// onInterrupt watches for Ctrl-C and SIGTERM until the returned function is
// called.
func (f *follower) onInterrupt(ctx context.Context, leave context.CancelCauseFunc) (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	over, done := make(chan struct{}), make(chan struct{})
	cancelFirst := f.cancelOnInterrupt
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			case <-signals:
			}
			if !cancelFirst {
				leave(errInterrupted)
				continue
			}
			cancelFirst = false
			f.cancelBatch(ctx)
		}
	}()
	return func() {
		signal.Stop(signals)
		close(over)
		<-done
	}
}

// cancelBatch asks for cancellation; the outcomes then come as events.
func (f *follower) cancelBatch(ctx context.Context) {
	id, known := f.batchID.Load().(string)
	if !known {
		f.view.note("not accepted yet, so it cannot be cancelled; Ctrl-C again leaves")
		return
	}
	f.view.note("cancelling; Ctrl-C again leaves it alone")
	ctx, stop := context.WithTimeout(ctx, reachTimeout)
	defer stop()
	_, err := tooldv1.NewExecutionServiceClient(f.client.Conn()).CancelBatch(ctx, &tooldv1.CancelBatchRequest{
		BatchId: id, Reason: "interrupted at the terminal",
	})
	if err != nil {
		f.view.note("could not cancel: " + own(status.Convert(err)))
	}
}

// detached says that the batch was left and how to come back to it.
func (f *follower) detached() {
	id := f.board.batchID
	if id == "" {
		f.say("left before toold said that it accepted the batch; see whether it did: toolctl attach %s", f.board.requestID)
		return
	}
	f.say("left batch %s, which goes on by its disconnect policy\n  come back: toolctl attach %s\n  cancel it: toolctl cancel %s", id, id, id)
}
