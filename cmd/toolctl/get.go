package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toold/toold/client"
	"github.com/toold/toold/cmd/toolctl/internal/term"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

func (a *app) getCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "get BATCH_ID[/CALL_ID] | BATCH_ID CALL_ID",
		Short: "Show a batch as it stands, or one call's result",
		Long: `Show a batch as it stands, or one call's result: its output on standard output,
all else on standard error. A request id does for a batch id.`,
		Args:              args(cobra.RangeArgs(1, 2)),
		ValidArgsFunction: a.completeBatches,
		RunE: func(c *cobra.Command, args []string) error {
			batch, call, named := strings.Cut(args[0], "/")
			if len(args) == 2 {
				if named {
					return usage(errors.New("name the call once: BATCH_ID/CALL_ID or BATCH_ID CALL_ID"))
				}
				call, named = args[1], true
			}
			return a.ask(c.Context(), func(ctx context.Context, cl *client.Client) error {
				if named {
					return a.getCall(ctx, cl, batch, call)
				}
				return a.getWhole(ctx, cl, batch)
			})
		},
	}
}

func (a *app) getWhole(ctx context.Context, c *client.Client, id string) error {
	detail := tooldv1.ResultDetail_RESULT_DETAIL_OUTCOME_ONLY
	if a.output == outputJSON {
		detail = tooldv1.ResultDetail_RESULT_DETAIL_FULL
	}
	batch, err := getBatch(ctx, c, id, detail)
	if err != nil {
		return err
	}
	if a.output == outputJSON {
		return a.printMessage(batch)
	}
	a.showBatch(batch)
	return nil
}

// showBatch shows a batch's state and its calls.
func (a *app) showBatch(batch *tooldv1.Batch) {
	a.print("batch    %s", batch.GetBatchId())
	a.print("request  %s", batch.GetRequestId())
	a.print("state    %s", word(batch.GetState()))
	a.print("accepted %s by %s", clock(batch.GetAcceptTime()), batch.GetPrincipal().GetId())
	if batch.GetEndTime() != nil {
		a.print("ended    %s, after %s", clock(batch.GetEndTime()), duration(batch.GetEndTime().AsTime().Sub(batch.GetAcceptTime().AsTime())))
	}
	a.print("")
	b := boardOf(batch)
	t := term.Table{Columns: callColumns}
	for _, r := range b.rows {
		t.Rows = append(t.Rows, r.cells(time.Now()))
	}
	a.table(t)
}

func (a *app) getCall(ctx context.Context, c *client.Client, id, call string) error {
	batch, err := getBatch(ctx, c, id, tooldv1.ResultDetail_RESULT_DETAIL_FULL)
	if hasReason(err, "REPLY_TOO_LARGE") {
		batch, err = a.fromEvents(ctx, c, id, call)
	}
	if err != nil {
		return err
	}
	for i, r := range boardOf(batch).rows {
		if r.id != call {
			continue
		}
		switch {
		case a.output == outputJSON:
			return a.printMessage(batch.GetCalls()[i])
		case r.result == nil:
			return usage(fmt.Errorf("call %s has no result yet: it is %s\n  next: toolctl attach %s", call, word(batch.GetCalls()[i].GetState()), batch.GetBatchId()))
		}
		return a.result(r, showing{})
	}
	var ids []string
	for _, r := range boardOf(batch).rows {
		ids = append(ids, r.id)
	}
	return usage(fmt.Errorf("batch %s has no call %s; its calls: %s", batch.GetBatchId(), call, strings.Join(ids, ", ")))
}

// errFound ends a stream that was opened for one event.
var errFound = errors.New("found")

// fromEvents gives the batch with one call's result, when all its results do not
// fit one message.
func (a *app) fromEvents(ctx context.Context, c *client.Client, id, call string) (*tooldv1.Batch, error) {
	batch, err := getBatch(ctx, c, id, tooldv1.ResultDetail_RESULT_DETAIL_OUTCOME_ONLY)
	if err != nil {
		return nil, err
	}
	for _, cs := range batch.GetCalls() {
		if cs.GetCall().GetCallId() != call || cs.GetState() != tooldv1.CallState_CALL_STATE_DONE {
			continue
		}
		_, err := c.Attach(ctx, &tooldv1.AttachBatchRequest{Batch: &tooldv1.AttachBatchRequest_BatchId{BatchId: batch.GetBatchId()}},
			func(ev *tooldv1.BatchEvent) error {
				if ev.GetCallId() != call || ev.GetResult() == nil {
					return nil
				}
				cs.Result = ev.GetResult()
				return errFound
			})
		if err != nil && !errors.Is(err, errFound) {
			return nil, err
		}
	}
	return batch, nil
}
