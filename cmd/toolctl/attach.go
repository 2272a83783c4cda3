package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/toold/toold/client"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

func (a *app) attachCommand() *cobra.Command {
	var afterSeq int64
	var outputs, cancelOnInterrupt bool
	c := &cobra.Command{
		Use:   "attach BATCH_ID|REQUEST_ID",
		Short: "Follow a batch to its end",
		Long: `Follow a batch to its end: what happened is told from the start, or from after
an event's number, then what happens as it happens. Looking on changes nothing.`,
		Args:              args(cobra.ExactArgs(1)),
		Annotations:       streaming,
		ValidArgsFunction: a.completeBatches,
		RunE: func(c *cobra.Command, args []string) error {
			return a.reach(c.Context(), func(cl *client.Client) error {
				batch, err := getBatch(c.Context(), cl, args[0], tooldv1.ResultDetail_RESULT_DETAIL_OUTCOME_ONLY)
				if err != nil {
					return err
				}
				b := boardOf(batch)
				if afterSeq == 0 {
					b.forget()
				}
				f := &follower{app: a, client: cl, board: b, view: a.batchView(b, outputs), cancelOnInterrupt: cancelOnInterrupt}
				return f.follow(c.Context(), func(ctx context.Context, each func(*tooldv1.BatchEvent) error) (*tooldv1.BatchSummary, error) {
					return cl.Attach(ctx, &tooldv1.AttachBatchRequest{
						Batch:    &tooldv1.AttachBatchRequest_BatchId{BatchId: batch.GetBatchId()},
						AfterSeq: afterSeq,
					}, each)
				})
			})
		},
	}
	c.Flags().Int64Var(&afterSeq, "after", 0, "number of the last event that was seen (0: from the start)")
	c.Flags().BoolVar(&outputs, "outputs", false, "show the calls' outputs at the end")
	c.Flags().BoolVar(&cancelOnInterrupt, "cancel-on-interrupt", false, "the first Ctrl-C cancels the batch instead of leaving it")
	return c
}

// getBatch gives the batch with an id, or else the one of a request id: both may
// be UUIDs.
func getBatch(ctx context.Context, c *client.Client, id string, detail tooldv1.ResultDetail) (*tooldv1.Batch, error) {
	exec := tooldv1.NewExecutionServiceClient(c.Conn())
	resp, err := exec.GetBatch(ctx, &tooldv1.GetBatchRequest{
		Batch: &tooldv1.GetBatchRequest_BatchId{BatchId: id}, ResultDetail: detail,
	})
	if hasReason(err, "BATCH_NOT_FOUND") || hasReason(err, "REQUEST_MALFORMED") {
		byRequest, second := exec.GetBatch(ctx, &tooldv1.GetBatchRequest{
			Batch: &tooldv1.GetBatchRequest_RequestId{RequestId: id}, ResultDetail: detail,
		})
		if second == nil {
			return byRequest.GetBatch(), nil
		}
	}
	return resp.GetBatch(), err
}

func hasReason(err error, reason string) bool {
	if err == nil {
		return false
	}
	if own := (*exitError)(nil); errors.As(err, &own) {
		return false
	}
	for _, d := range status.Convert(err).Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok && i.GetReason() == reason {
			return true
		}
	}
	return false
}
