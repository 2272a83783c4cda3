package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toold/toold/client"
	"github.com/toold/toold/cmd/toolctl/internal/term"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

func (a *app) explainCommand() *cobra.Command {
	var f runFlags
	var rawArguments string
	c := &cobra.Command{
		Use:   "explain FILE | TOOL key=value…",
		Short: "Say what would be decided, without running anything",
		Long: `Say what policy would decide of each call, why, and in which order the calls
would run: those of one wave at once. Nothing runs. A name that ends in .yaml,
.yml or .json, or "-", is a batch file; all else is a tool.

Exit status is 0 when every call would be allowed, 2 when one could not even be
judged, such as one of an unknown tool, else 1.`,
		Args:              args(cobra.MinimumNArgs(1)),
		ValidArgsFunction: a.completeCall,
		RunE: func(c *cobra.Command, args []string) error {
			req, err := a.explained(c, args, rawArguments)
			if err != nil {
				return err
			}
			if err := f.apply(c, req); err != nil {
				return err
			}
			return a.ask(c.Context(), func(ctx context.Context, cl *client.Client) error {
				resp, err := tooldv1.NewExecutionServiceClient(cl.Conn()).ExplainBatch(ctx, &tooldv1.ExplainBatchRequest{Spec: req.GetSpec(), Calls: req.GetCalls()})
				if err != nil {
					return err
				}
				return a.showPlan(newBoard(req.GetSpec(), req.GetCalls()), resp)
			})
		},
	}
	f.registerSpec(c, a)
	c.Flags().StringVar(&rawArguments, "json", "", "the arguments as one JSON object, instead of key=value")
	return c
}

// explained makes the batch that is asked about from a file or a call.
func (a *app) explained(c *cobra.Command, args []string, raw string) (*tooldv1.ExecuteBatchRequest, error) {
	if len(args) == 1 && isBatchFile(args[0]) {
		return a.readBatch(args[0])
	}
	json, err := a.arguments(c, args[0], args[1:], raw)
	if err != nil {
		return nil, err
	}
	return &tooldv1.ExecuteBatchRequest{
		Spec:  &tooldv1.BatchSpec{},
		Calls: []*tooldv1.ToolCall{{Tool: args[0], ArgumentsJson: json}},
	}, nil
}

func isBatchFile(name string) bool {
	for _, end := range []string{".yaml", ".yml", ".json"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return name == "-"
}

func (a *app) showPlan(b *board, resp *tooldv1.ExplainBatchResponse) error {
	result := planned(resp.GetCalls())
	if a.output == outputJSON {
		if err := a.printMessage(resp); err != nil {
			return err
		}
		return result
	}
	t := term.Table{Columns: []term.Column{
		{Title: "WAVE", Drop: 2, Right: true},
		{Title: "CALL", Max: 24},
		{Title: "TOOL", Max: 20, Drop: 4},
		{Title: "CLASS", Drop: 3},
		{Title: "VERDICT"},
		{Title: "POLICY", Drop: 1},
	}}
	for i, p := range resp.GetCalls() {
		d := p.GetDecision()
		wave, tool := "-", ""
		if p.GetWave() >= 0 {
			wave = fmt.Sprint(p.GetWave())
		}
		if i < len(b.rows) {
			tool = b.rows[i].tool
		}
		t.Rows = append(t.Rows, []term.Cell{
			{Text: wave},
			{Text: p.GetCallId()},
			{Text: tool},
			classCell(d),
			verdictCell(d),
			{Text: d.GetPolicyId()},
		})
	}
	a.table(t)
	for _, p := range resp.GetCalls() {
		a.showReasons(p, len(resp.GetCalls()) > 1)
	}
	return result
}

// planned gives the exit status of a plan.
func planned(calls []*tooldv1.PlannedCall) error {
	result := error(nil)
	for _, p := range calls {
		switch d := p.GetDecision(); {
		case invalid(d):
			return &exitError{code: exitUsage}
		case !d.GetAllowed():
			result = errCalls
		}
	}
	return result
}

// showReasons says why, what was judged, and what else there is to know.
func (a *app) showReasons(p *tooldv1.PlannedCall, named bool) {
	d := p.GetDecision()
	if d.GetReason() == "" && len(p.GetHints()) == 0 && len(d.GetEffects()) == 0 {
		return
	}
	why := or(d.GetReason(), strings.ToLower(word(d.GetVerdict())))
	if named {
		why = p.GetCallId() + ": " + why
	}
	a.print("\n%s", why)
	for _, e := range d.GetEffects() {
		a.print("  %s %s", e.GetVerb(), e.GetTarget())
	}
	for _, h := range p.GetHints() {
		a.print("  %s: %s", strings.ToLower(or(word(h.GetLevel()), "hint")), h.GetMessage())
		if h.GetSuggestion() != "" {
			a.print("    %s", h.GetSuggestion())
		}
	}
}
