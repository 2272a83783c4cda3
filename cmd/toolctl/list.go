package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold/toold/client"
	"github.com/toold/toold/cmd/toolctl/internal/term"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

var batchStates = map[string]tooldv1.BatchState{
	"running":          tooldv1.BatchState_BATCH_STATE_RUNNING,
	"waiting-approval": tooldv1.BatchState_BATCH_STATE_WAITING_APPROVAL,
	"completed":        tooldv1.BatchState_BATCH_STATE_COMPLETED,
	"cancelled":        tooldv1.BatchState_BATCH_STATE_CANCELLED,
}

// maxPage is the largest page that toold gives.
const maxPage = 500

func (a *app) listCommand() *cobra.Command {
	req := &tooldv1.ListBatchesRequest{}
	var states []string
	var since time.Duration
	var count int
	c := &cobra.Command{
		Use:   "list",
		Short: "List batches, newest first",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			for _, s := range states {
				state, err := choose("state", s, batchStates)
				if err != nil {
					return err
				}
				req.States = append(req.States, state)
			}
			if since > 0 {
				req.AcceptedAfter = timestamppb.New(time.Now().Add(-since))
			}
			if count < 1 {
				return usage(fmt.Errorf("-n %d: want at least 1", count))
			}
			return a.ask(c.Context(), func(ctx context.Context, cl *client.Client) error {
				return a.list(ctx, cl, req, count)
			})
		},
	}
	fs := c.Flags()
	fs.StringSliceVar(&states, "state", nil, "only these states: "+strings.Join(sortedKeys(batchStates), ", "))
	fs.StringVar(&req.SessionId, "session", "", "only of this session")
	fs.StringVar(&req.WorkspaceId, "workspace", "", "only of this workspace")
	fs.StringToStringVar(&req.Labels, "label", nil, "only with this label, KEY=VALUE")
	fs.DurationVar(&since, "since", 0, "only those accepted in the last so long, such as 1h")
	fs.IntVarP(&count, "count", "n", 20, "at most so many")
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(sortedKeys(batchStates), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("session", a.completeSessions)
	return c
}

func (a *app) list(ctx context.Context, c *client.Client, req *tooldv1.ListBatchesRequest, count int) error {
	all := &tooldv1.ListBatchesResponse{}
	for len(all.GetBatches()) < count {
		req.PageSize = int32(min(count-len(all.GetBatches()), maxPage))
		page, err := tooldv1.NewExecutionServiceClient(c.Conn()).ListBatches(ctx, req)
		if err != nil {
			return err
		}
		all.Batches = append(all.Batches, page.GetBatches()...)
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if a.output == outputJSON {
		return a.printMessage(all)
	}
	if len(all.GetBatches()) == 0 {
		a.say("no batches")
		return nil
	}
	t := term.Table{Columns: []term.Column{
		{Title: "BATCH"},
		{Title: "STATE", Drop: 1},
		{Title: "ACCEPTED", Drop: 3},
		{Title: "TOOK", Drop: 4, Right: true},
		{Title: "BY", Drop: 5, Max: 30},
		{Title: "CALLS", Drop: 2},
	}}
	for _, b := range all.GetBatches() {
		took := ""
		if b.GetEndTime() != nil {
			took = duration(b.GetEndTime().AsTime().Sub(b.GetAcceptTime().AsTime()))
		}
		t.Rows = append(t.Rows, []term.Cell{
			{Text: b.GetBatchId()},
			{Text: word(b.GetState()), Style: stateStyle(b.GetState())},
			{Text: clock(b.GetAcceptTime())},
			{Text: took},
			{Text: b.GetPrincipal().GetId()},
			{Text: boardOf(b).tally()},
		})
	}
	a.table(t)
	if req.GetPageToken() != "" {
		a.say("there are more; see them with -n %d", 2*count)
	}
	return nil
}

func stateStyle(s tooldv1.BatchState) term.Style {
	switch s {
	case tooldv1.BatchState_BATCH_STATE_COMPLETED:
		return term.Green
	case tooldv1.BatchState_BATCH_STATE_CANCELLED:
		return term.Yellow
	}
	return term.Cyan
}

// clock shows a time of the server in the local zone; "" when unset.
func clock(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Local().Format(time.DateTime)
}
