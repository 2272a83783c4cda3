package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

// NewRequestID makes a random request id (a version 4 UUID). A caller that may
// itself die and try again makes one, keeps it, and puts it into the spec.
func NewRequestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Error is a batch whose summary could not be had. It does not say that the
// batch failed: unless Refused is set it may be running, and Attach with
// BatchID or RequestID and LastSeq goes on where this ended. The gRPC status is
// found with status.FromError.
type Error struct {
	RequestID string // as sent; empty from Attach by batch id
	BatchID   string // empty when `accepted` was not seen
	LastSeq   int64  // of the last numbered event that was handed over
	Refused   bool   // nothing of the batch ran or will run
	Err       error
}

// Error gives what went wrong, and the batch where it is known.
func (e *Error) Error() string {
	switch {
	case e.BatchID != "":
		return fmt.Sprintf("following batch %s after event %d: %v", e.BatchID, e.LastSeq, e.Err)
	case e.Refused:
		return fmt.Sprintf("executing the batch: %v", e.Err)
	case e.RequestID != "":
		return fmt.Sprintf("executing request %s, of which it is not known whether it was accepted: %v", e.RequestID, e.Err)
	}
	return fmt.Sprintf("following the batch: %v", e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Execute runs a batch and gives its summary once every outcome is durable. Each
// event is handed to each (which may be nil), one after another: the numbered
// ones exactly once and in order whatever happens to the connection, the others
// as they come. An error from each ends Execute and is returned as it is; the
// batch goes on.
//
// Without a request_id, Execute sends one that it makes. The request is sent
// again only while it is certain that toold has not accepted it (it refused each
// time, was never reached, or has no such batch), and always with the same id;
// after `accepted` Execute only attaches. When ctx ends, Execute
// returns and the batch goes on by its disconnect policy; CancelBatch cancels.
//
// Errors are *Error, or what each returned.
func (c *Client) Execute(ctx context.Context, req *tooldv1.ExecuteBatchRequest, each func(*tooldv1.BatchEvent) error) (*tooldv1.BatchSummary, error) {
	spec := &tooldv1.BatchSpec{}
	if req.GetSpec() != nil {
		spec = proto.CloneOf(req.GetSpec())
	}
	if spec.GetRequestId() == "" {
		spec.RequestId = NewRequestID()
	}
	sent := &tooldv1.ExecuteBatchRequest{Spec: spec, Calls: req.GetCalls()}
	l := c.loop(each, spec.GetStream())
	l.requestID = spec.GetRequestId()
	l.execute = func(ctx context.Context) (recv, error) {
		s, err := c.exec.ExecuteBatch(ctx, sent, grpc.WaitForReady(false))
		if err != nil {
			return nil, unsentError{err} // what happens to a request that was written comes from Recv
		}
		return func() (*tooldv1.BatchEvent, error) {
			r, err := s.Recv()
			return r.GetEvent(), err
		}, nil
	}
	return l.run(ctx)
}

// Attach follows a batch from after req.after_seq to its summary, as Execute
// does. The batch is named by its id or by its request_id. A batch that is not
// there is NOT_FOUND/BATCH_NOT_FOUND.
func (c *Client) Attach(ctx context.Context, req *tooldv1.AttachBatchRequest, each func(*tooldv1.BatchEvent) error) (*tooldv1.BatchSummary, error) {
	l := c.loop(each, req.GetStream())
	l.batchID, l.requestID, l.last = req.GetBatchId(), req.GetRequestId(), req.GetAfterSeq()
	return l.run(ctx)
}

func (c *Client) loop(each func(*tooldv1.BatchEvent) error, opts *tooldv1.StreamOptions) *loop {
	l := &loop{each: each, onRetry: c.OnRetry, giveUpAfter: c.GiveUpAfter, leaveDraining: c.LeaveDraining}
	if l.each == nil {
		l.each = func(*tooldv1.BatchEvent) error { return nil }
	}
	if l.giveUpAfter <= 0 {
		l.giveUpAfter = DefaultGiveUpAfter
	}
	l.attach = func(ctx context.Context, req *tooldv1.AttachBatchRequest) (recv, error) {
		req.Stream = opts
		s, err := c.exec.AttachBatch(ctx, req, grpc.WaitForReady(false))
		if err != nil {
			return nil, err
		}
		return func() (*tooldv1.BatchEvent, error) {
			r, err := s.Recv()
			return r.GetEvent(), err
		}, nil
	}
	return l
}

// recv gives the next event of one stream; io.EOF is its good end.
type recv func() (*tooldv1.BatchEvent, error)

// endOfStream lets the server end the stream after the summary, so that it does
// not take us for a client that left, and waits for that no longer than a second.
func endOfStream(next recv, cancel context.CancelFunc) {
	defer time.AfterFunc(time.Second, cancel).Stop()
	for {
		if _, err := next(); err != nil {
			return
		}
	}
}

// errNoSummary is a stream that ended well and too early.
var errNoSummary = fmt.Errorf("the stream ended without a summary: %w", io.ErrUnexpectedEOF)
