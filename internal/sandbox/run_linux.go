package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toold/toold/internal/sandbox/supervisor"
	"github.com/toold/toold/internal/tool"
)

// patience is how long the daemon waits for a supervisor that should be done
// before it has it killed, and then for the warden to clean up.
const patience = 3 * time.Second

// Run runs c to its end and returns when no process of it is alive, at most
// Grace and 6 s after ctx has ended. deliver is called with what the
// command writes, as it comes, at most 32 KiB at a time, never twice at once;
// it must not keep the bytes and must not block for long.
//
// When ctx ends, or deliver fails, every process gets SIGTERM and, after
// Grace, SIGKILL; output is delivered until the end. The Result is then valid
// and the error is ctx's or deliver's. Other errors: a *StartError for a command
// that never ran, ErrSupervisorKilled, ErrSurvivors.
func Run(ctx context.Context, c Command, deliver func(ch tool.Channel, p []byte) error) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	r, err := start(c, newPump(deliver))
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = r.control.Close() }()
	rep, err := r.wait(ctx, c.Grace)
	refused := r.pump.finish()
	switch {
	case err != nil:
		return result(rep), err
	case rep.Errno != 0:
		return Result{}, &StartError{rep.Doing, syscall.Errno(rep.Errno)}
	case refused != nil:
		return result(rep), fmt.Errorf("delivering output: %w", refused)
	case rep.Ended && ctx.Err() != nil:
		return result(rep), ctx.Err()
	}
	return result(rep), nil
}

// run is a command that was started.
type run struct {
	number  uint64
	control *os.File
	pump    *pump
}

// start hands the command to a supervisor. Every descriptor made on the way is
// closed again or is the run's.
func start(c Command, p *pump) (_ *run, err error) {
	var theirs, ours []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
		if err != nil {
			for _, f := range ours {
				_ = f.Close()
			}
		}
	}()
	stdin, err := input(c.Stdin)
	if err != nil {
		return nil, &StartError{"preparing standard input", err}
	}
	theirs = append(theirs, stdin)
	for range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, &StartError{"making a pipe", err}
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	early, late := c.Limits.rlimits()
	text, err := json.Marshal(supervisor.Spec{
		Path: []byte(c.Path), Args: bytesOf(c.Args), Dir: []byte(c.Dir), Env: bytesOf(c.Env),
		Grace: c.Grace, Early: early, Late: late,
	})
	if err != nil {
		return nil, &StartError{"describing the command", err}
	}
	description, err := memory("spec", text)
	if err != nil {
		return nil, &StartError{"describing the command", err}
	}
	theirs = append(theirs, description)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, &StartError{"making a control socket", err}
	}
	theirs = append(theirs, os.NewFile(uintptr(pair[1]), "control"))
	_ = unix.SetNonblock(pair[0], true)
	control := os.NewFile(uintptr(pair[0]), "control")
	ours = append(ours, control)
	number, err := warden.start(theirs...)
	if err != nil {
		return nil, err
	}
	p.read(tool.Stdout, ours[0])
	p.read(tool.Stderr, ours[1])
	return &run{number, control, p}, nil
}

// wait gives the supervisor's report once nothing of the command is left.
func (r *run) wait(ctx context.Context, grace time.Duration) (supervisor.Report, error) {
	type answer struct {
		text []byte
		err  error
	}
	over := make(chan answer, 1)
	go func() {
		text, err := io.ReadAll(r.control)
		over <- answer{text, err}
	}()
	ended, refused := ctx.Done(), r.pump.refused
	var late <-chan time.Time
	for killed := false; ; {
		select {
		case <-ended:
		case <-refused:
		case a := <-over:
			var rep supervisor.Report
			if len(a.text) == 0 || json.Unmarshal(a.text, &rep) != nil {
				return supervisor.Report{}, ErrSupervisorKilled
			}
			return rep, nil
		case <-late:
			if killed {
				// Ends the reader; the warden goes on trying.
				_ = r.control.SetReadDeadline(time.Unix(1, 0))
				<-over
				return supervisor.Report{}, ErrSurvivors
			}
			killed = true
			warden.kill(r.number)
			late = time.After(patience)
			continue
		}
		// A supervisor that is gone already needs no telling.
		_, _ = r.control.Write([]byte{supervisor.EndNow})
		ended, refused = nil, nil
		late = time.After(grace + patience)
	}
}

func result(r supervisor.Report) Result {
	return Result{
		ExitCode: r.ExitCode, Signal: r.Signal, OOMKilled: r.OOMKilled,
		CPU: r.CPU, MaxRSS: r.MaxRSS, Stragglers: r.Stragglers,
	}
}

// rlimits splits the limits into those that a supervisor can bear itself, and
// those that would break it.
func (l Limits) rlimits() (early, late map[int]uint64) {
	early, late = map[int]uint64{unix.RLIMIT_CORE: 0}, map[int]uint64{}
	set := func(m map[int]uint64, what int, v int64) {
		if v > 0 {
			m[what] = uint64(v)
		}
	}
	set(early, unix.RLIMIT_FSIZE, l.FileSize)
	set(late, unix.RLIMIT_CPU, int64((l.CPU+time.Second-1)/time.Second))
	set(late, unix.RLIMIT_AS, l.Memory)
	set(late, unix.RLIMIT_NOFILE, int64(l.OpenFiles))
	set(late, unix.RLIMIT_NPROC, int64(l.Processes))
	return early, late
}

// input is a file that reads as b; /dev/null for nil.
func input(b []byte) (*os.File, error) {
	if b == nil {
		return os.Open(os.DevNull)
	}
	return memory("stdin", b)
}

// memory is an unnamed file that holds b, at its start.
func memory(name string, b []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err = f.Write(b); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func bytesOf(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}
