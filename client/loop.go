package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

// Waits between streams are drawn from [0, min(maxBackoff, minBackoff·2ⁿ)) ("full
// jitter"), n being the streams that ended since the last event.
const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// maxOddFailures is how often in a row a stream may end with a status that is
// transient only sometimes (a reset stream and a message that cannot be encoded
// are both INTERNAL) before it is taken for final.
const maxOddFailures = 5

// maxRetryDelay bounds the wait that a server may ask for.
const maxRetryDelay = 30 * time.Second

// loop follows one batch over as many streams as it takes.
type loop struct {
	execute       func(context.Context) (recv, error) // nil: only attach; unsentError: nothing was sent
	attach        func(context.Context, *tooldv1.AttachBatchRequest) (recv, error)
	each          func(*tooldv1.BatchEvent) error
	onRetry       func(error, time.Duration)
	giveUpAfter   time.Duration
	leaveDraining bool

	requestID string
	batchID   string
	accepted  bool          // `accepted` was seen
	uncertain bool          // some ExecuteBatch ended without telling whether it was accepted
	last      int64         // newest numbered event handed over
	heard     time.Time     // of the last event, or the start
	failures  int           // streams ended since then
	reattach  time.Duration // asked for by a draining server
}

// step is what to do after a stream ended without a summary.
type step int

const (
	giveUp step = iota
	executeAgain
	attachAgain
)

// handlerError marks an error of the caller's own function.
type handlerError struct{ error }

// unsentError marks an ExecuteBatch of which nothing reached a server.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

func unsent(err error) bool {
	own := unsentError{}
	return errors.As(err, &own)
}

func (l *loop) run(ctx context.Context) (*tooldv1.BatchSummary, error) {
	l.heard = time.Now()
	next := attachAgain
	if l.execute != nil {
		next = executeAgain
	}
	var executeErr error // why it is not known whether the batch was accepted
	for {
		summary, err := l.stream(ctx, next)
		if err == nil {
			return summary, nil
		}
		if own := (handlerError{}); errors.As(err, &own) {
			return nil, own.error
		}
		if ctx.Err() != nil {
			return nil, l.failed(context.Cause(ctx), false)
		}
		if next == executeAgain {
			executeErr = err
		}
		was := next
		if next = l.after(was, err, executeErr); next == giveUp {
			if was == attachAgain && l.execute != nil && !l.accepted && notFound(err) {
				return nil, l.failed(executeErr, true)
			}
			return nil, l.failed(err, l.refused(err))
		}
		if time.Since(l.heard) >= l.giveUpAfter {
			return nil, l.failed(fmt.Errorf("nothing heard for %v: %w", l.giveUpAfter, err), l.refused(err))
		}
		if err := l.pause(ctx, err); err != nil {
			return nil, l.failed(err, false)
		}
	}
}

func (l *loop) failed(err error, refused bool) error {
	e := &Error{RequestID: l.requestID, LastSeq: l.last, Refused: refused, Err: err}
	if l.accepted || l.execute == nil {
		e.BatchID = l.batchID
	}
	return e
}

// refused says whether nothing of the batch ran or will run: the last attempt was
// refused or not even sent, and so was every one before.
func (l *loop) refused(err error) bool {
	return !l.accepted && !l.uncertain && l.execute != nil && (saysRefused(err) || unsent(err))
}

// after decides what follows a stream that ended with err. executeErr is how the
// last ExecuteBatch ended.
func (l *loop) after(was step, err, executeErr error) step {
	l.failures++
	if was == executeAgain && !l.accepted {
		switch {
		case unsent(err):
			if l.transient(err) {
				return executeAgain
			}
			return giveUp
		case !saysRefused(err):
			l.uncertain = true
			return attachAgain // it may have been accepted: look
		case l.leaveDraining && !l.uncertain && info(err).GetReason() == "REPLICA_DRAINING":
			return giveUp
		case status.Code(err) == codes.Unavailable || retryDelay(err) > 0:
			return executeAgain
		}
		return giveUp
	}
	if notFound(err) && l.execute != nil && !l.accepted {
		// Never accepted: the same request may be sent once more, unless what
		// kept it from arriving will do so again.
		if l.transient(executeErr) {
			return executeAgain
		}
		return giveUp
	}
	if l.transient(err) {
		return attachAgain
	}
	return giveUp
}

// transient says whether another try may end better. Statuses that toold itself
// gave are what they say; those that transports and proxies make up are tried a
// few times.
func (l *loop) transient(err error) bool {
	if errors.Is(err, errNoSummary) {
		return l.failures < maxOddFailures
	}
	switch status.Code(err) {
	case codes.Unavailable:
		return true
	case codes.Internal, codes.Unknown, codes.Canceled, codes.DeadlineExceeded, codes.Aborted:
		return info(err) == nil && l.failures < maxOddFailures
	}
	return false
}

// pause waits before the next stream: as long as the server asked for, else a
// drawn time.
func (l *loop) pause(ctx context.Context, cause error) error {
	ceiling := min(maxBackoff, minBackoff<<min(l.failures-1, 10))
	wait := max(rand.N(ceiling), min(retryDelay(cause), maxRetryDelay), min(l.reattach, maxRetryDelay))
	l.reattach = 0
	if l.onRetry != nil {
		l.onRetry(cause, wait)
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// stream opens one stream and hands its events over until the summary.
func (l *loop) stream(ctx context.Context, how step) (*tooldv1.BatchSummary, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A peer that went silent without closing is left after giveUpAfter; its
	// heartbeats come far more often.
	quiet := time.AfterFunc(l.giveUpAfter, cancel)
	defer quiet.Stop()

	next, err := l.open(ctx, how)
	if err != nil {
		return nil, err
	}
	for {
		ev, err := next()
		if errors.Is(err, io.EOF) {
			return nil, errNoSummary
		}
		if err != nil {
			return nil, err
		}
		if ev == nil {
			continue // a variant of the reply that this version does not know
		}
		quiet.Reset(l.giveUpAfter)
		fresh, err := l.note(ev)
		if err != nil {
			return nil, err
		}
		if fresh {
			if err := l.each(ev); err != nil {
				return nil, handlerError{err}
			}
			l.last = max(l.last, ev.GetSeq())
			l.heard = time.Now() // the caller's own time is not the server's silence
			quiet.Reset(l.giveUpAfter)
		}
		if s := ev.GetSummary(); s != nil {
			endOfStream(next, cancel)
			return s, nil
		}
	}
}

func (l *loop) open(ctx context.Context, how step) (recv, error) {
	if how == executeAgain {
		return l.execute(ctx)
	}
	req := &tooldv1.AttachBatchRequest{AfterSeq: l.last}
	if l.batchID != "" {
		req.Batch = &tooldv1.AttachBatchRequest_BatchId{BatchId: l.batchID}
	} else {
		req.Batch = &tooldv1.AttachBatchRequest_RequestId{RequestId: l.requestID}
	}
	return l.attach(ctx, req)
}

// note takes down what an event tells about the stream and says whether the
// event is to be handed over: a numbered one that was seen is not. A number that
// skips one breaks the stream, so that the next one brings what is missing.
func (l *loop) note(ev *tooldv1.BatchEvent) (fresh bool, err error) {
	seq := ev.GetSeq()
	if seq > l.last+1 {
		return false, status.Errorf(codes.Unavailable, "event %d came after %d", seq, l.last)
	}
	l.heard, l.failures = time.Now(), 0
	if l.batchID == "" {
		l.batchID = ev.GetBatchId()
	}
	if ev.GetAccepted() != nil {
		l.accepted = true
	}
	if d := ev.GetDraining(); d != nil {
		l.reattach = d.GetReattachAfter().AsDuration()
	}
	return seq == 0 || seq > l.last, nil
}

// info is the ErrorInfo that toold put into a status; nil when the status is
// not toold's.
func info(err error) *errdetails.ErrorInfo {
	for _, d := range status.Convert(err).Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok && i.GetDomain() == "toold" {
			return i
		}
	}
	return nil
}

// saysRefused says whether a status promises that nothing was accepted.
func saysRefused(err error) bool { return info(err).GetMetadata()["accepted"] == "false" }

func notFound(err error) bool {
	return status.Code(err) == codes.NotFound && info(err).GetReason() == "BATCH_NOT_FOUND"
}

func retryDelay(err error) time.Duration {
	for _, d := range status.Convert(err).Details() {
		if r, ok := d.(*errdetails.RetryInfo); ok {
			return r.GetRetryDelay().AsDuration()
		}
	}
	return 0
}
