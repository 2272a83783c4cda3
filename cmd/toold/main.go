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
	"path/filepath"
	"runtime/debug"
	"strings"
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
		os.Exit(status(err))
	}
}

// usageError is a command line that cannot be meant.
type usageError struct{ error }

// status is the exit status: 2 for a wrong command line, 1 for all else.
func status(err error) int {
	var usage usageError
	if errors.As(err, &usage) {
		return 2
	}
	return 1
}

// positional makes a usage error of what the check of a command's arguments
// says.
func positional(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil {
			return nil
		}
		near := ""
		if names := commandNames(cmd); len(args) > 0 && len(names) > 0 {
			near = didYouMean(args[0], names)
		}
		return usageError{fmt.Errorf("%w%s; see %s --help", err, near, cmd.CommandPath())}
	}
}

func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return names
}

func newCommand(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "toold",
		Short: "the kernel between agents and everything they can touch",
		Long: `toold runs batches of tool calls for agents: it decides each call by policy,
records the decision, runs what is allowed and streams the results back.

Without flags it serves this machine only: SQLite, the current folder as the
workspace, profile "development".

The exit status is 0, 2 for a command line that is wrong, and 1 for all else.`,
		Example: `  toold
  toold --workspace ~/src/app --profile standard
  toold --config /etc/toold.yaml`,
		Version:       fullVersion(),
		Args:          positional(cobra.NoArgs),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd.Flags(), os.Environ())
			if err != nil {
				return err
			}
			return serve(cmd.Context(), c, stderr)
		},
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetVersionTemplate("toold {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	addFlags(root.Flags())
	root.AddCommand(migrateCommand(), sqlCommand(), versionCommand(), configCommand())
	return root
}

func migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "bring the database to this version's schema, and end",
		Args:  positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd.Flags(), os.Environ())
			if err != nil {
				return err
			}
			return migrate(cmd.Context(), c, cmd.OutOrStdout())
		},
	}
	addFlags(cmd.Flags(), databaseFlags...)
	return cmd
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Args:  positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "toold", fullVersion())
			return err
		},
	}
}

// fullVersion is the version and, where the build knows it and the version does
// not say it, the commit.
func fullVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return withCommit(version, s.Value)
			}
		}
	}
	return version
}

func withCommit(version, commit string) string {
	switch {
	case len(commit) < 12 || strings.Contains(version, commit[:7]):
		return version
	case version == "unknown":
		return commit[:12]
	}
	return version + "+" + commit[:12]
}

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "look at configuration files",
		Args:  positional(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "example",
		Short: "print a file with every key, its meaning and its default",
		Args:  positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), example())
			return err
		},
	}, &cobra.Command{
		Use:   "check FILE",
		Short: "say whether a file is good, and start nothing",
		Long: `check reads a file as toold would and says all that is wrong with it: unknown
keys, values that cannot be, and what it names and is not there: workspaces, the
policy, the shell. It starts nothing and connects to nothing.`,
		Example: `  toold config check /etc/toold.yaml`,
		Args:    positional(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFile(args[0]); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), args[0], "is good")
			return err
		},
	})
	return cmd
}

// checkFile says what is wrong with a configuration file.
func checkFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	c := defaults()
	if err := decode(text, &c); err != nil {
		return err
	}
	return errors.Join(c.readSecrets(), c.check(), c.checkPaths())
}

// checkPaths says which of the files and folders that are named are not there,
// or cannot be used.
func (c Config) checkPaths() error {
	var wrong []error
	bad := func(key string, err error) {
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", key, err))
		}
	}
	bad("commands.shell", checkShell(c.Commands.Shell))
	_, err := openPolicy(c)
	wrongPolicy := err != nil
	bad("policy", err)
	data, err := c.dataPath()
	bad("dataDir", err)
	if err == nil && len(c.Workspaces) > 0 {
		if resolved, err := filepath.EvalSymlinks(data); err == nil { // it may be made later
			data = resolved
		}
		if wrongPolicy {
			c.Policy = "" // said already
		}
		open, err := openWorkspaces(c, &dataDir{path: data})
		if err == nil {
			err = open.Close()
		}
		bad("workspaces", err)
	}
	return errors.Join(wrong...)
}

// checkShell reports what keeps commands from running.
func checkShell(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !filepath.IsAbs(path):
		return fmt.Errorf("%s is no absolute path", path)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not a program", path)
	}
	return nil
}
