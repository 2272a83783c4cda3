package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

// runFlags are the settings of a batch that the command line can give. Only
// those that are given change what a file says.
type runFlags struct {
	requestID         string
	workspace         string
	session           string
	mode              string
	ask               string
	contextRemaining  int64
	maxTokens         int64
	cancelOnInterrupt bool
}

var (
	scheduleModes = map[string]tooldv1.ScheduleMode{
		"reads-first":   tooldv1.ScheduleMode_SCHEDULE_MODE_READS_FIRST,
		"program-order": tooldv1.ScheduleMode_SCHEDULE_MODE_PROGRAM_ORDER,
		"serial":        tooldv1.ScheduleMode_SCHEDULE_MODE_SERIAL,
	}
	askPolicies = map[string]tooldv1.AskPolicy{
		"wait":   tooldv1.AskPolicy_ASK_POLICY_WAIT,
		"reject": tooldv1.AskPolicy_ASK_POLICY_REJECT,
	}
)

func (f *runFlags) register(c *cobra.Command, a *app) {
	f.registerSpec(c, a)
	fs := c.Flags()
	fs.StringVar(&f.requestID, "request-id", "", "idempotency key: the same one again attaches to the first run")
	fs.BoolVar(&f.cancelOnInterrupt, "cancel-on-interrupt", false, "the first Ctrl-C cancels the batch instead of leaving it")
}

// registerSpec registers what a dry run takes too.
func (f *runFlags) registerSpec(c *cobra.Command, a *app) {
	fs := c.Flags()
	fs.StringVar(&f.workspace, "workspace", "", "workspace of calls that name none")
	fs.StringVar(&f.session, "session", "", "session, which carries plan mode")
	fs.StringVar(&f.mode, "mode", "", "schedule: reads-first, program-order or serial")
	fs.StringVar(&f.ask, "ask", "", "what becomes of a call that only a human could allow: wait or reject")
	fs.Int64Var(&f.contextRemaining, "context-remaining", 0, "tokens left in the model's context; results are fitted to a share of them")
	fs.Int64Var(&f.maxTokens, "max-tokens", 0, "ceiling of tokens for each result")
	_ = c.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions(sortedKeys(scheduleModes), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("ask", cobra.FixedCompletions(sortedKeys(askPolicies), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("session", a.completeSessions)
}

// apply puts the flags that were given into the spec.
func (f *runFlags) apply(c *cobra.Command, req *tooldv1.ExecuteBatchRequest) error {
	spec := req.GetSpec()
	given := c.Flags().Changed
	for flag, set := range map[string]func() error{
		"request-id": func() error { spec.RequestId = f.requestID; return nil },
		"workspace":  func() error { spec.WorkspaceId = f.workspace; return nil },
		"session":    func() error { spec.SessionId = f.session; return nil },
		"mode": func() (err error) {
			spec.ScheduleMode, err = choose("mode", f.mode, scheduleModes)
			return err
		},
		"ask": func() (err error) {
			spec.AskPolicy, err = choose("ask", f.ask, askPolicies)
			return err
		},
		"context-remaining": func() error { budgetOf(spec).ContextRemainingTokens = f.contextRemaining; return nil },
		"max-tokens":        func() error { budgetOf(spec).MaxTokensPerCall = f.maxTokens; return nil },
	} {
		if !given(flag) {
			continue
		}
		if err := set(); err != nil {
			return err
		}
	}
	return nil
}

func budgetOf(spec *tooldv1.BatchSpec) *tooldv1.OutputBudget {
	if spec.GetBudget() == nil {
		spec.Budget = &tooldv1.OutputBudget{}
	}
	return spec.GetBudget()
}

// choose reads a flag that has a few values, "_" and case being forgiven.
func choose[V any](flag, given string, values map[string]V) (V, error) {
	v, ok := values[strings.ReplaceAll(strings.ToLower(given), "_", "-")]
	if !ok {
		return v, usage(fmt.Errorf("--%s %s: want %s", flag, given, strings.Join(sortedKeys(values), ", ")))
	}
	return v, nil
}
