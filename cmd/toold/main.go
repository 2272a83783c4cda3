// Command toold is the daemon: it takes batches of tool calls over gRPC, decides
// and records each call, runs what is allowed, and streams the results back.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/toold/toold/internal/sandbox"
)

// version is set by the linker.
var version = "unknown"

func main() {
	// What a command of a tool call could read of the daemon, it must not; where
	// the system cannot hide it, it cannot.
	if err := sandbox.HideProcess(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		fmt.Fprintln(os.Stderr, "toold:", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	// The first signal drains; with the handler gone the second ends the process.
	context.AfterFunc(ctx, stop)
	if err := newCommand(os.Stdout, os.Stderr).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "toold:", err)
		os.Exit(1)
	}
}

func newCommand(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "toold",
		Short: "the kernel between agents and everything they can touch",
		Long: `toold runs batches of tool calls for agents: it decides each call by policy,
records the decision, runs what is allowed and streams the results back.

Without flags it serves this machine only: SQLite, the current folder as the
workspace, profile "development".`,
		Example: `  toold
  toold --workspace ~/src/app --profile standard
  toold --config /etc/toold.yaml`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd.Flags(), os.LookupEnv)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), c, stderr)
		},
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	addFlags(root.Flags())
	root.AddCommand(migrateCommand(), sqlCommand(), versionCommand(), configCommand())
	return root
}

func migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "bring the database to this version's schema, and end",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd.Flags(), os.LookupEnv)
			if err != nil {
				return err
			}
			return migrate(cmd.Context(), c, cmd.OutOrStdout())
		},
	}
	addFlags(cmd.Flags())
	return cmd
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "toold", fullVersion())
			return err
		},
	}
}

// fullVersion is the version and, where the build knows it, the commit.
func fullVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return version + "+" + s.Value[:12]
		}
	}
	return version
}

func configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "look at configuration files"}
	cmd.AddCommand(&cobra.Command{
		Use:   "example",
		Short: "print a file with every key, its meaning and its default",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), example())
			return err
		},
	}, &cobra.Command{
		Use:   "check FILE",
		Short: "say whether a file is good",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("reading the configuration: %w", err)
			}
			c := defaults()
			if err := decode(text, &c); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if err := c.check(); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), args[0], "is good")
			return err
		},
	})
	return cmd
}
