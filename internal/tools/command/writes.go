package command

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toold/toold/internal/tool"
)

// lookWrites follows the links on the way to what a command line changes or
// deletes, as they are now: the effects say where they lead, so that protected
// paths and rules cannot be aliased, and one that leads outside the workspace is
// objected to. The analysis sees names only. What look says of the time between
// this and the program's start holds here too.
func lookWrites(o Options, w *tool.Workspace, found Analysis) Analysis {
	effects := slices.Clone(found.Effects)
	changed := false
	for i, e := range effects {
		name, ok := strings.CutPrefix(e.Target, "ws:/")
		if !ok || e.Verb != tool.VerbWrite && e.Verb != tool.VerbDelete {
			continue
		}
		target, out := whereTo(w, name, e.Verb == tool.VerbDelete)
		if target == e.Target {
			continue
		}
		effects[i].Target, changed = target, true
		if out && o.LinkOutside != nil {
			if f := o.LinkOutside(target); !slices.ContainsFunc(found.Findings, func(old tool.Finding) bool { return old.Code == f.Code }) {
				found.Findings = append(slices.Clone(found.Findings), f)
			}
		}
	}
	if changed {
		found.Effects = effects
	}
	return found
}

// whereTo gives the target of what name, below the workspace, leads to: up to its
// first pattern, and of what is deleted up to its last part, since deleting a
// link leaves alone what it points at. out says that it leads outside.
func whereTo(w *tool.Workspace, name string, deleted bool) (target string, out bool) {
	parts := strings.Split(name, "/")
	n := slices.IndexFunc(parts, func(p string) bool { return strings.ContainsAny(p, `*?[{\`) })
	if n < 0 {
		n = len(parts)
		if deleted {
			n--
		}
	}
	head, rest := path.Join(parts[:n]...), path.Join(parts[n:]...)
	if head == "" {
		return "ws:/" + name, false
	}
	p, err := w.Resolve("", head)
	if err != nil {
		return path.Join(follow(filepath.Join(w.Dir(), head)), rest), true
	}
	if string(p) == path.Clean(head) {
		return "ws:/" + name, false
	}
	return tool.Path(path.Join(string(p), rest)).Target(), false
}
