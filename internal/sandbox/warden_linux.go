package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toold/toold/internal/sandbox/supervisor"
)

// wardenName is the argv[0] that makes this executable a warden.
const wardenName = "toold-warden"

// init makes this process the warden that it was started as. A program that
// imports this package has nothing to call, and nothing to forget.
func init() {
	if len(os.Args) == 1 && os.Args[0] == wardenName {
		unix.Exit(runWarden())
	}
}

// reexec gives the environment of the processes in between. It holds nothing of
// the daemon's.
func reexec() []string { return []string{"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=32MiB"} }

// wardenLink is the daemon's end of the one warden.
type wardenLink struct {
	mu   sync.Mutex
	sock int // SOCK_SEQPACKET
	proc *os.Process
	last uint64
}

var warden wardenLink

// A message to the warden is a run's number. With supervisor.Files descriptors
// it asks for a supervisor that gets them, without any it asks to kill that
// run's supervisor.

// start has a supervisor started with files (see supervisor.Files), which stay
// the caller's, and gives the run's number. A warden that is gone is replaced.
func (w *wardenLink) start(files ...*os.File) (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fds := make([]int, len(files))
	for i, f := range files {
		// Fd leaves the shared description blocking, which is what the other
		// side wants; none of these is read or written here any more.
		fds[i] = int(f.Fd())
	}
	w.last++
	for fresh := false; ; fresh = true {
		if w.proc == nil {
			if err := w.launch(); err != nil {
				return 0, &StartError{"starting the warden", err}
			}
			fresh = true
		}
		err := w.send(w.last, fds...)
		if err == nil {
			return w.last, nil
		}
		w.discard()
		if fresh {
			return 0, &StartError{"asking the warden for a supervisor", err}
		}
	}
}

// kill ends the supervisor of a run, with all below it.
func (w *wardenLink) kill(run uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.proc != nil {
		// Without a warden there is nobody to ask; Run gives up in time.
		_ = w.send(run)
	}
}

func (w *wardenLink) send(run uint64, fds ...int) error {
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	for {
		err := unix.Sendmsg(w.sock, binary.LittleEndian.AppendUint64(nil, run), rights, nil, unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (w *wardenLink) launch() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	// A warden that takes nothing for so long is stopped, and will be replaced.
	timeout := unix.NsecToTimeval(int64(patience))
	if err := unix.SetsockoptTimeval(pair[0], unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout); err != nil {
		return errors.Join(err, unix.Close(pair[0]), unix.Close(pair[1]))
	}
	theirs := os.NewFile(uintptr(pair[1]), "warden")
	defer func() { _ = theirs.Close() }()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = unix.Close(pair[0])
		return err
	}
	defer func() { _ = null.Close() }()
	proc, err := os.StartProcess("/proc/self/exe", []string{wardenName}, &os.ProcAttr{
		Dir:   "/",
		Env:   reexec(),
		Files: []*os.File{null, null, os.Stderr, theirs},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = unix.Close(pair[0])
		return err
	}
	w.sock, w.proc = pair[0], proc
	return nil
}

// discard ends a warden that does not answer any more. Its supervisors go on.
func (w *wardenLink) discard() {
	_ = unix.Close(w.sock)
	_ = w.proc.Kill()
	_, _ = w.proc.Wait()
	w.proc = nil
}

// keeper is the state of the warden's process. It has one thread of control,
// which waits in poll, so that nothing in it waits for a scheduler.
type keeper struct {
	self        int
	supervisors map[int]charge // by pid
	// held are the control sockets of supervisors that did not end by
	// themselves: closed, which tells the daemon that the run is over, when
	// nothing of them is left.
	held []int
}

// charge is a supervisor that runs.
type charge struct {
	run     uint64
	control int
	life    int // pidfd
}

type request struct {
	run uint64
	fds []int
}

// runWarden starts supervisors on request and ends every orphan that falls to
// it. It lives until the daemon has gone and the last supervisor with it.
func runWarden() int {
	// Handled here, these are at their defaults in all that is started from here,
	// even if the daemon was started with them ignored.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT)
	if err := errors.Join(supervisor.CloseOnExec(), HideProcess(), unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)); err != nil {
		fmt.Fprintln(os.Stderr, wardenName+":", err)
		return 1
	}
	k := keeper{self: os.Getpid(), supervisors: make(map[int]charge)}
	for daemon := 3; daemon >= 0 || len(k.supervisors) > 0 || len(k.held) > 0; k.reap() {
		waits := []unix.PollFd{{Fd: int32(daemon), Events: unix.POLLIN}}
		for _, s := range k.supervisors {
			waits = append(waits, unix.PollFd{Fd: int32(s.life), Events: unix.POLLIN})
		}
		pause := supervisor.Forever
		if len(k.held) > 0 {
			pause = supervisor.SweepPause
		}
		if supervisor.Poll(waits, pause); waits[0].Revents == 0 {
			continue
		}
		switch r, err := receive(daemon); {
		case errors.Is(err, io.EOF):
			daemon = -1
		case err != nil:
			fmt.Fprintln(os.Stderr, wardenName+":", err)
			daemon = -1
		case len(r.fds) == supervisor.Files:
			k.start(r)
		default:
			k.kill(r.run)
		}
	}
	return 0
}

// receive reads one request; io.EOF when the daemon is gone.
func receive(sock int) (request, error) {
	body := make([]byte, 8)
	rights := make([]byte, unix.CmsgSpace(supervisor.Files*4))
	n, rn, _, _, err := unix.Recvmsg(sock, body, rights, unix.MSG_CMSG_CLOEXEC)
	switch {
	case err != nil:
		return request{}, fmt.Errorf("receiving a request: %w", err)
	case n == 0:
		return request{}, io.EOF
	}
	r := request{run: binary.LittleEndian.Uint64(body)}
	if messages, err := unix.ParseSocketControlMessage(rights[:rn]); err == nil && len(messages) == 1 {
		r.fds, _ = unix.ParseUnixRights(&messages[0])
	}
	return r, nil
}

func (k *keeper) start(r request) {
	files := make([]uintptr, len(r.fds))
	for i, fd := range r.fds {
		files[i] = uintptr(fd)
	}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{supervisor.Name}, &syscall.ProcAttr{
		Env:   reexec(),
		Files: files,
	})
	control := r.fds[supervisor.Files-1]
	for _, fd := range r.fds[:supervisor.Files-1] {
		_ = unix.Close(fd)
	}
	if err != nil {
		supervisor.Report{Doing: "starting the supervisor", Errno: supervisor.Errno(err)}.Send(control)
		_ = unix.Close(control)
		return
	}
	k.supervisors[pid] = charge{r.run, control, supervisor.LifeOf(pid)}
}

func (k *keeper) kill(run uint64) {
	for pid, s := range k.supervisors {
		if s.run == run {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// reap collects what has ended. A supervisor that exits with 0 has left no
// process; after any other end all that is not below another one is killed.
func (k *keeper) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			break
		}
		s, ours := k.supervisors[pid]
		if !ours {
			continue
		}
		delete(k.supervisors, pid)
		_ = unix.Close(s.life)
		switch {
		case status.Exited() && status.ExitStatus() == 0:
			_ = unix.Close(s.control)
		default:
			k.held = append(k.held, s.control)
		}
	}
	if len(k.held) == 0 {
		return
	}
	orphans := supervisor.Descendants(k.self, func(pid int) bool { _, ours := k.supervisors[pid]; return ours })
	supervisor.Kill(k.self, orphans)
	if len(orphans) == 0 {
		for _, fd := range k.held {
			_ = unix.Close(fd)
		}
		k.held = nil
	}
}

// HideProcess keeps other processes of the same user from reading this one's
// memory, environment and descriptors through /proc or ptrace. Those with
// CAP_SYS_PTRACE still can.
func HideProcess() error {
	if err := supervisor.HideProcess(); err != nil {
		return fmt.Errorf("hiding the process: %w", err)
	}
	return nil
}
