package file

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toold/toold/internal/tool"
)

// replacement is new content for one entry of a folder.
type replacement struct {
	dir  *folder
	name string
	data []byte
	old  *os.File // what is there now, open; nil: nothing may be there
	was  stat     // of old, taken before it was read
}

// commit puts the new content in place, all of it or none: a temporary file in
// the same folder gets content, owner, mode and extended attributes, is made
// durable, and is renamed over the old one; then the folder is made durable. A
// crash leaves the old file or the new one, at worst with a ".toold-*.tmp"
// beside it. A file that is not as it was when it was read is left alone: the
// call fails as CONFLICT. Another name of the old file (a hard link) keeps the
// old content.
func (r replacement) commit(ctx context.Context) error {
	temp := ".toold-" + strings.ToLower(rand.Text()) + ".tmp"
	perm := uint32(0o666) // the umask narrows it
	if r.old != nil {
		perm = 0o600
	}
	fd, err := r.dir.openat(temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, perm)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), temp)
	err = r.fill(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = r.swap(ctx, temp)
	}
	if err != nil {
		_ = unix.Unlinkat(r.dir.fd(), temp, 0)
		return err
	}
	if err := r.dir.f.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return fmt.Errorf("%s is written, but may be lost if the machine fails now: %w", r.name, err)
	}
	return nil
}

// fill writes the temporary file and makes it durable.
func (r replacement) fill(f *os.File) error {
	if _, err := f.Write(r.data); err != nil {
		return err
	}
	if r.old != nil {
		if err := r.keepOwner(f); err != nil {
			return err
		}
		if err := copyAttributes(f, r.old); err != nil {
			return err
		}
		if err := unix.Fchmod(int(f.Fd()), r.was.mode&0o7777); err != nil {
			return fmt.Errorf("keeping the mode: %w", err)
		}
	}
	return f.Sync()
}

func (r replacement) keepOwner(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Uid == r.was.uid && st.Gid == r.was.gid {
		return nil
	}
	if err := unix.Fchown(int(f.Fd()), int(r.was.uid), int(r.was.gid)); err != nil {
		return tool.Fail(ReasonPermission, "%s belongs to user %d, group %d, and toold may not keep it so: %v", r.name, r.was.uid, r.was.gid, err)
	}
	return nil
}

// swap gives the temporary file its name. The folder is locked meanwhile, so
// that of several toolds that write the same file all but one see the change of
// the others and fail.
func (r replacement) swap(ctx context.Context, temp string) error {
	unlock, err := r.dir.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if r.old == nil {
		return r.create(temp)
	}
	if now, err := r.dir.stat(r.name); err != nil || now != r.was {
		return r.conflict()
	}
	return unix.Renameat(r.dir.fd(), temp, r.dir.fd(), r.name)
}

// create names a new file; unlike a rename, a link never replaces one.
func (r replacement) create(temp string) error {
	fd := r.dir.fd()
	err := unix.Linkat(fd, temp, fd, r.name, 0)
	switch {
	case err == nil:
		return unix.Unlinkat(fd, temp, 0)
	case errors.Is(err, unix.EEXIST):
		return r.conflict()
	}
	// A file system without hard links.
	if _, err := r.dir.stat(r.name); !errors.Is(err, unix.ENOENT) {
		return r.conflict()
	}
	return unix.Renameat(fd, temp, fd, r.name)
}

func (r replacement) conflict() error {
	f := tool.Fail(ReasonConflict, "%s was changed by somebody else while this call ran; nothing was written; read it and try again", r.name)
	f.Retryable = true
	return f
}

// Another toold holds the lock of a folder for one rename.
const (
	lockWait = 5 * time.Second
	lockPoll = 2 * time.Millisecond
)

// lock takes the folder's advisory lock, where the file system has such.
func (d *folder) lock(ctx context.Context) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for {
		err := unix.Flock(d.fd(), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = unix.Flock(d.fd(), unix.LOCK_UN) }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return func() {}, nil
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			return nil, tool.Fail(ReasonConflict, "the folder of the file is locked by another program; try again")
		}
	}
}

// copyAttributes gives to all extended attributes of from (access lists too)
// that the file system and our rights allow.
func copyAttributes(to, from *os.File) error {
	names := make([]byte, 64<<10) // the most that a file has
	n, err := unix.Flistxattr(int(from.Fd()), names)
	if err != nil || n == 0 {
		return nil // not supported here, or none
	}
	value := make([]byte, 64<<10)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		n, err := unix.Fgetxattr(int(from.Fd()), name, value)
		if err != nil {
			continue
		}
		err = unix.Fsetxattr(int(to.Fd()), name, value[:n], 0)
		if err != nil && strings.HasPrefix(name, "user.") {
			return fmt.Errorf("keeping the attribute %s: %w", name, err)
		}
	}
	return nil
}
