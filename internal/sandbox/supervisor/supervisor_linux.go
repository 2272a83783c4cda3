package supervisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// SweepPause is the time between two looks at a tree that is being ended.
const SweepPause = 2 * time.Millisecond

const (
	// stragglerGrace is what a process that outlives its command gets between
	// SIGTERM and SIGKILL.
	stragglerGrace = 200 * time.Millisecond
	// reapPause is the time between two looks for orphans that have ended while
	// the command runs on.
	reapPause = 5 * time.Second
	// oomPreference makes the kernel choose a command before the daemon when
	// memory runs out (0 to 1000, added to a process's share of memory).
	oomPreference = "500"
)

// Name is the argv[0] that makes this executable a supervisor. It wants
// descriptors Files: the command's three, a file that holds a Spec as JSON, and
// a stream socket to the daemon.
const (
	Name  = "toold-supervisor"
	Files = 5
)

// EndNow is the byte with which the daemon asks for an orderly end. The end of
// the stream means that the daemon is gone.
const EndNow = 't'

// Spec says what to run. Bytes, because arguments and paths need not be UTF-8.
type Spec struct {
	Path  []byte
	Args  [][]byte
	Dir   []byte
	Env   [][]byte
	Grace time.Duration
	// Early limits (RLIMIT_… to value) hold for the supervisor too. Late ones
	// would break it; the command gets them as soon as it has started.
	Early, Late map[int]uint64
}

// Report is what comes back over the socket: one JSON value.
type Report struct {
	Doing string `json:",omitempty"` // with Errno: what failed, so that the command never ran
	Errno int    `json:",omitempty"`
	Ended bool   `json:",omitempty"` // the daemon asked for the end before the command had ended

	ExitCode   int
	Signal     string
	OOMKilled  bool
	CPU        time.Duration
	MaxRSS     int64
	Stragglers int
}

// Send writes the report. A daemon that is gone wants none.
func (r Report) Send(control int) {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // numbers and strings only
	}
	_, _ = unix.Write(control, b)
}

// Errno is the system's number for err; EIO where there is none.
func Errno(err error) int {
	var e syscall.Errno
	if errors.As(err, &e) {
		return int(e)
	}
	return int(unix.EIO)
}

// init makes this process the supervisor that it was started as. It does so
// here, not in main, because packages are initialised in the order of their
// import paths as soon as their own imports are: this one imports so little that
// most of what the daemon links is never initialised in a supervisor.
func init() {
	if len(os.Args) == 1 && os.Args[0] == Name {
		unix.Exit(supervise())
	}
}

// supervise runs the command that descriptor 3 describes, reports on 4, and
// exits with 0 when no process of it is left. Like the warden it has one thread
// of control.
func supervise() int {
	runtime.LockOSThread() // the command gets its death signal when this thread ends, and its privileges from it
	const control = 4
	t := tree{self: os.Getpid(), control: control, life: -1}
	var c Spec
	if doing, err := t.begin(&c); err != nil {
		Report{Doing: doing, Errno: Errno(err)}.Send(control)
		return min(t.leader, 1) // the warden sees to what has been started
	}
	t.wait(c.Grace)
	t.report.Send(control)
	return 0
}

// tree is a command with all that descends from it.
type tree struct {
	self     int
	leader   int // the command's pid; its group and session too
	life     int // pidfd of the leader
	exited   bool
	control  int // socket of the daemon; -1 when the daemon is gone
	oomKills int // counted by the kernel before the start
	report   Report
}

// begin prepares this process and starts the command. What failed is named for
// the report.
func (t *tree) begin(c *Spec) (doing string, err error) {
	// Written first: hiding makes the file the superuser's. Without it all runs as well.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(oomPreference), 0)
	if err := CloseOnExec(); err != nil {
		return "closing descriptors", err
	}
	if err := HideProcess(); err != nil {
		return "hiding the supervisor", err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return "becoming a subreaper", err
	}
	// No program gains privileges on execve, so every descendant can be killed
	// and sudo fails at once in place of asking.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return "renouncing new privileges", err
	}
	file := os.NewFile(3, "spec")
	if err := json.NewDecoder(file).Decode(c); err != nil {
		return "reading the command", err
	}
	_ = file.Close()
	if err := unix.Chdir(string(c.Dir)); err != nil {
		return "entering the working directory " + string(c.Dir), err
	}
	t.oomKills = oomKills()
	for what, v := range c.Early {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: v, Max: v}); err != nil {
			return "setting limits", err
		}
	}
	t.leader, err = syscall.ForkExec(string(c.Path), texts(c.Args), &syscall.ProcAttr{
		Env:   texts(c.Env),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return "starting " + string(c.Path), err
	}
	t.life = LifeOf(t.leader)
	for what, v := range c.Late {
		// The command may have ended already.
		_ = unix.Prlimit(t.leader, what, &unix.Rlimit{Cur: v, Max: v}, nil)
	}
	return "letting go of the standard streams", detach()
}

func texts(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

// detach lets go of the command's standard streams, so that they end with it.
func detach() error {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(null) }()
	for fd := range 3 {
		if err := unix.Dup3(null, fd, 0); err != nil {
			return err
		}
	}
	return nil
}

// wait returns when the command has ended and no descendant is left. grace is
// for an end that the daemon asks for.
func (t *tree) wait(grace time.Duration) {
	for !t.exited && !t.report.Ended {
		asked := t.pause(reapPause, t.life)
		if t.reap(); asked && !t.exited {
			t.report.Ended = true
		}
	}
	if t.exited {
		grace = stragglerGrace
	}
	t.end(grace)
	t.usage()
}

// pause waits until the daemon asks for the end, or goes; at most for limit, or
// until life ends. asked tells which.
func (t *tree) pause(limit time.Duration, life int) (asked bool) {
	waits := []unix.PollFd{{Fd: int32(life), Events: unix.POLLIN}, {Fd: int32(t.control), Events: unix.POLLIN}}
	if t.control < 0 {
		waits = waits[:1]
	}
	if Poll(waits, limit); t.control < 0 || waits[1].Revents == 0 {
		return false
	}
	if n, err := unix.Read(t.control, make([]byte, 1)); n == 0 || err != nil {
		t.control = -1
	}
	return true
}

// end sends SIGTERM to every process of the tree once, waits for grace, then
// sends SIGKILL until none is left. A daemon that is gone leaves no grace: its
// successor may work on the same files at once.
func (t *tree) end(grace time.Duration) {
	deadline := time.Now().Add(grace)
	told := make(map[Process]bool)
	for !t.reap() && t.control >= 0 && time.Now().Before(deadline) {
		for _, p := range Descendants(t.self, nobody) {
			if id := (Process{pid: p.pid, start: p.start}); !p.zombie && !told[id] {
				told[id] = true
				p.signal(unix.SIGTERM)
			}
		}
		t.pause(SweepPause, -1)
	}
	if !t.report.Ended {
		t.report.Stragglers = len(told)
	}
	for !t.reap() {
		Kill(t.self, Descendants(t.self, nobody))
		t.pause(SweepPause, -1)
	}
}

// reap collects what has ended, and reports whether nothing is left. A process
// whose parent ends is this process's child before that end can be seen, so
// "no child" means "no descendant".
func (t *tree) reap() (none bool) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return true
		case pid == 0:
			return false
		case pid == t.leader:
			t.exited = true
			r := &t.report
			r.ExitCode = status.ExitStatus()
			if status.Signaled() {
				r.ExitCode = 128 + int(status.Signal())
				r.Signal = unix.SignalName(status.Signal())
			}
			killed := r.ExitCode == 128+int(unix.SIGKILL)
			r.OOMKilled = killed && oomKills() > t.oomKills
		}
	}
}

// usage fills in what all that was waited for has cost.
func (t *tree) usage() {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &u) != nil {
		return
	}
	t.report.CPU = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	t.report.MaxRSS = u.Maxrss << 10
}

// oomKills is how many processes the kernel has killed for want of memory since
// it booted; 0 where it does not say.
func oomKills() int {
	stat, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(stat, []byte("\noom_kill "))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	n, _ := strconv.Atoi(string(line))
	return n
}
