package file

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toold/toold/internal/tool"
)

func globbed(t *testing.T, r tool.Result) []string {
	t.Helper()
	var list struct {
		Files []struct{ Path string }
	}
	if err := json.Unmarshal(r.Output.(tool.Structured).JSON, &list); err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, f := range list.Files {
		names = append(names, f.Path)
	}
	return names
}

func TestGlob(t *testing.T) {
	b := newBench(t, map[string]string{
		"a.go": "", "b.txt": "", "x/a.go": "", "x/y/a.go": "", "x/y/z/b.go": "", "x/[odd].go": "",
		".hidden/a.go": "", ".git/config": "", ".gitignore": "*.log\nbuild/\n", "c.log": "", "build/out.go": "", "x/build/deep.go": "",
	})
	for _, tc := range []struct {
		args string
		want []string
	}{
		{args("pattern", "*.go"), []string{"a.go"}},
		{args("pattern", "**/*.go"), []string{".hidden/a.go", "a.go", "x/[odd].go", "x/a.go", "x/y/a.go", "x/y/z/b.go"}},
		{args("pattern", "x/**/a.go"), []string{"x/a.go", "x/y/a.go"}},
		{args("pattern", "x/*/a.go"), []string{"x/y/a.go"}},
		{args("pattern", "x/**"), []string{"x", "x/[odd].go", "x/a.go", "x/y", "x/y/a.go", "x/y/z", "x/y/z/b.go"}},
		{args("pattern", "**/{a,b}.go", "path", "x/y"), []string{"x/y/a.go", "x/y/z/b.go"}},
		{args("pattern", "{x/y,.hidden}/a.go"), []string{".hidden/a.go", "x/y/a.go"}},
		{args("pattern", `x/\[odd\].go`), []string{"x/[odd].go"}},
		{args("pattern", "./?.txt"), []string{"b.txt"}},
		{args("pattern", "**/*.log"), []string{}},
		{args("pattern", "**/*.log", "respectGitignore", false), []string{"c.log"}},
		{args("pattern", "**/config", "respectGitignore", false), []string{}},
		{args("pattern", "**/deep.go"), []string{}},
		{args("pattern", "*", "path", "build"), []string{"build/out.go"}},
		{args("pattern", "nothing"), []string{}},
	} {
		got := globbed(t, b.must("glob", tc.args))
		slices.Sort(got)
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s: (-want +got)\n%s", tc.args, d)
		}
	}
	for args, want := range map[string]string{
		args("pattern", "[a"):                  "INVALID/PATTERN",
		args("pattern", "../*"):                "INVALID/PATTERN",
		args("pattern", "/etc/*"):              "INVALID/PATTERN",
		args("pattern", "*", "path", "a.go"):   "INVALID/NOT_A_FOLDER",
		args("pattern", "*", "path", "none"):   "INVALID/FILE_NOT_FOUND",
		args("pattern", "*", "path", "a.go/x"): "INVALID/NOT_A_FOLDER",
	} {
		_, err := b.call("glob", args)
		if got := reason(err); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

func TestGlobKeepsTheNewest(t *testing.T) {
	b := newBench(t, map[string]string{"a": "", "b": "", "c": "", "d": ""})
	day := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, name := range []string{"c", "a", "d", "b"} {
		if err := os.Chtimes(filepath.Join(b.dir, name), day, day.AddDate(0, 0, i)); err != nil {
			t.Fatal(err)
		}
	}
	r := b.must("glob", args("pattern", "*", "limit", 2))
	const want = `{"files":[{"path":"b","type":"file","size":0,"modified":"2024-01-04T00:00:00Z"},{"path":"d","type":"file","size":0,"modified":"2024-01-03T00:00:00Z"}],"total":4,"truncated":true}`
	if d := cmp.Diff(want, string(r.Output.(tool.Structured).JSON)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff("b\nd\n[the newest 2 of 4; narrow the pattern or raise limit]\n", text(r)); d != "" {
		t.Error(d)
	}
}

// The same files are ignored as git ignores.
func TestIgnoreRulesAgreeWithGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal("git is not installed; make deps installs it")
	}
	b := newBench(t, map[string]string{
		".gitignore": "# comment\n*.log\n!keep.log\n/top\nbuild/\ndoc/*.txt\n**/deep/x\na/**/z\ninside/**\n\\#hash\n\\!bang\n" +
			"trail   \nspace\\ \n[ab].c\n[!x].d\n{q,r}.e\nfoo*bar\n*.tmp/\nx/y/\n\n  \n/sl*sh\nq?\n**/any\nboth/**/\n[bad\nlit\\*eral\n",
		"sub/.gitignore":    "!*.log\nlocal\n/anchored\n",
		".git/info/exclude": "excluded\n",
	})
	names := []string{
		"a.log", "keep.log", "top", "n/top", "build/f", "n/build/f", "build.txt", "doc/a.txt", "doc/n/a.txt", "deep/x", "n/deep/x", "n/deep/y",
		"a/z", "a/b/z", "a/b/c/z", "inside/f", "inside/n/f", "n/inside/f", "#hash", "!bang", "trail", "space ", "a.c", "c.c", "x.d", "y.d",
		"{q,r}.e", "q.e", "foobar", "fooXbar", "foo/bar", "dir.tmp/f", "file.tmp", "x/y/f", "n/x/y/f", "slash", "slXsh", "sl/sh", "qq", "q", "n/qq",
		"any", "n/m/any", "both/n/f", "both/f", "[bad", "lit*eral", "litXeral", "sub/a.log", "sub/n/b.log", "sub/local", "sub/n/local", "local",
		"sub/anchored", "sub/n/anchored", "excluded", "n/excluded", "plain", "sub/plain", "é.log", "n/.hidden",
	}
	for _, n := range names {
		b.write(n, "")
	}
	run := func(args ...string) string {
		cmd := exec.Command(git, args...)
		cmd.Dir = b.dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, stderr.String())
		}
		return string(out)
	}
	exclude := b.content(".git/info/exclude")
	run("init", "-q")
	b.write(".git/info/exclude", exclude)
	want := strings.Split(strings.TrimSuffix(run("ls-files", "-z", "--others", "--exclude-standard"), "\x00"), "\x00")
	slices.Sort(want)

	var got []string
	k := walker{useIgnore: true, visit: func(e walkEntry) error {
		if e.kind == 0 {
			got = append(got, e.path)
		}
		return nil
	}}
	if err := k.walk(t.Context(), b.env.Workspace, "."); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-git +ours)\n%s", d)
	}
}

func TestRulesOfTheFoldersAroundCount(t *testing.T) {
	b := newBench(t, map[string]string{".gitignore": "*.log\n/a/b/gone\n", "a/.gitignore": "!kept.log\n", "a/b/x.log": "", "a/b/kept.log": "", "a/b/gone": "", "a/b/c": ""})
	got := globbed(t, b.must("glob", args("pattern", "**", "path", "a/b")))
	slices.Sort(got)
	if d := cmp.Diff([]string{"a/b/c", "a/b/kept.log"}, got); d != "" {
		t.Error(d)
	}
}

func FuzzIgnoreRule(f *testing.F) {
	for _, p := range []string{"*.go", "!a/**/b", "[", `\`, "**", "a/**", "/", "{a,b}", "[]]", `\ `, "[[:alpha:]]"} {
		f.Add(p, "a/b.go")
	}
	f.Fuzz(func(t *testing.T, pattern, rel string) {
		if rel == "" || strings.HasPrefix(rel, "/") {
			return
		}
		r := &ignoreRules{rules: parseIgnore(pattern)}
		_ = r.ignored(rel, filepath.Base(rel), false)
	})
}

func TestTree(t *testing.T) {
	b := newBench(t, map[string]string{
		"b.txt": "", "a.go": "", "src/main.go": "", "src/deep/er/x.go": "", "src/deep/y.txt": "", "docs/a.md": "", ".gitignore": "bin\n", "bin/tool": "", ".git/HEAD": "",
	})
	if err := os.Mkdir(filepath.Join(b.dir, "void"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ args, want string }{
		{`{}`, `./
├── docs/
│   └── a.md
├── src/
│   ├── deep/
│   │   ├── er/
│   │   └── y.txt
│   └── main.go
├── void/
├── .gitignore
├── a.go
└── b.txt

5 folders, 6 files
`},
		{args("maxDepth", 1, "respectGitignore", false, "exclude", []string{"docs/", ".*"}), `./
├── bin/
├── src/
├── void/
├── a.go
└── b.txt

3 folders, 2 files
`},
		{args("path", "src", "showFiles", false, "maxDepth", 9), `src/
└── deep/
    └── er/

2 folders, 0 files
`},
		{args("pattern", "*.go", "maxDepth", 9), `./
├── src/
│   ├── deep/
│   │   └── er/
│   │       └── x.go
│   └── main.go
└── a.go

3 folders, 3 files
`},
		{args("limit", 7), `./
├── docs/
│   └── a.md
├── src/
│   └── … 2 more
├── void/
├── .gitignore
├── a.go
└── b.txt

3 folders, 4 files
[4 entries left out at the limit of 7; narrow path or pattern]
`},
	} {
		if d := cmp.Diff(tc.want, text(b.must("tree", tc.args))); d != "" {
			t.Errorf("%s: (-want +got)\n%s", tc.args, d)
		}
	}
}
