package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toold/toold/client"
	"github.com/toold/toold/cmd/toolctl/internal/term"
	"github.com/toold/toold/cmd/toolctl/internal/typed"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

func (a *app) toolsCommand() *cobra.Command {
	var category string
	var schema bool
	c := &cobra.Command{
		Use:               "tools [NAME]",
		Short:             "List the tools, or tell all about one",
		Args:              args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: a.completeTools,
		RunE: func(c *cobra.Command, args []string) error {
			return a.ask(c.Context(), func(ctx context.Context, cl *client.Client) error {
				if len(args) == 1 {
					return a.showTool(ctx, cl, args[0], schema)
				}
				return a.listTools(ctx, cl, category)
			})
		},
	}
	c.Flags().StringVar(&category, "category", "", "only of this category")
	c.Flags().BoolVar(&schema, "schema", false, "only the input schema of the tool, as JSON")
	return c
}

// allTools asks for every page of the catalog.
func allTools(ctx context.Context, c *client.Client, category string) (*tooldv1.ListToolsResponse, error) {
	req := &tooldv1.ListToolsRequest{PageSize: maxPage, Category: category}
	all := &tooldv1.ListToolsResponse{}
	for {
		page, err := tooldv1.NewCatalogServiceClient(c.Conn()).ListTools(ctx, req)
		if err != nil {
			return nil, err
		}
		all.Tools = append(all.Tools, page.GetTools()...)
		all.Revision = page.GetRevision()
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}

func (a *app) listTools(ctx context.Context, c *client.Client, category string) error {
	all, err := allTools(ctx, c, category)
	if err != nil {
		return err
	}
	if a.output == outputJSON {
		return a.printMessage(all)
	}
	t := term.Table{Columns: []term.Column{
		{Title: "TOOL"}, {Title: "CLASS", Drop: 1}, {Title: "CATEGORY", Drop: 3}, {Title: "TOKENS", Drop: 4, Right: true}, {Title: "TITLE", Drop: 2},
	}}
	for _, tool := range all.GetTools() {
		t.Rows = append(t.Rows, []term.Cell{
			{Text: tool.GetName()},
			{Text: word(tool.GetSideEffect()), Style: classStyle(tool.GetSideEffect())},
			{Text: tool.GetCategory()},
			{Text: fmt.Sprint(tool.GetSchemaTokens())},
			{Text: tool.GetTitle()},
		})
	}
	a.table(t)
	return nil
}

func (a *app) showTool(ctx context.Context, c *client.Client, name string, schemaOnly bool) error {
	resp, err := tooldv1.NewCatalogServiceClient(c.Conn()).GetTool(ctx, &tooldv1.GetToolRequest{Name: name})
	if err != nil {
		return err
	}
	tool := resp.GetTool()
	switch {
	case schemaOnly:
		var b bytes.Buffer
		if err := json.Indent(&b, []byte(tool.GetInputSchemaJson()), "", "  "); err != nil {
			return fmt.Errorf("reading the tool's input schema: %w", err)
		}
		a.print("%s", b.String())
		return nil
	case a.output == outputJSON:
		return a.printMessage(tool)
	}
	a.print("%s %s · %s · %s", tool.GetName(), tool.GetVersion(), tool.GetTitle(), word(tool.GetSideEffect()))
	a.print("run time %s, at most %s\n", duration(tool.GetDefaultTimeout().AsDuration()), duration(tool.GetMaxTimeout().AsDuration()))
	a.print("%s", strings.TrimSpace(tool.GetDescription()))
	if g := tool.GetUsageGuidance(); g != "" {
		a.print("\n%s", g)
	}
	return a.showArguments(tool)
}

func (a *app) showArguments(tool *tooldv1.Tool) error {
	schema, err := typed.ParseSchema(tool.GetInputSchemaJson())
	if err != nil {
		return err
	}
	t := term.Table{Columns: []term.Column{{Title: "ARGUMENT"}, {Title: "TYPE", Drop: 1}, {Title: "DEFAULT", Drop: 2}, {Title: "MEANING"}}}
	for _, name := range schema.Names() {
		p := schema.Properties[name]
		what := p.Description
		if len(p.Enum) > 0 {
			what = strings.TrimSpace(what + " (" + strings.Join(p.Enum, ", ") + ")")
		}
		types := or(strings.Join(p.Types, " or "), "any")
		if len(p.Items) > 0 {
			types += " of " + strings.Join(p.Items, " or ")
		}
		if slices.Contains(schema.Required, name) {
			name += "*"
		}
		t.Rows = append(t.Rows, []term.Cell{{Text: name}, {Text: types}, {Text: p.Default}, {Text: what}})
	}
	if len(t.Rows) > 0 {
		a.print("")
		a.table(t)
	}
	return nil
}
