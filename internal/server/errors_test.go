package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/exec"
	pb "github.com/toold/toold/proto/toold/v1"
)

// told is what a client reads in a status.
type told struct {
	Code     codes.Code
	Reason   string
	Metadata map[string]string
	Fields   []string
	Retry    time.Duration
	Resource string
}

func read(t *testing.T, err error) told {
	t.Helper()
	s, ok := status.FromError(err)
	if !ok {
		t.Fatalf("%v is no status", err)
	}
	out := told{Code: s.Code()}
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() != "toold" {
				t.Errorf("domain %q", d.GetDomain())
			}
			out.Reason, out.Metadata = d.GetReason(), d.GetMetadata()
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				out.Fields = append(out.Fields, v.GetField())
			}
		case *errdetails.RetryInfo:
			out.Retry = d.GetRetryDelay().AsDuration()
		case *errdetails.ResourceInfo:
			out.Resource = d.GetResourceType() + " " + d.GetResourceName()
		}
	}
	return out
}

func TestErrorsBecomeStatuses(t *testing.T) {
	rules, err := protovalidate.New()
	if err != nil {
		t.Fatal(err)
	}
	invalid := rules.Validate(&pb.ExecuteBatchRequest{Spec: &pb.BatchSpec{RequestId: "no spaces", MaxParallelReads: -1}})
	no := map[string]string{"accepted": "false"}
	for name, test := range map[string]struct {
		err  error
		want told
	}{
		"malformed": {refuse(invalid), told{
			Code: codes.InvalidArgument, Reason: "REQUEST_MALFORMED", Metadata: no, Fields: []string{"spec.request_id", "spec.max_parallel_reads"},
		}},
		"a field": {refuse(&exec.Error{Kind: exec.KindInvalid, Reason: "BATCH_MALFORMED", Field: "calls"}), told{
			Code: codes.InvalidArgument, Reason: "BATCH_MALFORMED", Metadata: no, Fields: []string{"calls"},
		}},
		"not there": {&exec.Error{Kind: exec.KindNotFound, Reason: "BATCH_NOT_FOUND", Metadata: map[string]string{"resource": "batch", "name": "b"}}, told{
			Code: codes.NotFound, Reason: "BATCH_NOT_FOUND", Resource: "toold.v1/batch b",
		}},
		"reused": {refuse(&exec.Error{Kind: exec.KindExists, Reason: "REQUEST_ID_REUSED", Metadata: map[string]string{"batch_id": "b"}}), told{
			Code: codes.AlreadyExists, Reason: "REQUEST_ID_REUSED", Metadata: map[string]string{"accepted": "false", "batch_id": "b"},
		}},
		"precondition": {refuse(&exec.Error{Kind: exec.KindPrecondition, Reason: "SESSION_CLOSED"}), told{Code: codes.FailedPrecondition, Reason: "SESSION_CLOSED", Metadata: no}},
		"range":        {&exec.Error{Kind: exec.KindRange, Reason: "SEQ_AHEAD", Metadata: map[string]string{"last_seq": "3"}}, told{Code: codes.OutOfRange, Reason: "SEQ_AHEAD", Metadata: map[string]string{"last_seq": "3"}}},
		"over a limit": {refuse(&exec.Error{Kind: exec.KindExhausted, Reason: "TOO_MANY_CALLS", Metadata: map[string]string{"limit": "2", "value": "3"}}), told{
			Code: codes.ResourceExhausted, Reason: "TOO_MANY_CALLS", Metadata: map[string]string{"accepted": "false", "limit": "2", "value": "3"},
		}},
		"try again":     {refuse(&exec.Error{Kind: exec.KindUnavailable, Reason: "REPLICA_DRAINING", RetryAfter: time.Second}), told{Code: codes.Unavailable, Reason: "REPLICA_DRAINING", Metadata: no, Retry: time.Second}},
		"corrupt":       {&exec.Error{Kind: exec.KindDataLoss, Reason: "ARTIFACT_CORRUPT"}, told{Code: codes.DataLoss, Reason: "ARTIFACT_CORRUPT"}},
		"aborted":       {epochChanged(4), told{Code: codes.Aborted, Reason: "EPOCH_CHANGED", Metadata: map[string]string{"epoch": "4"}}},
		"no ledger":     {refuse(fmt.Errorf("listing: %w", audit.ErrUnavailable)), told{Code: codes.Unavailable, Reason: "AUDIT_UNAVAILABLE", Metadata: no, Retry: time.Second}},
		"in doubt":      {refuse(&exec.Error{Kind: exec.KindUnavailable, Reason: "AUDIT_UNAVAILABLE", Err: audit.ErrInDoubt, Metadata: map[string]string{"accepted": "unknown"}}), told{Code: codes.Unavailable, Reason: "AUDIT_UNAVAILABLE"}},
		"a bad row":     {&audit.InvalidError{Field: "tool", Problem: "holds a NUL byte"}, told{Code: codes.InvalidArgument, Reason: "REQUEST_MALFORMED"}},
		"left":          {fmt.Errorf("waiting: %w", context.Canceled), told{Code: codes.Canceled}},
		"late":          {context.DeadlineExceeded, told{Code: codes.DeadlineExceeded}},
		"transport":     {status.Error(codes.Unavailable, "transport is closing"), told{Code: codes.Unavailable}},
		"unknown to us": {refuse(errors.New("secret detail")), told{Code: codes.Internal, Reason: "BUG"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := toStatus(t.Context(), slog.New(slog.DiscardHandler), test.err)
			if diff := cmp.Diff(test.want, read(t, got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if strings.Contains(got.Error(), "secret detail") {
				t.Errorf("a bug's cause was told to the client: %v", got)
			}
		})
	}
}

func TestEveryKindHasACode(t *testing.T) {
	for k := exec.KindInvalid; k <= exec.KindDataLoss; k++ {
		if _, ok := kindCodes[k]; !ok {
			t.Errorf("kind %d has none", k)
		}
	}
}

func TestStatusesStaySmall(t *testing.T) {
	violations := &protovalidate.ValidationError{}
	long := strings.Repeat("\xff", 1<<20)
	err := toStatus(t.Context(), slog.New(slog.DiscardHandler), &exec.Error{Kind: exec.KindInvalid, Reason: "X", Field: "f", Message: long})
	if size := proto.Size(status.Convert(err).Proto()); size > 4<<10 {
		t.Errorf("a status has %d bytes", size)
	}
	rules, _ := protovalidate.New()
	labels := map[string]string{}
	for i := range 40 {
		labels[fmt.Sprintf("bad key %d", i)] = strings.Repeat("x", 300)
	}
	if !errors.As(rules.Validate(&pb.ExecuteBatchRequest{Spec: &pb.BatchSpec{Labels: labels}}), &violations) {
		t.Fatal("forty bad labels are valid")
	}
	err = toStatus(t.Context(), slog.New(slog.DiscardHandler), violations)
	if size := proto.Size(status.Convert(err).Proto()); size > 6<<10 {
		t.Errorf("a status has %d bytes", size)
	}
}
