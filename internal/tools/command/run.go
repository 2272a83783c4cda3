package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toold/toold/internal/sandbox"
	"github.com/toold/toold/internal/tool"
)

// running is one prepared call of bash.
type running struct {
	o         Options
	workspace *tool.Workspace
	args      bashArgs
	analysed  Analysis  // before links were followed
	reads     bool      // it was decided as one that only reads
	path      tool.Path // the working directory that was declared
	dir       string    // the same, absolute
}

// do runs the command. When ctx ends, or the output is refused, it gives the
// Result of what ran until then beside the error.
func (r *running) do(ctx context.Context, rt tool.Runtime) (tool.Result, error) {
	if err := ctx.Err(); err != nil {
		return tool.Result{}, err
	}
	if now, err := folder(r.workspace, r.args.Workdir); err != nil || now != r.path {
		return tool.Result{}, tool.Fail(tool.ReasonEffectChanged, "the working directory %q is not what it was when the call was decided; nothing ran, call again", r.args.Workdir)
	}
	if r.reads && look(r.o, r.workspace, r.analysed).Class != tool.ReadOnly {
		return tool.Result{}, tool.Fail(tool.ReasonEffectChanged, "a link now leads what the command reads to where it did not when the call was decided; nothing ran, call again")
	}
	c := sandbox.Command{
		Path:   r.o.Shell,
		Args:   []string{filepath.Base(r.o.Shell), "--noprofile", "--norc", "-c", r.args.Command},
		Dir:    r.dir,
		Env:    sandbox.Environ(r.o.PassEnv, r.environment()),
		Limits: r.o.Limits,
		Grace:  r.o.Grace,
	}
	if r.args.Stdin != "" {
		c.Stdin = []byte(r.args.Stdin)
	}
	var out, errs channel
	start := time.Now()
	end, err := sandbox.Run(ctx, c, func(ch tool.Channel, p []byte) error {
		if ch == tool.Stderr {
			errs.write(p)
		} else {
			out.write(p)
		}
		return rt.Write(ch, p)
	})
	took := time.Since(start)
	var refused *sandbox.StartError
	if errors.As(err, &refused) {
		return tool.Result{}, tool.Fail(ReasonNotStarted, "the shell did not run: %v", err)
	}

	res := tool.Result{
		Output:   tool.Captured{MediaType: "text/plain"},
		Error:    failure(end, err),
		Metadata: r.metadata(took, out.bytes, errs.bytes),
	}
	if res.Error != nil {
		res.Outcome = tool.Failed
	}
	if lost := errors.Is(err, sandbox.ErrSupervisorKilled) || errors.Is(err, sandbox.ErrSurvivors); lost {
		err = nil // res.Error says it; how the command ended is not known
	} else {
		ended(&res, end)
	}
	if out.bytes > 0 && errs.bytes > 0 {
		res.Attachments = append(res.Attachments, errs.last())
	}
	res.Hints = hints(outcome{
		exit: end, stopped: err, dir: string(r.path), text: string(out.tail) + "\n" + string(errs.tail), took: took,
	})
	return res, err
}

// readers holds what keeps readers from doing more than to read: git takes no
// repository for one that a workspace's files only look like, as its settings may
// name programs, and leaves its index alone; go fetches nothing.
var readers = map[string]string{
	"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.bareRepository", "GIT_CONFIG_VALUE_0": "explicit",
	"GIT_OPTIONAL_LOCKS": "0",
	"GOPROXY":            "off",
}

// environment is what the command gets beside what all commands get.
func (r *running) environment() map[string]string {
	if !r.reads {
		return r.args.Env
	}
	env := maps.Clone(readers)
	maps.Copy(env, r.args.Env)
	return env
}

// ended fills in how the command ended and what it used.
func ended(res *tool.Result, end sandbox.Result) {
	res.Exit = &tool.Exit{Code: end.ExitCode, Signal: end.Signal, OOMKilled: end.OOMKilled}
	res.Usage = tool.Usage{CPU: end.CPU, MaxRSSBytes: end.MaxRSS}
	m := res.Metadata
	m["exitCode"] = strconv.Itoa(end.ExitCode)
	m["cpuMs"] = strconv.FormatInt(end.CPU.Milliseconds(), 10)
	m["maxRssBytes"] = strconv.FormatInt(end.MaxRSS, 10)
	if end.Signal != "" {
		m["signal"] = end.Signal
	}
	if end.Stragglers > 0 {
		m["stragglersKilled"] = strconv.Itoa(end.Stragglers)
	}
}

// failure says why a command that ran has failed; nil when it has not.
func failure(end sandbox.Result, err error) *tool.Error {
	switch {
	case errors.Is(err, sandbox.ErrSupervisorKilled):
		return &tool.Error{Reason: ReasonSupervisorKilled, Message: err.Error() + "; how it ended is not known"}
	case errors.Is(err, sandbox.ErrSurvivors):
		return &tool.Error{Reason: ReasonSurvivors, Message: err.Error() + "; it may still change files when it wakes"}
	case end.OOMKilled:
		return &tool.Error{Reason: tool.ReasonNonZeroExit, Message: "the command was killed because memory ran out"}
	case end.Signal != "":
		return &tool.Error{Reason: tool.ReasonNonZeroExit, Message: "the command was ended by " + end.Signal}
	case end.ExitCode != 0:
		return &tool.Error{Reason: tool.ReasonNonZeroExit, Message: fmt.Sprintf("the command exited with %d", end.ExitCode)}
	}
	return nil
}

func (r *running) metadata(took time.Duration, out, errs int64) map[string]string {
	return map[string]string{
		"durationMs":  strconv.FormatInt(took.Milliseconds(), 10),
		"stdoutBytes": strconv.FormatInt(out, 10),
		"stderrBytes": strconv.FormatInt(errs, 10),
		"isolation":   sandbox.Isolation(),
		"shell":       r.o.Shell,
		"workdir":     string(r.path),
	}
}

// tailBytes is how much of a channel's end is kept to look for hints.
const tailBytes = 8 << 10

// channel counts what went through and keeps its end.
type channel struct {
	bytes int64
	tail  []byte // the last tailBytes, or a little more
}

func (c *channel) write(p []byte) {
	c.bytes += int64(len(p))
	p = p[max(0, len(p)-tailBytes):]
	if over := len(c.tail) + len(p) - 2*tailBytes; over > 0 {
		c.tail = append(c.tail[:0], c.tail[max(0, len(c.tail)-tailBytes):]...)
	}
	c.tail = append(c.tail, p...)
}

// last is the end of the channel, as text that no budget cuts: whole lines where
// there are any, at most tool.MaxStderrTail bytes.
func (c *channel) last() tool.Text {
	b := c.tail[max(0, len(c.tail)-tool.MaxStderrTail):]
	if int64(len(b)) < c.bytes {
		if _, rest, ok := strings.Cut(string(b), "\n"); ok && rest != "" {
			b = []byte(rest)
		}
	}
	text := strings.ToValidUTF8(string(b), "\uFFFD")
	lossy := text != string(b)
	for len(text) > tool.MaxStderrTail { // replacement made it longer
		text = strings.ToValidUTF8(text[len(text)-tool.MaxStderrTail:], "")
	}
	return tool.Text{Text: text, Lossy: lossy}
}

func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
