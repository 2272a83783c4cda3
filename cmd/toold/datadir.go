package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// dataDir is the daemon's own folder, held by one process at a time.
type dataDir struct {
	path string   // absolute, links resolved
	lock *os.File // the folder itself, locked
}

// The names in the folder.
const (
	databaseName  = "toold.db"
	artifactsName = "artifacts"
	socketName    = "toold.sock"
	lockName      = "toold.lock"
	maskKeyName   = "mask.key"
)

// maxSocketPath is the longest path that a Unix socket can have everywhere.
const maxSocketPath = 103

// defaultDataDir is where data goes when nobody says.
func defaultDataDir(env func(string) (string, bool)) (string, error) {
	if dir, _ := env("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "toold"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding the home folder for the data: %w; give --data-dir", err)
	}
	return filepath.Join(home, ".local", "share", "toold"), nil
}

// openDataDir makes the folder (0700) and locks it.
func openDataDir(path string) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("making the data folder: %w", err)
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("finding the data folder: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("looking at the data folder: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("the data folder %s can be read by others (mode %04o), and it holds what tools put out; chmod 700 it, or choose another with --data-dir", path, mode)
	}
	if socket := filepath.Join(path, socketName); len(socket) > maxSocketPath {
		return nil, fmt.Errorf("the socket's path %s is longer than %d bytes, which is all that a system takes; choose a shorter --data-dir", socket, maxSocketPath)
	}
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	// The lock is on the folder: a file in it could be removed.
	folder, err := os.Open(path)
	if err == nil {
		err = syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		pid := make([]byte, 16)
		n, _ := lock.ReadAt(pid, 0)
		_, _ = lock.Close(), folder.Close()
		return nil, fmt.Errorf("another toold uses the data folder %s (process %s); stop it, or choose another with --data-dir", path, strings.TrimSpace(string(pid[:n])))
	}
	if err == nil {
		err = errors.Join(lock.Truncate(0), writeAt(lock, strconv.Itoa(os.Getpid())+"\n"))
	}
	err = errors.Join(err, lock.Close())
	if err != nil {
		_ = folder.Close()
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	return &dataDir{path: path, lock: folder}, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// Close lets another process have the folder.
func (d *dataDir) Close() error { return d.lock.Close() }

func (d *dataDir) join(name string) string { return filepath.Join(d.path, name) }

// maskKey is the key under which masked secrets are marked, so that equal ones
// can be told without being known. It is made at the first start.
func (d *dataDir) maskKey() ([]byte, error) {
	name := d.join(maskKeyName)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		text = []byte(hex.EncodeToString(key) + "\n")
		err = writeNew(name, text)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key that masks secrets: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != 32 {
		return nil, fmt.Errorf("%s does not hold 64 hex digits; put the file back from a backup, or remove it: secrets masked before can then no longer be matched with later ones", name)
	}
	return key, nil
}

// writeNew makes a file that is there in full or, after a crash, not at all.
func writeNew(name string, text []byte) error {
	f, err := os.OpenFile(name+".tmp", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(name+".tmp", name)
}
