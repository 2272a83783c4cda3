package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// app is what the commands share: where toold is, how long to wait for it, and
// where output goes.
type app struct {
	*screen

	address string
	dataDir string
	timeout time.Duration
	output  string
}

// The values of -o.
const (
	outputText  = "text"
	outputJSON  = "json"
	outputJSONL = "jsonl"
)

// run runs one command line and gives its exit status.
func run(ctx context.Context, args []string, s *screen) int {
	a := &app{screen: s}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	return a.report(root.ExecuteContext(ctx))
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "toolctl",
		Short: "Run tool calls through toold and see what became of them",
		Long: `Run tool calls through toold and see what became of them.

Exit status: 0 all calls succeeded · 1 some call did not · 2 the command line or
its input is wrong · 3 toold could not serve · 130 interrupted (the batch goes on).`,
		Version:       ownVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	f := root.PersistentFlags()
	f.StringVar(&a.address, "address", a.getenv("TOOLD_ADDRESS"),
		"toold's host:port or unix:///path/toold.sock (env TOOLD_ADDRESS; default: toold.sock in the data folder when it is there, else "+defaultAddress+")")
	f.StringVar(&a.dataDir, "data-dir", a.getenv("TOOLD_DATA_DIR"), "toold's data folder, to find its socket (env TOOLD_DATA_DIR; default $XDG_DATA_HOME/toold or ~/.local/share/toold)")
	f.DurationVar(&a.timeout, "timeout", 0, "how long to wait for toold (0: 30s, and no limit while a batch runs)")
	f.StringVarP(&a.output, "output", "o", outputText, "text or json; jsonl for the events of exec, batch and attach")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return a.checkOutput(c) }
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{outputText, outputJSON, outputJSONL}, cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(
		a.execCommand(), a.batchCommand(), a.attachCommand(), a.getCommand(), a.listCommand(), a.cancelCommand(),
		a.explainCommand(), a.toolsCommand(), a.auditCommand(), a.artifactCommand(), a.sessionCommand(), a.infoCommand(),
		a.versionCommand(),
	)
	root.InitDefaultCompletionCmd("completion")
	for _, c := range root.Commands() {
		if c.Name() == "completion" { // as cobra makes it, it takes any word for a shell
			c.Args, c.RunE = args(cobra.NoArgs), func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
	return root
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print toolctl's version; toold's own is in info",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			a.print("toolctl version %s", c.Root().Version)
			return nil
		},
	}
}

// streaming marks the commands that follow a batch.
var streaming = map[string]string{"streams": "events"}

func (a *app) checkOutput(c *cobra.Command) error {
	known := []string{outputText, outputJSON}
	if c.Annotations["streams"] != "" {
		known = append(known, outputJSONL)
	}
	if !slices.Contains(known, a.output) {
		return usage(fmt.Errorf("-o %s: want %s", a.output, strings.Join(known, " or ")))
	}
	if a.timeout < 0 {
		return usage(fmt.Errorf("--timeout %v: want a positive duration", a.timeout))
	}
	return nil
}

// version is set by the build; else it is what the module knows of itself.
var version string

func ownVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}

// args makes cobra's complaints about arguments exit status 2.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return usage(fmt.Errorf("%w\nusage: %s", err, c.UseLine()))
		}
		return nil
	}
}
