package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold/toold/client"
	"github.com/toold/toold/cmd/toolctl/internal/term"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

var verdicts = map[string]tooldv1.Verdict{
	"allow": tooldv1.Verdict_VERDICT_ALLOW,
	"deny":  tooldv1.Verdict_VERDICT_DENY,
	"ask":   tooldv1.Verdict_VERDICT_ASK,
}

// pollEvery is how often -f looks for new decisions.
const pollEvery = time.Second

func (a *app) auditCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "Read the audit log",
		Long:  "Read the audit log. The SQL views (audit_api) tell more; see the documentation.",
		Args:  args(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.auditTailCommand())
	return c
}

func (a *app) auditTailCommand() *cobra.Command {
	req := &tooldv1.ListDecisionsRequest{}
	var verdict string
	var follow, wide bool
	explained := true
	var count int
	c := &cobra.Command{
		Use:   "tail",
		Short: "Show the last decisions, oldest first",
		Long: `Show the last decisions, oldest first. A verdict in parentheses was only asked
for, with explain: nothing was to run. -f goes on until Ctrl-C, and then ends
with status 130.`,
		Args:        args(cobra.NoArgs),
		Annotations: streaming,
		RunE: func(c *cobra.Command, _ []string) error {
			if verdict != "" {
				v, err := choose("verdict", verdict, verdicts)
				if err != nil {
					return err
				}
				req.Verdict = v
			}
			if count < 0 {
				return usage(fmt.Errorf("-n %d: want 0 or more", count))
			}
			if follow && a.output == outputJSON {
				return usage(errors.New("-f never ends, so it makes no one JSON value: use -o jsonl"))
			}
			t := &tail{app: a, req: req, explained: explained, wide: wide, seen: map[string]bool{}}
			if follow {
				return t.follow(c.Context(), count)
			}
			return a.ask(c.Context(), func(ctx context.Context, cl *client.Client) error {
				records, err := t.last(ctx, cl, count)
				if err != nil {
					return err
				}
				return t.show(records)
			})
		},
	}
	fs := c.Flags()
	fs.BoolVarP(&follow, "follow", "f", false, "go on as decisions are made")
	fs.StringVar(&req.Tool, "tool", "", "only of this tool")
	fs.StringVar(&req.PolicyId, "policy", "", "only those that this policy decided")
	fs.StringVar(&req.Principal, "principal", "", "only of this caller")
	fs.StringVar(&verdict, "verdict", "", "only allow, deny or ask")
	fs.BoolVar(&explained, "explained", explained, "also those that were only asked for, with explain")
	fs.BoolVarP(&wide, "wide", "w", false, "all columns, however wide the terminal is")
	fs.IntVarP(&count, "count", "n", 20, "so many")
	_ = c.RegisterFlagCompletionFunc("tool", a.completeTools)
	_ = c.RegisterFlagCompletionFunc("verdict", cobra.FixedCompletions(sortedKeys(verdicts), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// tail shows decisions once each.
type tail struct {
	*app
	req       *tooldv1.ListDecisionsRequest
	explained bool // show those that were only asked for
	wide      bool // as wide as it is

	newest time.Time       // decide time of the newest that was seen
	floor  time.Time       // what is not newer was there before following began
	seen   map[string]bool // decisions that the next look back may give again
	header bool            // the table's header was shown
}

// last gives the newest count decisions, oldest first.
func (t *tail) last(ctx context.Context, c *client.Client, count int) ([]*tooldv1.DecisionRecord, error) {
	t.req.PageToken = ""
	var all []*tooldv1.DecisionRecord
	for len(all) < count {
		if t.req.PageSize = int32(min(count-len(all), maxPage)); !t.explained {
			t.req.PageSize = maxPage // it is not known how many of them are shown
		}
		page, err := tooldv1.NewAuditServiceClient(c.Conn()).ListDecisions(ctx, t.req)
		if err != nil {
			return nil, err
		}
		all = append(all, t.wanted(page.GetDecisions())...)
		if t.req.PageToken = page.GetNextPageToken(); t.req.PageToken == "" {
			break
		}
	}
	all = all[:min(count, len(all))]
	slices.Reverse(all)
	return all, nil
}

// wanted leaves out what is not to be shown.
func (t *tail) wanted(records []*tooldv1.DecisionRecord) []*tooldv1.DecisionRecord {
	if t.explained {
		return records
	}
	return slices.DeleteFunc(records, func(r *tooldv1.DecisionRecord) bool {
		return r.GetDecision().GetStage() == tooldv1.DecisionStage_DECISION_STAGE_EXPLAIN
	})
}

// follow polls until Ctrl-C, and rides over times when toold is away. The audit
// log commits in groups, so that a decision can appear beside one with a later
// time: each poll looks back a little.
func (t *tail) follow(ctx context.Context, count int) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return t.reach(ctx, func(c *client.Client) error { return t.poll(ctx, c, count) })
}

func (t *tail) poll(ctx context.Context, c *client.Client, count int) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for first, away := true, false; ; {
		records, err := t.last(ctx, c, max(count, 1))
		switch {
		case ctx.Err() != nil:
			return &exitError{code: exitInterrupted}
		case err != nil && exitCode(err) != exitService:
			return err
		case err != nil && !away:
			t.say("%s", t.explain(err))
		}
		away = err != nil
		records = t.fresh(records)
		if first && !away {
			records = records[len(records)-min(count, len(records)):]
			first, count, t.floor = false, maxFollow, t.newest
		}
		if err := t.show(records); err != nil {
			return err
		}
		if !t.newest.IsZero() {
			t.req.From = timestamppb.New(t.newest.Add(-lookBack))
		}
		select {
		case <-ctx.Done():
			return &exitError{code: exitInterrupted}
		case <-tick.C:
		}
	}
}

const (
	// maxFollow bounds what one poll takes.
	maxFollow = 10_000
	// lookBack is how much older a decision may be than one that was seen.
	lookBack = 10 * time.Second
)

// fresh leaves out what was shown, and forgets what can no longer come again.
func (t *tail) fresh(records []*tooldv1.DecisionRecord) []*tooldv1.DecisionRecord {
	var out []*tooldv1.DecisionRecord
	window := make(map[string]bool, len(records))
	for _, r := range records {
		d := r.GetDecision()
		at := d.GetDecideTime().AsTime()
		window[d.GetDecisionId()] = true
		if t.seen[d.GetDecisionId()] || !t.floor.IsZero() && !at.After(t.floor) {
			continue
		}
		out = append(out, r)
		if at.After(t.newest) {
			t.newest = at
		}
	}
	if len(records) > 0 {
		t.seen = window
	}
	return out
}

func (t *tail) show(records []*tooldv1.DecisionRecord) error {
	switch t.output {
	case outputJSON:
		return t.printMessage(&tooldv1.ListDecisionsResponse{Decisions: records})
	case outputJSONL:
		for _, r := range records {
			line, err := jsonOf(r)
			if err != nil {
				return err
			}
			if _, err := io.WriteString(t.out, t.shown(string(line))+"\n"); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
		}
		return nil
	}
	table := term.Table{Columns: auditColumns}
	for _, r := range records {
		d := r.GetDecision()
		table.Rows = append(table.Rows, []term.Cell{
			{Text: clock(d.GetDecideTime())},
			verdictCell(d),
			{Text: r.GetTool()},
			classCell(d),
			{Text: r.GetPrincipal().GetId()},
			{Text: d.GetPolicyId()},
			{Text: r.GetBatchId() + "/" + r.GetCallId()},
			{Text: d.GetReason()},
		})
	}
	if len(records) > 0 {
		t.rows(table)
	}
	return nil
}

// auditColumns are wide enough for most, so that tables of one -f line up.
var auditColumns = []term.Column{
	{Title: "TIME"},
	{Title: "VERDICT", Min: len("INVALID")},
	{Title: "TOOL", Min: 10, Max: 20, Drop: 1},
	{Title: "CLASS", Min: len("SYSTEM_CHANGE"), Drop: 4},
	{Title: "BY", Min: 10, Max: 24, Drop: 5},
	{Title: "POLICY", Min: 24, Max: 32, Drop: 2},
	{Title: "CALL", Min: len("01a22c1f-e774-7b14-80d0-cb9a00a7eb9e/0")},
	{Title: "REASON", Drop: 3},
}

// rows shows a table, its header only the first time.
func (t *tail) rows(table term.Table) {
	lines := t.lines(table)
	if t.wide {
		lines = table.Lines(0, t.colour)
	}
	if t.header {
		lines = lines[1:]
	}
	t.header = true
	t.put(lines...)
}
