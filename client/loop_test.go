package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

// A script is what a server does, stream by stream. "accepted", "result",
// "summary" are numbered events ("result@7" has that number, others count on),
// "heartbeat" and "draining" are not numbered, "end" ends with OK, "hang" stays
// silent; anything else is the name of a status in statuses. After "unsent" the
// status is that of a stream that could not be opened.
type script []string

var statuses = map[string]error{
	"unavailable":       status.Error(codes.Unavailable, "connection refused"),
	"reset":             status.Error(codes.Internal, "stream terminated by RST_STREAM"),
	"unimplemented":     status.Error(codes.Unimplemented, "unknown service"),
	"too-large":         status.Error(codes.ResourceExhausted, "message larger than max"),
	"malformed":         refused(codes.InvalidArgument, "BATCH_MALFORMED"),
	"audit-unavailable": refused(codes.Unavailable, "AUDIT_UNAVAILABLE"),
	"drains":            refused(codes.Unavailable, "REPLICA_DRAINING", &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}),
	"drained":           toold(codes.Unavailable, "REPLICA_DRAINING"),
	"queue-full":        refused(codes.ResourceExhausted, "QUEUE_FULL", &errdetails.RetryInfo{RetryDelay: durationpb.New(9 * time.Second)}),
	"slow-consumer":     toold(codes.Unavailable, "SLOW_CONSUMER"),
	"bug":               toold(codes.Internal, "BUG"),
	"not-found":         toold(codes.NotFound, "BATCH_NOT_FOUND"),
	"events-expired":    toold(codes.OutOfRange, "EVENTS_EXPIRED"),
}

func toold(c codes.Code, reason string) error {
	return withDetails(c, &errdetails.ErrorInfo{Domain: "toold", Reason: reason})
}

func refused(c codes.Code, reason string, more ...protoadapt.MessageV1) error {
	return withDetails(c, append(more, &errdetails.ErrorInfo{
		Domain: "toold", Reason: reason, Metadata: map[string]string{"accepted": "false"},
	})...)
}

func withDetails(c codes.Code, details ...protoadapt.MessageV1) error {
	s, err := status.New(c, "refused").WithDetails(details...)
	if err != nil {
		panic(err)
	}
	return s.Err()
}

// play gives the streams of a script one after another and notes which RPC
// opened each.
type play struct {
	streams []script
	opened  []string
	seq     int64
}

func (p *play) next(ctx context.Context) recv {
	if len(p.streams) == 0 {
		return func() (*tooldv1.BatchEvent, error) { return nil, statuses["unavailable"] }
	}
	lines := p.streams[0]
	p.streams = p.streams[1:]
	return func() (*tooldv1.BatchEvent, error) {
		if len(lines) == 0 {
			return nil, io.EOF
		}
		line := lines[0]
		lines = lines[1:]
		if err, ok := statuses[line]; ok {
			return nil, err
		}
		return p.event(ctx, line)
	}
}

func (p *play) event(ctx context.Context, line string) (*tooldv1.BatchEvent, error) {
	ev := &tooldv1.BatchEvent{BatchId: "b1"}
	what, at, numbered := strings.Cut(line, "@")
	switch what {
	case "end":
		return nil, io.EOF
	case "hang":
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	case "heartbeat":
		ev.Event = &tooldv1.BatchEvent_Heartbeat{Heartbeat: &tooldv1.Heartbeat{}}
		return ev, nil
	case "draining":
		ev.Event = &tooldv1.BatchEvent_Draining{Draining: &tooldv1.Draining{ReattachAfter: durationpb.New(time.Second)}}
		return ev, nil
	case "accepted":
		ev.Event = &tooldv1.BatchEvent_Accepted{Accepted: &tooldv1.BatchAccepted{}}
	case "result":
		ev.Event = &tooldv1.BatchEvent_Result{Result: &tooldv1.CallResult{}}
	case "summary":
		ev.Event = &tooldv1.BatchEvent_Summary{Summary: &tooldv1.BatchSummary{State: tooldv1.BatchState_BATCH_STATE_COMPLETED}}
	default:
		panic("script: " + line)
	}
	p.seq++
	if numbered {
		if _, err := fmt.Sscan(at, &p.seq); err != nil {
			panic(err)
		}
	}
	ev.Seq = p.seq
	return ev, nil
}

func (p *play) loop(each func(*tooldv1.BatchEvent) error) *loop {
	return &loop{
		requestID:   "r1",
		giveUpAfter: time.Minute,
		each:        each,
		execute: func(ctx context.Context) (recv, error) {
			p.opened = append(p.opened, "execute")
			if len(p.streams) > 0 && p.streams[0][0] == "unsent" {
				p.streams[0] = p.streams[0][1:]
				_, err := p.next(ctx)()
				return nil, unsentError{err}
			}
			return p.next(ctx), nil
		},
		attach: func(ctx context.Context, req *tooldv1.AttachBatchRequest) (recv, error) {
			p.opened = append(p.opened, fmt.Sprintf("attach %s after %d", req.GetBatchId()+req.GetRequestId(), req.GetAfterSeq()))
			return p.next(ctx), nil
		},
	}
}

func TestExecuteFollowsABatchToItsSummary(t *testing.T) {
	for _, tt := range []struct {
		name    string
		streams []script
		opened  []string
		seen    []int64
		err     string // part of the error; empty: a summary
	}{
		{
			name:    "one stream is enough",
			streams: []script{{"accepted", "result", "heartbeat", "summary"}},
			opened:  []string{"execute"},
			seen:    []int64{1, 2, 0, 3},
		},
		{
			name:    "a cut stream is attached after the last event",
			streams: []script{{"accepted", "result", "unavailable"}, {"reset"}, {"result@3", "summary"}},
			opened:  []string{"execute", "attach b1 after 2", "attach b1 after 2"},
			seen:    []int64{1, 2, 3, 4},
		},
		{
			name:    "a good end without a summary is not believed",
			streams: []script{{"accepted", "end"}, {"summary@2"}},
			opened:  []string{"execute", "attach b1 after 1"},
			seen:    []int64{1, 2},
		},
		{
			name:    "a server that never gives the summary is left",
			streams: []script{{"accepted", "end"}, {}, {}, {}, {}, {}},
			opened: []string{
				"execute", "attach b1 after 1", "attach b1 after 1", "attach b1 after 1", "attach b1 after 1",
			},
			seen: []int64{1},
			err:  "without a summary",
		},
		{
			name:    "before accepted it looks by request id, and sends again what was never accepted",
			streams: []script{{"unavailable"}, {"unavailable"}, {"not-found"}, {"accepted", "summary"}},
			opened:  []string{"execute", "attach r1 after 0", "attach r1 after 0", "execute"},
			seen:    []int64{1, 2},
		},
		{
			name:    "a reply lost after acceptance is found by request id",
			streams: []script{{"reset"}, {"accepted", "summary"}},
			opened:  []string{"execute", "attach r1 after 0"},
			seen:    []int64{1, 2},
		},
		{
			name:    "after accepted a batch that is gone is not run again",
			streams: []script{{"accepted", "unavailable"}, {"not-found"}},
			opened:  []string{"execute", "attach b1 after 1"},
			seen:    []int64{1},
			err:     "NotFound",
		},
		{
			name:    "a refusal is final",
			streams: []script{{"malformed"}},
			opened:  []string{"execute"},
			err:     "InvalidArgument",
		},
		{
			name:    "a refusal that says when to come back is tried again",
			streams: []script{{"audit-unavailable"}, {"queue-full"}, {"accepted", "summary"}},
			opened:  []string{"execute", "execute", "execute"},
			seen:    []int64{1, 2},
		},
		{
			name:    "a request that cannot be sent is not sent for ever",
			streams: []script{{"too-large"}, {"not-found"}},
			opened:  []string{"execute", "attach r1 after 0"},
			err:     "ResourceExhausted",
		},
		{
			name:    "what is not toold is left at once",
			streams: []script{{"unimplemented"}, {"unimplemented"}},
			opened:  []string{"execute", "attach r1 after 0"},
			err:     "Unimplemented",
		},
		{
			name:    "events past their retention end it",
			streams: []script{{"accepted", "slow-consumer"}, {"events-expired"}},
			opened:  []string{"execute", "attach b1 after 1"},
			seen:    []int64{1},
			err:     "OutOfRange",
		},
		{
			name:    "a bug while executing is looked into, while attaching it is final",
			streams: []script{{"bug"}, {"bug"}},
			opened:  []string{"execute", "attach r1 after 0"},
			err:     "Internal",
		},
		{
			name:    "an event seen twice is handed over once, a missing one is fetched",
			streams: []script{{"accepted", "result", "result@2", "result@5"}, {"result@3", "summary"}},
			opened:  []string{"execute", "attach b1 after 2"},
			seen:    []int64{1, 2, 3, 4},
		},
		{
			name:    "what a draining server still gives is taken, and the rest fetched from the next one",
			streams: []script{{"accepted", "draining", "result", "drained"}, {"reset"}, {"result@3", "summary"}},
			opened:  []string{"execute", "attach b1 after 2", "attach b1 after 2"},
			seen:    []int64{1, 0, 2, 3, 4},
		},
		{
			name:    "a draining server is waited for",
			streams: []script{{"drains"}, {"drains"}, {"accepted", "summary"}},
			opened:  []string{"execute", "execute", "execute"},
			seen:    []int64{1, 2},
		},
		{
			name:    "a request that could not be sent is sent again at once",
			streams: []script{{"unsent", "unavailable"}, {"accepted", "summary"}},
			opened:  []string{"execute", "execute"},
			seen:    []int64{1, 2},
		},
		{
			name:    "unless it never can be",
			streams: []script{{"unsent", "too-large"}},
			opened:  []string{"execute"},
			err:     "ResourceExhausted",
		},
		{
			name:    "a silent stream is left after a minute",
			streams: []script{{"accepted", "hang"}},
			opened:  []string{"execute"},
			seen:    []int64{1},
			err:     "nothing heard for 1m0s",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &play{streams: tt.streams}
				var seen []int64
				summary, err := p.loop(func(ev *tooldv1.BatchEvent) error {
					seen = append(seen, ev.GetSeq())
					return nil
				}).run(t.Context())
				if tt.err == "" && (err != nil || summary == nil) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("summary %v, error %v; want error %q", summary, err, tt.err)
				}
				if diff := cmp.Diff(tt.opened, p.opened); diff != "" {
					t.Errorf("streams (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.seen, seen); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestADaemonThatIsAwayIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &play{}
		start := time.Now()
		_, err := p.loop(func(*tooldv1.BatchEvent) error { return nil }).run(t.Context())
		if e := (*Error)(nil); !errors.As(err, &e) || e.RequestID != "r1" || e.BatchID != "" || e.Refused {
			t.Errorf("error %#v, want one that names request r1 and promises nothing", err)
		}
		if status.Code(err) != codes.Unavailable {
			t.Errorf("code %v, want Unavailable", status.Code(err))
		}
		if d := time.Since(start); d < time.Minute || d > time.Minute+maxBackoff {
			t.Errorf("gave up after %v, want about a minute", d)
		}
	})
}

func TestTheCallersErrorEndsTheLoopAsItIs(t *testing.T) {
	own := errors.New("disk full")
	p := &play{streams: []script{{"accepted", "result", "summary"}}}
	_, err := p.loop(func(ev *tooldv1.BatchEvent) error {
		if ev.GetResult() != nil {
			return own
		}
		return nil
	}).run(t.Context())
	if err != own { //nolint:errorlint // the very error is promised
		t.Errorf("got %v, want %v", err, own)
	}
}

func TestACancelledContextDetaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := &play{streams: []script{{"accepted", "hang"}}}
		_, err := p.loop(func(*tooldv1.BatchEvent) error { cancel(); return nil }).run(ctx)
		e := (*Error)(nil)
		if !errors.As(err, &e) || e.BatchID != "b1" || e.LastSeq != 1 || !errors.Is(err, context.Canceled) {
			t.Errorf("error %#v, want one that says where to attach", err)
		}
	})
}

func TestTheServersWaitIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &play{streams: []script{{"queue-full"}, {"accepted", "summary"}}}
		l := p.loop(func(*tooldv1.BatchEvent) error { return nil })
		var waits []time.Duration
		l.onRetry = func(_ error, d time.Duration) { waits = append(waits, d) }
		if _, err := l.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]time.Duration{9 * time.Second}, waits); diff != "" {
			t.Errorf("waits (-want +got):\n%s", diff)
		}
	})
}

func TestRequestIDsDiffer(t *testing.T) {
	a, b := NewRequestID(), NewRequestID()
	if a == b || len(a) != 36 {
		t.Errorf("got %q and %q", a, b)
	}
}

func TestDialTakesEveryTarget(t *testing.T) {
	for _, target := range []string{"127.0.0.1:7433", "unix:///run/toold.sock", "/run/toold.sock", "dns:///toold:7433"} {
		c, err := Dial(target)
		if err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		if err := c.Close(); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
}
