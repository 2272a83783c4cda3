package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// marked is a duration for sleep that no other process uses.
func marked() string {
	return fmt.Sprintf("300.%d%d", os.Getpid(), time.Now().UnixNano())
}

// alive lists the processes with mark in their command line.
func alive(t *testing.T, mark string) (found []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if b, err := os.ReadFile(l); err == nil && bytes.Contains(b, []byte(mark)) && l != fmt.Sprintf("/proc/%d/cmdline", os.Getpid()) {
			found = append(found, l+" "+strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return found
}

// TestNothingOutlives is the promise that no process started by a call is alive
// after its result.
func TestNothingOutlives(t *testing.T) {
	// Each script says "up" when N sleepers are there: "up N". They are told
	// from others' by their unique duration, $mark.
	prelude := `mark=MARK; up() { until [ "$(pgrep -cxf "sleep $mark")" = "$1" ]; do :; done; echo up; }; `
	for _, tc := range []struct {
		name, script string
		stop         bool // the context ends when "up" was printed
		stragglers   int
		code         int
		want         error
	}{
		{name: "background", script: "sleep $mark & up 1", stragglers: 1},
		{name: "background, silent", script: "sleep $mark >/dev/null 2>&1 & up 1", stragglers: 1},
		{name: "own session", script: "setsid sleep $mark & up 1", stragglers: 1},
		{name: "double fork", script: "( ( setsid sleep $mark & ) & ); up 1", stragglers: 1},
		{name: "deaf to SIGTERM", script: "(trap '' TERM; setsid sleep $mark & sleep $mark; :) & up 2", stragglers: 3},
		{name: "stopped", script: "sleep $mark & up 1; kill -STOP $!", stragglers: 1},
		{name: "coprocess", script: "coproc sleep $mark; up 1", stragglers: 1},
		{name: "process substitution", script: "exec 3> >(exec sleep $mark); up 1", stragglers: 1},
		{name: "shell killed", script: "sleep $mark & up 1; kill -9 $$", stragglers: 1, code: 137},
		{name: "supervisor killed", script: "trap '' TERM; (setsid sleep $mark &); sleep $mark & up 2; kill -9 $PPID; wait", want: ErrSupervisorKilled},
		{name: "supervisor told to end", script: "sleep $mark & up 1; kill $PPID; wait", want: ErrSupervisorKilled},
		{name: "cancelled", script: "sleep $mark & setsid sleep $mark & up 2; wait", stop: true, code: 143, want: context.Canceled},
		{name: "cancelled after output was closed", script: "sleep $mark & up 1; exec >&- 2>&-; wait", stop: true, code: 143, want: context.Canceled},
		{name: "cancelled, exits by itself then", script: "trap 'exit 7' TERM; sleep $mark & up 1; wait", stop: true, code: 7, want: context.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mark := marked()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			o := &output{seen: func(all string) {
				if tc.stop && strings.Contains(all, "up") {
					cancel()
				}
			}}
			r, err := Run(ctx, bash(strings.Replace(prelude, "MARK", mark, 1)+tc.script), o.deliver)
			if left := alive(t, mark); len(left) > 0 {
				t.Errorf("alive after the end:\n%s", strings.Join(left, "\n"))
			}
			if !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if r.ExitCode != tc.code {
				t.Errorf("exit code %d, want %d; %s", r.ExitCode, tc.code, o.err.String())
			}
			if r.Stragglers != tc.stragglers {
				t.Errorf("%d stragglers, want %d", r.Stragglers, tc.stragglers)
			}
			if !strings.Contains(o.out.String(), "up") {
				t.Errorf("output lost: %q", o.out.String())
			}
		})
	}
}

func TestDeafToSIGTERMIsKilledAfterGrace(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	mark := marked()
	c := bash("trap 'echo told' TERM; setsid bash -c 'trap \"\" TERM; sleep " + mark + "; sleep " + mark + "' & echo up; while :; do wait; done")
	c.Grace = 50 * time.Millisecond
	o := &output{seen: func(string) { cancel() }}
	r, err := Run(ctx, c, o.deliver)
	if !errors.Is(err, context.Canceled) || r.Signal != "SIGKILL" {
		t.Errorf("got %+v, %v", r, err)
	}
	if d := cmp.Diff("up\ntold\n", o.out.String()); d != "" {
		t.Errorf("output until the end: (-want +got)\n%s", d)
	}
	if left := alive(t, mark); len(left) > 0 {
		t.Errorf("alive: %s", left)
	}
}

func TestStoppedSupervisorDoesNotHang(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	mark := marked()
	c := bash("sleep " + mark + " & kill -STOP $PPID; echo up; wait")
	c.Grace = time.Millisecond
	o := &output{seen: func(string) { cancel() }}
	if _, err := Run(ctx, c, o.deliver); !errors.Is(err, ErrSupervisorKilled) {
		t.Errorf("got %v", err)
	}
	if left := alive(t, mark); len(left) > 0 {
		t.Errorf("alive: %s", left)
	}
}

func TestWardenIsReplaced(t *testing.T) {
	runs(t, bash("true"))
	warden.mu.Lock()
	_ = warden.proc.Kill()
	_, _ = warden.proc.Wait()
	warden.mu.Unlock()
	if r, o := runs(t, bash("echo hi")); r.ExitCode != 0 || o.out.String() != "hi\n" {
		t.Errorf("got %+v %q", r, o.out.String())
	}
}

// TestKilledDaemonLeavesNothing kills a process that runs a command, and waits
// for the end of the pipe that every process of the command holds.
func TestKilledDaemonLeavesNothing(t *testing.T) {
	mark := marked()
	script := "exec 3>&1; trap '' TERM; setsid sleep " + mark + " & (setsid sleep " + mark + " &) ; echo up; while :; do sleep " + mark + "; done"
	daemon := exec.CommandContext(t.Context(), "/proc/self/exe")
	daemon.Env = append(os.Environ(), "SANDBOX_TEST_DAEMON="+script)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	daemon.Stdout, daemon.Stderr = w, w // the warden holds its daemon's stderr
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if _, err := r.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait()
	_ = r.SetReadDeadline(time.Now().Add(30 * time.Second))
	if n, err := r.Read(make([]byte, 100)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the warden is still there: %d, %v", n, err)
	}
	if left := alive(t, "sleep\x00"+mark); len(left) > 0 {
		t.Errorf("alive: %s", left)
	}
}
