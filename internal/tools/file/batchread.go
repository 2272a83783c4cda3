package file

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toold/toold/internal/schema"
	"github.com/toold/toold/internal/tool"
)

type batchReadArgs struct {
	Paths           []string `json:"paths" jsonschema:"minItems=1,maxItems=50,uniqueItems=true" jsonschema_description:"Text files to read, relative to the workspace."`
	MaxLinesPerFile int      `json:"maxLinesPerFile,omitempty" jsonschema:"minimum=1,maximum=2000,default=500" jsonschema_description:"How many lines of each file to give, from its first."`
}

// maxBatchReaders bounds the files of one call that are read at a time.
const maxBatchReaders = 8

func newBatchRead() tool.Tool {
	return schema.Define(tool.Spec{
		Name: "batch_read", Version: "1.0.0", Title: "Read several files", Category: "file",
		Description: "Reads up to 50 text files in one call: a section a file with numbered lines, in the order that you gave. " +
			"A file that cannot be read is an error in its own section and does not spoil the others; the call fails only when none could be read. Use read for a range of one file, or for images and PDFs.",
		UsageGuidance:  "Use it when you already know which files you need; keep maxLinesPerFile small when only their beginnings matter.",
		Class:          tool.ReadOnly,
		Idempotency:    tool.Idempotent,
		Scope:          tool.ScopeWorkspace,
		Cut:            tool.CutHead,
		DefaultTimeout: time.Minute,
		MaxTimeout:     10 * time.Minute,
	}, func(_ context.Context, env tool.Env, a batchReadArgs) (tool.Action, error) {
		targets := make([]target, len(a.Paths))
		effects := make([]tool.Effect, len(a.Paths))
		for i, p := range a.Paths {
			t, err := aim(env, "/paths/"+strconv.Itoa(i), p)
			if err != nil {
				return tool.Action{}, err
			}
			targets[i], effects[i] = t, t.effect(tool.VerbRead)
		}
		return tool.Action{
			Class:   tool.ReadOnly,
			Effects: effects,
			Do: func(ctx context.Context, _ tool.Runtime) (tool.Result, error) {
				return batchRead(ctx, targets, lineRange{first: 1, last: a.MaxLinesPerFile, maxBytes: maxReadBytes / len(targets), byDefault: true})
			},
		}, nil
	})
}

// section is what one file gave.
type section struct {
	text  string
	lossy bool
	err   error
}

func batchRead(ctx context.Context, targets []target, lines lineRange) (tool.Result, error) {
	sections := make([]section, len(targets))
	var g errgroup.Group
	g.SetLimit(maxBatchReaders)
	for i, t := range targets {
		g.Go(func() error {
			sections[i] = readSection(ctx, t, lines)
			return nil
		})
	}
	_ = g.Wait()
	if err := ctx.Err(); err != nil {
		return tool.Result{}, err
	}
	var out strings.Builder
	failed, lossy := 0, false
	for i, s := range sections {
		if i > 0 {
			out.WriteByte('\n')
		}
		fmt.Fprintf(&out, "=== %s ===\n", valid(string(targets[i].path)))
		if s.err != nil {
			failed++
			fmt.Fprintf(&out, "error: %s\n", valid(s.err.Error()))
		}
		out.WriteString(s.text)
		lossy = lossy || s.lossy
	}
	r := tool.Result{
		Output:   tool.Text{Text: out.String(), Lossy: lossy},
		Metadata: metadata("filesRead", strconv.Itoa(len(sections)-failed), "filesFailed", strconv.Itoa(failed)),
	}
	if failed == len(sections) {
		r.Outcome = tool.Failed
		r.Error = &tool.Error{Reason: ReasonAllFilesFailed, Message: fmt.Sprintf("none of the %d files could be read; the first: %s", failed, valid(sections[0].err.Error()))}
	}
	return r, nil
}

func readSection(ctx context.Context, t target, lines lineRange) section {
	in, err := t.open()
	if err != nil {
		return section{err: err}
	}
	defer in.close()
	r, err := read(ctx, in, lines)
	if err != nil {
		return section{err: err}
	}
	text, ok := r.Output.(tool.Text)
	if !ok {
		return section{err: errors.New("is " + r.Metadata["mediaType"] + "; use read for it")}
	}
	return section{text: text.Text, lossy: text.Lossy}
}
