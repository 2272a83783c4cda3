package integration

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/toold/toold/client"
	pb "github.com/toold/toold/proto/toold/v1"
)

// refusal is what a status says: "CODE/REASON", and whether it promises that
// nothing was accepted.
func refusal(err error) (what string, notAccepted bool) {
	st := status.Convert(err)
	what = st.Code().String()
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			what += "/" + info.GetReason()
			notAccepted = info.GetMetadata()["accepted"] == "false"
		}
	}
	return what, notAccepted
}

// execute sends a request once, and gives the error that its stream ends with.
func execute(t testing.TB, c *client.Client, req *pb.ExecuteBatchRequest) error {
	t.Helper()
	stream, err := pb.NewExecutionServiceClient(c.Conn()).ExecuteBatch(within(t), req)
	for err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Every error that promises accepted=false is provoked with a batch that would
// leave a file; it leaves none and no batch.
func TestPromise3_RefusedRequestsRunNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, s *site) {
		s.start()
		c := s.client(t)
		first := batch(write("first", "first", "1"))
		run(t, c, first)
		gone := planSession(t, c)
		if _, err := pb.NewSessionServiceClient(c.Conn()).CloseSession(within(t), &pb.CloseSessionRequest{SessionId: gone}); err != nil {
			t.Fatal(err)
		}
		before := s.snapshot()
		for _, bad := range []struct {
			name   string
			change func(*pb.ExecuteBatchRequest)
			want   string
		}{
			{"no spec", func(r *pb.ExecuteBatchRequest) { r.Spec = nil }, "InvalidArgument/BATCH_MALFORMED InvalidArgument/REQUEST_MALFORMED"},
			{"no calls", func(r *pb.ExecuteBatchRequest) { r.Calls = nil }, "InvalidArgument/BATCH_MALFORMED"},
			{"a mode that is not served", func(r *pb.ExecuteBatchRequest) { r.Spec.ScheduleMode = pb.ScheduleMode_SCHEDULE_MODE_BY_EFFECT }, "InvalidArgument/BATCH_MALFORMED"},
			{"an unknown value", func(r *pb.ExecuteBatchRequest) { r.Spec.FailurePolicy = 99 }, "InvalidArgument/REQUEST_MALFORMED"},
			{"a request id with a space", func(r *pb.ExecuteBatchRequest) { r.Spec.RequestId = "a b" }, "InvalidArgument/REQUEST_MALFORMED"},
			{"a NUL in the rationale", func(r *pb.ExecuteBatchRequest) { r.Calls[0].Rationale = "\x00" }, "InvalidArgument/REQUEST_MALFORMED"},
			{"a used request id", func(r *pb.ExecuteBatchRequest) { r.Spec.RequestId = first.GetSpec().GetRequestId() }, "AlreadyExists/REQUEST_ID_REUSED"},
			{"an unknown workspace", func(r *pb.ExecuteBatchRequest) { r.Spec.WorkspaceId = "nowhere" }, "FailedPrecondition/WORKSPACE_UNKNOWN"},
			{"an unknown session", func(r *pb.ExecuteBatchRequest) { r.Spec.SessionId = client.NewRequestID() }, "NotFound/SESSION_NOT_FOUND"},
			{"a session that is no id", func(r *pb.ExecuteBatchRequest) { r.Spec.SessionId = "mine" }, "NotFound/SESSION_NOT_FOUND"},
			{"a closed session", func(r *pb.ExecuteBatchRequest) { r.Spec.SessionId = gone }, "FailedPrecondition/SESSION_CLOSED"},
			{"too many calls", func(r *pb.ExecuteBatchRequest) {
				for range 256 {
					r.Calls = append(r.Calls, write("", "x", "x"))
				}
			}, "ResourceExhausted/TOO_MANY_CALLS"},
		} {
			req := batch(write("bad", "bad", "x"), bash("bad-too", "touch bad"))
			bad.change(req)
			got, notAccepted := refusal(execute(t, c, req))
			if !strings.Contains(bad.want, got) || !notAccepted {
				t.Errorf("%s: got %s, accepted=false %v; want %s", bad.name, got, notAccepted, bad.want)
			}
			if id := req.GetSpec().GetRequestId(); id != first.GetSpec().GetRequestId() && s.ledger().facts(t).batches[id] != "" {
				t.Errorf("%s: the request has a batch", bad.name)
			}
		}
		if diff := cmp.Diff(before, s.snapshot()); diff != "" {
			t.Errorf("the workspace changed (-before +after):\n%s", diff)
		}
	})
}

// The daemon is killed while a command runs that has left its token. It is
// UNKNOWN and not run again, writes after it are skipped, reads run.
func TestPromise3_AWriteThatACrashCutOffIsUnknown(t *testing.T) {
	eachStore(t, func(t *testing.T, s *site) {
		s.put("seed", []byte("seed\n"))
		d := s.start()
		c := s.client(t)
		req := batch(bash("token-cut", leaveToken("token-cut")+"; sleep 600"),
			write("later", "later", "x"), bash("token-later", leaveToken("token-later")), read("read", "seed"))
		ended := make(chan *story)
		go func() { // not run: only the test's own goroutine may end it
			told := &story{}
			if _, err := c.Execute(within(t), req, told.add); err != nil {
				t.Error(err)
			}
			ended <- told
		}()
		await(t, "the token", func() bool { return s.has(tokens) })
		d.kill()
		d = s.start()
		told := <-ended
		want := map[string]string{
			"token-cut": "UNKNOWN/REPLICA_CRASHED", "later": "SKIPPED/PREDECESSOR_UNKNOWN", "token-later": "SKIPPED/PREDECESSOR_UNKNOWN", "read": "SUCCEEDED",
		}
		if diff := cmp.Diff(want, told.outcomes()); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		d.kill()
		d = s.start() // and a restart later runs nothing either
		told.checkSame(t, attach(t, c, req.GetSpec().GetRequestId()))
		d.stop()
		f := s.ledger().facts(t)
		f.checkEffects(t, s.effects(t))
		f.checkTerminal(t)
		s.checkChains(t)
		if got := s.effects(t); len(got) != 1 {
			t.Errorf("the effects are %v, want the first call's only", got)
		}
	})
}

// A read that a crash cut off runs once more, as attempt 2; a second crash makes
// it UNKNOWN. The read is held up by a pipe that nobody writes to.
func TestPromise3_AReadThatACrashCutOffRunsOnceMore(t *testing.T) {
	eachStore(t, func(t *testing.T, s *site) {
		pipe := filepath.Join(s.workspace, "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		for crashes, want := range []struct {
			outcome  string
			attempts []int32
		}{
			{"SUCCEEDED", nil},
			{"SUCCEEDED", []int32{2}},
			{"UNKNOWN/REPLICA_CRASHED", []int32{2}},
		} {
			d := s.start()
			c := s.client(t)
			req := batch(bash("read", "cat pipe"))
			ended := make(chan *story)
			go func() {
				told := &story{}
				if _, err := c.Execute(within(t), req, told.add); err != nil {
					t.Error(err)
				}
				ended <- told
			}()
			for range crashes {
				reader := awaitReader(t, pipe)
				d.kill()
				_ = reader.Close()
				d = s.start()
			}
			if want.outcome == "SUCCEEDED" {
				reader := awaitReader(t, pipe)
				if _, err := reader.WriteString("at last\n"); err != nil {
					t.Error(err)
				}
				_ = reader.Close()
			}
			told := <-ended
			var attempts []int32
			for _, ev := range told.events {
				if st := ev.GetStarted(); st != nil {
					attempts = append(attempts, st.GetAttempt())
				}
			}
			if diff := cmp.Diff(want.attempts, attempts); diff != "" {
				t.Errorf("%d crashes: start marks (-want +got):\n%s", crashes, diff)
			}
			if got := told.outcomes()["read"]; got != want.outcome {
				t.Errorf("%d crashes: the read ended %s, want %s", crashes, got, want.outcome)
			}
			if text := told.results["read"].GetOutput().GetText().GetText(); want.outcome == "SUCCEEDED" && text != "at last\n" {
				t.Errorf("%d crashes: the read gave %q", crashes, text)
			}
			d.stop()
		}
		f := s.ledger().facts(t)
		f.checkTerminal(t)
		s.checkChains(t)
	})
}

// awaitReader opens a pipe for writing as soon as somebody reads from it.
func awaitReader(t *testing.T, pipe string) *os.File {
	t.Helper()
	var f *os.File
	await(t, "a reader of the pipe", func() bool {
		var err error
		f, err = os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err == nil
	})
	return f
}
