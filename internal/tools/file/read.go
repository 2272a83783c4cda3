package file

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/transform"

	"github.com/toold/toold/internal/schema"
	"github.com/toold/toold/internal/tool"
)

type readArgs struct {
	Path      string `json:"path" jsonschema:"minLength=1,maxLength=4096" jsonschema_description:"File to read, relative to the workspace, or the toold://artifacts/ URI of a kept output."`
	StartLine int    `json:"startLine,omitempty" jsonschema:"minimum=1" jsonschema_description:"First line to give, from 1. Default: the first."`
	EndLine   int    `json:"endLine,omitempty" jsonschema:"minimum=1" jsonschema_description:"Last line to give, itself included. Default: 2000 lines from startLine."`
}

// Bounds of what one call of read shows.
const (
	defaultLines = 2000
	maxLineRunes = 2000
	maxReadBytes = 8 << 20
)

func newRead(o Options) tool.Tool {
	return schema.Define(tool.Spec{
		Name: "read", Version: "1.0.0", Title: "Read a file", Category: "file",
		Description: "Reads a text file as numbered lines (number, tab, text): the first 2000 unless you ask for a range; it says how many there are. Artifacts are given as they are, without numbers. Lines over 2000 characters are cut. " +
			"A range of a very large file is quick. UTF-8, UTF-16 and Latin-1 are understood; images, PDFs and archives are given as binary data; other binary files are refused. " +
			"Use grep to find where something is, batch_read for several files, glob or tree for folders.",
		UsageGuidance:  "Read the lines around what grep found instead of whole files; the metadata's sha256 guards a later edit.",
		Class:          tool.ReadOnly,
		Idempotency:    tool.Idempotent,
		Scope:          tool.ScopeWorkspace,
		Cut:            tool.CutHead,
		DefaultTimeout: time.Minute,
		MaxTimeout:     10 * time.Minute,
	}, func(_ context.Context, env tool.Env, a readArgs) (tool.Action, error) {
		lines, err := rangeOf(a)
		if err != nil {
			return tool.Action{}, err
		}
		src, err := sourceOf(o, env, "/path", a.Path)
		if err != nil {
			return tool.Action{}, err
		}
		return tool.Action{
			Class:   tool.ReadOnly,
			Effects: []tool.Effect{src.effect},
			Do: func(ctx context.Context, _ tool.Runtime) (tool.Result, error) {
				in, err := src.open(ctx)
				if err != nil {
					return tool.Result{}, err
				}
				defer in.close()
				lines.bare = src.target == nil // what is kept may be numbered already
				return read(ctx, in, lines)
			},
		}, nil
	})
}

// lineRange is the lines first to last, from 1, up to maxBytes of them;
// byDefault when nobody said where to stop, bare to leave out their numbers.
type lineRange struct {
	first, last int
	maxBytes    int
	byDefault   bool
	bare        bool
}

func rangeOf(a readArgs) (lineRange, error) {
	r := lineRange{first: max(a.StartLine, 1), last: a.EndLine, maxBytes: maxReadBytes}
	if r.last == 0 {
		r.last, r.byDefault = r.first+defaultLines-1, true
	}
	if r.last < r.first {
		return r, tool.BadArgument("/endLine", ReasonRange, "%d is before startLine %d", a.EndLine, r.first)
	}
	return r, nil
}

// source is what read and grep can open: a file of the workspace or an artifact.
type source struct {
	effect tool.Effect
	target *target // nil: an artifact
	open   func(context.Context) (*input, error)
}

const artifactPrefix = "toold://artifacts/"

func sourceOf(o Options, env tool.Env, pointer, name string) (source, error) {
	if strings.HasPrefix(name, artifactPrefix) {
		return artifactSource(o.Artifacts, env.Caller, pointer, name)
	}
	t, err := aim(env, pointer, name)
	if err != nil {
		return source{}, err
	}
	return source{effect: t.effect(tool.VerbRead), target: &t, open: func(context.Context) (*input, error) { return t.open() }}, nil
}

func artifactSource(store Artifacts, caller tool.Caller, pointer, uri string) (source, error) {
	switch {
	case store == nil:
		return source{}, tool.BadArgument(pointer, ReasonNoArtifacts, "this server keeps no artifacts")
	case strings.ContainsAny(uri[len(artifactPrefix):], "/?#\x00") || len(uri) == len(artifactPrefix):
		return source{}, tool.BadArgument(pointer, tool.ReasonNotFound, "%q is not an artifact's URI; copy it from the result", uri)
	}
	open := func(ctx context.Context) (*input, error) {
		body, size, done, err := store.Open(ctx, caller, uri)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, tool.BadArgument(pointer, tool.ReasonNotFound, "%s does not exist, or is no longer kept", uri)
		}
		if err != nil {
			return nil, fmt.Errorf("opening %s: %w", uri, err)
		}
		return &input{name: uri, body: body, size: size, close: done}, nil
	}
	return source{effect: tool.Effect{Verb: tool.VerbRead, Target: uri}, open: open}, nil
}

// input is an open source.
type input struct {
	name  string
	body  io.ReaderAt
	size  int64
	close func()
}

// open opens the file at t for reading. Errors are made for the model.
func (t target) open() (*input, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	d, base, err := passParent(t.ws, t.path)
	if err != nil {
		return nil, t.fault(err)
	}
	defer d.release()
	f, s, err := d.open(base)
	var kind *kindError
	if errors.As(err, &kind) {
		fix := "only regular files can be read"
		if kind.kind == fs.ModeDir {
			fix = "use tree or glob to see what is in it"
		}
		return nil, tool.BadArgument(t.pointer, ReasonNotAFile, "%s %v; %s", t.path, err, fix)
	}
	if err != nil {
		return nil, t.fault(err)
	}
	return &input{name: string(t.path), body: f, size: s.size, close: func() { _ = f.Close() }}, nil
}

// headBytes is how much of a file is looked at to tell what it is.
const headBytes = 1 << 20

func (in *input) head() ([]byte, error) {
	b := make([]byte, min(in.size, headBytes))
	n, err := in.body.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading %s: %w", in.name, err)
	}
	return b[:n], nil
}

func read(ctx context.Context, in *input, lines lineRange) (tool.Result, error) {
	head, err := in.head()
	if err != nil {
		return tool.Result{}, err
	}
	set, isText := detect(head, int64(len(head)) == in.size)
	if media := mediaType(head, isText); media != "" {
		return readBinary(in, media)
	}
	if !isText {
		e := tool.BadArgument("/path", ReasonBinary, "%s is binary data (%d bytes) of no type that can be shown", in.name, in.size)
		e.Hints = []tool.Hint{{Level: tool.Info, Code: ReasonBinary, Message: "only text, images, PDFs and archives can be read", Suggestion: "use a command that understands the format, such as file, strings or hexdump"}}
		return tool.Result{}, e
	}
	v := newView(lines)
	sum, err := in.stream(ctx, head, set, v)
	if err != nil {
		return tool.Result{}, fmt.Errorf("reading %s: %w", in.name, err)
	}
	if v.ended && v.total < lines.first && (v.total > 0 || lines.first > 1) {
		return tool.Result{}, tool.BadArgument("/startLine", ReasonRange, "%d is past the end: %s has %d lines", lines.first, in.name, v.total)
	}
	return v.result(in, set, sum, lines), nil
}

// stream shows the text of in to v. A file up to MaxTextBytes is read to its
// end, so that its lines can be counted and its SHA-256 is given; of a larger
// one only what v needs.
func (in *input) stream(ctx context.Context, head []byte, set charset, v *view) (sum string, err error) {
	if int64(len(head)) == in.size && set.codec == nil {
		v.out.Grow(min(len(head)+len(head)/8+64, v.maxBytes))
		v.feed(head[len(set.mark):])
		v.end()
		return digest(head), nil
	}
	whole := in.size <= MaxTextBytes
	var h hash.Hash
	raw := io.MultiReader(bytes.NewReader(head), io.NewSectionReader(in.body, int64(len(head)), in.size-int64(len(head))))
	if whole {
		h = sha256.New()
		raw = io.TeeReader(raw, h)
	}
	if _, err := io.CopyN(io.Discard, raw, int64(len(set.mark))); err != nil {
		return "", err
	}
	text := raw
	if set.codec != nil {
		text = transform.NewReader(raw, set.codec.NewDecoder())
	}
	buf := make([]byte, min(max(in.size, 512), 256<<10))
	for whole || !v.done() {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := text.Read(buf)
		v.feed(buf[:n])
		if errors.Is(err, io.EOF) {
			v.end()
			break
		}
		if err != nil {
			return "", err
		}
	}
	if whole {
		sum = hex.EncodeToString(h.Sum(nil))
	}
	return sum, nil
}

// result puts the view, and what is to be known of it, into words.
func (v *view) result(in *input, set charset, sum string, lines lineRange) tool.Result {
	r := tool.Result{Metadata: metadata(
		"path", valid(in.name), "size", strconv.FormatInt(in.size, 10), "encoding", set.name,
		"startLine", strconv.Itoa(lines.first), "endLine", strconv.Itoa(v.lastShown),
	)}
	hint := func(code, message, suggestion string) {
		r.Hints = append(r.Hints, tool.Hint{Level: tool.Info, Code: code, Message: message, Suggestion: suggestion})
	}
	if v.crlf > 0 {
		r.Metadata["lineEnding"] = "crlf"
		if v.crlf < v.lastShown-lines.first+1-v.open {
			r.Metadata["lineEnding"] = "mixed"
		}
	}
	text := v.out.String()
	if v.ended {
		r.Metadata["totalLines"] = strconv.Itoa(v.total)
		if v.total == 0 {
			hint("EMPTY_FILE", "the file is empty", "")
		}
	} else {
		hint("LINES_NOT_COUNTED", fmt.Sprintf("the file has %d bytes; lines are counted up to %d", in.size, MaxTextBytes), "")
	}
	if sum != "" {
		r.Metadata["sha256"] = sum
	} else {
		hint("DIGEST_SKIPPED", fmt.Sprintf("no SHA-256: the file is larger than %d bytes", MaxTextBytes), "")
	}
	if more := !v.ended || v.total > v.lastShown; more && (lines.byDefault || v.full) {
		of := "a file too large to count"
		if v.ended {
			of = strconv.Itoa(v.total)
		}
		text += fmt.Sprintf("[lines %d-%d of %s; go on with startLine=%d]\n", lines.first, v.lastShown, of, v.lastShown+1)
		// The line above may be cut off; the hint is not.
		hint("MORE_LINES", fmt.Sprintf("these are lines %d-%d of %s", lines.first, v.lastShown, of), fmt.Sprintf("for the rest: read path=%s startLine=%d", valid(in.name), v.lastShown+1))
	}
	if v.cutLines > 0 {
		hint("LONG_LINES_CUT", fmt.Sprintf("%d lines are longer than %d characters and were cut", v.cutLines, maxLineRunes),
			fmt.Sprintf("for the rest of a line: sed -n '%dp' FILE | cut -c%d-", v.firstCut, maxLineRunes+1))
	}
	if v.lossy {
		hint("INVALID_UTF8", "some bytes are not valid UTF-8; they are shown as U+FFFD", "")
	}
	r.Output = tool.Text{Text: text, Lossy: v.lossy}
	return r
}

func readBinary(in *input, media string) (tool.Result, error) {
	if in.size > MaxBinaryBytes {
		return tool.Result{}, tool.BadArgument("/path", ReasonTooLarge, "%s is %s of %d bytes; up to %d can be read", in.name, media, in.size, MaxBinaryBytes)
	}
	data := make([]byte, in.size)
	if n, err := in.body.ReadAt(data, 0); err != nil && (n < len(data) || !errors.Is(err, io.EOF)) {
		return tool.Result{}, fmt.Errorf("reading %s: %w", in.name, err)
	}
	sum := digest(data)
	return tool.Result{
		Output:   tool.Binary{Data: data, MediaType: media, Size: in.size, SHA256: sum},
		Metadata: metadata("path", valid(in.name), "size", strconv.FormatInt(in.size, 10), "sha256", sum, "mediaType", media),
	}, nil
}
