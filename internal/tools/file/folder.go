package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toold/toold/internal/tool"
)

// folder is an open directory of a workspace. Entries are reached by one name
// at a time, relative to the open directory and never through a symbolic link:
// whatever is swapped meanwhile, nothing outside the directory is touched.
// It is closed by the last release.
type folder struct {
	f    *os.File
	refs atomic.Int32
}

func newFolder(f *os.File) *folder {
	d := &folder{f: f}
	d.refs.Store(1)
	return d
}

// openFolder opens a folder of a workspace, "." for the workspace itself.
func openFolder(w *tool.Workspace, p tool.Path) (*folder, error) {
	if p == "." {
		f, err := w.Root().Open(".")
		if err != nil {
			return nil, err
		}
		return newFolder(f), nil
	}
	at := top(w)
	for name := range strings.SplitSeq(string(p), "/") {
		next, err := at.enter(name)
		at.release()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// top is the workspace's own folder as the workspace holds it open. It is shared:
// for going on from, neither for listing nor for locking. Releasing it closes
// nothing.
func top(w *tool.Workspace) *folder { return newFolder(w.Folder()).retain() }

// openParent opens the folder that p is in, and gives p's name there.
func openParent(w *tool.Workspace, p tool.Path) (*folder, string, error) {
	d, err := openFolder(w, tool.Path(path.Dir(string(p))))
	return d, path.Base(string(p)), err
}

// passParent is openParent for those who only go on to the entry itself.
func passParent(w *tool.Workspace, p tool.Path) (*folder, string, error) {
	if dir, base := path.Split(string(p)); dir == "" {
		return top(w), base, nil
	}
	return openParent(w, p)
}

func (d *folder) retain() *folder {
	d.refs.Add(1)
	return d
}

func (d *folder) release() {
	if d.refs.Add(-1) == 0 {
		_ = d.f.Close()
	}
}

func (d *folder) fd() int { return int(d.f.Fd()) }

// plain says whether name is a single name of an entry.
func plain(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("%q is not a name of a file", name)
	}
	return nil
}

// openat opens an entry without following a link, without waiting for a peer of
// a pipe and without taking a terminal.
func (d *folder) openat(name string, flags int, perm uint32) (fd int, err error) {
	if err := plain(name); err != nil {
		return -1, err
	}
	err = uninterrupted(func() error {
		fd, err = unix.Openat(d.fd(), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NOCTTY, perm)
		return err
	})
	return fd, err
}

// enter opens a folder in d.
func (d *folder) enter(name string) (*folder, error) {
	fd, err := d.openat(name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		if errors.Is(err, unix.ENOTDIR) {
			if s, e := d.stat(name); e == nil && s.kind() == fs.ModeSymlink {
				return nil, unix.ELOOP // the systems disagree on which one it is
			}
		}
		return nil, err
	}
	return newFolder(os.NewFile(uintptr(fd), name)), nil
}

// mkdir makes a folder in d, unless it is there, and opens it.
func (d *folder) mkdir(name string) (*folder, error) {
	if err := plain(name); err != nil {
		return nil, err
	}
	if err := unix.Mkdirat(d.fd(), name, 0o777); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	return d.enter(name)
}

// stat describes an entry; of a link it describes the link.
func (d *folder) stat(name string) (stat, error) {
	var st unix.Stat_t
	err := uninterrupted(func() error { return unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return statOf(&st), err
}

// open opens a regular file for reading. Anything else fails at once with a
// *kindError, without being opened where that can be known.
func (d *folder) open(name string) (*os.File, stat, error) {
	s, err := d.stat(name)
	switch {
	case err != nil:
		return nil, s, err
	case s.kind() == fs.ModeSymlink:
		return nil, s, unix.ELOOP
	case s.kind() != 0:
		return nil, s, &kindError{s.kind()}
	}
	fd, s, err := d.openRegular(name)
	if err != nil {
		return nil, s, err
	}
	return os.NewFile(uintptr(fd), name), s, nil
}

// openRegular is open for an entry that was a regular file when it was listed.
// The caller closes fd.
func (d *folder) openRegular(name string) (fd int, s stat, err error) {
	if fd, err = d.openat(name, unix.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
		return -1, s, err
	}
	var st unix.Stat_t
	err = uninterrupted(func() error { return unix.Fstat(fd, &st) })
	if s = statOf(&st); err == nil && s.kind() != 0 {
		err = &kindError{s.kind()}
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, s, err
	}
	return fd, s, nil
}

// maxEntries bounds the entries of one folder that are listed.
const maxEntries = 1 << 20

// list gives the entries in the order of their names. more is true where
// maxEntries cut the list.
func (d *folder) list(ctx context.Context) (entries []os.DirEntry, more bool, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		some, err := d.f.ReadDir(4096)
		entries = append(entries, some...)
		if len(entries) >= maxEntries {
			more = true
			break
		}
		if errors.Is(err, io.EOF) || err == nil && len(some) == 0 {
			break
		}
		if err != nil {
			return nil, false, err
		}
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return plain(e.Name()) != nil })
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, more, nil
}

// kindError says that a regular file was wanted and something else is there.
type kindError struct{ kind fs.FileMode }

func (e *kindError) Error() string { return "is " + kindName(e.kind) + ", not a regular file" }

func kindName(k fs.FileMode) string {
	switch {
	case k&fs.ModeDir != 0:
		return "a folder"
	case k&fs.ModeSymlink != 0:
		return "a symbolic link"
	case k&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case k&fs.ModeSocket != 0:
		return "a socket"
	case k&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}

// stat is what tells one state of a file from another.
type stat struct {
	dev, ino     uint64
	mode         uint32 // type and permissions, as the system has them
	uid, gid     uint32
	links        uint64
	size         int64
	mtime, ctime int64 // nanoseconds since 1970
}

func statOf(st *unix.Stat_t) stat {
	return stat{
		dev: uint64(st.Dev), ino: st.Ino, mode: uint32(st.Mode), uid: st.Uid, gid: st.Gid,
		links: uint64(st.Nlink), size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(),
	}
}

// kind is the type of the file in Go's bits; 0 is a regular file.
func (s stat) kind() fs.FileMode {
	switch s.mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 0
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFLNK:
		return fs.ModeSymlink
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return fs.ModeSocket
	}
	return fs.ModeDevice
}

func uninterrupted(f func() error) error {
	for {
		if err := f(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// nearNames lists up to five entries of the folder of p that resemble its name.
func nearNames(w *tool.Workspace, p tool.Path) []string {
	d, err := openFolder(w, tool.Path(path.Dir(string(p))))
	if err != nil {
		return nil
	}
	defer d.release()
	entries, err := d.f.ReadDir(2000)
	if err != nil {
		return nil
	}
	base := path.Base(string(p))
	stem := func(s string) string { return strings.ToLower(strings.TrimSuffix(s, path.Ext(s))) }
	var near []string
	for _, e := range entries {
		a, b := stem(base), stem(e.Name())
		if a == "" || b == "" || !strings.Contains(a, b) && !strings.Contains(b, a) {
			continue
		}
		if near = append(near, valid(path.Join(path.Dir(string(p)), e.Name()))); len(near) == 5 {
			break
		}
	}
	slices.Sort(near)
	return near
}
