package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What edit changes is what was asked for and nothing else, byte for byte.
func TestEditByteForByte(t *testing.T) {
	utf16 := func(set charset, s string) string {
		b, err := set.encode(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, tc := range []struct {
		name, before, from, to, after string
		all                           bool
	}{
		{name: "one line", before: "a\nb\nc\n", from: "b", to: "x", after: "a\nx\nc\n"},
		{name: "deletes", before: "a\nb\nc\n", from: "b\n", to: "", after: "a\nc\n"},
		{name: "no final newline is kept", before: "a\nb", from: "a", to: "x", after: "x\nb"},
		{name: "final newline can be added", before: "a\nb", from: "b", to: "b\n", after: "a\nb\n"},
		{name: "trailing spaces stay", before: "a  \nb\t \nc \n", from: "b", to: "x", after: "a  \nx\t \nc \n"},
		{name: "LF text matches CRLF", before: "a\r\nb\r\nc\r\n", from: "a\nb", to: "x\ny\nz", after: "x\r\ny\r\nz\r\nc\r\n"},
		{name: "new lines in a CRLF line", before: "a\r\nb\r\n", from: "b", to: "b\nc", after: "a\r\nb\r\nc\r\n"},
		{name: "last line of a CRLF file", before: "a\r\nb", from: "b", to: "b\nc", after: "a\r\nb\r\nc"},
		{name: "match from a line's end", before: "a\r\nb\r\nc", from: "\nb\n", to: "\n", after: "a\r\nc"},
		{name: "mixed endings each keep theirs", before: "a\r\nb\na\r\nb\n", from: "a\nb", to: "x\ny", after: "x\r\ny\nx\r\ny\n", all: true},
		{name: "mixed: the LF part", before: "a\r\nb\nc\nd\r\n", from: "b\nc", to: "x\ny", after: "a\r\nx\ny\nd\r\n"},
		{name: "CR in the text is literal", before: "a\r\nb\nc\n", from: "b\n", to: "b\r\n", after: "a\r\nb\r\nc\n"},
		{name: "lone CR", before: "a\rb\rc", from: "b", to: "x", after: "a\rx\rc"},
		{name: "all", before: "aXbXc", from: "X", to: "YY", after: "aYYbYYc", all: true},
		{name: "all, not overlapping", before: "aaaa", from: "aa", to: "b", after: "bb", all: true},
		{name: "byte order mark", before: "\xef\xbb\xbfa\n", from: "a", to: "b", after: "\xef\xbb\xbfb\n"},
		{name: "broken UTF-8 elsewhere", before: "ééé \xff a\n", from: "a", to: "b", after: "ééé \xff b\n"},
		{name: "Latin-1", before: "caf\xe9 a\n", from: "café a", to: "thé b", after: "th\xe9 b\n"},
		{name: "Windows-1252", before: "\x93q\x94 \xe9 a\n", from: "“q”", to: "„q“", after: "\x84q\x93 \xe9 a\n"},
		{name: "UTF-16LE with mark", before: "\xff\xfea\x00\r\x00\n\x00", from: "a\n", to: "é\nz\n", after: "\xff\xfe\xe9\x00\r\x00\n\x00z\x00\r\x00\n\x00"},
		{name: "UTF-16BE without mark", before: utf16(utf16BE, "hello world\n"), from: "world", to: "wörld", after: utf16(utf16BE, "hello wörld\n")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, map[string]string{"f": tc.before})
			b.must("edit", args("path", "f", "originalText", tc.from, "newText", tc.to, "replaceAll", tc.all))
			if d := cmp.Diff(tc.after, b.content("f")); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func TestEditRefusesAndLeavesTheFileAlone(t *testing.T) {
	const content = "one\ntwo\none\n"
	stale := strings.Repeat("0", 64)
	for _, tc := range []struct{ name, args, reason, says string }{
		{"missing", args("path", "g", "originalText", "a", "newText", "b"), "INVALID/FILE_NOT_FOUND", "g does not exist"},
		{"twice", args("path", "f", "originalText", "one", "newText", "b"), "INVALID/TEXT_NOT_UNIQUE", "occurs 2 times in f, at lines 1, 3"},
		{"never", args("path", "f", "originalText", "three", "newText", "b"), "INVALID/TEXT_NOT_FOUND", "occurs 0 times"},
		{"empty", args("path", "f", "originalText", "", "newText", "b"), "INVALID/ARGUMENTS_SCHEMA", "originalText"},
		{"identical", args("path", "f", "originalText", "two", "newText", "two"), "INVALID/NO_CHANGE", "the same"},
		{"stale", args("path", "f", "originalText", "two", "newText", "b", "expectedSha256", stale), "INVALID/STALE_READ", "read it again"},
		{"no digest", args("path", "f", "originalText", "two", "newText", "b", "expectedSha256", "abc"), "INVALID/ARGUMENTS_SCHEMA", "expectedSha256"},
		{"folder", args("path", "dir", "originalText", "a", "newText", "b"), "INVALID/NOT_A_REGULAR_FILE", "a folder"},
		{"binary", args("path", "bin", "originalText", "a", "newText", "b"), "INVALID/BINARY_FILE", "not text"},
		{"below a file", args("path", "f/x", "originalText", "a", "newText", "b"), "INVALID/NOT_A_FOLDER", "through a file"},
		{"Latin-1 cannot hold it", args("path", "latin", "originalText", "x", "newText", "→"), "INVALID/ENCODING", "'→'"},
		{"read-only", args("path", "locked", "originalText", "x", "newText", "y"), "FAILED/FILE_IS_READ_ONLY", "0444"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, map[string]string{"f": content, "dir/x": "", "bin": "\x00\x01\x02", "latin": "caf\xe9 x", "locked": "x"})
			if err := os.Chmod(filepath.Join(b.dir, "locked"), 0o444); err != nil {
				t.Fatal(err)
			}
			_, err := b.call("edit", tc.args)
			if got := reason(err); got != tc.reason || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %s: %v, want %s saying %q", got, err, tc.reason, tc.says)
			}
			if b.content("f") != content || len(b.kept.bodies) != 0 {
				t.Error("something was changed or kept")
			}
		})
	}
}

func TestEditPointsAtTheClosestText(t *testing.T) {
	b := newBench(t, map[string]string{"f.go": "package f\n\nfunc add(a, b int) int {\n\treturn a + b\n}\n\nfunc sub(a, b int) int {\n\treturn a - b\n}\n"})
	for _, tc := range []struct{ from, says string }{
		{"func add(a, b int) int {\n    return a + b\n}", "closest are lines 3-5 (only white space differs)"},
		{"func sub(a, b int) int {\n\treturn a * b\n}", "closest are lines 7-9:"},
		{"func substract(a, b int) int", "closest are lines 7-7:"},
		{"     3\tfunc add(a, b int) int {\n     4\t\treturn a + b", "line numbers"},
		{"a + b\r\n}", "CR characters"},
		{"completely unrelated 0123456789", "no part of the file resembles it"},
	} {
		_, err := b.call("edit", args("path", "f.go", "originalText", tc.from, "newText", "x"))
		if h := hints(err); len(h) != 1 || !strings.Contains(h[0].Message, tc.says) {
			t.Errorf("%q: hints %+v, want %q", tc.from, h, tc.says)
		}
	}
}

func TestEditReportsItsChange(t *testing.T) {
	b := newBench(t, map[string]string{"d/f": "a\nb\nc\n"})
	sum := b.must("read", args("path", "d/f")).Metadata["sha256"]
	r := b.must("edit", args("path", "d/f", "originalText", "b", "newText", "x\ny", "expectedSha256", strings.ToUpper(sum)))
	const diff = "--- a/d/f\n+++ b/d/f\n@@ -1,3 +1,4 @@\n a\n-b\n+x\n+y\n c\n"
	if d := cmp.Diff("changed d/f: 8 bytes, +2 -1 lines\n"+strings.TrimSuffix(diff, "\n"), text(r)); d != "" {
		t.Error(d)
	}
	c := r.Changes[0]
	got := []any{c.Path, c.BeforeSHA256, c.AfterSHA256, c.BeforeBytes, c.AfterBytes, c.LinesAdded, c.LinesRemoved}
	want := []any{"d/f", sum, digest([]byte("a\nx\ny\nc\n")), int64(6), int64(8), 2, 1}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"before: a\nb\nc\n", "diff: " + diff}, b.kept.bodies); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]string{"path": "d/f", "sha256": c.AfterSHA256, "bytesWritten": "8", "replacements": "1"}, r.Metadata); d != "" {
		t.Error(d)
	}
}

func TestDiffsMarkAMissingNewline(t *testing.T) {
	for _, tc := range []struct{ before, after, want string }{
		{"a\nb", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"},
		{"a\nb\n", "a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n"},
		{"a", "b", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"},
		{"x\nx\n", "x\nx\nx\n", "@@ -1,2 +1,3 @@\n x\n x\n+x\n"},
		{"", "a\n", "@@ -0,0 +1 @@\n+a\n"},
		{"a\n", "", "@@ -1 +0,0 @@\n-a\n"},
	} {
		got, _, _ := unified("f", &original{file: os.Stdin, text: tc.before}, tc.after)
		if d := cmp.Diff("--- a/f\n+++ b/f\n"+tc.want, got); d != "" {
			t.Errorf("%q to %q: (-want +got)\n%s", tc.before, tc.after, d)
		}
	}
}

// Replacing what was found and then looking at the text without CR gives what
// replacing in the text without CR gives, and nothing outside the spans changes.
func FuzzMatch(f *testing.F) {
	f.Add("a\r\nb\nc", "b\nc", "x\ny")
	f.Add("aaaa", "aa", "\n")
	f.Add("\r\n\r\r\n", "\n", "")
	f.Add("\xff\r\n\xfe", "\n\xfe", "é")
	f.Fuzz(func(t *testing.T, body, want, with string) {
		found := match(body, want)
		at := 0
		for _, s := range found {
			if s.start < at || s.end <= s.start || s.end > len(body) {
				t.Fatalf("%q in %q: span %v is out of order", want, body, s)
			}
			if got := body[s.start:s.end]; got != want && strings.ReplaceAll(got, "\r\n", "\n") != want {
				t.Fatalf("%q in %q: found %q", want, body, got)
			}
			at = s.end
		}
		if n := strings.Count(body, want); want != "" && strings.Contains(want, "\r") && len(found) != n {
			t.Fatalf("%q in %q: found %d, want %d", want, body, len(found), n)
		}
		got := replace(body, found, with)
		if len(found) == 0 && got != body {
			t.Fatalf("nothing found, but %q became %q", body, got)
		}
		if !strings.Contains(body+want+with, "\r") && want != "" && got != strings.ReplaceAll(body, want, with) {
			t.Fatalf("%q for %q in %q gave %q", with, want, body, got)
		}
		_, _ = closest(body, want)
	})
}
