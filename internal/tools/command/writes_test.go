package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold/toold/internal/tool"
)

func TestWritesThroughLinksSayWhereTheyLead(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws, out := filepath.Join(base, "ws"), filepath.Join(base, "out")
	for _, dir := range []string{filepath.Join(ws, ".git/hooks"), filepath.Join(ws, "d"), out} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"out": out, "hk": ".git/hooks/pre-commit", "g": ".git", "rc": filepath.Join(out, "rc"), "self": "d"} {
		if err := os.Symlink(to, filepath.Join(ws, link)); err != nil {
			t.Fatal(err)
		}
	}
	w, err := tool.OpenWorkspace("default", ws)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	o := Options{LinkOutside: func(p string) tool.Finding { return tool.Finding{Code: "link", Reason: p} }}
	for _, tc := range []struct {
		verb          tool.Verb
		target, want  string
		objectionable bool
	}{
		{tool.VerbWrite, "ws:/d/f", "ws:/d/f", false},
		{tool.VerbWrite, "ws:/hk", "ws:/.git/hooks/pre-commit", false},
		{tool.VerbWrite, "ws:/g/hooks/post-checkout", "ws:/.git/hooks/post-checkout", false},
		{tool.VerbWrite, "ws:/self/f", "ws:/d/f", false},
		{tool.VerbWrite, "ws:/out/f.txt", out + "/f.txt", true},
		{tool.VerbWrite, "ws:/rc", out + "/rc", true},
		{tool.VerbDelete, "ws:/out/f.txt", out + "/f.txt", true},
		{tool.VerbDelete, "ws:/out/*", out + "/*", true},
		{tool.VerbDelete, "ws:/out", "ws:/out", false}, // the link itself
		{tool.VerbDelete, "ws:/*", "ws:/*", false},
		{tool.VerbRead, "ws:/hk", "ws:/hk", false},
	} {
		got := lookWrites(o, w, Analysis{Effects: []tool.Effect{{Verb: tc.verb, Target: tc.target}}})
		if d := cmp.Diff([]tool.Effect{{Verb: tc.verb, Target: tc.want}}, got.Effects); d != "" {
			t.Errorf("%s %s (-want +got)\n%s", tc.verb, tc.target, d)
		}
		if len(got.Findings) > 0 != tc.objectionable {
			t.Errorf("%s %s has the findings %+v", tc.verb, tc.target, got.Findings)
		}
	}
}
