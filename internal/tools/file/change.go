package file

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/toold/toold/internal/tool"
)

// original is a file as it was found before a change.
type original struct {
	file *os.File // nil: there is none
	stat stat
	raw  []byte
	set  charset
	text string // raw decoded; empty where isText is false
	// isText is true for text in a known encoding; an empty file is text.
	isText bool
}

func (o *original) close() {
	if o.file != nil {
		_ = o.file.Close()
	}
}

// loadOriginal reads the entry whole. What is not there is an original without
// a file.
func loadOriginal(d *folder, name string) (*original, error) {
	f, s, err := d.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return &original{set: utf8Set, isText: true}, nil
	}
	var kind *kindError
	if errors.As(err, &kind) {
		return nil, tool.BadArgument("/path", ReasonNotAFile, "%s %v", name, err)
	}
	if err != nil {
		return nil, err
	}
	o := &original{file: f, stat: s}
	if err := o.load(name); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *original) load(name string) error {
	switch {
	case o.stat.size > MaxTextBytes:
		return tool.BadArgument("/path", ReasonTooLarge, "%s has %d bytes; files up to %d are rewritten; use a command for larger ones", name, o.stat.size, MaxTextBytes)
	case o.stat.mode&0o222 == 0:
		return tool.Fail(ReasonReadOnlyFile, "%s is read-only (mode %04o); if it is meant to be changed, make it writable first", name, o.stat.mode&0o7777)
	}
	o.raw = make([]byte, o.stat.size)
	if _, err := io.ReadFull(o.file, o.raw); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	if o.set, o.isText = detect(o.raw, true); o.isText {
		var err error
		if o.text, err = o.set.decode(o.raw); err != nil {
			o.set, o.isText = charset{}, false
		}
	}
	return nil
}

// expect fails unless the file has the digest that the caller has seen.
func (o *original) expect(sha string, p tool.Path) error {
	if sha == "" || o.file != nil && strings.EqualFold(digest(o.raw), sha) {
		return nil
	}
	now := "does not exist"
	if o.file != nil {
		now = "has the SHA-256 " + digest(o.raw)
	}
	return tool.BadArgument("/expectedSha256", ReasonStale, "%s is not what you have read: it %s; nothing was changed; read it again", p, now)
}

// change replaces the original by text and data, its bytes. It keeps the
// before-image and the diff first, so that whatever is changed can be undone.
type change struct {
	target target
	dir    *folder
	old    *original
	text   string
	data   []byte
}

func (c change) apply(ctx context.Context, rt tool.Runtime) (tool.Result, error) {
	p := string(c.target.path)
	ch := tool.Change{Path: valid(p), AfterSHA256: digest(c.data), AfterBytes: int64(len(c.data))}
	if c.old.file != nil {
		ch.BeforeSHA256, ch.BeforeBytes = digest(c.old.raw), int64(len(c.old.raw))
		ref, err := rt.Keep(ctx, "before", "application/octet-stream", c.old.raw)
		if err != nil {
			return tool.Result{}, fmt.Errorf("keeping the file as it was: %w", err)
		}
		ch.BeforeImage = &ref
	}
	diff := ""
	if c.old.isText {
		diff, ch.LinesAdded, ch.LinesRemoved = unified(p, c.old, c.text)
		ref, err := rt.Keep(ctx, "diff", "text/x-diff", []byte(diff))
		if err != nil {
			return tool.Result{}, fmt.Errorf("keeping the diff: %w", err)
		}
		ch.Diff = &ref
	} else {
		ch.LinesAdded = countLines(c.text)
	}
	err := replacement{dir: c.dir, name: path.Base(p), data: c.data, old: c.old.file, was: c.old.stat}.commit(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	r := tool.Result{
		Output:   tool.Text{Text: c.summary(ch, diff)},
		Metadata: metadata("path", valid(p), "sha256", ch.AfterSHA256, "bytesWritten", strconv.Itoa(len(c.data))),
		Changes:  []tool.Change{ch},
	}
	if c.old.stat.links > 1 {
		r.Hints = append(r.Hints, tool.Hint{
			Level: tool.Warning, Code: "HARD_LINK_BROKEN",
			Message: fmt.Sprintf("%s had %d names (hard links); the others still have the old content", valid(p), c.old.stat.links),
		})
	}
	return r, nil
}

// maxShownDiff bounds the diff that is shown beside the summary, in bytes.
const maxShownDiff = 4 << 10

func (c change) summary(ch tool.Change, diff string) string {
	verb := "changed"
	if ch.BeforeSHA256 == "" {
		verb = "created"
	}
	s := fmt.Sprintf("%s %s: %d bytes, +%d -%d lines", verb, ch.Path, ch.AfterBytes, ch.LinesAdded, ch.LinesRemoved)
	if verb == "changed" && diff != "" && len(diff) <= maxShownDiff {
		s += "\n" + strings.TrimSuffix(valid(diff), "\n")
	}
	return s
}

// unchanged is the result of a call that found the file as it wanted it.
func unchanged(p tool.Path, data []byte) tool.Result {
	return tool.Result{
		Output:   tool.Text{Text: valid(string(p)) + " has this content already; nothing was written"},
		Metadata: metadata("path", valid(string(p)), "sha256", digest(data), "bytesWritten", "0"),
	}
}

// unified gives the diff and the number of lines added and removed.
func unified(name string, old *original, after string) (diff string, added, removed int) {
	from := "a/" + name
	if old.file == nil {
		from = "/dev/null"
	}
	u, err := udiff.ToUnifiedDiff(from, "b/"+name, old.text, lineEdits(old.text, after), udiff.DefaultContextLines)
	if err != nil {
		panic(fmt.Sprintf("diff of %q: %v", name, err)) // the edits are ours
	}
	for _, h := range u.Hunks {
		for _, l := range h.Lines {
			switch l.Kind {
			case udiff.Insert:
				added++
			case udiff.Delete:
				removed++
			case udiff.Equal:
			}
		}
	}
	return u.String(), added, removed
}

// lineEdits compares only the lines between the first and the last difference,
// which makes a small change of a large file cheap.
func lineEdits(before, after string) []udiff.Edit {
	n := min(len(before), len(after))
	head := 0
	for head < n && before[head] == after[head] {
		head++
	}
	head = strings.LastIndexByte(before[:head], '\n') + 1
	tail := 0
	for tail < n-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	end := len(before) - tail
	if i := strings.IndexByte(before[end:], '\n'); i >= 0 && tail > 0 {
		tail -= i + 1
	} else {
		tail = 0
	}
	edits := udiff.Lines(before[head:len(before)-tail], after[head:len(after)-tail])
	for i := range edits {
		edits[i].Start += head
		edits[i].End += head
	}
	return edits
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
