package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"runtime/debug"
	"strings"
	"time"

	"buf.build/go/protovalidate"
	"github.com/google/uuid"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/exec"
)

// The reasons that this package gives itself. docs/errors.md has all of them.
const (
	reasonMalformed        = "REQUEST_MALFORMED"
	reasonBug              = "BUG"
	reasonSlowConsumer     = "SLOW_CONSUMER"
	reasonDraining         = "REPLICA_DRAINING"
	reasonBadPageToken     = "BAD_PAGE_TOKEN"
	reasonReplyTooLarge    = "REPLY_TOO_LARGE"
	reasonBatchNotFound    = "BATCH_NOT_FOUND"
	reasonCallNotFound     = "CALL_NOT_FOUND"
	reasonToolNotFound     = "TOOL_NOT_FOUND"
	reasonVersionMismatch  = "TOOL_VERSION_MISMATCH"
	reasonArtifactGone     = "ARTIFACT_GONE"
	reasonArtifactCorrupt  = "ARTIFACT_CORRUPT"
	reasonRangeBeyondEnd   = "RANGE_BEYOND_END"
	reasonWorkspaceUnknown = "WORKSPACE_UNKNOWN"
	reasonEpochChanged     = "EPOCH_CHANGED"
)

// Statuses travel in HTTP/2 trailers, of which some clients take 8 KiB.
const (
	maxMessageBytes    = 1 << 10
	maxFieldViolations = 8
	maxViolationBytes  = 256
)

// kindAborted, of the edge's own, is a change that was refused because of another
// one meanwhile.
const kindAborted exec.Kind = 1 << 7

var kindCodes = map[exec.Kind]codes.Code{
	exec.KindInvalid:      codes.InvalidArgument,
	exec.KindNotFound:     codes.NotFound,
	exec.KindExists:       codes.AlreadyExists,
	exec.KindPrecondition: codes.FailedPrecondition,
	exec.KindRange:        codes.OutOfRange,
	exec.KindExhausted:    codes.ResourceExhausted,
	exec.KindUnavailable:  codes.Unavailable,
	exec.KindDataLoss:     codes.DataLoss,
	kindAborted:           codes.Aborted,
}

// refused marks an error that came before acceptance: nothing of the request
// ran or will run, and the status says so.
type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

// refuse marks err, unless whether the batch was recorded is not known.
func refuse(err error) error {
	if err == nil || errors.Is(err, audit.ErrInDoubt) {
		return err
	}
	return refused{err}
}

// toStatus makes of any error of a handler the status that the client gets. What
// it does not know is our own bug: logged here under an id that the client gets
// too, and told in no other words.
func toStatus(ctx context.Context, log *slog.Logger, err error) error {
	if err == nil {
		return nil
	}
	var (
		own     *exec.Error
		invalid *protovalidate.ValidationError
		row     *audit.InvalidError
		before  refused
		info    = &errdetails.ErrorInfo{Domain: domain, Metadata: map[string]string{}}
	)
	if errors.As(err, &before) {
		info.Metadata["accepted"] = "false"
	}
	switch {
	case errors.As(err, &own):
		return ownStatus(info, own)
	case errors.As(err, &invalid):
		return malformed(info, invalid)
	case errors.As(err, &row):
		return ownStatus(info, &exec.Error{Kind: exec.KindInvalid, Reason: reasonMalformed, Message: row.Error()})
	case errors.Is(err, audit.ErrUnavailable):
		return ownStatus(info, &exec.Error{
			Kind: exec.KindUnavailable, Reason: exec.ReasonAuditUnavailable, RetryAfter: time.Second,
			Message: "the store does not answer now; retry with backoff",
		})
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	if s, ok := status.FromError(err); ok { // the transport's, such as a stream that broke
		return s.Err()
	}
	return bug(ctx, log, err, nil)
}

// ownStatus maps an error of the executor's form.
func ownStatus(info *errdetails.ErrorInfo, e *exec.Error) error {
	info.Reason = e.Reason
	meta := maps.Clone(e.Metadata)
	details := []protoadapt.MessageV1{info}
	if e.Kind == exec.KindNotFound && meta["resource"] != "" {
		details = append(details, &errdetails.ResourceInfo{ResourceType: "toold.v1/" + meta["resource"], ResourceName: meta["name"]})
		delete(meta, "resource")
		delete(meta, "name")
	}
	if meta["accepted"] == "unknown" {
		delete(meta, "accepted")
		delete(info.Metadata, "accepted")
	}
	maps.Copy(info.Metadata, meta)
	if e.Field != "" && e.Kind == exec.KindInvalid {
		details = append(details, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: e.Field, Description: clip(e.Message, maxViolationBytes), Reason: e.Reason},
		}})
	}
	if e.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	code, ok := kindCodes[e.Kind]
	if !ok {
		code = codes.Internal
	}
	return newStatus(code, e.Message, details)
}

// malformed maps what protovalidate found.
func malformed(info *errdetails.ErrorInfo, e *protovalidate.ValidationError) error {
	info.Reason = reasonMalformed
	var bad errdetails.BadRequest
	var words []string
	for _, v := range e.Violations[:min(len(e.Violations), maxFieldViolations)] {
		field := protovalidate.FieldPathString(v.Proto.GetField())
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: field, Description: clip(v.Proto.GetMessage(), maxViolationBytes), Reason: reasonMalformed,
		})
		words = append(words, strings.TrimPrefix(field+": "+v.Proto.GetMessage(), ": "))
	}
	return newStatus(codes.InvalidArgument, strings.Join(words, "; "), []protoadapt.MessageV1{info, &bad})
}

// bug is INTERNAL/BUG. stack is nil where the error did not come of a panic.
func bug(ctx context.Context, log *slog.Logger, cause any, stack []byte) error {
	id := uuid.NewString()
	attrs := []any{"request_id", id, "cause", cause}
	if stack != nil {
		attrs = append(attrs, "stack", string(stack))
	}
	log.ErrorContext(ctx, "an RPC met a bug of toold's own", attrs...)
	return newStatus(codes.Internal, "a bug of toold's own; report it with request id "+id+", under which it is logged", []protoadapt.MessageV1{
		&errdetails.ErrorInfo{Domain: domain, Reason: reasonBug},
		&errdetails.RequestInfo{RequestId: id},
	})
}

// recovered is bug for a panic; it must be called while the stack still stands.
func recovered(ctx context.Context, log *slog.Logger, panicked any) error {
	return bug(ctx, log, panicked, debug.Stack())
}

func newStatus(code codes.Code, message string, details []protoadapt.MessageV1) error {
	s := status.New(code, clip(message, maxMessageBytes))
	for _, d := range details {
		repair(d.(proto.Message).ProtoReflect())
	}
	full, err := s.WithDetails(details...)
	if err != nil {
		return s.Err()
	}
	return full.Err()
}

// clip shortens s to at most n bytes of valid UTF-8.
func clip(s string, n int) string {
	if s = strings.ToValidUTF8(s, "\uFFFD"); len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-len("…")], "") + "…"
}
