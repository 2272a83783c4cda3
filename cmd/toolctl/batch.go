package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/toold/toold/client"
	"github.com/toold/toold/cmd/toolctl/internal/batchfile"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

func (a *app) batchCommand() *cobra.Command {
	var f runFlags
	var outputs bool
	c := &cobra.Command{
		Use:   "batch FILE",
		Short: "Run a batch of calls from a file",
		Long: `Run a batch of calls from a YAML or JSON file ("-" is standard input) and show
class, verdict, time and outcome of each call: as a live table on a terminal, as
tab-separated lines in a pipe.

  calls:
    - id: readme
      tool: read
      arguments: {path: README.md}
  schedule_mode: program_order
  budget: {context_remaining_tokens: 8000}

Beside calls stand the fields of BatchSpec; each call takes those of ToolCall.
-o json prints one object when all is done, -o jsonl each event as it comes.

Ctrl-C leaves the batch running and says how to come back to it.`,
		Args:        args(cobra.ExactArgs(1)),
		Annotations: streaming,
		RunE: func(c *cobra.Command, args []string) error {
			req, err := a.readBatch(args[0])
			if err != nil {
				return err
			}
			if err := f.apply(c, req); err != nil {
				return err
			}
			b := newBoard(req.GetSpec(), req.GetCalls())
			return a.execute(c.Context(), req, b, f.cancelOnInterrupt, func(*client.Client) view { return a.batchView(b, outputs) })
		},
	}
	f.register(c, a)
	c.Flags().BoolVar(&outputs, "outputs", false, "show the calls' outputs at the end")
	return c
}

func (a *app) readBatch(name string) (*tooldv1.ExecuteBatchRequest, error) {
	text, err := a.readFile(name)
	if err != nil {
		return nil, usage(err)
	}
	if name == "-" {
		name = "standard input"
	}
	return batchfile.Parse(name, text)
}

// execute runs a batch under the view that show makes once toold is reached.
func (a *app) execute(ctx context.Context, req *tooldv1.ExecuteBatchRequest, b *board, cancelOnInterrupt bool, show func(*client.Client) view) error {
	if req.GetSpec().GetRequestId() == "" {
		req.Spec.RequestId = client.NewRequestID()
	}
	b.requestID = req.GetSpec().GetRequestId()
	return a.reach(ctx, func(cl *client.Client) error {
		cl.LeaveDraining = true // whoever waits at a terminal can try again
		f := &follower{app: a, client: cl, board: b, view: show(cl), cancelOnInterrupt: cancelOnInterrupt}
		return f.follow(ctx, func(ctx context.Context, each func(*tooldv1.BatchEvent) error) (*tooldv1.BatchSummary, error) {
			return cl.Execute(ctx, req, each)
		})
	})
}
