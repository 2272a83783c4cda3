package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/toold/toold/internal/tool"
)

func TestWriteByteForByte(t *testing.T) {
	for _, tc := range []struct {
		name          string
		before, after string
		content       string
		isNew         bool
	}{
		{name: "new", isNew: true, content: "a\r\nb", after: "a\r\nb"},
		{name: "new and empty", isNew: true},
		{name: "replaced", before: "x\n", content: "a\nb", after: "a\nb"},
		{name: "CRLF is kept", before: "x\r\ny\r\n", content: "a\nb\n", after: "a\r\nb\r\n"},
		{name: "CR in the content is literal", before: "x\r\n", content: "a\r\nb\n", after: "a\r\nb\n"},
		{name: "mixed endings are not", before: "x\r\ny\n", content: "a\nb\n", after: "a\nb\n"},
		{name: "mark is kept", before: "\xef\xbb\xbfx\r\n", content: "a\n", after: "\xef\xbb\xbfa\r\n"},
		{name: "mark is not doubled", before: "\xef\xbb\xbfx", content: "\ufeffa", after: "\xef\xbb\xbfa"},
		{name: "UTF-16 is kept", before: "\xff\xfex\x00", content: "é", after: "\xff\xfe\xe9\x00"},
		{name: "Latin-1 is kept", before: "\xe9 x", content: "à", after: "\xe0"},
		{name: "binary becomes text", before: "\x00\x01", content: "a", after: "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, nil)
			if !tc.isNew {
				b.write("d/f", tc.before)
			}
			r := b.must("write", args("path", "d/f", "content", tc.content))
			if d := cmp.Diff(tc.after, b.content("d/f")); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			c := r.Changes[0]
			if c.AfterSHA256 != digest([]byte(tc.after)) || (c.BeforeSHA256 == "") != tc.isNew || (c.BeforeImage == nil) != tc.isNew {
				t.Errorf("change %+v", c)
			}
			if !tc.isNew && b.kept.bodies[0] != "before: "+tc.before {
				t.Errorf("kept %q", b.kept.bodies[0])
			}
		})
	}
}

func TestWriteRefuses(t *testing.T) {
	for _, tc := range []struct{ name, args, reason string }{
		{"stale", args("path", "f", "content", "a", "expectedSha256", strings.Repeat("0", 64)), "INVALID/STALE_READ"},
		{"expected but gone", args("path", "no/g", "content", "a", "expectedSha256", strings.Repeat("0", 64)), "INVALID/STALE_READ"},
		{"folder", args("path", "dir", "content", "a"), "INVALID/NOT_A_REGULAR_FILE"},
		{"the workspace", args("path", ".", "content", "a"), "INVALID/NOT_A_REGULAR_FILE"},
		{"below a file", args("path", "f/g", "content", "a"), "INVALID/NOT_A_FOLDER"},
		{"pipe", args("path", "pipe", "content", "a"), "INVALID/NOT_A_REGULAR_FILE"},
		{"Latin-1 cannot hold it", args("path", "latin", "content", "世"), "INVALID/ENCODING"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, map[string]string{"f": "x", "dir/x": "", "latin": "caf\xe9"})
			if err := unix.Mkfifo(filepath.Join(b.dir, "pipe"), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := b.call("write", tc.args)
			if got := reason(err); got != tc.reason {
				t.Errorf("got %s: %v, want %s", got, err, tc.reason)
			}
			if names := listing(t, b.dir); names != "dir f latin pipe" || b.content("f") != "x" {
				t.Errorf("something was changed: %s", names)
			}
		})
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestWriteOfTheSameContentChangesNothing(t *testing.T) {
	b := newBench(t, map[string]string{"f": "x\r\n"})
	r := b.must("write", args("path", "f", "content", "x\n"))
	if len(r.Changes) != 0 || r.Metadata["bytesWritten"] != "0" {
		t.Errorf("got %+v", r)
	}
}

func TestRewritingKeepsModeOwnerAndAttributes(t *testing.T) {
	b := newBench(t, map[string]string{"f": "x"})
	p := filepath.Join(b.dir, "f")
	if os.Getuid() == 0 {
		if err := os.Chown(p, 1234, 4321); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(p, 0o751|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	attributes := unix.Setxattr(p, "user.note", []byte("kept"), 0) == nil
	before, err := os.Stat(p)
	if err != nil {
		t.Fatal(err)
	}
	b.must("edit", args("path", "f", "originalText", "x", "newText", "y"))
	after, err := os.Stat(p)
	if err != nil {
		t.Fatal(err)
	}
	var is unix.Stat_t
	if err := unix.Stat(p, &is); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 && (is.Uid != 1234 || is.Gid != 4321) {
		t.Errorf("owner is now %d:%d", is.Uid, is.Gid)
	}
	if before.Mode() != after.Mode() {
		t.Errorf("mode was %v and is %v", before.Mode(), after.Mode())
	}
	value := make([]byte, 10)
	if n, err := unix.Getxattr(p, "user.note", value); attributes && (err != nil || string(value[:n]) != "kept") {
		t.Errorf("attribute is now %q (%v)", value[:max(n, 0)], err)
	}
	if names := listing(t, b.dir); names != "f" {
		t.Errorf("left behind: %s", names)
	}
}

func TestABrokenHardLinkIsSaid(t *testing.T) {
	b := newBench(t, map[string]string{"f": "x"})
	if err := os.Link(filepath.Join(b.dir, "f"), filepath.Join(b.dir, "g")); err != nil {
		t.Fatal(err)
	}
	r := b.must("write", args("path", "f", "content", "y"))
	if len(r.Hints) != 1 || r.Hints[0].Code != "HARD_LINK_BROKEN" || b.content("g") != "x" {
		t.Errorf("hints %+v, g %q", r.Hints, b.content("g"))
	}
}

// A link is followed when the call is prepared; the file that it leads to is
// the one that is written, and the link stays.
func TestWriteThroughALinkInside(t *testing.T) {
	b := newBench(t, map[string]string{"real": "x"})
	if err := os.Symlink("real", filepath.Join(b.dir, "link")); err != nil {
		t.Fatal(err)
	}
	b.must("write", args("path", "link", "content", "y"))
	to, err := os.Readlink(filepath.Join(b.dir, "link"))
	if err != nil || to != "real" || b.content("real") != "y" {
		t.Errorf("link leads to %q (%v), real is %q", to, err, b.content("real"))
	}
}

// What happens between Prepare, which is judged and recorded, and Do.
func TestTheDeclaredFileOrNone(t *testing.T) {
	for _, tc := range []struct {
		name, path string
		meanwhile  func(t *testing.T, dir string)
	}{
		{"the file became a link", "f", func(t *testing.T, dir string) { relink(t, dir, "f", "other") }},
		{"the link leads elsewhere", "link", func(t *testing.T, dir string) { relink(t, dir, "link", "other") }},
		{"a folder became a link", "d/f", func(t *testing.T, dir string) { relink(t, dir, "d", "e") }},
		{"a new file became a dangling link", "new", func(t *testing.T, dir string) { relink(t, dir, "new", "newer") }},
		{"a missing folder became a link", "n/f", func(t *testing.T, dir string) { relink(t, dir, "n", "e") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, call := range [][2]string{
				{"write", args("path", tc.path, "content", "y")},
				{"edit", args("path", tc.path, "originalText", "x", "newText", "y")},
				{"read", args("path", tc.path)},
			} {
				b := newBench(t, map[string]string{"f": "x", "other": "x", "d/f": "x", "e/f": "x"})
				relink(t, b.dir, "link", "f")
				a, err := b.prepare(call[0], call[1])
				if err != nil {
					t.Fatal(err)
				}
				tc.meanwhile(t, b.dir)
				_, err = a.Do(t.Context(), &b.kept)
				if got := reason(err); got != "FAILED/"+tool.ReasonEffectChanged {
					t.Errorf("%s: %s", call[0], got)
				}
				if b.content("other") != "x" || b.content("e/f") != "x" {
					t.Errorf("%s wrote another file", call[0])
				}
				if _, err := os.Lstat(filepath.Join(b.dir, "newer")); err == nil {
					t.Errorf("%s wrote through a dangling link", call[0])
				}
			}
		})
	}
}

func relink(t *testing.T, dir, name, to string) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := errors.Join(os.RemoveAll(p), os.Symlink(to, p)); err != nil {
		t.Fatal(err)
	}
}

func TestAChangeMeanwhileIsAConflict(t *testing.T) {
	b := newBench(t, map[string]string{"f": "x 1"})
	for _, tc := range []struct {
		name   string
		change func(p string) error
	}{
		{"rewritten in place", func(p string) error { return os.WriteFile(p, []byte("x 2, longer"), 0o644) }},
		{"replaced by one as long", func(p string) error {
			return errors.Join(os.WriteFile(p+".t", []byte("x 3"), 0o644), os.Rename(p+".t", p))
		}},
		{"removed", os.Remove},
		{"became a link", func(p string) error { return errors.Join(os.Remove(p), os.Symlink("g", p)) }},
	} {
		b.write("f", "x 1")
		a, err := b.prepare("edit", args("path", "f", "originalText", "x", "newText", "y"))
		if err != nil {
			t.Fatal(err)
		}
		rt := &keeper{during: func() {
			if err := tc.change(filepath.Join(b.dir, "f")); err != nil {
				t.Error(err)
			}
		}}
		_, err = a.Do(t.Context(), rt)
		if got := reason(err); got != "FAILED/CONFLICT" {
			t.Errorf("%s: %s", tc.name, got)
		}
		if names := listing(t, b.dir); strings.Contains(names, ".toold-") {
			t.Errorf("%s: left behind %s", tc.name, names)
		}
		_ = os.Remove(filepath.Join(b.dir, "f"))
	}
}

func TestTwoThatCreateAFile(t *testing.T) {
	b := newBench(t, nil)
	a, err := b.prepare("write", args("path", "f", "content", "mine"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Do(t.Context(), &keeper{during: func() { b.write("f", "theirs") }})
	if got := reason(err); got != "FAILED/CONFLICT" || b.content("f") != "theirs" {
		t.Errorf("%s, f is %q", got, b.content("f"))
	}
}

func TestNothingIsChangedThatCannotBeUndone(t *testing.T) {
	b := newBench(t, map[string]string{"f": "x"})
	b.kept.fail = errors.New("disk full")
	_, err := b.call("write", args("path", "f", "content", "y"))
	if err == nil || b.content("f") != "x" {
		t.Errorf("error %v, f is %q", err, b.content("f"))
	}
}
