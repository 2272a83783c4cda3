package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/toold/toold/internal/tool"
)

// bench is a workspace in a temporary folder and the tools that work in it.
type bench struct {
	t     testing.TB
	dir   string
	env   tool.Env
	tools *tool.Registry
	kept  keeper
}

func newBench(t testing.TB, files map[string]string) *bench {
	t.Helper()
	dir := t.TempDir()
	ws, err := tool.OpenWorkspace("default", dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	reg, err := tool.NewRegistry(Tools(Options{Artifacts: shelf{"toold://artifacts/a1": "one\ntwo\nthree\n"}})...)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, dir: dir, env: tool.Env{Workspace: ws}, tools: reg}
	for name, content := range files {
		b.write(name, content)
	}
	return b
}

func (b *bench) write(name, content string) {
	b.t.Helper()
	p := filepath.Join(b.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) content(name string) string {
	b.t.Helper()
	got, err := os.ReadFile(filepath.Join(b.dir, filepath.FromSlash(name)))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(got)
}

func (b *bench) prepare(name, args string) (tool.Action, error) {
	b.t.Helper()
	t, ok := b.tools.Lookup(name)
	if !ok {
		b.t.Fatalf("no tool %q", name)
	}
	return t.Prepare(b.t.Context(), b.env, json.RawMessage(args))
}

// call runs a tool as the executor would.
func (b *bench) call(name, args string) (tool.Result, error) {
	b.t.Helper()
	a, err := b.prepare(name, args)
	if err != nil {
		return tool.Result{}, err
	}
	return a.Do(b.t.Context(), &b.kept)
}

func (b *bench) must(name, args string) tool.Result {
	b.t.Helper()
	r, err := b.call(name, args)
	if err != nil {
		b.t.Fatalf("%s %s: %v", name, args, err)
	}
	return r
}

// text is the output as prose.
func text(r tool.Result) string {
	if list, ok := r.Output.(tool.Structured); ok {
		return list.Rendering
	}
	prose, _ := r.Output.(tool.Text)
	return prose.Text
}

// reason is the reason of a call that did not succeed.
func reason(err error) string {
	var ae *tool.ArgumentError
	var f *tool.Failure
	switch {
	case err == nil:
		return ""
	case errors.As(err, &ae):
		return "INVALID/" + ae.Reason
	case errors.As(err, &f):
		return "FAILED/" + f.Reason
	}
	return "FAILED/TOOL_ERROR " + err.Error()
}

// args writes arguments as JSON: pairs of name and value.
func args(pairs ...any) string {
	m := make(map[string]any)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// keeper keeps artifacts in memory.
type keeper struct {
	mu     sync.Mutex
	bodies []string // "name: body"
	fail   error
	during func() // called once, when something is to be kept
}

func (k *keeper) Write(tool.Channel, []byte) error  { return nil }
func (k *keeper) Progress(float64, float64, string) {}
func (k *keeper) Keep(_ context.Context, name, media string, body []byte) (tool.ArtifactRef, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fail != nil {
		return tool.ArtifactRef{}, k.fail
	}
	if k.during != nil {
		k.during()
		k.during = nil
	}
	k.bodies = append(k.bodies, name+": "+string(body))
	return tool.ArtifactRef{URI: fmt.Sprintf("toold://artifacts/%d", len(k.bodies)), Size: int64(len(body)), SHA256: digest(body), MediaType: media}, nil
}

// shelf holds artifacts to read.
type shelf map[string]string

func (s shelf) Open(_ context.Context, _ tool.Caller, uri string) (io.ReaderAt, int64, func(), error) {
	body, ok := s[uri]
	if !ok {
		return nil, 0, nil, fs.ErrNotExist
	}
	return strings.NewReader(body), int64(len(body)), func() {}, nil
}

func TestEveryArgumentIsDescribed(t *testing.T) {
	b := newBench(t, nil)
	for _, s := range b.tools.Specs() {
		var schema struct {
			Properties map[string]struct {
				Description string `json:"description"`
			} `json:"properties"`
			AdditionalProperties *bool `json:"additionalProperties"`
		}
		if err := json.Unmarshal(s.InputSchema, &schema); err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		if schema.AdditionalProperties == nil || *schema.AdditionalProperties {
			t.Errorf("%s takes arguments that it does not know", s.Name)
		}
		for name, p := range schema.Properties {
			if p.Description == "" {
				t.Errorf("%s: %s has no description", s.Name, name)
			}
		}
		if s.Description == "" || s.UsageGuidance == "" || s.Class == tool.ClassUnspecified {
			t.Errorf("%s: description, guidance or class is missing", s.Name)
		}
	}
}

func TestEffectsNameTheResolvedPlace(t *testing.T) {
	b := newBench(t, map[string]string{"real/a.txt": "a\n"})
	if err := os.Symlink("real", filepath.Join(b.dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ tool, args, want string }{
		{"read", args("path", "link/a.txt"), "read ws:/real/a.txt"},
		{"read", args("path", "toold://artifacts/a1"), "read toold://artifacts/a1"},
		{"write", args("path", "link/new/b.txt", "content", ""), "write ws:/real/new/b.txt"},
		{"edit", args("path", "./real//a.txt", "originalText", "a", "newText", "b"), "write ws:/real/a.txt"},
		{"glob", args("pattern", "*"), "read ws:/"},
		{"grep", args("pattern", "x", "path", "link"), "read ws:/real"},
		{"tree", args("path", filepath.Join(b.dir, "link")), "read ws:/real"},
		{"batch_read", args("paths", []string{"link/a.txt"}), "read ws:/real/a.txt"},
	} {
		a, err := b.prepare(tc.tool, tc.args)
		if err != nil {
			t.Errorf("%s %s: %v", tc.tool, tc.args, err)
			continue
		}
		if got := string(a.Effects[0].Verb) + " " + a.Effects[0].Target; got != tc.want {
			t.Errorf("%s %s: effect %q, want %q", tc.tool, tc.args, got, tc.want)
		}
	}
}

func TestNoToolLeavesTheWorkspace(t *testing.T) {
	b := newBench(t, map[string]string{"in.txt": "in\n"})
	outside := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(outside, []byte("secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"out": outside, "outdir": filepath.Dir(outside), "up": "..", "proc": "/proc/self/root", "dangling": outside + ".new"} {
		if err := os.Symlink(to, filepath.Join(b.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{outside, "../x", "out", "outdir/secret.txt", "outdir/new.txt", "up/x", "proc" + outside, "dangling", "in.txt/../../x", "/proc/self/root" + outside, "/"} {
		for _, call := range [][2]string{
			{"read", args("path", p)},
			{"write", args("path", p, "content", "x")},
			{"edit", args("path", p, "originalText", "secret", "newText", "x")},
			{"glob", args("path", p, "pattern", "**")},
			{"grep", args("path", p, "pattern", "s")},
			{"tree", args("path", p)},
			{"batch_read", args("paths", []string{p})},
		} {
			_, err := b.prepare(call[0], call[1])
			if got := reason(err); got != "INVALID/PATH_OUTSIDE_WORKSPACE" {
				t.Errorf("%s %s: %q", call[0], call[1], got)
			}
		}
	}
	if got := text(b.must("grep", args("pattern", "secret"))); !strings.HasPrefix(got, "no matches in 1 file") {
		t.Errorf("grep followed a link: %s", got)
	}
	if _, err := os.Stat(outside + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a dangling link was written through")
	}
}

func TestWithoutAWorkspace(t *testing.T) {
	b := newBench(t, nil)
	b.env.Workspace = nil
	_, err := b.prepare("read", `{"path":"a"}`)
	if got := reason(err); got != "INVALID/NO_WORKSPACE" {
		t.Errorf("got %s", got)
	}
}

func hints(err error) []tool.Hint {
	var ae *tool.ArgumentError
	if errors.As(err, &ae) {
		return ae.Hints
	}
	return nil
}
