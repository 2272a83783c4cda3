package tool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// place makes a workspace beside a folder with a secret in it. Entries ending in
// "/" are folders, those with "->" links, the others empty files.
func place(t testing.TB, entries ...string) (w *Workspace, outside string) {
	t.Helper()
	base := t.TempDir()
	dir, outside := filepath.Join(base, "ws"), filepath.Join(base, "outside")
	for _, d := range []string{dir, outside} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(outside, "secret"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name, to, isLink := strings.Cut(e, "->")
		p := filepath.Join(dir, name)
		to = strings.NewReplacer("$WS", dir, "$OUT", outside).Replace(to)
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		switch {
		case err != nil:
		case isLink:
			err = os.Symlink(to, p)
		case strings.HasSuffix(e, "/"):
			err = os.MkdirAll(p, 0o755)
		default:
			err = os.WriteFile(p, nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w, err := OpenWorkspace("default", dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w, outside
}

func TestResolve(t *testing.T) {
	w, outside := place(t,
		"a/b/c.txt", "file", "in->a/b", "abs->$WS/a", "deep/up->../a", "deep/er/",
		"out->$OUT", "secret->$OUT/secret", "dangling->a/new", "gone->$OUT/new", "root->/", "self->/proc/self/root$OUT",
		"dots->../ws/a", "loop->loop", "ping->pong", "pong->ping", "chain->in", "here->.", "slash->a/",
	)
	for _, tc := range []struct{ name, want string }{
		{".", "."},
		{"./", "."},
		{"a/b/c.txt", "a/b/c.txt"},
		{"./a//b/./c.txt", "a/b/c.txt"},
		{"a/b/", "a/b"},
		{"a/b/..", "a"},
		{"a/../file", "file"},
		{"in/c.txt", "a/b/c.txt"},
		{"in/..", "a"}, // the parent of where the link leads
		{"chain/c.txt", "a/b/c.txt"},
		{"abs/b", "a/b"},
		{"deep/up/b", "a/b"},
		{"deep/er/../up", "a"},
		{"here/here/here/file", "file"},
		{"slash/b", "a/b"},
		{"dangling", "a/new"},
		{"no/such/../thing", "no/thing"},
		{"no/../a/b", "a/b"},
		{"no/../in", "a/b"},
		{"file/below", "file/below"},
		{w.Dir(), "."},
		{w.Dir() + "/a/b", "a/b"},
		{w.Dir() + "/in/..", "a"},
		{filepath.Dir(w.Dir()) + "/./ws/file", "file"},
		{"..file", "..file"},
		{"...", "..."},
		{"caf\u00e9 \u4e16", "caf\u00e9 \u4e16"},

		{"", ReasonArgumentsSchema},
		{"a\x00b", ReasonArgumentsSchema},
		{strings.Repeat("a/", 3000), ReasonArgumentsSchema},
		{strings.Repeat("n", 300), ReasonUnresolvable},
		{"loop", ReasonUnresolvable},
		{"ping/x", ReasonUnresolvable},
		{"..", ReasonOutsideWorkspace},
		{"a/../..", ReasonOutsideWorkspace},
		{"a/../../ws/a", ReasonOutsideWorkspace},
		{"no/../../x", ReasonOutsideWorkspace},
		{"in/../../../x", ReasonOutsideWorkspace},
		{"/", ReasonOutsideWorkspace},
		{"/etc/passwd", ReasonOutsideWorkspace},
		{w.Dir() + "-other/x", ReasonOutsideWorkspace},
		{w.Dir() + "/../outside/secret", ReasonOutsideWorkspace},
		{"/proc/self/root" + w.Dir() + "/a", ReasonOutsideWorkspace},
		{"/proc/self/cwd", ReasonOutsideWorkspace},
		{outside + "/secret", ReasonOutsideWorkspace},
		{"out", ReasonOutsideWorkspace},
		{"out/secret", ReasonOutsideWorkspace},
		{"out/../ws/file", ReasonOutsideWorkspace},
		{"secret", ReasonOutsideWorkspace},
		{"gone", ReasonOutsideWorkspace},
		{"root/etc/passwd", ReasonOutsideWorkspace},
		{"self", ReasonOutsideWorkspace},
		{"dots", ReasonOutsideWorkspace},
	} {
		got, err := w.Resolve("/path", tc.name)
		var ae *ArgumentError
		switch {
		case err == nil && string(got) != tc.want:
			t.Errorf("%.80q is %q, want %q", tc.name, got, tc.want)
		case err != nil && !errors.As(err, &ae):
			t.Errorf("%.80q: %v is no ArgumentError", tc.name, err)
		case err != nil && (ae.Reason != tc.want || len(ae.Violations) != 1 || ae.Violations[0].Path != "/path"):
			t.Errorf("%.80q: %s (%v), want %q", tc.name, ae.Reason, err, tc.want)
		}
	}
}

func TestAWorkspaceIsReachedByTheNameItWasGiven(t *testing.T) {
	base := t.TempDir()
	real, alias := filepath.Join(base, "real"), filepath.Join(base, "alias")
	if err := os.Mkdir(real, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, alias); err != nil {
		t.Fatal(err)
	}
	w, err := OpenWorkspace("default", alias)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	for _, dir := range []string{real, alias} {
		if got, err := w.Resolve("/path", dir+"/x"); err != nil || got != "x" {
			t.Errorf("%s/x is %q (%v)", dir, got, err)
		}
	}
}

func TestOpenWorkspaceWantsAFolder(t *testing.T) {
	_, outside := place(t)
	for _, dir := range []string{filepath.Join(outside, "secret"), filepath.Join(outside, "none")} {
		if _, err := OpenWorkspace("default", dir); err == nil {
			t.Errorf("%s was opened", dir)
		}
	}
}

func TestPathTarget(t *testing.T) {
	for p, want := range map[Path]string{".": "ws:/", "a/b.go": "ws:/a/b.go"} {
		if got := p.Target(); got != want {
			t.Errorf("%s: %s, want %s", p, got, want)
		}
	}
}

// A name is resolved over and over while its first part is now a folder, now a
// link to the outside: the answer is the folder or a refusal, and what is
// opened by it is never outside.
func TestResolveAgainstASwap(t *testing.T) {
	w, _ := place(t, "d/secret", "real/secret", "link->$OUT")
	inside, err := w.Root().Stat("real/secret")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Root().Remove("d/secret"); err != nil {
		t.Fatal(err)
	}
	if err := w.Root().Link("real/secret", "d/secret"); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, move := range [][2]string{{"d", "kept"}, {"link", "d"}, {"d", "link"}, {"kept", "d"}} {
				if err := w.Root().Rename(move[0], move[1]); err != nil {
					t.Errorf("swapping: %v", err)
					return
				}
			}
		}
	}()
	for range 5000 {
		p, err := w.Resolve("/path", "d/secret")
		if err != nil {
			continue
		}
		if p != "d/secret" {
			t.Errorf("resolved to %q", p)
		}
		if info, err := w.Root().Stat(string(p)); err == nil && !os.SameFile(info, inside) {
			t.Fatal("reached a file outside the workspace")
		}
	}
	close(stop)
	<-stopped
}

func FuzzResolve(f *testing.F) {
	w, _ := place(f, "a/b/c.txt", "in->a/b", "out->$OUT", "up->..", "loop->loop", "abs->$WS/a", "here->.")
	for _, s := range []string{"a/b", "in/../..", "out/secret", "up/ws/a", "/", "./.", "loop", "abs/../x", "here/here", w.Dir(), "a\x00", "\xff/\xfe", strings.Repeat("../", 50)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		p, err := w.Resolve("/path", name)
		if err != nil {
			var ae *ArgumentError
			if !errors.As(err, &ae) {
				t.Fatalf("%q: %v is no ArgumentError", name, err)
			}
			return
		}
		if !fs.ValidPath(string(p)) && strings.ToValidUTF8(string(p), "") == string(p) {
			t.Fatalf("%q became %q, which is no clean path", name, p)
		}
		again, err := w.Resolve("/path", string(p))
		if err != nil || again != p {
			t.Fatalf("%q became %q, and that %q (%v)", name, p, again, err)
		}
		if real, err := filepath.EvalSymlinks(filepath.Join(w.Dir(), string(p))); err == nil && real != filepath.Join(w.Dir(), string(p)) {
			t.Fatalf("%q became %q, which still leads to %q", name, p, real)
		}
	})
}

func BenchmarkResolve(b *testing.B) {
	w, _ := place(b, "internal/exec/plan.go")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Resolve("/path", "internal/exec/plan.go"); err != nil {
			b.Fatal(err)
		}
	}
}
