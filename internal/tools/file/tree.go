package file

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/toold/toold/internal/schema"
	"github.com/toold/toold/internal/tool"
)

type treeArgs struct {
	Path             string   `json:"path,omitempty" jsonschema:"minLength=1,maxLength=4096,default=." jsonschema_description:"Folder to draw, relative to the workspace."`
	MaxDepth         int      `json:"maxDepth,omitempty" jsonschema:"minimum=1,maximum=50,default=3" jsonschema_description:"How many levels of folders to show."`
	ShowFiles        *bool    `json:"showFiles,omitempty" jsonschema:"default=true" jsonschema_description:"false shows folders only."`
	Pattern          string   `json:"pattern,omitempty" jsonschema:"maxLength=1000" jsonschema_description:"Show only files whose name (or path, if it has a slash) matches, such as *.go, and the folders that lead to them."`
	Exclude          []string `json:"exclude,omitempty" jsonschema:"maxItems=50" jsonschema_description:"Patterns of names or paths to leave out, such as node_modules."`
	RespectGitignore *bool    `json:"respectGitignore,omitempty" jsonschema:"default=true" jsonschema_description:"Leave out what .gitignore files name. .git itself is always left out."`
	Limit            int      `json:"limit,omitempty" jsonschema:"minimum=1,maximum=10000,default=1000" jsonschema_description:"How many entries to draw. Upper levels come first; what is left out is counted."`
}

func newTree() tool.Tool {
	return schema.Define(tool.Spec{
		Name: "tree", Version: "1.0.0", Title: "Show a folder's structure", Category: "file",
		Description: "Draws the folders and files below a folder, folders first. " +
			"Use it once to see how a project is laid out; use glob to find files by name and grep to search in them.",
		UsageGuidance:  "Start with the default depth and go deeper only where you need to.",
		Class:          tool.ReadOnly,
		Idempotency:    tool.Idempotent,
		Scope:          tool.ScopeWorkspace,
		Cut:            tool.CutHead,
		DefaultTimeout: time.Minute,
		MaxTimeout:     10 * time.Minute,
	}, func(_ context.Context, env tool.Env, a treeArgs) (tool.Action, error) {
		for i, p := range append([]string{a.Pattern}, a.Exclude...) {
			pointer := "/pattern"
			if i > 0 {
				pointer = "/exclude/" + strconv.Itoa(i-1)
			}
			if err := checkGlob(pointer, p); err != nil {
				return tool.Action{}, err
			}
		}
		t, err := aim(env, "/path", a.Path)
		if err != nil {
			return tool.Action{}, err
		}
		return tool.Action{
			Class:   tool.ReadOnly,
			Effects: []tool.Effect{t.effect(tool.VerbRead)},
			Do: func(ctx context.Context, _ tool.Runtime) (tool.Result, error) {
				if err := t.check(); err != nil {
					return tool.Result{}, err
				}
				return drawTree(ctx, t, a)
			},
		}, nil
	})
}

// node is an entry of the drawing.
type node struct {
	name     string
	isFolder bool
	keep     bool // matches, or leads to what matches
	children nodes
}

type nodes []*node

// size counts the nodes and all below them.
func (ns nodes) size() int {
	n := len(ns)
	for _, c := range ns {
		n += c.children.size()
	}
	return n
}

// maxTreeNodes bounds what is held of a tree before it is drawn.
const maxTreeNodes = 200_000

func drawTree(ctx context.Context, t target, a treeArgs) (tool.Result, error) {
	root := &node{name: valid(string(t.path)), isFolder: true, keep: true}
	at := map[string]*node{".": root}
	full := false
	shown := func(rel string) bool { return strings.Count(rel, "/")+1 < a.MaxDepth }
	k := walker{useIgnore: *a.RespectGitignore}
	excluded := func(e walkEntry) bool {
		return slices.ContainsFunc(a.Exclude, func(p string) bool { return matchNameOrPath(p, e.rel) })
	}
	k.visit = func(e walkEntry) error {
		parent := at[path.Dir(e.rel)]
		isFolder := e.kind.IsDir()
		if parent == nil || excluded(e) || !isFolder && (!*a.ShowFiles || a.Pattern != "" && !matchNameOrPath(a.Pattern, e.rel)) {
			return nil
		}
		if full = len(at) >= maxTreeNodes; full {
			return nil
		}
		n := &node{name: valid(e.name()), isFolder: isFolder, keep: !isFolder || a.Pattern == ""}
		parent.children = append(parent.children, n)
		at[e.rel] = n
		return nil
	}
	k.enter = func(rel string) bool { return at[rel] != nil && shown(rel) && !full }
	if err := k.walk(ctx, t.ws, t.path); err != nil {
		return tool.Result{}, t.folderFault(ctx, err)
	}
	root.prune()
	d := drawing{limit: a.Limit}
	d.choose(root)
	text := d.draw(root)
	truncated := d.omitted > 0 || full
	text += fmt.Sprintf("\n%s, %s\n", count(d.folders, "folder"), count(d.files, "file"))
	if truncated {
		text += fmt.Sprintf("[%d entries left out at the limit of %d; narrow path or pattern]\n", d.omitted, a.Limit)
	}
	return tool.Result{
		Output:   tool.Text{Text: text},
		Metadata: metadata("folders", strconv.Itoa(d.folders), "files", strconv.Itoa(d.files), "omitted", strconv.Itoa(d.omitted), "truncated", strconv.FormatBool(truncated)),
		Hints:    k.hints(),
	}, nil
}

// matchNameOrPath matches the name when the pattern has no slash, else the path.
func matchNameOrPath(pattern, rel string) bool {
	pattern = strings.TrimSuffix(pattern, "/")
	if !strings.Contains(pattern, "/") {
		rel = path.Base(rel)
	}
	return doublestar.MatchUnvalidated(pattern, rel)
}

// prune drops folders that lead to nothing wanted and puts folders first.
func (n *node) prune() {
	for _, c := range n.children {
		c.prune()
		n.keep = n.keep || c.keep
	}
	n.children = slices.DeleteFunc(n.children, func(c *node) bool { return !c.keep })
	slices.SortStableFunc(n.children, func(a, b *node) int {
		switch {
		case a.isFolder == b.isFolder:
			return 0
		case a.isFolder:
			return -1
		}
		return 1
	})
}

// drawing holds the counts of what is drawn.
type drawing struct {
	limit                   int
	folders, files, omitted int
}

// choose keeps limit entries, the upper levels first, and counts them.
func (d *drawing) choose(root *node) {
	level := nodes{root}
	for len(level) > 0 {
		var next nodes
		for _, n := range level {
			shown, rest := n.children, nodes(nil)
			if room := d.limit - d.folders - d.files; len(shown) > room {
				shown, rest = shown[:room:room], shown[room:]
				d.omitted += rest.size()
				n.children = append(shown, &node{name: fmt.Sprintf("… %d more", len(rest))})
			}
			for _, c := range shown {
				if c.isFolder {
					d.folders++
				} else {
					d.files++
				}
			}
			next = append(next, shown...)
		}
		level = next
	}
}

func (d *drawing) draw(root *node) string {
	var b strings.Builder
	b.WriteString(root.name + "/\n")
	root.drawChildren(&b, "")
	return b.String()
}

func (n *node) drawChildren(b *strings.Builder, indent string) {
	for i, c := range n.children {
		branch, more := "├── ", "│   "
		if i == len(n.children)-1 {
			branch, more = "└── ", "    "
		}
		b.WriteString(indent + branch + c.name)
		if c.isFolder {
			b.WriteByte('/')
		}
		b.WriteByte('\n')
		c.drawChildren(b, indent+more)
	}
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
