package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/toold/toold/internal/tool"
)

// walker goes through the folders below one in the order of their names,
// without following links and without entering ".git".
type walker struct {
	// useIgnore leaves out what the ignore files of git name.
	useIgnore bool
	// enter says whether to go into the folder at rel (relative to where the
	// walk started); nil: into all.
	enter func(rel string) bool
	// visit is called for every entry that is left. Folders come before what is
	// in them. An error ends the walk; fs.SkipAll ends it without one.
	visit func(e walkEntry) error

	unreadable int  // folders that could not be listed
	incomplete bool // a folder has more than maxEntries
}

// walkEntry is one thing that the walk has met. dir is valid during the visit;
// who needs it longer retains it.
type walkEntry struct {
	dir  *folder
	path string // relative to the workspace
	rel  string // relative to where the walk started
	kind fs.FileMode
}

func (e walkEntry) name() string { return path.Base(e.path) }

// maxDepth bounds how deep folders are followed: each holds a descriptor.
const maxDepth = 200

// walk starts at a folder of w.
func (k *walker) walk(ctx context.Context, w *tool.Workspace, at tool.Path) error {
	d, rules, err := k.start(w, at)
	if err != nil {
		return err
	}
	defer d.release()
	err = k.folder(ctx, d, string(at), ".", rules, 0)
	if errors.Is(err, fs.SkipAll) {
		return nil
	}
	return err
}

// start opens the folder and gathers the ignore rules of those around it.
func (k *walker) start(w *tool.Workspace, at tool.Path) (*folder, *ignoreRules, error) {
	d, err := openFolder(w, ".")
	if err != nil {
		return nil, nil, err
	}
	var rules *ignoreRules
	rel := "."
	rest := string(at)
	if rest == "." {
		rest = ""
	}
	for rest != "" {
		if k.useIgnore {
			rules = rules.within(d, rel)
		}
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		next, err := d.enter(name)
		d.release()
		if err != nil {
			return nil, nil, err
		}
		d, rel = next, path.Join(rel, name)
	}
	return d, rules, nil
}

func (k *walker) folder(ctx context.Context, d *folder, at, rel string, outer *ignoreRules, depth int) error {
	entries, more, err := d.list(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		k.unreadable++
		return nil
	}
	k.incomplete = k.incomplete || more
	rules := outer
	if k.useIgnore && hasIgnoreFile(entries) {
		rules = outer.within(d, at)
	}
	for _, de := range entries {
		name := de.Name()
		if name == ".git" {
			continue
		}
		e := walkEntry{dir: d, path: below(at, name), rel: below(rel, name), kind: de.Type()}
		if rules.ignored(e.path, name, e.kind.IsDir()) {
			continue
		}
		if err := k.visit(e); err != nil {
			return err
		}
		if !e.kind.IsDir() || k.enter != nil && !k.enter(e.rel) {
			continue
		}
		if err := k.descend(ctx, e, rules, depth); err != nil {
			return err
		}
	}
	return nil
}

func (k *walker) descend(ctx context.Context, e walkEntry, rules *ignoreRules, depth int) error {
	sub, err := e.dir.enter(e.name())
	if err != nil || depth >= maxDepth {
		k.unreadable++
		if err == nil {
			sub.release()
		}
		return nil
	}
	defer sub.release()
	return k.folder(ctx, sub, e.path, e.rel, rules, depth+1)
}

func below(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

func hasIgnoreFile(entries []os.DirEntry) bool {
	for _, e := range entries {
		if n := e.Name(); n == ".gitignore" || n == ".git" {
			return true
		}
		if e.Name() > ".gitignore" {
			break
		}
	}
	return false
}
