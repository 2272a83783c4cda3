package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/moby/moby/client"
)

// watchEnv makes a process that links this package a watchdog instead: its value
// is the kind and the name of what to watch, "local:DIR" or "docker:NAME".
const watchEnv = "TOOLD_PGTEST_WATCHDOG"

func init() {
	watched, ok := os.LookupEnv(watchEnv)
	if !ok {
		return
	}
	// The other end closes when the owner says so or is no more, by kill -9 too.
	// A failed read says the same.
	_, _ = io.Copy(io.Discard, os.Stdin)
	kind, name, _ := strings.Cut(watched, ":")
	if err := remove(kind, name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// watchdog is a child process that outlives its owner for as long as it takes
// to end the owner's server and remove what it left. It is the only way in which
// a server goes, so that the normal end and the crash are the same.
type watchdog struct {
	release func() error // ends server and watchdog; waits; idempotent
}

func startWatchdog(kind, name string) (*watchdog, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the own program: %w", err)
	}
	dog := exec.Command(self)
	dog.Env = append(os.Environ(), watchEnv+"="+kind+":"+name)
	// A session of its own, and none of our output: "go test" waits for whoever
	// holds that, and an interrupt at the terminal must not reach the watchdog.
	dog.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	leash, err := dog.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the watchdog: %w", err)
	}
	if err := dog.Start(); err != nil {
		return nil, fmt.Errorf("starting the watchdog: %w", err)
	}
	return &watchdog{release: sync.OnceValue(func() error {
		leash.Close()
		if err := dog.Wait(); err != nil {
			return fmt.Errorf("removing the test server %s: %w", name, err)
		}
		return nil
	})}, nil
}

// remove ends a server and removes all that it left.
func remove(kind, name string) error {
	if kind == "local" {
		return errors.Join(endLocal(name), os.RemoveAll(name))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cli, _, err := dockerClient(ctx)
	if err != nil {
		return err
	}
	_, err = cli.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	return err
}

// endLocal ends the server whose folder is dir, if there is one.
func endLocal(dir string) error {
	data := filepath.Join(dir, "data")
	file, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return nil // never started, or ended by itself
	}
	line, _, _ := strings.Cut(string(file), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil || !worksIn(pid, data) {
		return nil
	}
	// SIGQUIT is an immediate shutdown. The server is no child of ours: asking is
	// the only way to see it go.
	for _, signal := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		if endProcess(pid, signal) {
			return nil
		}
	}
	return fmt.Errorf("postgres %d does not end", pid)
}

// endProcess sends a signal and reports whether the process is gone within five
// seconds.
func endProcess(pid int, signal syscall.Signal) bool {
	if syscall.Kill(pid, signal) != nil {
		return true
	}
	for range 250 {
		if syscall.Kill(pid, 0) != nil {
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

// worksIn reports whether a process has dir as its working folder. A crashed
// server leaves its pid behind for another process to get; where the system does
// not tell, the pid is believed.
func worksIn(pid int, dir string) bool {
	cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if errors.Is(err, os.ErrNotExist) {
		_, noProc := os.Stat("/proc/self")
		return noProc != nil
	}
	return err == nil && cwd == dir
}
