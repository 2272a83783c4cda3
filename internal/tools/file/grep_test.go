package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGrep(t *testing.T) {
	b := newBench(t, map[string]string{
		"a.go":       "package a\n\nfunc One() {}\nfunc Two() {}\n\n// the end\n",
		"b.txt":      "one\r\ntwo\r\nthree\r\n",
		"c/d.go":     "package d\nfunc one() {}\n",
		"c/e.md":     "no newline: one",
		"bin":        "one\x00two\n",
		"latin":      "caf\xe9 one\n",
		"wide":       "\xff\xfeo\x00n\x00e\x00\n\x00",
		".gitignore": "skipped\n",
		"skipped/f":  "one\n",
		".git/one":   "one\n",
		"empty":      "",
		"kelvin":     "\u212aelvin\n",
		"ünï/x":      "one\n",
	})
	if err := os.Symlink("a.go", filepath.Join(b.dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ args, want string }{
		{args("pattern", `func \w+\(`), "a.go:3:func One() {}\na.go:4:func Two() {}\nc/d.go:2:func one() {}\n"},
		{args("pattern", "one"), "b.txt:1:one\nc/d.go:2:func one() {}\nc/e.md:1:no newline: one\nlatin:1:caf\uFFFD one\nwide:1:one\nünï/x:1:one\n"},
		{args("pattern", "ONE", "ignoreCase", true, "type", "go"), "a.go:3:func One() {}\nc/d.go:2:func one() {}\n"},
		{args("pattern", "kelvin", "ignoreCase", true), "kelvin:1:\u212aelvin\n"},
		{args("pattern", "one$"), "b.txt:1:one\nc/e.md:1:no newline: one\nlatin:1:caf\uFFFD one\nwide:1:one\nünï/x:1:one\n"},
		{args("pattern", "^$", "glob", "*.go"), "a.go:2:\na.go:5:\n"},
		{args("pattern", "One|Two|end"), "a.go:3:func One() {}\na.go:4:func Two() {}\na.go:6:// the end\n"},
		{args("pattern", "One() {", "fixedString", true), "a.go:3:func One() {}\n"},
		{args("pattern", "one", "path", "c"), "c/d.go:2:func one() {}\nc/e.md:1:no newline: one\n"},
		{args("pattern", "one", "path", "c/e.md"), "c/e.md:1:no newline: one\n"},
		{args("pattern", "one", "path", "skipped"), "skipped/f:1:one\n"},
		{args("pattern", "one", "glob", "c/*.go"), "c/d.go:2:func one() {}\n"},
		{args("pattern", "one", "glob", "!c/**", "type", "go"), "no matches in 1 file\n"},
		{args("pattern", "one", "glob", "*.{md,txt}"), "b.txt:1:one\nc/e.md:1:no newline: one\n"},
		{args("pattern", "one", "mode", "files", "glob", "*.{md,txt}"), "b.txt\nc/e.md\n"},
		{args("pattern", "func", "mode", "count"), "a.go:2\nc/d.go:1\n"},
		{args("pattern", "func Two", "path", "a.go", "before", 1, "after", 1), "a.go-3-func One() {}\na.go:4:func Two() {}\na.go-5-\n"},
		{args("pattern", "package|end", "path", "a.go", "after", 1), "a.go:1:package a\na.go-2-\n--\na.go:6:// the end\n"},
		{args("pattern", "package|func One|end", "path", "a.go", "before", 1, "after", 1), "a.go:1:package a\na.go-2-\na.go:3:func One() {}\na.go-4-func Two() {}\na.go-5-\na.go:6:// the end\n"},
		{args("pattern", "func", "before", 1, "type", "go"), "a.go-2-\na.go:3:func One() {}\na.go:4:func Two() {}\n--\nc/d.go-1-package d\nc/d.go:2:func one() {}\n"},
		{args("pattern", "two\\nthree$", "multiline", true), "b.txt:2:two\nb.txt:3:three\n"},
		{args("pattern", "(?s)One.*Two", "multiline", true, "after", 1), "a.go:3:func One() {}\na.go:4:func Two() {}\na.go-5-\n"},
		{args("pattern", "func", "limit", 1), "a.go:3:func One() {}\n[stopped at limit=1; there are more: narrow the pattern, path or glob]\n"},
		{args("pattern", "func", "limit", 2), "a.go:3:func One() {}\na.go:4:func Two() {}\n[stopped at limit=2; there are more: narrow the pattern, path or glob]\n"},
		{args("pattern", "func", "limit", 3), "a.go:3:func One() {}\na.go:4:func Two() {}\nc/d.go:2:func one() {}\n"},
		{args("pattern", "t", "path", "toold://artifacts/a1"), "toold://artifacts/a1:2:two\ntoold://artifacts/a1:3:three\n"},
	} {
		if d := cmp.Diff(tc.want, text(b.must("grep", tc.args))); d != "" {
			t.Errorf("%s: (-want +got)\n%s", tc.args, d)
		}
	}
	r := b.must("grep", args("pattern", "one", "mode", "files"))
	want := map[string]string{"mode": "files", "matches": "6", "files": "6", "filesSearched": "10", "binarySkipped": "1", "truncated": "false"}
	if d := cmp.Diff(want, r.Metadata); d != "" {
		t.Error(d)
	}
}

func TestGrepRefusesWhatItCannotSearchFor(t *testing.T) {
	b := newBench(t, nil)
	for args, want := range map[string]string{
		args("pattern", "("):                         "INVALID/PATTERN",
		args("pattern", `(?=x)`):                     "INVALID/PATTERN",
		args("pattern", `a\nb`):                      "INVALID/PATTERN",
		args("pattern", "x{2000}"):                   "INVALID/PATTERN",
		args("pattern", "x", "glob", "[a"):           "INVALID/PATTERN",
		args("pattern", "x", "type", "cobol"):        "INVALID/ARGUMENTS_SCHEMA",
		args("pattern", "x", "mode", "all"):          "INVALID/ARGUMENTS_SCHEMA",
		args("pattern", "x", "path", "none"):         "INVALID/FILE_NOT_FOUND",
		args("pattern", strings.Repeat("x", 5000)):   "INVALID/ARGUMENTS_SCHEMA",
		args("pattern", "x", "path", "toold://none"): "INVALID/FILE_NOT_FOUND",
	} {
		_, err := b.call("grep", args)
		if got := reason(err); got != want {
			t.Errorf("%.60s: %s (%v), want %s", args, got, err, want)
		}
	}
}

// Every type that the schema offers is known, and none is left out.
func TestGrepTypesAreThoseOfTheSchema(t *testing.T) {
	b := newBench(t, nil)
	for kind := range fileTypes {
		if _, err := b.prepare("grep", args("pattern", "x", "type", kind)); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	grep, _ := b.tools.Lookup("grep")
	if n := bytes.Count(grep.Spec().InputSchema, []byte(`"typescript"`)); n != 1 {
		t.Errorf("typescript is named %d times", n)
	}
}

func TestGrepShowsTheMatchInALongLine(t *testing.T) {
	b := newBench(t, map[string]string{"min.js": strings.Repeat("x", 5000) + "needle" + strings.Repeat("y", 5000) + "\n"})
	got := text(b.must("grep", args("pattern", "needle")))
	want := "min.js:1:…" + strings.Repeat("x", 100) + "needle" + strings.Repeat("y", 394) + "…[line of 10006 bytes]\n"
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A file of several windows gives what the same file gives to a plain loop over
// its lines: numbers, context and all.
func TestGrepAcrossWindows(t *testing.T) {
	var content strings.Builder
	for i := 1; content.Len() < 3*maxWindow; i++ {
		fmt.Fprintf(&content, "line %d %s\n", i, strings.Repeat("x", i%97))
	}
	b := newBench(t, map[string]string{"big": content.String()})
	all := strings.Split(strings.TrimSuffix(content.String(), "\n"), "\n")
	re := regexp.MustCompile(`line \d*777 `)
	var want strings.Builder
	shown := 0
	for i := range all {
		if !re.MatchString(all[i]) {
			continue
		}
		if first := max(i-1, shown+1); shown > 0 && first > shown+1 {
			want.WriteString("--\n")
		}
		for j := max(i-2, 0); j <= min(i+2, len(all)-1); j++ {
			mark := "-"
			if j == i {
				mark = ":"
			}
			fmt.Fprintf(&want, "big%s%d%s%s\n", mark, j+1, mark, all[j])
			shown = j + 1
		}
	}
	got := text(b.must("grep", args("pattern", re.String(), "before", 2, "after", 2)))
	if d := cmp.Diff(want.String(), got); d != "" {
		t.Error(d)
	}
}

func TestGrepOfALineLargerThanAWindow(t *testing.T) {
	body := strings.Repeat("x", 3*maxWindow/2)
	b := newBench(t, map[string]string{"big": "first\n" + body + "needle\nlast needle\n"})
	for _, before := range []int{0, 2} {
		r := b.must("grep", args("pattern", "needle", "before", before))
		if got := text(r); !strings.Contains(got, "big:3:last needle\n") || !strings.Contains(got, "big:2:") || r.Metadata["matches"] != "2" {
			t.Errorf("before %d: got %.300q %v", before, got, r.Metadata)
		}
	}
}

func TestGrepIsTheSameEveryTime(t *testing.T) {
	b := newBench(t, nil)
	for i := range 200 {
		b.write(fmt.Sprintf("d%d/f%d", i%17, i), strings.Repeat("needle\n", i%7))
	}
	call := args("pattern", "needle", "limit", 300)
	first := b.must("grep", call)
	for range 20 {
		again := b.must("grep", call)
		if d := cmp.Diff(first, again); d != "" {
			t.Fatal(d)
		}
	}
	if first.Metadata["matches"] != "300" {
		t.Errorf("%s matches", first.Metadata["matches"])
	}
}

func TestGrepStopsWhenItIsCancelled(t *testing.T) {
	b := newBench(t, map[string]string{"d/f": "x\n"})
	for _, tl := range []string{"grep", "glob", "tree"} {
		arguments := map[string]string{"grep": args("pattern", "x"), "glob": args("pattern", "**"), "tree": "{}"}[tl]
		a, err := b.prepare(tl, arguments)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := a.Do(ctx, &b.kept); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", tl, err)
		}
	}
}

// The quick ways to a matching line find what the regular expression finds.
func FuzzScan(f *testing.F) {
	f.Add("foo|bar", "a foo\nb\nBAR bar\n", false)
	f.Add("(?i)straße|KELVIN", "\u212aELVIN\nSTRASSE\nſtraße\r\n", true)
	f.Add(`x+y{2}[ab]c`, "xxyyac\nxyybc", false)
	f.Add(`^$`, "\n\n\r\n", true)
	f.Add("\u0130", "i\n\u0130\n", true)
	f.Fuzz(func(t *testing.T, pattern, body string, ignoreCase bool) {
		if len(pattern) > 100 || len(body) > 1000 {
			return
		}
		m, err := compilePattern(grepArgs{Pattern: pattern, IgnoreCase: ignoreCase})
		if err != nil {
			return
		}
		flags := "(?m)"
		if ignoreCase {
			flags = "(?mi)"
		}
		re, err := regexp.Compile(flags + "(?:" + pattern + ")")
		if err != nil {
			return
		}
		var want, got []int
		at := 0
		for line := range strings.Lines(body) {
			trimmed := strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
			if !strings.HasSuffix(line, "\n") {
				trimmed = strings.TrimSuffix(line, "\r")
			}
			if re.MatchString(trimmed) {
				want = append(want, at)
			}
			at += len(line)
		}
		s := m.scan()
		s.reset()
		for from := 0; from < len(body); {
			start, end := s.line([]byte(body), from)
			if start < 0 {
				break
			}
			got = append(got, start)
			from = end + 1
		}
		if d := cmp.Diff(want, got); d != "" && !strings.Contains(pattern, "\r") {
			t.Fatalf("%q in %q: (-want +got)\n%s", pattern, body, d)
		}
	})
}
