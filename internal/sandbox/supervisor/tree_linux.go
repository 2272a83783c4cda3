package supervisor

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Process is one row of the process table. The start time tells it from a later
// process with the same id.
type Process struct {
	pid, parent, group int
	start              uint64 // clock ticks since boot
	zombie             bool
}

// parseStat reads /proc/PID/stat. The name in it, between the first and the
// last parenthesis, may hold anything.
func parseStat(stat []byte) (Process, bool) {
	open, shut := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || shut < open {
		return Process{}, false
	}
	f := bytes.Fields(stat[shut+1:])
	if len(f) < 20 {
		return Process{}, false
	}
	pid, err1 := strconv.Atoi(string(bytes.TrimSpace(stat[:open])))
	parent, err2 := strconv.Atoi(string(f[1]))
	group, err3 := strconv.Atoi(string(f[2]))
	start, err4 := strconv.ParseUint(string(f[19]), 10, 64)
	if errors.Join(err1, err2, err3, err4) != nil || pid <= 0 {
		return Process{}, false
	}
	return Process{pid: pid, parent: parent, group: group, start: start, zombie: string(f[0]) == "Z"}, true
}

func readProcess(pid int) (Process, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, false
	}
	return parseStat(stat)
}

// Descendants lists what descends from root, parents first, leaving out the
// subtrees that begin at a process which skip accepts.
func Descendants(root int, skip func(pid int) bool) []Process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	children := make(map[int][]Process)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := readProcess(pid); ok && !skip(p.pid) {
				children[p.parent] = append(children[p.parent], p)
			}
		}
	}
	found := slices.Clone(children[root])
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found
}

func nobody(int) bool { return false }

// signal sends sig to p, and where the kernel has process descriptors never to
// another process that got its id since.
func (p Process) signal(sig unix.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil { // an old kernel, or a filter that does not know the call
		_ = unix.Kill(p.pid, sig)
		return
	}
	defer func() { _ = unix.Close(fd) }()
	if now, ok := readProcess(p.pid); ok && now.start == p.start {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// Kill sends SIGKILL to all of them. Those whose parent is self are killed with
// their process group, in one step that a group which forks without end cannot
// outrun; a group's id is safe from reuse because self has not waited for its
// member yet.
func Kill(self int, tree []Process) {
	own := unix.Getpgrp()
	for _, p := range tree {
		if p.parent == self && p.group != own && p.group > 1 {
			_ = unix.Kill(-p.group, unix.SIGKILL)
		}
		p.signal(unix.SIGKILL)
	}
}

// LifeOf gives a descriptor that becomes readable when a child ends; -1 where the
// kernel has none (before 5.3), which Poll makes up for by looking often.
func LifeOf(pid int) int {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1
	}
	return fd
}

// Forever is no limit for Poll.
const Forever = time.Duration(-1)

// Poll waits until one of the descriptors is ready, or for at most limit. Where
// a descriptor is missing (-1) it waits for no longer than SweepPause.
func Poll(waits []unix.PollFd, limit time.Duration) {
	for _, w := range waits {
		if w.Fd < 0 && (limit < 0 || limit > SweepPause) {
			limit = SweepPause
		}
	}
	ms := -1
	if limit >= 0 {
		ms = int((limit + time.Millisecond - 1) / time.Millisecond)
	}
	// Interrupted or failed: the caller looks at the descriptors again.
	_, _ = unix.Poll(waits, ms)
}

// CloseOnExec marks every descriptor but the standard three, so that what is
// started from now on inherits only what it is given.
func CloseOnExec() error {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return err
}

// HideProcess keeps other processes of the same user from reading this one's
// memory, environment and descriptors through /proc or ptrace. Those with
// CAP_SYS_PTRACE still can.
func HideProcess() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
