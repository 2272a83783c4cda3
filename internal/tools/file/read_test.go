package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/toold/toold/internal/tool"
)

func lines(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "%6d\tline %d\n", i, i)
	}
	return b.String()
}

func TestRead(t *testing.T) {
	var long strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&long, "line %d\n", i+1)
	}
	b := newBench(t, map[string]string{
		"long":  long.String(),
		"open":  "a\nb",
		"empty": "",
		"crlf":  "a\r\n\r\nb\r\n",
		"mixed": "a\r\nb\n",
		"bom":   "\xef\xbb\xbfa\n",
		"latin": "caf\xe9\n",
		"utf16": "\xff\xfeh\x00\xe9\x00\r\x00\n\x00x\x00",
		"bad":   "é é \xff\n",
		"wide":  strings.Repeat("é", 2001) + "\nnext\n",
	})
	for _, tc := range []struct {
		args string
		want string
		meta string // "key=value …", a part of the metadata
	}{
		{args("path", "long"), lines(1, 2000) + "[lines 1-2000 of 2500; go on with startLine=2001]\n", "totalLines=2500 startLine=1 endLine=2000 encoding=utf-8"},
		{args("path", "long", "startLine", 2001), lines(2001, 2500), "startLine=2001 endLine=2500"},
		{args("path", "long", "startLine", 7, "endLine", 9), lines(7, 9), "totalLines=2500 startLine=7 endLine=9"},
		{args("path", "long", "endLine", 2), lines(1, 2), "startLine=1 endLine=2"},
		{args("path", "long", "endLine", 9999), lines(1, 2500), "endLine=2500"},
		{args("path", "long", "startLine", 2500), lines(2500, 2500), "startLine=2500"},
		{args("path", "open"), "     1\ta\n     2\tb\n", "totalLines=2 size=3"},
		{args("path", "empty"), "", "totalLines=0 size=0"},
		{args("path", "crlf"), "     1\ta\n     2\t\n     3\tb\n", "lineEnding=crlf totalLines=3"},
		{args("path", "mixed"), "     1\ta\n     2\tb\n", "lineEnding=mixed"},
		{args("path", "bom"), "     1\ta\n", "encoding=utf-8-bom size=5 sha256=" + digest([]byte("\xef\xbb\xbfa\n"))},
		{args("path", "latin"), "     1\tcafé\n", "encoding=iso-8859-1"},
		{args("path", "utf16"), "     1\thé\n     2\tx\n", "encoding=utf-16le totalLines=2 lineEnding=crlf sha256=" + digest([]byte(b.content("utf16")))},
		{args("path", "bad"), "     1\té é \uFFFD\n", "encoding=utf-8"},
		{args("path", "wide"), "     1\t" + strings.Repeat("é", 2000) + "…[cut: the line has 4002 bytes]\n     2\tnext\n", "totalLines=2"},
		{args("path", "toold://artifacts/a1", "startLine", 2), "two\nthree\n", "path=toold://artifacts/a1 totalLines=3 startLine=2 endLine=3"},
	} {
		r := b.must("read", tc.args)
		if d := cmp.Diff(tc.want, text(r)); d != "" {
			t.Errorf("%s: (-want +got)\n%s", tc.args, d)
		}
		for pair := range strings.FieldsSeq(tc.meta) {
			key, want, _ := strings.Cut(pair, "=")
			if got := r.Metadata[key]; got != want {
				t.Errorf("%s: %s is %q, want %q", tc.args, key, got, want)
			}
		}
	}
}

// TestReadSaysThatThereIsMore where a budget cannot cut it off.
func TestReadSaysThatThereIsMore(t *testing.T) {
	b := newBench(t, map[string]string{"long": strings.Repeat("x\n", 2500), "short": strings.Repeat("x\n", 2000)})
	for arguments, want := range map[string]string{
		args("path", "long"):                    "these are lines 1-2000 of 2500; for the rest: read path=long startLine=2001",
		args("path", "long", "startLine", 400):  "these are lines 400-2399 of 2500; for the rest: read path=long startLine=2400",
		args("path", "long", "startLine", 2001): "",
		args("path", "long", "endLine", 9):      "", // all that was asked for
		args("path", "short"):                   "",
	} {
		got := ""
		for _, h := range b.must("read", arguments).Hints {
			if h.Code == "MORE_LINES" {
				got = h.Message + "; " + h.Suggestion
			}
		}
		if got != want {
			t.Errorf("%s: hint %q, want %q", arguments, got, want)
		}
	}
}

// TestReadOfWhatReadGave has the artifact of an earlier read, which has its
// numbers already; a line's place in the artifact is what startLine means.
func TestReadOfWhatReadGave(t *testing.T) {
	b := newBench(t, map[string]string{"f": "a\nb\nc\n"})
	numbered := text(b.must("read", args("path", "f", "startLine", 2)))
	in := &input{name: "toold://artifacts/x", body: strings.NewReader(numbered), size: int64(len(numbered)), close: func() {}}
	r, err := read(t.Context(), in, lineRange{first: 1, last: 9, maxBytes: maxReadBytes, bare: true})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff("     2\tb\n     3\tc\n", text(r)); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestReadRefusesAtOnce(t *testing.T) {
	b := newBench(t, map[string]string{"f": "a\nb\n", "dir/x": "", "bin": "\x00\x01\x02\x03", "notes.md": ""})
	if err := unix.Mkfifo(filepath.Join(b.dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	t.Chdir(b.dir) // a socket's name is short
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "socket"}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ args, reason, says string }{
		{args("path", "pipe"), "INVALID/NOT_A_REGULAR_FILE", "a named pipe"},
		{args("path", "socket"), "INVALID/NOT_A_REGULAR_FILE", "a socket"},
		{args("path", "dir"), "INVALID/NOT_A_REGULAR_FILE", "use tree or glob"},
		{args("path", "."), "INVALID/NOT_A_REGULAR_FILE", "a folder"},
		{args("path", "bin"), "INVALID/BINARY_FILE", "4 bytes"},
		{args("path", "note.md"), "INVALID/FILE_NOT_FOUND", "note.md does not exist"},
		{args("path", "f/x"), "INVALID/NOT_A_FOLDER", "through a file"},
		{args("path", "f", "startLine", 3), "INVALID/LINE_RANGE", "f has 2 lines"},
		{args("path", "f", "startLine", 3, "endLine", 2), "INVALID/LINE_RANGE", "before startLine"},
		{args("path", "f", "startLine", 0), "INVALID/ARGUMENTS_SCHEMA", "startLine"},
		{args("path", "toold://artifacts/none"), "INVALID/FILE_NOT_FOUND", "no longer kept"},
		{args("path", "toold://artifacts/a1/../x"), "INVALID/FILE_NOT_FOUND", "not an artifact"},
	} {
		_, err := b.call("read", tc.args)
		if got := reason(err); got != tc.reason || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %s: %v; want %s saying %q", tc.args, got, err, tc.reason, tc.says)
		}
	}
	_, err = b.call("read", args("path", "note.md"))
	if h := hints(err); len(h) != 1 || !strings.Contains(h[0].Message, "notes.md") {
		t.Errorf("no similar name in %+v", h)
	}
}

func TestReadGivesImagesAndArchivesAsTheyAre(t *testing.T) {
	for name, tc := range map[string]struct{ content, media string }{
		"a.png": {"\x89PNG\r\n\x1a\n\x00\x00", "image/png"},
		"a.pdf": {"%PDF-1.7\nplain so far", "application/pdf"},
		"a.zip": {"PK\x03\x04\x00\x00", "application/zip"},
		"a.tar": {strings.Repeat("\x00", 257) + "ustar\x00", "application/x-tar"},
		"a.zst": {"\x28\xb5\x2f\xfd\x00\x01", "application/zstd"},
	} {
		b := newBench(t, map[string]string{name: tc.content})
		got, ok := b.must("read", args("path", name)).Output.(tool.Binary)
		want := tool.Binary{Data: []byte(tc.content), MediaType: tc.media, Size: int64(len(tc.content)), SHA256: digest([]byte(tc.content))}
		if d := cmp.Diff(want, got); !ok || d != "" {
			t.Errorf("%s: (-want +got)\n%s", name, d)
		}
	}
}

// A file that is larger than what is loaded whole: here one with a hole.
func TestReadOfAHugeFileReadsWhatItNeeds(t *testing.T) {
	b := newBench(t, map[string]string{"huge": strings.Repeat(strings.Repeat("x", 99)+"\n", 20_000)})
	if err := os.Truncate(filepath.Join(b.dir, "huge"), 1<<40); err != nil {
		t.Fatalf("no sparse files here: %v", err)
	}
	r := b.must("read", args("path", "huge", "startLine", 15000, "endLine", 15001))
	row := strings.Repeat("x", 99) + "\n"
	if d := cmp.Diff(" 15000\t"+row+" 15001\t"+row, text(r)); d != "" {
		t.Error(d)
	}
	if r.Metadata["sha256"] != "" || r.Metadata["totalLines"] != "" {
		t.Errorf("metadata %v", r.Metadata)
	}
	var codes []string
	for _, h := range r.Hints {
		codes = append(codes, h.Code)
	}
	if d := cmp.Diff([]string{"LINES_NOT_COUNTED", "DIGEST_SKIPPED"}, codes); d != "" {
		t.Error(d)
	}
}

// One line of a size that nobody wants to hold.
func TestReadClipsALineOfManyMegabytes(t *testing.T) {
	b := newBench(t, map[string]string{"f": strings.Repeat("x", 10<<20) + "\nend\n"})
	got := text(b.must("read", args("path", "f")))
	want := "     1\t" + strings.Repeat("x", 2000) + "…[cut: the line has 10485760 bytes]\n     2\tend\n"
	if got != want {
		t.Errorf("got %d bytes: …%q", len(got), got[max(0, len(got)-60):])
	}
}

func TestReadStopsWhenItIsCancelled(t *testing.T) {
	b := newBench(t, map[string]string{"g": strings.Repeat("a line\n", 1<<20)})
	a, err := b.prepare("read", args("path", "g", "startLine", 1<<19))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Do(ctx, &b.kept); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestBatchRead(t *testing.T) {
	b := newBench(t, map[string]string{"a": "1\n2\n3\n", "b/c": "x", "p.png": "\x89PNG\r\n\x1a\n\x00"})
	r := b.must("batch_read", args("paths", []string{"b/c", "none", "a", "p.png"}, "maxLinesPerFile", 2))
	want := "=== b/c ===\n     1\tx\n" +
		"\n=== none ===\nerror: path: none does not exist\n" +
		"\n=== a ===\n     1\t1\n     2\t2\n[lines 1-2 of 3; go on with startLine=3]\n" +
		"\n=== p.png ===\nerror: is image/png; use read for it\n"
	if d := cmp.Diff(want, strings.ReplaceAll(text(r), "paths/1", "path")); d != "" {
		t.Error(d)
	}
	if r.Outcome == tool.Failed || r.Metadata["filesRead"] != "2" || r.Metadata["filesFailed"] != "2" {
		t.Errorf("outcome %v, metadata %v", r.Outcome, r.Metadata)
	}
	r = b.must("batch_read", args("paths", []string{"none", "neither"}))
	if r.Outcome != tool.Failed || r.Error == nil || r.Error.Reason != ReasonAllFilesFailed {
		t.Errorf("all failed, and yet %+v", r)
	}
}

// Whatever the pieces that a text comes in, the view is the same.
func FuzzView(f *testing.F) {
	f.Add("a\nb\r\nc", 1, 2, 1)
	f.Add("\n\n\n", 2, 9, 2)
	f.Add(strings.Repeat("é", 3000)+"\r\n\xff", 1, 5, 700)
	f.Fuzz(func(t *testing.T, body string, first, last, piece int) {
		if first < 1 || last < first || piece < 1 {
			return
		}
		show := func(piece int) (string, int, int, bool) {
			v := newView(lineRange{first: first, last: last, maxBytes: maxReadBytes})
			for rest := []byte(body); len(rest) > 0; {
				n := min(piece, len(rest))
				v.feed(rest[:n])
				rest = rest[n:]
			}
			v.end()
			return v.out.String(), v.total, v.crlf, v.lossy
		}
		text1, total1, crlf1, lossy1 := show(len(body) + 1)
		text2, total2, crlf2, lossy2 := show(piece)
		if text1 != text2 || total1 != total2 || crlf1 != crlf2 || lossy1 != lossy2 {
			t.Fatalf("whole: %q %d %d %t\npieces of %d: %q %d %d %t", text1, total1, crlf1, lossy1, piece, text2, total2, crlf2, lossy2)
		}
		if total1 != countLines(body) {
			t.Fatalf("%q has %d lines, counted %d", body, countLines(body), total1)
		}
	})
}
