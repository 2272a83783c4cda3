package file

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/toold/toold/internal/schema"
	"github.com/toold/toold/internal/tool"
)

type globArgs struct {
	Pattern          string `json:"pattern" jsonschema:"minLength=1,maxLength=1000" jsonschema_description:"Pattern for paths relative to path: * and ? within a name, ** for any number of folders (none too), [a-z], {a,b}. For instance **/*.go or cmd/**/main.*"`
	Path             string `json:"path,omitempty" jsonschema:"minLength=1,maxLength=4096,default=." jsonschema_description:"Folder to start at, relative to the workspace."`
	RespectGitignore *bool  `json:"respectGitignore,omitempty" jsonschema:"default=true" jsonschema_description:"Leave out what .gitignore files name. .git itself is always left out."`
	Limit            int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=10000,default=1000" jsonschema_description:"How many paths to give; the newest are kept."`
}

func newGlob() tool.Tool {
	return schema.Define(tool.Spec{
		Name: "glob", Version: "1.0.0", Title: "Find files by name", Category: "file",
		Description: "Finds files, folders and links whose path matches a pattern, the most recently changed first. " +
			"Paths are relative to the workspace, ready for read. Use grep to search in contents, tree to see how a project is laid out.",
		UsageGuidance:  "*.go matches only directly in path; **/*.go matches at any depth.",
		Class:          tool.ReadOnly,
		Idempotency:    tool.Idempotent,
		Scope:          tool.ScopeWorkspace,
		Cut:            tool.CutHead,
		DefaultTimeout: time.Minute,
		MaxTimeout:     10 * time.Minute,
	}, func(_ context.Context, env tool.Env, a globArgs) (tool.Action, error) {
		pattern := strings.TrimPrefix(a.Pattern, "./")
		if err := checkGlob("/pattern", pattern); err != nil {
			return tool.Action{}, err
		}
		t, err := aim(env, "/path", a.Path)
		if err != nil {
			return tool.Action{}, err
		}
		return tool.Action{
			Class:   tool.ReadOnly,
			Effects: []tool.Effect{t.effect(tool.VerbRead)},
			Do: func(ctx context.Context, _ tool.Runtime) (tool.Result, error) {
				g := globber{pattern: pattern, limit: a.Limit}
				return g.run(ctx, t, *a.RespectGitignore)
			},
		}, nil
	})
}

// checkGlob refuses a pattern that is malformed or that could never match a
// path below a folder.
func checkGlob(pointer, pattern string) error {
	switch {
	case !doublestar.ValidatePattern(pattern):
		return tool.BadArgument(pointer, ReasonPattern, "%q is not a valid pattern; check brackets, braces and backslashes", pattern)
	case strings.HasPrefix(pattern, "/"), slices.Contains(strings.Split(pattern, "/"), ".."):
		return tool.BadArgument(pointer, ReasonPattern, "%q must be relative and without \"..\"; put the folder into path", pattern)
	}
	return nil
}

// found is one match of glob.
type found struct {
	Path     string `json:"path"`
	Type     string `json:"type"` // file, folder, link or other
	Size     int64  `json:"size"` // bytes
	Modified string `json:"modified"`
	mtime    int64
}

func newer(a, b found) int {
	return cmp.Or(cmp.Compare(b.mtime, a.mtime), cmp.Compare(a.Path, b.Path))
}

// oldestFirst is a heap that has the match to drop next on top.
type oldestFirst []found

func (h oldestFirst) Len() int           { return len(h) }
func (h oldestFirst) Less(i, j int) bool { return newer(h[i], h[j]) > 0 }
func (h oldestFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *oldestFirst) Push(x any)        { *h = append(*h, x.(found)) }
func (h *oldestFirst) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

type globber struct {
	pattern string
	limit   int
	newest  oldestFirst // at most limit
	total   int
}

func (g *globber) run(ctx context.Context, t target, useIgnore bool) (tool.Result, error) {
	if err := t.check(); err != nil {
		return tool.Result{}, err
	}
	k := walker{useIgnore: useIgnore, enter: couldHold(g.pattern), visit: g.visit}
	if err := k.walk(ctx, t.ws, t.path); err != nil {
		return tool.Result{}, t.folderFault(ctx, err)
	}
	slices.SortFunc(g.newest, newer)
	return g.result(&k)
}

func (g *globber) visit(e walkEntry) error {
	if !doublestar.MatchUnvalidated(g.pattern, e.rel) {
		return nil
	}
	s, err := e.dir.stat(e.name())
	if err != nil {
		return nil // gone meanwhile
	}
	g.total++
	f := found{Path: valid(e.path), Type: typeName(s.kind()), Size: s.size, mtime: s.mtime}
	if len(g.newest) < g.limit {
		heap.Push(&g.newest, f)
	} else if newer(f, g.newest[0]) < 0 {
		g.newest[0] = f
		heap.Fix(&g.newest, 0)
	}
	return nil
}

func (g *globber) result(k *walker) (tool.Result, error) {
	var text strings.Builder
	for i := range g.newest {
		f := &g.newest[i]
		f.Modified = time.Unix(0, f.mtime).UTC().Format(time.RFC3339)
		text.WriteString(f.Path + "\n")
	}
	truncated := g.total > len(g.newest)
	if truncated {
		fmt.Fprintf(&text, "[the newest %d of %d; narrow the pattern or raise limit]\n", len(g.newest), g.total)
	}
	if g.total == 0 {
		text.WriteString("no path matches\n")
	}
	list := struct {
		Files     []found `json:"files"`
		Total     int     `json:"total"`
		Truncated bool    `json:"truncated"`
	}{append([]found{}, g.newest...), g.total, truncated}
	body, err := json.Marshal(list)
	if err != nil {
		return tool.Result{}, fmt.Errorf("listing matches: %w", err)
	}
	r := tool.Result{
		Output:   tool.Structured{JSON: body, Rendering: text.String()},
		Metadata: metadata("count", strconv.Itoa(g.total), "truncated", strconv.FormatBool(truncated)),
		Hints:    k.hints(),
	}
	if g.total == 0 && !strings.Contains(g.pattern, "/") && !strings.Contains(g.pattern, "**") {
		r.Hints = append(r.Hints, tool.Hint{
			Level: tool.Info, Code: "ONLY_TOP_LEVEL", Message: "the pattern matches only directly in path",
			Suggestion: "use **/" + g.pattern + " to look in all folders",
		})
	}
	return r, nil
}

// couldHold gives the folders that a match of pattern may be in: the parts of
// the pattern before "**" or braces are matched name by name.
func couldHold(pattern string) func(rel string) bool {
	parts := strings.Split(pattern, "/")
	return func(rel string) bool {
		i := 0
		for name := range strings.SplitSeq(rel, "/") {
			switch {
			case i >= len(parts)-1:
				return strings.ContainsAny(parts[len(parts)-1], "{}") || parts[len(parts)-1] == "**"
			case parts[i] == "**" || strings.ContainsAny(parts[i], `{}\[`):
				return true
			case !doublestar.MatchUnvalidated(parts[i], name):
				return false
			}
			i++
		}
		return true
	}
}

func typeName(k fs.FileMode) string {
	switch k {
	case 0:
		return "file"
	case fs.ModeDir:
		return "folder"
	case fs.ModeSymlink:
		return "link"
	}
	return "other"
}

// folderFault says for the model what err means where a folder was wanted.
func (t target) folderFault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if d, base, e := openParent(t.ws, t.path); e == nil {
		defer d.release()
		if s, e := d.stat(base); e == nil && !s.kind().IsDir() && s.kind() != fs.ModeSymlink {
			return tool.BadArgument(t.pointer, ReasonNotAFolder, "%s is %s, not a folder; give the folder %s", t.path, fileName(s.kind()), path.Dir(string(t.path)))
		}
	}
	return t.fault(err)
}

func fileName(k fs.FileMode) string {
	if k == 0 {
		return "a file"
	}
	return kindName(k)
}

// hints says what the walk could not see.
func (k *walker) hints() []tool.Hint {
	var h []tool.Hint
	if k.unreadable > 0 {
		h = append(h, tool.Hint{Level: tool.Warning, Code: "FOLDERS_UNREADABLE", Message: fmt.Sprintf("%d folders could not be listed", k.unreadable)})
	}
	if k.incomplete {
		h = append(h, tool.Hint{Level: tool.Warning, Code: "FOLDER_TOO_LARGE", Message: fmt.Sprintf("a folder has more than %d entries; the rest was left out", maxEntries)})
	}
	return h
}
