package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold/toold/client"
	"github.com/toold/toold/cmd/toolctl/internal/term"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

func (a *app) infoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "info",
		Short: "Show toold's version, policy and limits",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.ask(c.Context(), func(ctx context.Context, cl *client.Client) error {
				info, err := tooldv1.NewAdminServiceClient(cl.Conn()).GetServerInfo(ctx, &tooldv1.GetServerInfoRequest{})
				if err != nil {
					return err
				}
				return a.showInfo(info)
			})
		},
	}
}

func (a *app) showInfo(info *tooldv1.GetServerInfoResponse) error {
	if a.output == outputJSON {
		return a.printMessage(info)
	}
	t := term.Table{Columns: []term.Column{{Title: "WHAT"}, {Title: "VALUE"}}}
	add := func(what, value string) { t.Rows = append(t.Rows, []term.Cell{{Text: what}, {Text: value}}) }
	add("address", a.address)
	add("version", info.GetVersion())
	add("store", info.GetStore())
	add("isolation", info.GetIsolation())
	add("profile", info.GetProfile())
	add("workspaces", or(strings.Join(info.GetWorkspaces(), ", "), "none"))
	add("policy version", info.GetPolicyVersion())
	add("catalog revision", info.GetCatalogRevision())
	if f := info.GetFeatures(); len(f) > 0 {
		add("features", strings.Join(f, ", "))
	}
	limits := info.GetLimits().ProtoReflect()
	for i := range limits.Descriptor().Fields().Len() {
		fd := limits.Descriptor().Fields().Get(i)
		if limits.Has(fd) {
			add(strings.ReplaceAll(string(fd.Name()), "_", " "), limit(fd, limits.Get(fd)))
		}
	}
	a.table(t)
	for _, w := range info.GetLedgerWarnings() {
		a.say("warning: the audit log is weaker than it could be: %s", w)
	}
	return nil
}

// limit shows a value by what the field's name says that it is.
func limit(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
	if fd.Kind() == protoreflect.MessageKind {
		if d, ok := v.Message().Interface().(*durationpb.Duration); ok {
			return d.AsDuration().String()
		}
		return fmt.Sprint(v)
	}
	if strings.HasSuffix(string(fd.Name()), "_bytes") || strings.Contains(string(fd.Name()), "_bytes_") {
		return size(v.Int())
	}
	return itoa(v.Int())
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
