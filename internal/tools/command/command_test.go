package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toold/toold/internal/sandbox"
	"github.com/toold/toold/internal/tool"
)

// recorder is a Runtime that keeps what is written.
type recorder struct {
	out, err bytes.Buffer
	seen     func()
	limit    int // 0 = none
}

func (r *recorder) Write(ch tool.Channel, p []byte) error {
	if r.limit > 0 && r.out.Len()+len(p) > r.limit {
		return tool.ErrOutputCapped
	}
	if ch == tool.Stderr {
		r.err.Write(p)
	} else {
		r.out.Write(p)
	}
	if r.seen != nil {
		r.seen()
	}
	return nil
}

func (*recorder) Progress(float64, float64, string) {}

func (*recorder) Keep(context.Context, string, string, []byte) (tool.ArtifactRef, error) {
	return tool.ArtifactRef{}, errors.New("not wanted")
}

func unknown(string, string, string) Analysis {
	return Analysis{Effects: []tool.Effect{{Verb: tool.VerbUnknown, Target: "*"}}}
}

func workspace(t *testing.T) *tool.Workspace {
	t.Helper()
	w, err := tool.OpenWorkspace("default", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	for _, dir := range []string{"sub", "other"} {
		if err := os.Mkdir(filepath.Join(w.Dir(), dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.Dir(), "plain"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link": "sub", "out": "/etc"} {
		if err := os.Symlink(to, filepath.Join(w.Dir(), link)); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func prepared(t *testing.T, o Options, w *tool.Workspace, args map[string]any) (tool.Action, error) {
	t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	if o.Analyse == nil {
		o.Analyse = unknown
	}
	return New(o).Prepare(t.Context(), tool.Env{Workspace: w}, text)
}

func TestBadArgumentsAreNamed(t *testing.T) {
	w := workspace(t)
	env := func(name, value string) map[string]any {
		return map[string]any{"command": "true", "env": map[string]string{name: value}}
	}
	for _, tc := range []struct {
		args map[string]any
		at   string
		why  string
	}{
		{map[string]any{}, "/command", "required"},
		{map[string]any{"command": ""}, "/command", ""},
		{map[string]any{"command": "a\x00b"}, "/command", "NUL"},
		{map[string]any{"command": strings.Repeat("é", maxCommand/2+1)}, "/command", "script file"},
		{map[string]any{"command": "true", "timeoutSeconds": 0}, "/timeoutSeconds", ""},
		{map[string]any{"command": "true", "timeoutSeconds": 1.5}, "/timeoutSeconds", ""},
		{map[string]any{"command": "true", "timeout": 1}, "/timeout", "not an argument"},
		{map[string]any{"command": "true", "background": true}, "/background", "not an argument"},
		{map[string]any{"command": "true", "workdir": "nowhere"}, "/workdir", "does not exist"},
		{map[string]any{"command": "true", "workdir": "plain"}, "/workdir", "not a folder"},
		{map[string]any{"command": "true", "workdir": "../.."}, "/workdir", "outside"},
		{map[string]any{"command": "true", "workdir": "out"}, "/workdir", "outside"},
		{map[string]any{"command": "true", "workdir": "/etc"}, "/workdir", "outside"},
		{env("A B", ""), "/env/A B", "variable name"},
		{env("a=b", ""), "/env/a=b", "variable name"},
		{env("", ""), "/env/", "variable name"},
		{env("1A", ""), "/env/1A", "variable name"},
		{env("BASH_FUNC_ls%%", "() { id; }"), "/env/BASH_FUNC_ls%%", "variable name"},
		{env("A", "x\x00y"), "/env/A", "NUL"},
		{env("A", strings.Repeat("x", maxEnv)), "/env", "stdin or a file"},
		{env("LD_PRELOAD", "/tmp/x.so"), "/env/LD_PRELOAD", "load or run code"},
		{env("DYLD_INSERT_LIBRARIES", "x"), "/env/DYLD_INSERT_LIBRARIES", "load or run code"},
		{env("BASH_ENV", "x"), "/env/BASH_ENV", "load or run code"},
		{env("PS4", "$(id)"), "/env/PS4", "load or run code"},
		{env("GIT_SSH_COMMAND", "id"), "/env/GIT_SSH_COMMAND", "load or run code"},
		{env("GIT_CONFIG_COUNT", "1"), "/env/GIT_CONFIG_COUNT", "load or run code"},
	} {
		_, err := prepared(t, Options{}, w, tc.args)
		var ae *tool.ArgumentError
		if !errors.As(err, &ae) || len(ae.Violations) == 0 {
			t.Errorf("%.60v: got %v, want an argument error", tc.args, err)
			continue
		}
		if v := ae.Violations[0]; v.Path != tc.at || !strings.Contains(v.Description, tc.why) {
			t.Errorf("%.60v: got %s %q, want %s %q", tc.args, v.Path, v.Description, tc.at, tc.why)
		}
	}
	var ae *tool.ArgumentError
	if _, err := prepared(t, Options{}, nil, map[string]any{"command": "true"}); !errors.As(err, &ae) || ae.Reason != ReasonNoWorkspace {
		t.Errorf("without a workspace: %v", err)
	}
}

func TestPrepareSaysWhatTheCallWouldDo(t *testing.T) {
	w := workspace(t)
	type asked struct{ Text, Dir, Workspace string }
	for _, tc := range []struct {
		args     map[string]any
		analysis Analysis
		asked    asked
		want     tool.Action
	}{
		{
			args:     map[string]any{"command": "ls"},
			analysis: Analysis{Class: tool.ReadOnly, Effects: []tool.Effect{{Verb: tool.VerbRead, Target: "ws:/"}}, Commands: []tool.Command{{Program: "ls", Known: true}}},
			asked:    asked{"ls", w.Dir(), w.Dir()},
			want:     tool.Action{Class: tool.ReadOnly, Effects: []tool.Effect{{Verb: tool.VerbRead, Target: "ws:/"}}, Commands: []tool.Command{{Program: "ls", Known: true}}},
		},
		{
			args:     map[string]any{"command": "make", "workdir": "link", "timeoutSeconds": 30, "env": map[string]string{"B": "it's", "A": "1", "GIT_AUTHOR_NAME": "me"}},
			analysis: Analysis{Findings: []tool.Finding{{Tier: tool.TierDangerous, Code: "x"}}},
			asked:    asked{"export A='1'\nexport B='it'\\''s'\nexport GIT_AUTHOR_NAME='me'\nmake", filepath.Join(w.Dir(), "sub"), w.Dir()},
			want:     tool.Action{Class: tool.SystemChange, Timeout: 30 * time.Second, Findings: []tool.Finding{{Tier: tool.TierDangerous, Code: "x"}}},
		},
		{
			args:  map[string]any{"command": "sleep 1", "timeoutSeconds": 1 << 62},
			asked: asked{"sleep 1", w.Dir(), w.Dir()},
			want:  tool.Action{Class: tool.SystemChange, Timeout: time.Hour},
		},
	} {
		var got asked
		a, err := prepared(t, Options{Analyse: func(text, dir, workspace string) Analysis {
			got = asked{text, dir, workspace}
			return tc.analysis
		}}, w, tc.args)
		if err != nil {
			t.Errorf("%v: %v", tc.args, err)
			continue
		}
		if d := cmp.Diff(tc.asked, got); d != "" {
			t.Errorf("%v: analysed (-want +got)\n%s", tc.args, d)
		}
		if d := cmp.Diff(tc.want, a, cmpopts.IgnoreFields(tool.Action{}, "Do")); d != "" {
			t.Errorf("%v: (-want +got)\n%s", tc.args, d)
		}
	}
}

func TestWhatACommandGivesBack(t *testing.T) {
	w := workspace(t)
	t.Setenv("TOOLD_TEST_SECRET", "canary-93b1")
	t.Setenv("TOOLD_TEST_PASSED", "passed")
	for _, tc := range []struct {
		name     string
		args     map[string]any
		out, err string
		want     tool.Result
	}{
		{
			name: "success", args: map[string]any{"command": "echo hi"}, out: "hi\n",
			want: tool.Result{Exit: &tool.Exit{}},
		},
		{
			name: "failure, both channels", args: map[string]any{"command": "echo out; echo no such thing >&2; exit 3"},
			out: "out\n", err: "no such thing\n",
			want: tool.Result{
				Outcome: tool.Failed, Exit: &tool.Exit{Code: 3}, Attachments: []tool.Output{tool.Text{Text: "no such thing\n"}},
				Error: &tool.Error{Reason: tool.ReasonNonZeroExit, Message: "the command exited with 3"},
			},
		},
		{
			name: "signal", args: map[string]any{"command": "kill -ABRT $$"},
			want: tool.Result{
				Outcome: tool.Failed, Exit: &tool.Exit{Code: 134, Signal: "SIGABRT"},
				Error: &tool.Error{Reason: tool.ReasonNonZeroExit, Message: "the command was ended by SIGABRT"},
			},
		},
		{
			name: "folder, environment, stdin",
			args: map[string]any{"command": `basename "$PWD"; cat; echo "$A $TOOLD_TEST_PASSED"; env | grep -c canary`, "workdir": "sub", "env": map[string]string{"A": "b c"}, "stdin": "in\n"},
			out:  "sub\nin\nb c passed\n0\n",
			want: tool.Result{
				Outcome: tool.Failed, Exit: &tool.Exit{Code: 1},
				Error: &tool.Error{Reason: tool.ReasonNonZeroExit, Message: "the command exited with 1"},
			},
		},
		{
			name: "nobody answers", args: map[string]any{"command": "read -r x || echo none; read -rp 'Password: ' x </dev/tty || echo no terminal"},
			out: "none\nno terminal\n", err: "bash: line 1: /dev/tty: No such device or address\n",
			want: tool.Result{Exit: &tool.Exit{}, Attachments: []tool.Output{tool.Text{Text: "bash: line 1: /dev/tty: No such device or address\n"}}},
		},
		{
			name: "left in the background", args: map[string]any{"command": "setsid sleep 300 & echo hi"}, out: "hi\n",
			want: tool.Result{Exit: &tool.Exit{}, Hints: []tool.Hint{{
				Level: tool.Info, Code: "BACKGROUND_PROCESSES_ENDED", Message: "1 process(es) were still running when the shell ended, and were ended",
				Suggestion: "Let the command wait for what it starts, or do what needs them in the same call.",
			}}},
		},
		{
			name: "supervisor killed", args: map[string]any{"command": "echo hi; kill -9 $PPID; sleep 300"}, out: "hi\n",
			want: tool.Result{
				Outcome: tool.Failed,
				Error:   &tool.Error{Reason: ReasonSupervisorKilled, Message: sandbox.ErrSupervisorKilled.Error() + "; how it ended is not known"},
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := prepared(t, Options{PassEnv: []string{"TOOLD_TEST_PASSED"}}, w, tc.args)
			if err != nil {
				t.Fatal(err)
			}
			rt := &recorder{}
			got, err := a.Do(t.Context(), rt)
			if err != nil {
				t.Fatal(err)
			}
			tc.want.Output = tool.Captured{MediaType: "text/plain"}
			if d := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(tool.Result{}, "Usage", "Metadata")); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			if d := cmp.Diff(tc.out, rt.out.String()); d != "" {
				t.Errorf("stdout (-want +got)\n%s", d)
			}
			if d := cmp.Diff(tc.err, rt.err.String()); d != "" {
				t.Errorf("stderr (-want +got)\n%s", d)
			}
		})
	}
}

func TestMetadata(t *testing.T) {
	a, err := prepared(t, Options{}, workspace(t), map[string]any{"command": "echo four; echo seven. >&2; sleep 300 & kill -9 $$", "workdir": "sub"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Do(t.Context(), &recorder{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"exitCode": "137", "signal": "SIGKILL", "stdoutBytes": "5", "stderrBytes": "7", "stragglersKilled": "1",
		"isolation": "none", "shell": "/bin/bash", "workdir": "sub",
	}
	measured := []string{"durationMs", "cpuMs", "maxRssBytes"}
	for _, m := range measured {
		if r.Metadata[m] == "" {
			t.Errorf("%s is missing", m)
		}
		delete(r.Metadata, m)
	}
	if d := cmp.Diff(want, r.Metadata); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestAStoppedCommandKeepsItsOutput(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a, err := prepared(t, Options{}, workspace(t), map[string]any{"command": "echo so far; sleep 300; echo never"})
	if err != nil {
		t.Fatal(err)
	}
	rt := &recorder{seen: cancel}
	r, err := a.Do(ctx, rt)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if d := cmp.Diff("so far\n", rt.out.String()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if r.Output != (tool.Captured{MediaType: "text/plain"}) || r.Exit == nil || r.Exit.Signal != "SIGTERM" {
		t.Errorf("got %+v", r)
	}
	if _, err := a.Do(ctx, &recorder{}); !errors.Is(err, context.Canceled) {
		t.Errorf("over before it began: %v", err)
	}
}

func TestAFloodEndsAtTheLimit(t *testing.T) {
	a, err := prepared(t, Options{}, workspace(t), map[string]any{"command": "yes"})
	if err != nil {
		t.Fatal(err)
	}
	rt := &recorder{limit: 1 << 20}
	if _, err := a.Do(t.Context(), rt); !errors.Is(err, tool.ErrOutputCapped) {
		t.Errorf("got %v", err)
	}
	if rt.out.Len() < 1<<20-64<<10 {
		t.Errorf("only %d bytes arrived", rt.out.Len())
	}
}

func TestAFolderThatMovedIsRefused(t *testing.T) {
	w := workspace(t)
	a, err := prepared(t, Options{}, w, map[string]any{"command": "touch ran", "workdir": "link"})
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(w.Dir(), "link")
	if err := errors.Join(os.Remove(link), os.Symlink("other", link)); err != nil {
		t.Fatal(err)
	}
	var f *tool.Failure
	if _, err := a.Do(t.Context(), &recorder{}); !errors.As(err, &f) || f.Reason != tool.ReasonEffectChanged {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(w.Dir(), "other", "ran")); err == nil {
		t.Error("it ran all the same")
	}
}

func TestAMissingShellIsAFailure(t *testing.T) {
	a, err := prepared(t, Options{Shell: "/no/such/bash"}, workspace(t), map[string]any{"command": "true"})
	if err != nil {
		t.Fatal(err)
	}
	var f *tool.Failure
	if _, err := a.Do(t.Context(), &recorder{}); !errors.As(err, &f) || f.Reason != ReasonNotStarted {
		t.Errorf("got %v", err)
	}
}

func TestSpecIsSound(t *testing.T) {
	if _, err := tool.NewRegistry(New(Options{Analyse: unknown, MaxTimeout: time.Minute})); err != nil {
		t.Error(err)
	}
}
