package command

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/toold/toold/internal/tool"
)

// Read is a place that a command line reads by its name.
type Read struct {
	Path     string // absolute, as the system gets to see it: not cleaned, links not resolved
	Glob     bool   // *, ? and [ in Path are patterns; ** is any number of folders
	Tree     bool   // all below it is read too, through the links that are met there
	Contents bool   // what is in the file is read, not only names and metadata
}

// Bounds of one look at where reads lead. What goes beyond is not read-only.
const (
	maxEntries = 10_000 // names of folders looked at
	maxMatches = 512    // names that patterns match
)

// look follows the links on the way to what a command line reads, as they are
// now, and puts where they lead into the effects. A call that reads through them
// what is outside the workspace, or that cannot be followed, is no longer
// READ_ONLY. The analysis cannot say this: it sees names only.
//
// It is a statement about the past. Between it and the moment at which the
// program opens the file, someone else may put a link there; do looks again just
// before the command starts, so that only the program's own start is left to
// race with. What is read in that gap is bounded by the sandbox alone.
func look(o Options, w *tool.Workspace, found Analysis) Analysis {
	if len(found.Reads) == 0 {
		return found
	}
	l := looker{w: w, secret: o.Secret, found: found, entries: maxEntries, matches: maxMatches, trees: map[walked]bool{}}
	l.found.Effects = slices.Clone(found.Effects)
	l.found.Findings = slices.Clone(found.Findings)
	for _, r := range found.Reads {
		l.read(r)
	}
	return l.found
}

type looker struct {
	w       *tool.Workspace
	secret  func(string) (tool.Finding, bool)
	found   Analysis
	entries int // that may still be looked at
	matches int
	trees   map[walked]bool
	seen    map[string]bool // targets of the effects
}

// walked is a folder whose tree was walked already.
type walked struct {
	at       tool.Path
	contents bool
}

func (l *looker) read(r Read) {
	switch _, inside := l.below(r.Path); {
	case !inside: // below /tmp, where a link is as good as any other way out
		if at := follow(r.Path); at != path.Clean(r.Path) || r.Glob {
			l.outside(at, r)
		}
		return
	case !r.Glob:
		l.place(r)
		return
	}
	pattern, below := strings.CutSuffix(r.Path, "/**")
	r.Tree = r.Tree || below
	names, ok := l.expand(pattern)
	if !ok {
		l.outside(follow(r.Path), r)
		return
	}
	for _, r.Path = range names {
		p, err := l.w.Resolve("", r.Path)
		if err == nil {
			if _, err := l.w.Root().Lstat(string(p)); err != nil {
				continue // a pattern matches only what there is
			}
		}
		l.place(r)
	}
}

// place notes where one name leads.
func (l *looker) place(r Read) {
	p, err := l.w.Resolve("", r.Path)
	switch {
	case err != nil:
		l.outside(follow(r.Path), r)
	case !r.Tree:
		if at := l.abs(p); at != path.Clean(r.Path) || r.Glob { // else the analysis said it
			l.effect(p.Target())
		}
		l.judge(l.abs(p), r)
	case !l.tree(p, r):
		l.widen(p.Target())
	}
}

// outside notes that a name leads to an absolute path that is not for readers.
func (l *looker) outside(at string, r Read) {
	target := at
	if rel, ok := l.below(at); ok {
		target = tool.Path(strings.TrimPrefix(rel, "/")).Target()
	}
	l.widen(target)
	l.judge(at, r)
}

func (l *looker) abs(p tool.Path) string { return filepath.Join(l.w.Dir(), string(p)) }

// judge adds what there is against printing the file at an absolute path.
func (l *looker) judge(at string, r Read) {
	if l.secret == nil || !r.Contents {
		return
	}
	f, ok := l.secret(at)
	if ok && !slices.ContainsFunc(l.found.Findings, func(old tool.Finding) bool { return old.Code == f.Code }) {
		l.found.Findings = append(l.found.Findings, f)
		l.change()
	}
}

func (l *looker) effect(target string) {
	if l.seen == nil {
		l.seen = map[string]bool{}
		for _, e := range l.found.Effects {
			l.seen[e.Target] = l.seen[e.Target] || e.Verb == tool.VerbRead
		}
	}
	if !l.seen[target] {
		l.seen[target] = true
		l.found.Effects = append(l.found.Effects, tool.Effect{Verb: tool.VerbRead, Target: target})
	}
}

// widen says that a call reads target, which is not for a reader to read.
func (l *looker) widen(target string) {
	l.effect(target)
	l.change()
}

// change says that a call is not one that only reads what is for readers.
func (l *looker) change() {
	l.found.Class = tool.SystemChange
	if e := (tool.Effect{Verb: tool.VerbUnknown, Target: "*"}); !slices.Contains(l.found.Effects, e) {
		l.found.Effects = append(l.found.Effects, e)
	}
}

// below gives the part of an absolute path after the workspace's.
func (l *looker) below(abs string) (rel string, ok bool) {
	rel, ok = strings.CutPrefix(abs, strings.TrimSuffix(l.w.Dir(), "/"))
	return rel, ok && (rel == "" || rel[0] == '/')
}

// expand gives the names that a pattern may match: all that bash would find, and
// hidden ones, other letter case and any class of characters besides.
func (l *looker) expand(pattern string) (names []string, ok bool) {
	rel, _ := l.below(pattern)
	names = []string{l.w.Dir()}
	for part := range strings.SplitSeq(rel, "/") {
		if part == "" {
			continue
		}
		var next []string
		for _, dir := range names {
			switch {
			case part == "**":
				if next = append(next, dir); !l.descend(dir, &next) {
					return nil, false
				}
			case strings.ContainsAny(part, `*?[\`):
				entries, ok := l.list(dir)
				if !ok {
					return nil, false
				}
				for _, e := range entries {
					if matches(part, e.Name()) {
						next = append(next, dir+"/"+e.Name())
					}
				}
			default:
				next = append(next, dir+"/"+part)
			}
		}
		names = next
	}
	l.matches -= len(names)
	return names, l.matches >= 0
}

// descend adds the folders below dir, and links, which may be some.
func (l *looker) descend(dir string, names *[]string) bool {
	entries, ok := l.list(dir)
	for _, e := range entries {
		name := dir + "/" + e.Name()
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			*names = append(*names, name)
		case e.IsDir():
			*names = append(*names, name)
			ok = l.descend(name, names) && ok
		}
	}
	return ok
}

// tree walks all below p, through links, and says whether it came to an end.
func (l *looker) tree(p tool.Path, r Read) bool {
	if l.trees[walked{p, r.Contents}] {
		return true
	}
	l.trees[walked{p, r.Contents}] = true
	l.judge(l.abs(p), r)
	entries, ok := l.list(l.abs(p))
	for _, e := range entries {
		at := path.Join(string(p), e.Name())
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			to, err := l.w.Resolve("", at)
			if err != nil {
				l.outside(follow(l.abs(tool.Path(at))), r)
				continue
			}
			l.effect(to.Target())
			ok = l.tree(to, r) && ok
		case e.IsDir():
			ok = l.tree(tool.Path(at), r) && ok
		default:
			l.judge(l.abs(tool.Path(at)), r)
		}
	}
	return ok
}

// list gives what is in a folder; nothing for what is none. ok is false where
// that cannot be told.
func (l *looker) list(abs string) (entries []os.DirEntry, ok bool) {
	p, err := l.w.Resolve("", abs)
	if err != nil {
		l.outside(follow(abs), Read{})
		return nil, true
	}
	f, err := l.w.Root().OpenFile(string(p), os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, true
	case err != nil:
		return nil, false
	}
	defer f.Close()
	for l.entries >= 0 {
		some, err := f.ReadDir(256)
		entries = append(entries, some...)
		l.entries -= len(some)
		if errors.Is(err, io.EOF) {
			return entries, l.entries >= 0
		}
		if err != nil {
			return nil, false
		}
	}
	return nil, false
}

// matches says whether a name may match one part of a pattern. A class is taken
// for anything, and so is a name that is not plain ASCII: how those match is for
// the locale to say.
func matches(pattern, name string) bool {
	if i := strings.IndexAny(pattern, `[\`); i >= 0 {
		pattern = pattern[:i] + "*"
	}
	if strings.ContainsFunc(pattern+name, func(r rune) bool { return r >= 0x80 }) {
		return true
	}
	ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(name))
	return ok || err != nil
}

// maxLinks bounds the links that are followed for one path.
const maxLinks = 40

// follow says where an absolute path leads, as far as that can be told.
func follow(abs string) string {
	at, rest, links := "/", abs, 0
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		at = path.Join(at, part)
		link, err := os.Readlink(at)
		if err != nil {
			continue // no link, or not to be told
		}
		if links++; links > maxLinks {
			return at
		}
		if at = path.Dir(at); path.IsAbs(link) {
			at = "/"
		}
		rest = link + "/" + rest
	}
	return at
}
