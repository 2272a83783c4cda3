package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toold/toold/client"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

func (a *app) cancelCommand() *cobra.Command {
	var force bool
	var reason string
	c := &cobra.Command{
		Use:   "cancel BATCH_ID[/CALL_ID]",
		Short: "Cancel a batch or one of its calls",
		Long: `Cancel a batch or one of its calls: what has not started and reads that run end
CANCELLED, running writes finish. With --force they are ended too, as
INTERRUPTED: their effects may be partial.`,
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: a.completeBatches,
		RunE: func(c *cobra.Command, args []string) error {
			mode := tooldv1.CancelMode_CANCEL_MODE_GRACEFUL
			if force {
				mode = tooldv1.CancelMode_CANCEL_MODE_FORCE
			}
			batch, call, one := strings.Cut(args[0], "/")
			return a.ask(c.Context(), func(ctx context.Context, cl *client.Client) error {
				exec := tooldv1.NewExecutionServiceClient(cl.Conn())
				if one {
					resp, err := exec.CancelCall(ctx, &tooldv1.CancelCallRequest{BatchId: batch, CallId: call, Reason: reason, Mode: mode})
					if err != nil {
						return err
					}
					if a.output == outputJSON {
						return a.printMessage(resp.GetCall())
					}
					a.print("call %s: %s", args[0], progress(resp.GetCall()))
					return nil
				}
				resp, err := exec.CancelBatch(ctx, &tooldv1.CancelBatchRequest{BatchId: batch, Reason: reason, Mode: mode})
				if err != nil {
					return err
				}
				if a.output == outputJSON {
					return a.printMessage(resp.GetBatch())
				}
				a.showBatch(resp.GetBatch())
				return nil
			})
		},
	}
	c.Flags().BoolVar(&force, "force", false, "end running writes too")
	c.Flags().StringVar(&reason, "reason", "", "why; it is audited")
	return c
}

// progress is a call's outcome, or its state while it has none.
func progress(c *tooldv1.CallStatus) string {
	if o := word(c.GetResult().GetOutcome()); o != "" {
		return o
	}
	return fmt.Sprintf("cancellation asked for; it is %s", word(c.GetState()))
}
