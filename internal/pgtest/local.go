package pgtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// local is a server from the binaries of this machine, reached by a Unix socket
// in its own folder, so that it meets no other server on any port.
type local struct {
	bin  string // folder of initdb and postgres
	dir  string // ours, with the socket, the log and data/
	attr *syscall.SysProcAttr
	proc *exec.Cmd
	gone chan struct{} // closed when proc has been waited for
}

func startLocal(ctx context.Context) (*local, *watchdog, error) {
	bin, err := findServer()
	if err != nil {
		return nil, nil, err
	}
	// A session of its own: an interrupt at the terminal is for the tests.
	l := &local{bin: bin, attr: &syscall.SysProcAttr{Setsid: true}}
	// Not os.TempDir: a socket's path has at most some 100 bytes.
	if l.dir, err = os.MkdirTemp("/tmp", "toold-pg-"); err != nil {
		return nil, nil, err
	}
	watch, err := startWatchdog("local", l.dir)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(l.dir))
	}
	if err := l.create(ctx); err != nil {
		return nil, nil, errors.Join(err, watch.release())
	}
	return l, watch, nil
}

func (l *local) create(ctx context.Context) error {
	if os.Geteuid() == 0 {
		if err := l.becomePostgres(); err != nil {
			return err
		}
	}
	initdb := exec.CommandContext(ctx, filepath.Join(l.bin, "initdb"), "-D", l.data(),
		"-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
	initdb.Dir, initdb.SysProcAttr = l.dir, l.attr
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, bytes.TrimSpace(out))
	}
	return l.start(ctx)
}

// becomePostgres: the server refuses to run as root.
func (l *local) becomePostgres() error {
	account, err := user.Lookup("postgres")
	if err != nil {
		return fmt.Errorf("as root a user postgres is needed: %w", err)
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return err
	}
	l.attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(l.dir, int(uid), int(gid))
}

// start returns when the server answers, or with the end of its log when it
// does not stay.
func (l *local) start(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(l.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	proc := exec.Command(filepath.Join(l.bin, "postgres"), "-D", l.data(), "-k", l.dir,
		"-c", "listen_addresses=", "-c", "max_connections=200", "-c", "max_wal_size=256MB")
	proc.Dir, proc.SysProcAttr, proc.Stdout, proc.Stderr = l.dir, l.attr, log, log
	if err := proc.Start(); err != nil {
		return err
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	gone := make(chan struct{})
	go func() {
		err := proc.Wait()
		giveUp(fmt.Errorf("%w: %w: %s", errGone, err, l.lastLog()))
		close(gone)
	}()
	l.proc, l.gone = proc, gone
	if err := awaitReady(ctx, l.url()); err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	return nil
}

var errGone = errors.New("the server ended")

// lastLog is the end of the server's log.
func (l *local) lastLog() []byte {
	text, _ := os.ReadFile(filepath.Join(l.dir, "log")) // what cannot be read says nothing
	return bytes.TrimSpace(text[max(0, len(text)-1000):])
}

func (l *local) data() string { return filepath.Join(l.dir, "data") }

func (l *local) url() url.URL {
	query := url.Values{"host": {l.dir}, "sslmode": {"disable"}}
	return url.URL{Scheme: "postgres", User: url.User("postgres"), RawQuery: query.Encode()}
}

func (l *local) kill(ctx context.Context) error {
	if err := l.proc.Process.Kill(); err != nil {
		return err
	}
	select {
	case <-l.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// restart tries again while backends of the killed server still hold its
// memory: they notice soon, and until then the new one refuses to start.
func (l *local) restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		err := l.start(ctx)
		if !errors.Is(err, errGone) || ctx.Err() != nil {
			return err
		}
	}
}

// findServer gives the folder of the newest installed server binaries.
func findServer() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin/initdb",         // Debian, Ubuntu
		"/usr/pgsql-*/bin/initdb",                  // Fedora and its kin
		"/opt/homebrew/opt/postgresql*/bin/initdb", // macOS
	} {
		found, _ := filepath.Glob(pattern) // errs only on a bad pattern
		if len(found) > 0 {
			return filepath.Dir(slices.MaxFunc(found, byLength)), nil
		}
	}
	return "", errors.New("no initdb on PATH or in the usual places")
}

// byLength orders paths that differ in a version number: 9 before 15 before 16.
func byLength(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
