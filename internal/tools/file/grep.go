package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/toold/toold/internal/schema"
	"github.com/toold/toold/internal/tool"
)

type grepArgs struct {
	Pattern     string `json:"pattern" jsonschema:"minLength=1,maxLength=4096" jsonschema_description:"Regular expression in RE2 syntax (no look-around, no back-references). ^ and $ are the ends of a line."`
	Path        string `json:"path,omitempty" jsonschema:"minLength=1,maxLength=4096,default=." jsonschema_description:"Folder or file to search, relative to the workspace, or the toold://artifacts/ URI of a kept output."`
	Glob        string `json:"glob,omitempty" jsonschema:"maxLength=1000" jsonschema_description:"Search only files whose name (or path below path, if it has a slash) matches, such as *.ts or src/**/*.{c,h}. A leading ! leaves those out instead."`
	Type        string `json:"type,omitempty" jsonschema:"enum=c,enum=cpp,enum=csharp,enum=css,enum=docker,enum=go,enum=html,enum=java,enum=javascript,enum=json,enum=kotlin,enum=make,enum=markdown,enum=php,enum=protobuf,enum=python,enum=ruby,enum=rust,enum=shell,enum=sql,enum=swift,enum=text,enum=toml,enum=typescript,enum=xml,enum=yaml" jsonschema_description:"Search only files of this kind."`
	IgnoreCase  bool   `json:"ignoreCase,omitempty" jsonschema:"default=false" jsonschema_description:"Capital and small letters are the same."`
	Multiline   bool   `json:"multiline,omitempty" jsonschema:"default=false" jsonschema_description:"Let a match go over several lines (use \\\\n, or (?s) to make . match line breaks). Only files up to 4 MiB."`
	FixedString bool   `json:"fixedString,omitempty" jsonschema:"default=false" jsonschema_description:"pattern is plain text, not a regular expression."`
	Before      int    `json:"before,omitempty" jsonschema:"minimum=0,maximum=50,default=0" jsonschema_description:"Lines to show before each match (mode content)."`
	After       int    `json:"after,omitempty" jsonschema:"minimum=0,maximum=50,default=0" jsonschema_description:"Lines to show after each match (mode content)."`
	Mode        string `json:"mode,omitempty" jsonschema:"enum=content,enum=files,enum=count,default=content" jsonschema_description:"content gives path:line:text; files gives the paths that have a match; count gives path:matches."`
	Limit       int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=10000,default=500" jsonschema_description:"How many matches (mode content) or files to give; the search stops there."`
}

// The modes.
const (
	modeContent = "content"
	modeFiles   = "files"
	modeCount   = "count"
)

// maxGrepBytes bounds the output of one call.
const maxGrepBytes = 2 << 20

func newGrep(o Options) tool.Tool {
	return schema.Define(tool.Spec{
		Name: "grep", Version: "1.0.0", Title: "Search in files", Category: "file",
		Description: "Searches the contents of files for a regular expression and gives path:line:text, in the order of the paths; context lines read path-line-text. " +
			"What .gitignore names is left out (unless it is itself the path), binary files are skipped and counted, links are not followed. " +
			"Use glob to find files by name, read for the lines around a match.",
		UsageGuidance:  "Narrow with glob, type or path first; mode files is the cheapest way to see where something is.",
		Class:          tool.ReadOnly,
		Idempotency:    tool.Idempotent,
		Scope:          tool.ScopeWorkspace,
		Cut:            tool.CutHead,
		DefaultTimeout: time.Minute,
		MaxTimeout:     10 * time.Minute,
	}, func(_ context.Context, env tool.Env, a grepArgs) (tool.Action, error) {
		m, err := compilePattern(a)
		if err != nil {
			return tool.Action{}, err
		}
		glob := strings.TrimPrefix(a.Glob, "!")
		if err := checkGlob("/glob", glob); err != nil {
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
				g := &grep{args: a, matcher: m, glob: glob}
				return g.run(ctx, src)
			},
		}, nil
	})
}

// grep is one run of the tool. Files are searched by several workers in pieces
// of work, and collected in the order in which the walk met them: the same tree
// gives the same answer.
type grep struct {
	args    grepArgs
	matcher *matcher
	glob    string

	out      strings.Builder
	matches  int
	files    int // with matches
	outcomes [unreadableFile + 1]int
	stopped  bool // at the limit
	walker   walker
}

// work is some files of one folder, and then what was found in them.
type work struct {
	dir      *folder
	paths    []string
	done     chan struct{}
	found    []matched
	outcomes [unreadableFile + 1]int
}

// maxWorkFiles bounds the files of one piece of work.
const maxWorkFiles = 32

func (g *grep) run(ctx context.Context, src source) (tool.Result, error) {
	if src.target != nil {
		if err := src.target.check(); err != nil {
			return tool.Result{}, err
		}
	}
	var err error
	if src.target == nil || !src.target.isFolder() {
		err = g.one(ctx, src)
	} else {
		err = g.tree(ctx, *src.target)
	}
	if err != nil {
		return tool.Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return tool.Result{}, err
	}
	return g.result(), nil
}

// one searches a single file or artifact.
func (g *grep) one(ctx context.Context, src source) error {
	in, err := src.open(ctx)
	if err != nil {
		return err
	}
	defer in.close()
	found, outcome := newSearcher(g.args, g.matcher).file(ctx, valid(in.name), in.body, in.size)
	w := &work{}
	w.add(found, outcome)
	g.collect(w)
	return nil
}

// tree searches the files below a folder.
func (g *grep) tree(ctx context.Context, t target) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	workers := min(runtime.GOMAXPROCS(0), 8)
	todo := make(chan *work, 4*workers)
	ordered := make(chan *work, 8*workers) // bounds what is found ahead of its turn
	var group errgroup.Group
	for range workers {
		group.Go(func() error {
			s := newSearcher(g.args, g.matcher)
			for w := range todo {
				w.run(ctx, s)
			}
			return nil
		})
	}
	group.Go(func() error {
		defer close(ordered)
		defer close(todo)
		return g.feed(ctx, t, todo, ordered)
	})
	for w := range ordered {
		<-w.done
		if g.collect(w); g.stopped {
			stop()
		}
	}
	if err := group.Wait(); err != nil && !g.stopped {
		return t.folderFault(ctx, err)
	}
	return nil
}

// feed walks the tree and hands out work.
func (g *grep) feed(ctx context.Context, t target, todo, ordered chan<- *work) error {
	var w *work
	flush := func() error {
		if w == nil {
			return nil
		}
		next := w
		w = nil
		select {
		case ordered <- next:
			todo <- next // the workers never stop taking
			return nil
		case <-ctx.Done():
			next.dir.release()
			return ctx.Err()
		}
	}
	g.walker = walker{useIgnore: true, visit: func(e walkEntry) error {
		if e.kind != 0 || !g.wanted(e) {
			return nil
		}
		if w != nil && (w.dir != e.dir || len(w.paths) == maxWorkFiles) {
			if err := flush(); err != nil {
				return err
			}
		}
		if w == nil {
			w = &work{dir: e.dir.retain(), done: make(chan struct{}), paths: make([]string, 0, 8)}
		}
		w.paths = append(w.paths, e.path)
		return nil
	}}
	err := g.walker.walk(ctx, t.ws, t.path)
	return errors.Join(err, flush())
}

// wanted says whether a file passes glob and type.
func (g *grep) wanted(e walkEntry) bool {
	if g.args.Type != "" && !isType(g.args.Type, e.name()) {
		return false
	}
	if g.glob == "" {
		return true
	}
	return matchNameOrPath(g.glob, e.rel) != strings.HasPrefix(g.args.Glob, "!")
}

func (w *work) run(ctx context.Context, s *searcher) {
	defer close(w.done)
	defer w.dir.release()
	total := 0
	for _, p := range w.paths {
		if ctx.Err() != nil || total > s.Limit || len(w.found) > s.Limit {
			return
		}
		fd, st, err := w.dir.openRegular(path.Base(p))
		if err != nil {
			w.outcomes[unreadableFile]++
			continue
		}
		found, outcome := s.file(ctx, valid(p), descriptor(fd), st.size)
		_ = unix.Close(fd)
		w.add(found, outcome)
		if s.Mode == modeContent {
			total += found.matches
		}
	}
}

func (w *work) add(m matched, o outcome) {
	w.outcomes[o]++
	if m.matches > 0 {
		w.found = append(w.found, m)
	}
}

// collect adds what one piece of work found, up to the limit.
func (g *grep) collect(w *work) {
	if g.stopped {
		return
	}
	for i, n := range w.outcomes {
		g.outcomes[i] += n
	}
	for _, m := range w.found {
		room := g.args.Limit - g.files
		if g.args.Mode == modeContent {
			room = g.args.Limit - g.matches
		}
		if room <= 0 {
			g.stopped = true
			return
		}
		g.files++
		switch g.args.Mode {
		case modeFiles:
			g.matches++
			g.out.WriteString(m.path + "\n")
		case modeCount:
			g.matches += m.matches
			g.out.WriteString(m.path + ":" + strconv.Itoa(m.matches) + "\n")
		default:
			if g.files > 1 && g.args.Before+g.args.After > 0 {
				g.out.WriteString("--\n")
			}
			g.out.Write(m.until(room))
			g.matches += min(room, m.matches)
			g.stopped = m.matches > room || g.out.Len() > maxGrepBytes
		}
		if g.stopped {
			return
		}
	}
}

func (g *grep) result() tool.Result {
	total := 0
	for _, n := range g.outcomes {
		total += n
	}
	text := g.out.String()
	switch {
	case g.files == 0:
		text = fmt.Sprintf("no matches in %s\n", count(total, "file"))
	case g.stopped:
		at := fmt.Sprintf("limit=%d", g.args.Limit)
		if len(text) > maxGrepBytes {
			at = fmt.Sprintf("%d bytes of output", maxGrepBytes)
		}
		text += "[stopped at " + at + "; there are more: narrow the pattern, path or glob]\n"
	}
	meta := metadata("mode", g.args.Mode, "matches", strconv.Itoa(g.matches), "files", strconv.Itoa(g.files),
		"filesSearched", strconv.Itoa(g.outcomes[searched]), "binarySkipped", strconv.Itoa(g.outcomes[binaryFile]),
		"truncated", strconv.FormatBool(g.stopped))
	hints := g.walker.hints()
	if n := g.outcomes[tooLargeFile]; n > 0 {
		hints = append(hints, tool.Hint{Level: tool.Warning, Code: "FILES_TOO_LARGE", Message: fmt.Sprintf("%s larger than %d bytes: not searched (multiline or UTF-16)", count(n, "file"), maxWholeText)})
	}
	if n := g.outcomes[unreadableFile]; n > 0 {
		hints = append(hints, tool.Hint{Level: tool.Warning, Code: "FILES_UNREADABLE", Message: fmt.Sprintf("%s could not be read", count(n, "file"))})
	}
	return tool.Result{Output: tool.Text{Text: text}, Metadata: meta, Hints: hints}
}

// isFolder says whether t is a folder now.
func (t target) isFolder() bool {
	d, base, err := openParent(t.ws, t.path)
	if err != nil {
		return false
	}
	defer d.release()
	s, err := d.stat(base)
	return err == nil && s.kind() == fs.ModeDir
}
