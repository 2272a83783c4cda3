package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toold/toold/client"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

// completeTimeout bounds what a press of Tab may take.
const completeTimeout = 700 * time.Millisecond

// suggestions asks toold for words; without toold there are none.
func (a *app) suggestions(c *cobra.Command, words func(context.Context, *client.Client) ([]string, error)) []string {
	a.timeout = completeTimeout
	var found []string
	err := a.ask(c.Context(), func(ctx context.Context, cl *client.Client) (err error) {
		found, err = words(ctx, cl)
		return err
	})
	if err != nil {
		return nil
	}
	return found
}

func startingWith(prefix string, words []string) []string {
	return slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, prefix) })
}

func (a *app) completeTools(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.toolNames(c, prefix), cobra.ShellCompDirectiveNoFileComp
}

func (a *app) toolNames(c *cobra.Command, prefix string) []string {
	return startingWith(prefix, a.suggestions(c, func(ctx context.Context, cl *client.Client) ([]string, error) {
		all, err := allTools(ctx, cl, "")
		var names []string
		for _, t := range all.GetTools() {
			names = append(names, t.GetName()+"\t"+t.GetTitle())
		}
		return names, err
	}))
}

// completeCall completes a tool, then its arguments, each up to its "=".
func (a *app) completeCall(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		directive := cobra.ShellCompDirectiveNoFileComp
		if c.Name() == "explain" {
			directive = cobra.ShellCompDirectiveDefault // a file does too
		}
		return a.toolNames(c, prefix), directive
	}
	a.timeout = completeTimeout
	schema, err := a.schema(c.Context(), args[0])
	if err != nil || strings.Contains(prefix, "=") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var keys []string
	for _, name := range schema.Names() {
		keys = append(keys, name+"=\t"+schema.Properties[name].Description)
	}
	return startingWith(prefix, keys), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// completeBatches completes a batch id, and after its "/" a call id.
func (a *app) completeBatches(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	batch, _, calls := strings.Cut(prefix, "/")
	found := a.suggestions(c, func(ctx context.Context, cl *client.Client) ([]string, error) {
		var ids []string
		if calls {
			b, err := getBatch(ctx, cl, batch, tooldv1.ResultDetail_RESULT_DETAIL_OUTCOME_ONLY)
			for _, r := range boardOf(b).rows {
				ids = append(ids, batch+"/"+r.id+"\t"+r.tool)
			}
			return ids, err
		}
		resp, err := tooldv1.NewExecutionServiceClient(cl.Conn()).ListBatches(ctx, &tooldv1.ListBatchesRequest{})
		for _, b := range resp.GetBatches() {
			ids = append(ids, b.GetBatchId()+"\t"+word(b.GetState())+", "+clock(b.GetAcceptTime()))
		}
		return ids, err
	})
	return startingWith(prefix, found), cobra.ShellCompDirectiveNoFileComp
}

func (a *app) completeSessions(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && c.Name() == "mode" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return startingWith(prefix, a.suggestions(c, func(ctx context.Context, cl *client.Client) ([]string, error) {
		all, err := allSessions(ctx, tooldv1.NewSessionServiceClient(cl.Conn()))
		var ids []string
		for _, s := range all.GetSessions() {
			ids = append(ids, s.GetSessionId()+"\t"+word(s.GetMode()))
		}
		return ids, err
	})), cobra.ShellCompDirectiveNoFileComp
}
