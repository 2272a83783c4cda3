package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/toold/toold/internal/schema"
	"github.com/toold/toold/internal/tool"
)

type writeArgs struct {
	Path           string `json:"path" jsonschema:"minLength=1,maxLength=4096" jsonschema_description:"File to create or replace, relative to the workspace. Missing parent folders are made."`
	Content        string `json:"content" jsonschema:"maxLength=67108864" jsonschema_description:"The whole new content. It ends with a newline only if you write one."`
	ExpectedSHA256 string `json:"expectedSha256,omitempty" jsonschema:"pattern=^[0-9a-fA-F]{64}$" jsonschema_description:"SHA-256 of the file as you have read it (metadata of read). The call is refused when the file has changed since."`
}

func newWrite() tool.Tool {
	return schema.Define(tool.Spec{
		Name: "write", Version: "1.0.0", Title: "Write a file", Category: "file",
		Description: "Creates a text file or replaces the whole content of one, in one atomic step. " +
			"An existing file keeps its encoding, byte order mark, CRLF line endings, mode and owner; the result says what changed, and the old content is kept for undo. " +
			"To change a part of a file use edit: it is cheaper and cannot lose lines that you have not seen.",
		UsageGuidance:  "Read a file before you replace it, and pass its sha256 as expectedSha256.",
		Class:          tool.Write,
		Idempotency:    tool.Idempotent,
		Scope:          tool.ScopeWorkspace,
		Cut:            tool.CutHead,
		DefaultTimeout: time.Minute,
		MaxTimeout:     10 * time.Minute,
	}, func(_ context.Context, env tool.Env, a writeArgs) (tool.Action, error) {
		t, err := aim(env, "/path", a.Path)
		if err != nil {
			return tool.Action{}, err
		}
		return tool.Action{
			Class:   tool.Write,
			Effects: []tool.Effect{t.effect(tool.VerbWrite)},
			Do: func(ctx context.Context, rt tool.Runtime) (tool.Result, error) {
				r, err := write(ctx, rt, t, a)
				return r, t.fault(err)
			},
		}, nil
	})
}

func write(ctx context.Context, rt tool.Runtime, t target, a writeArgs) (tool.Result, error) {
	if err := t.check(); err != nil {
		return tool.Result{}, err
	}
	old, err := t.original()
	if err != nil {
		return tool.Result{}, err
	}
	defer old.close()
	if err := old.expect(a.ExpectedSHA256, t.path); err != nil {
		return tool.Result{}, err
	}
	text, set := old.dress(a.Content)
	data, err := set.encode(text)
	if err != nil {
		return tool.Result{}, tool.BadArgument("/content", ReasonEncoding, "%v; leave the character out, or delete the file first to write it as UTF-8", err)
	}
	if old.file != nil && string(data) == string(old.raw) {
		return unchanged(t.path, data), nil
	}
	dir, err := t.makeParent()
	if err != nil {
		return tool.Result{}, err
	}
	defer dir.release()
	return change{target: t, dir: dir, old: old, text: text, data: data}.apply(ctx, rt)
}

// dress gives new content the encoding, mark and line endings of the old file.
func (o *original) dress(content string) (string, charset) {
	if o.file == nil || !o.isText {
		return content, utf8Set
	}
	if o.set.mark != "" {
		content = strings.TrimPrefix(content, "\uFEFF")
	}
	if lineEnding(o.text) == "crlf" && !strings.Contains(content, "\r") {
		content = toCRLF(content)
	}
	return content, o.set
}

// original loads what is at t. Where its folder is missing, there is nothing.
func (t target) original() (*original, error) {
	dir, name, err := openParent(t.ws, t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return &original{set: utf8Set, isText: true}, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.release()
	return loadOriginal(dir, name)
}

// makeParent opens the folder that t is in, and makes it where it is missing.
func (t target) makeParent() (*folder, error) {
	at, err := openFolder(t.ws, ".")
	if err != nil {
		return nil, err
	}
	parent := path.Dir(string(t.path))
	if parent == "." {
		return at, nil
	}
	for name := range strings.SplitSeq(parent, "/") {
		next, err := at.enter(name)
		if errors.Is(err, fs.ErrNotExist) {
			next, err = at.mkdir(name)
		}
		at.release()
		if err != nil {
			return nil, fmt.Errorf("making the folder %s: %w", parent, err)
		}
		at = next
	}
	return at, nil
}
