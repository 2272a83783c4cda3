package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toold/toold/client"
	"github.com/toold/toold/cmd/toolctl/internal/batchfile"
)

// The exit statuses.
const (
	exitOK          = 0
	exitCalls       = 1   // some call did not succeed
	exitUsage       = 2   // the command line or its input is wrong
	exitService     = 3   // toold could not serve
	exitInterrupted = 130 // as shells say SIGINT
)

// exitError ends the command with a status; a nil err was already told.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usage marks an error as the caller's.
func usage(err error) error { return &exitError{exitUsage, err} }

// errCalls says that some call did not succeed; which was shown.
var errCalls = &exitError{code: exitCalls}

// report tells an error with what to do next, and gives the exit status.
func (a *app) report(err error) int {
	if err == nil && a.out.err != nil {
		err = usage(fmt.Errorf("writing the output: %w", a.out.err))
	}
	if err == nil {
		return exitOK
	}
	code := exitCode(err)
	if own := (*exitError)(nil); errors.As(err, &own) && own.err == nil {
		return code
	}
	a.say("toolctl: %s", a.explain(err))
	return code
}

func exitCode(err error) int {
	if own := (*exitError)(nil); errors.As(err, &own) {
		return own.code
	}
	if file := (*batchfile.Error)(nil); errors.As(err, &file) {
		return exitUsage
	}
	st, ok := status.FromError(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return exitService
	case !ok:
		return exitUsage // cobra's own complaints and files that cannot be read
	}
	switch st.Code() {
	case codes.InvalidArgument, codes.NotFound, codes.OutOfRange, codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted:
		return exitUsage
	case codes.ResourceExhausted:
		if hasReason(err, "TOO_MANY_CALLS") || hasReason(err, "REQUEST_TOO_LARGE") {
			return exitUsage
		}
	}
	return exitService
}

// explain says what went wrong, the fields concerned, and what to do next.
func (a *app) explain(err error) string {
	var own *exitError
	if st, ok := status.FromError(err); ok && !errors.As(err, &own) {
		return a.explainStatus(err, st)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("%v\n  next: wait longer with --timeout, or see whether toold at %s is well: toolctl info", err, a.address) + where(err)
	}
	if unknown := strings.HasPrefix(err.Error(), "unknown command"); unknown {
		return err.Error() + "\n  next: toolctl --help"
	}
	return err.Error()
}

func (a *app) explainStatus(err error, st *status.Status) string {
	var b strings.Builder
	info := &errdetails.ErrorInfo{}
	var wait, lines []string
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			wait = append(wait, fmt.Sprintf("toold asks to wait %v", d.GetRetryDelay().AsDuration()))
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				if !strings.Contains(own(st), v.GetDescription()) {
					lines = append(lines, fmt.Sprintf("%s: %s", v.GetField(), v.GetDescription()))
				}
			}
		}
	}
	if st.Code() == codes.Unavailable && info.GetReason() == "" {
		if strings.Contains(own(st), "HTTP/1.1 header") { // gRPC's word for it
			return fmt.Sprintf("what answers at %s speaks HTTP/1.1, so it is not toold's API\n  next: give the address of the API (toold --listen), not that of the metrics (--metrics-listen)", a.address) + where(err)
		}
		fmt.Fprintf(&b, "cannot reach toold at %s: %s", a.address, own(st))
		b.WriteString("\n  next: start it with: toold\n        or say where it is: --address, --data-dir (TOOLD_ADDRESS, TOOLD_DATA_DIR)")
		return b.String() + where(err)
	}
	what := own(st)
	if lost := (*client.Error)(nil); errors.As(err, &lost) && lost.Refused && info.GetReason() == "REPLICA_DRAINING" {
		what, wait = "toold is shutting down; nothing ran", nil
	}
	fmt.Fprintf(&b, "%s (%s)", what, codeWord(st.Code(), info.GetReason()))
	for _, k := range sortedKeys(info.GetMetadata()) {
		if k != "accepted" && !strings.Contains(own(st), info.GetMetadata()[k]) {
			lines = append(lines, fmt.Sprintf("%s: %s", strings.ReplaceAll(k, "_", " "), info.GetMetadata()[k]))
		}
	}
	for _, l := range append(lines, wait...) {
		b.WriteString("\n  " + l)
	}
	if next := nextStep(st.Code(), info.GetReason()); next != "" {
		b.WriteString("\n  next: " + next)
	}
	return b.String() + where(err)
}

// own is the message of whoever made the status, without what wrapping put
// before it.
func own(st *status.Status) string {
	msg := st.Message()
	if i := strings.LastIndex(msg, " desc = "); i >= 0 {
		msg = msg[i+len(" desc = "):]
	}
	if inner, err := strconv.Unquote(msg); err == nil {
		msg = inner
	}
	return strings.TrimPrefix(msg, "transport: Error while dialing: ")
}

// where names the batch that may be running.
func where(err error) string {
	lost := (*client.Error)(nil)
	switch {
	case !errors.As(err, &lost) || lost.Refused || exitCode(err) == exitUsage:
		return "" // what toold says of the request is the whole truth
	case lost.BatchID != "":
		return fmt.Sprintf("\n  the batch may still be running; look again: toolctl attach %s", lost.BatchID)
	case lost.RequestID != "":
		return fmt.Sprintf("\n  whether it was accepted is not known; look: toolctl attach %s", lost.RequestID)
	}
	return ""
}

func codeWord(c codes.Code, reason string) string {
	if reason == "" {
		return c.String()
	}
	return c.String() + "/" + reason
}

// nextSteps says, for each reason that toold gives, what to do.
var nextSteps = map[string]string{
	"ARTIFACT_CORRUPT":      "tell the operator: the stored bytes are damaged and what was received is not to be used",
	"ARTIFACT_GONE":         "check the URI; if it was right, its retention is over and the output is gone",
	"AUDIT_UNAVAILABLE":     "toold's store does not answer, so nothing can start. Try again shortly; if it lasts, see toold's log and the disk or database",
	"BAD_PAGE_TOKEN":        "start again from the first page",
	"BATCH_MALFORMED":       "correct the batch; nothing ran",
	"BATCH_NOT_FOUND":       "list what there is: toolctl list",
	"BUG":                   "this is a fault of toold: report it with toold's log lines of this moment",
	"CALL_NOT_FOUND":        "see the batch's calls: toolctl get BATCH_ID",
	"EPOCH_CHANGED":         "someone else changed the session: look with toolctl session get, then decide again",
	"EVENTS_EXPIRED":        "the events are past their retention; see the outcomes with toolctl get BATCH_ID",
	"QUEUE_FULL":            "too many batches are running: try again shortly, or cancel one (toolctl list --state running)",
	"RANGE_BEYOND_END":      "ask for a range within the artifact's size",
	"REPLICA_DRAINING":      "try again once toold is started anew",
	"REPLY_TOO_LARGE":       "get one call at a time (toolctl get BATCH_ID/CALL_ID), or attach",
	"REQUEST_ID_REUSED":     "this request id named another batch before: use a new one, or none and toolctl makes it",
	"REQUEST_MALFORMED":     "correct the field; nothing ran",
	"REQUEST_TOO_LARGE":     "split the batch, or put large arguments into files",
	"SEQ_AHEAD":             "leave --after out, or give the number of an event that the batch has",
	"SESSION_CLOSED":        "make a new session: toolctl session create",
	"SESSION_NOT_FOUND":     "see the open ones with toolctl session list, or make one: toolctl session create",
	"SLOW_CONSUMER":         "output was not read fast enough; look again with toolctl attach",
	"TOOL_NOT_FOUND":        "see the tools: toolctl tools",
	"TOOL_VERSION_MISMATCH": "leave the version out, or name the one there is",
	"TOO_MANY_CALLS":        "split the batch into smaller ones (limits: toolctl info)",
	"WORKSPACE_UNKNOWN":     "name a workspace that toold was started with: toold --workspace NAME=PATH",
}

func nextStep(c codes.Code, reason string) string {
	if s, ok := nextSteps[reason]; ok {
		return s
	}
	switch c {
	case codes.Unimplemented:
		return "what answers there is not toold, or an older one: toolctl info"
	case codes.DeadlineExceeded:
		return "wait longer with --timeout"
	case codes.Unavailable:
		return "try again shortly"
	}
	return ""
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
