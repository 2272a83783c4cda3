// Package artifact keeps what is too large or too raw for a result: whole
// outputs, before-images, diffs. Content is stored once, by its SHA-256, and is
// there in full or not at all. Outputs are captured while they are produced, in
// little memory, and can be read at the same time.
package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
)

// ErrGone says that a content is not, or no longer, stored.
var ErrGone = errors.New("the artifact's content is gone")

// Blob is a stored content.
type Blob struct {
	SHA256 string // 64 hex digits
	Size   int64  // bytes
}

// Reader reads one content. It may be used from several goroutines.
type Reader interface {
	io.ReaderAt
	io.Closer
	// Size is the content's length in bytes, of a live one so far.
	Size() int64
}

// Disk stores contents in a folder:
//
//	blobs/ab/cdef…   contents by SHA-256
//	tmp/NNN/         what one process is writing, locked while it lives
//
// A content gets its name when it is complete and synced, so that a crash leaves
// no more than a temporary file (TestCrashLeavesNoTornBlob), which the next
// OpenDisk removes. Several processes may share the folder.
type Disk struct {
	dir  string
	tmp  string
	lock *os.File

	mu   sync.Mutex
	live map[string]*Capture
}

// OpenDisk opens dir, made if missing (0700), and removes what crashed processes
// left half written.
func OpenDisk(dir string) (*Disk, error) {
	if err := makeFolders(dir); err != nil {
		return nil, fmt.Errorf("making the artifact folder: %w", err)
	}
	door, err := lock(filepath.Join(dir, "tmp", "lock"), syscall.LOCK_EX)
	if err != nil {
		return nil, fmt.Errorf("locking the artifact folder: %w", err)
	}
	defer func() { _ = door.Close() }()
	if err := sweep(filepath.Join(dir, "tmp")); err != nil {
		return nil, fmt.Errorf("removing unfinished artifacts: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Join(dir, "tmp"), "")
	if err != nil {
		return nil, fmt.Errorf("making a folder for unfinished artifacts: %w", err)
	}
	own, err := lock(filepath.Join(tmp, "lock"), syscall.LOCK_EX)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", tmp, err)
	}
	return &Disk{dir: dir, tmp: tmp, lock: own, live: make(map[string]*Capture)}, nil
}

// makeFolders makes what is missing of the store, durably, so that a Put need
// not.
func makeFolders(dir string) error {
	blobs := filepath.Join(dir, "blobs")
	for _, d := range []string{blobs, filepath.Join(dir, "tmp")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	for b := range 256 {
		err := os.Mkdir(filepath.Join(blobs, fmt.Sprintf("%02x", b)), 0o700)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return errors.Join(syncFolder(blobs), syncFolder(dir))
}

// Close gives up the folder. Captures must have been closed; readers may go on.
func (d *Disk) Close() error {
	return errors.Join(os.RemoveAll(d.tmp), d.lock.Close())
}

// lock opens and locks a file; closing it, or dying, unlocks.
func lock(name string, how int) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// sweep removes the folders whose process is dead.
func sweep(tmp string) error {
	entries, err := os.ReadDir(tmp)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		dir := filepath.Join(tmp, e.Name())
		f, err := lock(filepath.Join(dir, "lock"), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			return err
		}
		err = os.RemoveAll(dir)
		_ = f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Put stores content. It is durable when Put returns. A content that is there
// already is not written again.
func (d *Disk) Put(ctx context.Context, content []byte) (Blob, error) {
	if err := ctx.Err(); err != nil {
		return Blob{}, err
	}
	sum := sha256.Sum256(content)
	b := Blob{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(content))}
	if d.has(b) {
		return b, d.name(nil, b)
	}
	f, err := d.newFile()
	if err != nil {
		return Blob{}, fmt.Errorf("storing %d bytes: %w", len(content), err)
	}
	_, err = f.Write(content)
	if err == nil {
		err = d.name(f, b)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return Blob{}, fmt.Errorf("storing %d bytes: %w", len(content), err)
	}
	return b, nil
}

// Open opens the content of a Blob. A content that is not there is ErrGone.
func (d *Disk) Open(sha string) (Reader, error) {
	if !shaPattern.MatchString(sha) {
		return nil, fmt.Errorf("sha256 %.80q: want 64 lower-case hex digits", sha)
	}
	// Without O_NONBLOCK a named pipe in the content's place would be waited for.
	f, err := os.OpenFile(d.path(sha), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("opening an artifact: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is %s, not a regular file", f.Name(), info.Mode().Type())
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("opening an artifact: %w", err)
	}
	return blobReader{f, info.Size()}, nil
}

var shaPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

type blobReader struct {
	*os.File
	size int64
}

func (r blobReader) Size() int64 { return r.size }

func (d *Disk) path(sha string) string {
	return filepath.Join(d.dir, "blobs", sha[:2], sha[2:])
}

func (d *Disk) newFile() (*os.File, error) { return os.CreateTemp(d.tmp, "") }

// has says whether b is stored; a file of another size is not b.
func (d *Disk) has(b Blob) bool {
	info, err := os.Stat(d.path(b.SHA256))
	return err == nil && info.Mode().IsRegular() && info.Size() == b.Size
}

// name gives b's name to f, a complete file in tmp, and makes both durable. The
// order is what keeps a torn content from being served: the bytes are on disk
// before the name is. Where b has its name already f is removed (nil: none), and
// only the name is made durable: whoever wrote it may not be done with that.
func (d *Disk) name(f *os.File, b Blob) error {
	target := d.path(b.SHA256)
	if d.has(b) {
		if f != nil {
			if err := os.Remove(f.Name()); err != nil {
				return err
			}
		}
		return syncFolder(filepath.Dir(target))
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), target); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(target))
}

// syncFolder makes the names in a folder durable.
func syncFolder(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
