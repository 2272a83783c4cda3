// Package sandbox runs one command so that nothing of it outlives its result.
//
// On Linux two processes of the daemon's own executable stand between the
// daemon and a command:
//
//	daemon ── warden (one) ── supervisor (one a command) ── command ── …
//
// The supervisor is a child subreaper: whatever leaves the command's process
// group or session (setsid, a double fork) becomes its child, is ended when the
// command has ended, and is waited for. Should the supervisor be killed itself,
// its children fall to the warden, a subreaper too, which ends every process
// that it did not start. Should the daemon die, each supervisor sees its control
// socket close and kills its command at once. TestNothingOutlives and
// TestKilledDaemonLeavesNothing have a case for each.
//
// Elsewhere a command gets a process group of its own, and no more.
package sandbox

import (
	"errors"
	"maps"
	"os"
	"slices"
	"time"
)

// Command is what to run.
type Command struct {
	Path  string   // absolute path of the executable
	Args  []string // argv, the program's name first
	Dir   string   // working directory, absolute
	Env   []string // the whole environment, NAME=value; see Environ
	Stdin []byte   // nil: /dev/null
	// Limits apply to the command and are inherited by what it starts.
	Limits Limits
	// Grace is how long the processes have between SIGTERM and SIGKILL when the
	// context ends or the output is refused; 0 = DefaultGrace.
	Grace time.Duration
}

// DefaultGrace is the time between SIGTERM and SIGKILL.
const DefaultGrace = 2 * time.Second

// Limits bounds each process of a command; 0 = not limited. Core dumps are
// always off.
type Limits struct {
	CPU       time.Duration // processor time, whole seconds, rounded up
	Memory    int64         // address space, bytes
	FileSize  int64         // largest file written, bytes
	OpenFiles int           // descriptors
	Processes int           // processes and threads of the user
}

// Result is how a command ended.
type Result struct {
	ExitCode int    // 0–255; 128 + signal number when a signal ended it
	Signal   string // "SIGKILL"; empty when the command exited by itself
	// OOMKilled: the command was killed, or reported a child that was, while the
	// kernel counted a process killed for want of memory.
	OOMKilled bool
	CPU       time.Duration // user and system time of the whole tree
	// MaxRSS is the peak resident memory of the largest process, bytes. It is
	// never less than a supervisor's own (a few MiB): a process starts with its
	// parent's memory.
	MaxRSS int64
	// Stragglers counts the processes that were still alive when the command had
	// ended, and were ended then.
	Stragglers int
}

// StartError says that a command did not run, and why. A syscall.Errno is in its
// chain.
type StartError struct {
	Doing string // what failed: "starting /bin/bash"
	Err   error
}

func (e *StartError) Error() string { return e.Doing + ": " + e.Err.Error() }

// Unwrap gives the system's error.
func (e *StartError) Unwrap() error { return e.Err }

// Errors of Run beside a StartError and those of the context and of the output's
// receiver.
var (
	// ErrSupervisorKilled: something killed the command's supervisor, so how
	// the command ended is not known. Its processes have been ended.
	ErrSupervisorKilled = errors.New("the supervisor of the command was killed; all its processes were ended")
	// ErrSurvivors: some process withstands SIGKILL (it hangs inside the kernel,
	// on a dead network file system for example). It is killed when it wakes.
	ErrSurvivors = errors.New("some process of the command cannot be ended")
)

// Isolation names the confinement that commands run under: "none", for now.
func Isolation() string { return "none" }

// Environ builds a command's environment: PATH, HOME, LANG and TMPDIR (with
// defaults where they are unset here), settings that keep programs from asking
// or paging, the variables of this process that pass names, and extra, the later
// winning. Nothing else of this process's environment is in it.
func Environ(pass []string, extra map[string]string) []string {
	env := map[string]string{
		"PATH":                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME":                "/",
		"LANG":                "C.UTF-8",
		"TMPDIR":              "/tmp",
		"TERM":                "dumb",
		"PAGER":               "cat",
		"GIT_PAGER":           "cat",
		"GIT_TERMINAL_PROMPT": "0",
	}
	for _, name := range slices.Concat([]string{"PATH", "HOME", "LANG", "TMPDIR"}, pass) {
		if v, ok := os.LookupEnv(name); ok && v != "" {
			env[name] = v
		}
	}
	maps.Copy(env, extra)
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}
