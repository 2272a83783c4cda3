// Package command is the tool that runs command lines: bash.
package command

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/toold/toold/internal/sandbox"
	"github.com/toold/toold/internal/schema"
	"github.com/toold/toold/internal/tool"
)

// Analysis is what is known of a command line before it runs.
type Analysis struct {
	Class    tool.Class // narrower than SYSTEM_CHANGE only where that is proved
	Effects  []tool.Effect
	Commands []tool.Command
	Findings []tool.Finding
	// Reads are the places that are read by name; the tool follows their links.
	Reads []Read
}

// Options says how commands are judged and run.
type Options struct {
	// Analyse judges a command line that would run in dir (absolute), inside
	// workspace (absolute). It is pure and never nil.
	Analyse func(text, dir, workspace string) Analysis
	// Secret says what there is against printing the file at an absolute path,
	// links resolved; nil = nothing.
	Secret func(path string) (tool.Finding, bool)
	// LinkOutside is what there is against changing or deleting what lies at an
	// absolute path, reached through a link from inside the workspace; nil = nothing.
	LinkOutside func(path string) tool.Finding
	// Shell is the absolute path of a bash; empty = /bin/bash.
	Shell string
	// MaxTimeout bounds what a call may ask for; 0 = one hour.
	MaxTimeout time.Duration
	// PassEnv names variables of the daemon that commands get, beside the few
	// that they always have.
	PassEnv []string
	// Limits bounds each process of a command.
	Limits sandbox.Limits
	// Grace is the time between SIGTERM and SIGKILL when a call is stopped;
	// 0 = sandbox.DefaultGrace.
	Grace time.Duration
}

const (
	defaultTimeout = 2 * time.Minute
	// maxCommand is what the analysis reads; longer texts belong in a file.
	maxCommand = 64 << 10
	// maxEnv bounds the names and values of one call's environment together.
	maxEnv = 64 << 10
)

// Reasons of this package's failures.
const (
	ReasonNoWorkspace      = tool.ReasonNoWorkspace
	ReasonNotStarted       = "COMMAND_NOT_STARTED"
	ReasonSupervisorKilled = "SUPERVISOR_KILLED"
	ReasonSurvivors        = "PROCESSES_SURVIVED"
)

type bashArgs struct {
	Command        string            `json:"command" jsonschema:"minLength=1,maxLength=65536" jsonschema_description:"The command line, as bash reads it. Several lines, pipes, redirections and here-documents are fine."`
	TimeoutSeconds int               `json:"timeoutSeconds,omitempty" jsonschema:"minimum=1" jsonschema_description:"Seconds until the command and all its processes are stopped. Default 120."`
	Workdir        string            `json:"workdir,omitempty" jsonschema:"minLength=1,maxLength=4096,default=." jsonschema_description:"Folder to run in, relative to the workspace."`
	Env            map[string]string `json:"env,omitempty" jsonschema:"maxProperties=100" jsonschema_description:"More environment variables. Variables that make programs load code (LD_PRELOAD, BASH_ENV, GIT_SSH_COMMAND …) are refused."`
	Stdin          string            `json:"stdin,omitempty" jsonschema:"maxLength=4194304" jsonschema_description:"Text for standard input. Without it, standard input is empty."`
}

// New makes the bash tool.
func New(o Options) tool.Tool {
	if o.Shell == "" {
		o.Shell = "/bin/bash"
	}
	if o.MaxTimeout == 0 {
		o.MaxTimeout = time.Hour
	}
	return schema.Define(tool.Spec{
		Name: "bash", Version: "1.0.0", Title: "Run a command", Category: "command",
		Description: "Runs a command line with bash in the workspace and gives its output, exit code, time and memory. Use it for builds, tests, version control and programs that no other tool covers. " +
			"Do not use it to read, search or change files: read, grep, glob, tree, edit and write are quicker and say more. " +
			"There is no terminal and nobody to answer a prompt: pass --yes, --no-pager and the like. Each call is a new shell; only files remain. " +
			"When the shell ends, so do the processes that it left in the background.",
		UsageGuidance:  "Chain steps that depend on each other with &&; set timeoutSeconds for long builds; non-zero exit is a failure with hints.",
		Class:          tool.SystemChange,
		Scope:          tool.ScopeWorkspace,
		Cut:            tool.CutHeadTail,
		DefaultTimeout: min(defaultTimeout, o.MaxTimeout),
		MaxTimeout:     o.MaxTimeout,
		// Secrets are handed over in these.
		SensitivePointers: []string{"/env", "/stdin"},
	}, func(_ context.Context, env tool.Env, a bashArgs) (tool.Action, error) { return prepare(o, env, a) })
}

func prepare(o Options, env tool.Env, a bashArgs) (tool.Action, error) {
	if env.Workspace == nil {
		return tool.Action{}, tool.BadArgument("/workdir", ReasonNoWorkspace,
			"there is no workspace to run commands in; start toold with --workspace PATH or name one in the batch")
	}
	if err := check(a); err != nil {
		return tool.Action{}, err
	}
	dir, err := folder(env.Workspace, a.Workdir)
	if err != nil {
		return tool.Action{}, err
	}
	root := env.Workspace.Dir()
	abs := filepath.Join(root, string(dir))
	analysed := o.Analyse(exports(a.Env)+a.Command, abs, root)
	found := lookWrites(o, env.Workspace, look(o, env.Workspace, analysed))
	r := &running{o: o, workspace: env.Workspace, args: a, path: dir, dir: abs, analysed: analysed, reads: found.Class == tool.ReadOnly}
	return tool.Action{
		Class:    found.Class.OrWidest(),
		Effects:  found.Effects,
		Commands: found.Commands,
		Findings: found.Findings,
		Timeout:  min(time.Duration(min(a.TimeoutSeconds, int(time.Duration(1<<62)/time.Second)))*time.Second, o.MaxTimeout),
		Do:       r.do,
	}, nil
}

// check refuses what the schema cannot say.
func check(a bashArgs) error {
	switch {
	case strings.ContainsRune(a.Command, 0):
		return tool.BadArgument("/command", tool.ReasonArgumentsSchema, "holds a NUL byte")
	case len(a.Command) > maxCommand:
		return tool.BadArgument("/command", tool.ReasonArgumentsSchema, "is longer than %d bytes; write a script file and run that", maxCommand)
	}
	size := 0
	for name, value := range a.Env {
		size += len(name) + len(value)
		at := "/env/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		switch {
		case !envName.MatchString(name):
			return tool.BadArgument(at, tool.ReasonArgumentsSchema, "%.100q is not a variable name; want letters, digits and _, not beginning with a digit", name)
		case strings.ContainsRune(value, 0):
			return tool.BadArgument(at, tool.ReasonArgumentsSchema, "holds a NUL byte")
		case loaders.MatchString(name) && !harmless.MatchString(name):
			return tool.BadArgument(at, tool.ReasonArgumentsSchema, "makes programs load or run code and cannot be set; say what is wanted in the command itself")
		}
	}
	if size > maxEnv {
		return tool.BadArgument("/env", tool.ReasonArgumentsSchema, "is larger than %d bytes; pass large values by stdin or a file", maxEnv)
	}
	return nil
}

var (
	envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// loaders are the variables by which the dynamic linker, bash and git load or
	// run something (ld.so(8), bash(1) "Shell Variables", git(1) "Environment
	// Variables"). The analysis judges all others, as if the command exported them.
	loaders  = regexp.MustCompile(`^(LD|DYLD|GIT)_|^(BASH_ENV|BASHOPTS|SHELLOPTS|ENV|IFS|PS4|PROMPT_COMMAND)$`)
	harmless = regexp.MustCompile(`^GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)$`)
)

// folder resolves workdir, which must be a folder of the workspace.
func folder(w *tool.Workspace, workdir string) (tool.Path, error) {
	dir, err := w.Resolve("/workdir", workdir)
	if err != nil {
		return "", err
	}
	info, err := w.Root().Stat(string(dir))
	if err != nil {
		return "", tool.BadArgument("/workdir", tool.ReasonNotFound, "%q does not exist in the workspace; give an existing folder", workdir)
	}
	if !info.IsDir() {
		return "", tool.BadArgument("/workdir", tool.ReasonArgumentsSchema, "%q is not a folder; give the folder to run in", workdir)
	}
	return dir, nil
}

// exports is env as bash would be told it, for the analysis; empty for none.
func exports(env map[string]string) string {
	var b strings.Builder
	for _, name := range sorted(env) {
		fmt.Fprintf(&b, "export %s='%s'\n", name, strings.ReplaceAll(env[name], "'", `'\''`))
	}
	return b.String()
}
