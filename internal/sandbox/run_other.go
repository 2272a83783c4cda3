//go:build !linux

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toold/toold/internal/tool"
)

// Run runs c in a process group of its own, to its end, and ends what is left
// of the group. deliver is called with what the command writes, as it comes, at
// most 32 KiB at a time, never twice at once; it must not keep the bytes.
//
// When ctx ends, or deliver fails, the group gets SIGTERM and, after Grace,
// SIGKILL. The Result is then valid and the error is ctx's or deliver's. A
// command that never ran gives a *StartError. Limits are not enforced here.
func Run(ctx context.Context, c Command, deliver func(ch tool.Channel, p []byte) error) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	p := newPump(deliver)
	cmd := &exec.Cmd{Path: c.Path, Args: c.Args, Dir: c.Dir, Env: c.Env, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if c.Stdin != nil {
		cmd.Stdin = bytes.NewReader(c.Stdin)
		cmd.WaitDelay = time.Second // for input that nobody reads
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return Result{}, &StartError{"making a pipe", err}
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		_, _ = outR.Close(), outW.Close()
		return Result{}, &StartError{"making a pipe", err}
	}
	cmd.Stdout, cmd.Stderr = outW, errW
	err = cmd.Start()
	_, _ = outW.Close(), errW.Close()
	p.read(tool.Stdout, outR)
	p.read(tool.Stderr, errR)
	if err != nil {
		_ = p.finish()
		return Result{}, &StartError{"starting " + c.Path, err}
	}
	ended := wait(ctx, cmd, p, c.Grace)
	refused := p.finish()
	switch {
	case refused != nil:
		return resultOf(cmd), fmt.Errorf("delivering output: %w", refused)
	case ended && ctx.Err() != nil:
		return resultOf(cmd), ctx.Err()
	}
	return resultOf(cmd), nil
}

// wait returns when the command has ended and its group has been killed;
// whether it was told to end.
func wait(ctx context.Context, cmd *exec.Cmd, p *pump, grace time.Duration) (ended bool) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		// How it ended stands in ProcessState.
		_ = cmd.Wait()
	}()
	group := -cmd.Process.Pid
	stop, refused := ctx.Done(), p.refused
	var late <-chan time.Time
	for {
		select {
		case <-stop:
		case <-refused:
		case <-late:
			_ = syscall.Kill(group, syscall.SIGKILL)
			continue
		case <-over:
			_ = syscall.Kill(group, syscall.SIGKILL)
			return ended
		}
		ended, stop, refused = true, nil, nil
		_ = syscall.Kill(group, syscall.SIGTERM)
		late = time.After(grace)
	}
}

func resultOf(cmd *exec.Cmd) Result {
	s := cmd.ProcessState
	r := Result{ExitCode: s.ExitCode(), CPU: s.UserTime() + s.SystemTime()}
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		r.ExitCode = 128 + int(ws.Signal())
		r.Signal = unix.SignalName(ws.Signal())
	}
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		r.MaxRSS = u.Maxrss // bytes on macOS
	}
	return r
}

// HideProcess is not possible here.
func HideProcess() error { return errors.ErrUnsupported }
