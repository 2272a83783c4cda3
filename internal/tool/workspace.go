package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// Workspace is a folder that calls may touch, and the only one. All access goes
// through its os.Root, so that no symbolic link, "..", absolute path or race
// reaches anything outside.
type Workspace struct {
	id     string
	dir    string
	given  string // dir as it was named, before links in it were resolved
	root   *os.Root
	folder *os.File // of root
}

// OpenWorkspace opens dir (an existing folder) as workspace id.
func OpenWorkspace(id, dir string) (*Workspace, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("workspace %s: %w", id, err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("workspace %s: %w", id, err)
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, fmt.Errorf("workspace %s: %w", id, err)
	}
	folder, err := root.Open(".")
	if err != nil {
		return nil, fmt.Errorf("workspace %s: %w", id, errors.Join(err, root.Close()))
	}
	return &Workspace{id: id, dir: real, given: abs, root: root, folder: folder}, nil
}

// ID is the workspace's name.
func (w *Workspace) ID() string { return w.id }

// Dir is the workspace's absolute path, links resolved. It is for commands'
// working directories; files are reached by Root.
func (w *Workspace) Dir() string { return w.dir }

// Folder is the folder itself, open: the place to go on from, one name at a
// time. It is not to be listed (its position is shared) or closed.
func (w *Workspace) Folder() *os.File { return w.folder }

// Root is the confined view of the folder.
func (w *Workspace) Root() *os.Root { return w.root }

// Close releases the folder.
func (w *Workspace) Close() error { return errors.Join(w.folder.Close(), w.root.Close()) }

// Path is a resolved place inside a workspace: relative, "/"-separated, no
// links in it, "." for the workspace itself.
type Path string

// Target is the path as an effect's target: "ws:/a/b.go".
func (p Path) Target() string {
	if p == "." {
		return "ws:/"
	}
	return "ws:/" + string(p)
}

// maxLinks bounds the symbolic links followed for one path, maxName its bytes.
const (
	maxLinks = 40
	maxName  = 4096
)

// Resolve turns what a caller wrote (relative to the workspace, or absolute
// inside it) into a Path, following symbolic links inside the workspace, the
// last one too. ".." is the parent of where a link leads, as the system has it.
// What does not exist yet resolves as far as it does. It fails with an
// *ArgumentError: PATH_OUTSIDE_WORKSPACE for anything outside,
// PATH_UNRESOLVABLE for what cannot be looked up; pointer names the argument
// in it. The answer is a statement about the past: whoever uses it must not
// follow links again.
func (w *Workspace) Resolve(pointer, name string) (Path, error) {
	switch {
	case name == "":
		return "", BadArgument(pointer, ReasonArgumentsSchema, "is empty; give a path relative to the workspace")
	case strings.ContainsRune(name, 0):
		return "", BadArgument(pointer, ReasonArgumentsSchema, "holds a NUL byte")
	case len(name) > maxName:
		return "", BadArgument(pointer, ReasonArgumentsSchema, "is longer than %d bytes", maxName)
	}
	rest, ok := filepath.ToSlash(name), true
	if path.IsAbs(rest) {
		rest, ok = w.inside(rest)
	}
	at := "."
	missing, links := 0, 0 // how many of the last parts of at do not exist
	for ok && rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		switch part {
		case "", ".":
			continue
		case "..":
			ok = at != "."
			at, missing = path.Dir(at), max(0, missing-1)
			continue
		}
		at = path.Join(at, part)
		if missing > 0 {
			missing++
			continue
		}
		info, err := w.root.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
			missing = 1
			continue
		case err != nil:
			return "", unresolvable(pointer, name, err)
		case info.Mode()&fs.ModeSymlink == 0:
			continue
		}
		if links++; links > maxLinks {
			return "", BadArgument(pointer, ReasonUnresolvable, "%q leads through more than %d symbolic links; is there a loop?", name, maxLinks)
		}
		link, err := w.root.Readlink(at)
		if err != nil {
			return "", unresolvable(pointer, name, err)
		}
		at = path.Dir(at)
		if path.IsAbs(link) {
			at = "."
			link, ok = w.inside(link)
		}
		rest = link + "/" + rest
	}
	if !ok {
		return "", BadArgument(pointer, ReasonOutsideWorkspace, "%q is outside the workspace; give a path inside it, relative to its root", name)
	}
	return Path(at), nil
}

func unresolvable(pointer, name string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return BadArgument(pointer, ReasonUnresolvable, "%q cannot be looked up: %v", name, err)
}

// inside gives the part of an absolute path below the workspace. ok is false
// where its spelling does not start at the workspace; what ".." there leads to
// is for the caller to follow.
func (w *Workspace) inside(abs string) (rest string, ok bool) {
	for _, abs := range []string{abs, path.Clean(abs)} {
		for _, dir := range []string{w.dir, w.given} {
			rest, ok := strings.CutPrefix(abs, dir)
			if ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(dir, "/")) {
				return rest, true
			}
		}
	}
	return "", false
}
