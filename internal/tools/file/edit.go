package file

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/toold/toold/internal/schema"
	"github.com/toold/toold/internal/tool"
)

type editArgs struct {
	Path           string `json:"path" jsonschema:"minLength=1,maxLength=4096" jsonschema_description:"File to change, relative to the workspace."`
	OriginalText   string `json:"originalText" jsonschema:"minLength=1" jsonschema_description:"The text to replace, exactly as it stands in the file, white space included, without line numbers. Must occur exactly once unless replaceAll is true: take in enough lines around it to make it unique."`
	NewText        string `json:"newText" jsonschema_description:"The text to put in its place. Empty deletes it."`
	ReplaceAll     bool   `json:"replaceAll,omitempty" jsonschema:"default=false" jsonschema_description:"Replace every occurrence, for instance to rename."`
	ExpectedSHA256 string `json:"expectedSha256,omitempty" jsonschema:"pattern=^[0-9a-fA-F]{64}$" jsonschema_description:"SHA-256 of the file as you have read it. The call is refused when the file has changed since."`
}

func newEdit() tool.Tool {
	return schema.Define(tool.Spec{
		Name: "edit", Version: "1.0.0", Title: "Edit a file", Category: "file",
		Description: "Replaces exact text in a text file, in one atomic step; nothing else in the file changes (encoding, line endings, mode and owner are kept). " +
			"originalText must occur exactly once unless replaceAll is set; otherwise nothing is changed and the answer says where it occurs, or what is closest. " +
			"Text with LF line endings also matches CRLF. The result shows the diff. Use write to create a file or replace all of it.",
		UsageGuidance:  "Read the lines first and copy them exactly; prefer several small edits to one large one.",
		Class:          tool.Write,
		Scope:          tool.ScopeWorkspace,
		Cut:            tool.CutHead,
		DefaultTimeout: time.Minute,
		MaxTimeout:     10 * time.Minute,
	}, func(_ context.Context, env tool.Env, a editArgs) (tool.Action, error) {
		if a.OriginalText == a.NewText {
			return tool.Action{}, tool.BadArgument("/newText", ReasonNoChange, "is the same as originalText; there is nothing to change")
		}
		t, err := aim(env, "/path", a.Path)
		if err != nil {
			return tool.Action{}, err
		}
		return tool.Action{
			Class:   tool.Write,
			Effects: []tool.Effect{t.effect(tool.VerbWrite)},
			Do: func(ctx context.Context, rt tool.Runtime) (tool.Result, error) {
				r, err := edit(ctx, rt, t, a)
				return r, t.fault(err)
			},
		}, nil
	})
}

func edit(ctx context.Context, rt tool.Runtime, t target, a editArgs) (tool.Result, error) {
	if err := t.check(); err != nil {
		return tool.Result{}, err
	}
	dir, name, err := openParent(t.ws, t.path)
	if err != nil {
		return tool.Result{}, err
	}
	defer dir.release()
	old, err := loadOriginal(dir, name)
	if err != nil {
		return tool.Result{}, err
	}
	defer old.close()
	switch {
	case old.file == nil:
		return tool.Result{}, fs.ErrNotExist
	case !old.isText:
		return tool.Result{}, tool.BadArgument("/path", ReasonBinary, "%s is not text in an encoding that can be edited (UTF-8, UTF-16, Latin-1); use a command", t.path)
	}
	if err := old.expect(a.ExpectedSHA256, t.path); err != nil {
		return tool.Result{}, err
	}
	found := match(old.text, a.OriginalText)
	if len(found) == 0 {
		return tool.Result{}, notMatched(t.path, old.text, a.OriginalText)
	}
	if len(found) > 1 && !a.ReplaceAll {
		return tool.Result{}, ambiguous(t.path, old.text, found)
	}
	text := replace(old.text, found, a.NewText)
	data, err := old.set.encode(text)
	if err != nil {
		return tool.Result{}, tool.BadArgument("/newText", ReasonEncoding, "%v; write it with the characters that it has", err)
	}
	if text == old.text {
		return unchanged(t.path, data), nil
	}
	r, err := change{target: t, dir: dir, old: old, text: text, data: data}.apply(ctx, rt)
	if err == nil {
		r.Metadata["replacements"] = strconv.Itoa(len(found))
	}
	return r, err
}

func ambiguous(p tool.Path, text string, found []span) error {
	e := tool.BadArgument("/originalText", ReasonTextNotUnique, "occurs %d times in %s, at %s; nothing was changed", len(found), p, lineList(text, found))
	e.Hints = []tool.Hint{{
		Level: tool.Info, Code: ReasonTextNotUnique,
		Message:    "which occurrence is meant cannot be told",
		Suggestion: "take in a line before or after it that is different at each place, or set replaceAll to change all of them",
	}}
	return e
}

// lineList names the lines of the first ten spans.
func lineList(text string, found []span) string {
	var b strings.Builder
	b.WriteString("lines ")
	line, at := 1, 0
	for i, s := range found {
		if i == 10 {
			b.WriteString(" …")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		line += strings.Count(text[at:s.start], "\n")
		at = s.start
		b.WriteString(strconv.Itoa(line))
	}
	return b.String()
}

func notMatched(p tool.Path, text, want string) error {
	e := tool.BadArgument("/originalText", ReasonTextNotFound, "occurs 0 times in %s; nothing was changed", p)
	h := tool.Hint{Level: tool.Info, Code: ReasonTextNotFound, Message: "no part of the file resembles it", Suggestion: "read the file and copy the text from there"}
	switch near, ok := closest(text, want); {
	case numbered(want):
		h.Message, h.Suggestion = "originalText starts with line numbers", "leave out the numbers and the tab that read puts before each line"
	case strings.Contains(want, "\r") && !strings.Contains(text, "\r"):
		h.Message, h.Suggestion = "originalText has CR characters, the file has none", "send line endings as LF"
	case ok:
		h.Message = fmt.Sprintf("closest are lines %d-%d%s:\n%s", near.first, near.last, near.how, near.text)
		h.Suggestion = "copy the text exactly as it stands there"
	}
	e.Hints = []tool.Hint{h}
	return e
}
