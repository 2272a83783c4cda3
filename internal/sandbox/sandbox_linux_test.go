package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toold/toold/internal/tool"
)

const canary = "canary-7d1f"

func TestMain(m *testing.M) {
	// A second copy of this test binary that runs one command, to be killed.
	if script := os.Getenv("SANDBOX_TEST_DAEMON"); script != "" {
		_, err := Run(context.Background(), bash(script), func(_ tool.Channel, p []byte) error {
			_, err := os.Stdout.Write(p)
			return err
		})
		fmt.Println(err)
		os.Exit(0)
	}
	if err := os.Setenv("SANDBOX_TEST_SECRET", canary); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func bash(script string) Command {
	return Command{
		Path: "/bin/bash", Args: []string{"bash", "--noprofile", "--norc", "-c", script},
		Dir: "/", Env: Environ(nil, nil), Grace: 10 * time.Second,
	}
}

// output collects what a command writes, and tells of each piece.
type output struct {
	out, err bytes.Buffer
	seen     func(all string) // called with all of stdout so far
}

func (o *output) deliver(ch tool.Channel, p []byte) error {
	if ch == tool.Stderr {
		o.err.Write(p)
		return nil
	}
	o.out.Write(p)
	if o.seen != nil {
		o.seen(o.out.String())
	}
	return nil
}

func runs(t *testing.T, c Command) (Result, *output) {
	t.Helper()
	o := &output{}
	r, err := Run(t.Context(), c, o.deliver)
	if err != nil {
		t.Fatalf("%s: %v", c.Args, err)
	}
	return r, o
}

var untimed = cmpopts.IgnoreFields(Result{}, "CPU", "MaxRSS", "Stragglers")

func TestHowACommandEnds(t *testing.T) {
	for _, tc := range []struct {
		script   string
		out, err string
		want     Result
	}{
		{script: "true"},
		{script: "false", want: Result{ExitCode: 1}},
		{script: "exit 255", want: Result{ExitCode: 255}},
		{script: "echo out; echo err >&2; exit 3", out: "out\n", err: "err\n", want: Result{ExitCode: 3}},
		{script: "kill -9 $$", want: Result{ExitCode: 137, Signal: "SIGKILL"}},
		{script: "kill -TERM $$", want: Result{ExitCode: 143, Signal: "SIGTERM"}},
		{script: "kill -SEGV $$", want: Result{ExitCode: 139, Signal: "SIGSEGV"}},
		{script: "bash -c 'kill -9 $$'; exit $?", err: "bash: line 1: N Killed                  bash -c 'kill -9 $$'\n", want: Result{ExitCode: 137}},
		{script: "cat <<EOF\na\nb\nEOF", out: "a\nb\n"},
		{script: "cat <<EOF\na\nb\nEOF\n", out: "a\nb\n"},
		{script: "cat", out: ""},
		{script: "read x; echo $?", out: "1\n"},
		{script: "exec >&- 2>&-; exit 4", want: Result{ExitCode: 4}},
		{script: "printf 'a\\0b\\xff'", out: "a\x00b\xff"},
		{script: "ulimit -c", out: "0\n"},
		{script: "pwd", out: "/\n"},
		{script: "no-such-program", err: "bash: line 1: no-such-program: command not found\n", want: Result{ExitCode: 127}},
	} {
		r, o := runs(t, bash(tc.script))
		if d := cmp.Diff(tc.want, r, untimed); d != "" {
			t.Errorf("%s: (-want +got)\n%s", tc.script, d)
		}
		if d := cmp.Diff(tc.out, o.out.String()); d != "" {
			t.Errorf("%s: stdout (-want +got)\n%s", tc.script, d)
		}
		if d := cmp.Diff(tc.err, digits(o.err.String(), tc.err)); d != "" {
			t.Errorf("%s: stderr (-want +got)\n%s", tc.script, d)
		}
	}
}

// digits puts N for the process id in bash's "Killed" line, where one is wanted.
func digits(got, want string) string {
	if !strings.Contains(want, " N ") {
		return got
	}
	f := strings.Fields(got)
	for _, w := range f {
		if n, err := strconv.Atoi(w); err == nil && n > 1 {
			got = strings.Replace(got, w, "N", 1)
		}
	}
	return strings.Join(strings.Fields(got), " ")[:len("bash: line 1: N Killed")] + want[len("bash: line 1: N Killed"):]
}

func TestWhatCannotStartIsAnError(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		edit func(*Command)
		want error
	}{
		{"no such program", func(c *Command) { c.Path = "/no/such" }, fs.ErrNotExist},
		{"not executable", func(c *Command) { c.Path = plain }, fs.ErrPermission},
		{"no such folder", func(c *Command) { c.Dir = "/no/such" }, fs.ErrNotExist},
		{"argument too long", func(c *Command) { c.Args = append(c.Args, strings.Repeat("x", 1<<20)) }, syscall.E2BIG},
		{"NUL in an argument", func(c *Command) { c.Args = append(c.Args, "a\x00b") }, syscall.EINVAL},
	} {
		c := bash("true")
		tc.edit(&c)
		if _, err := Run(t.Context(), c, (&output{}).deliver); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ended, bash("touch /tmp/never"), (&output{}).deliver); !errors.Is(err, context.Canceled) {
		t.Errorf("context over before the start: got %v", err)
	}
}

func TestRefusedOutputEndsTheCommand(t *testing.T) {
	full := errors.New("full")
	n := 0
	_, err := Run(t.Context(), bash("yes; echo never"), func(_ tool.Channel, p []byte) error {
		if n += len(p); n > 100_000 {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if n > 100_000+pumpBytes {
		t.Errorf("%d bytes delivered after the refusal", n-100_000)
	}
}

func TestRunsDoNotDisturbEachOther(t *testing.T) {
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			o, mark := &output{}, marked()
			c, want := bash("setsid sleep "+mark+" & head -c 300000 /dev/zero"), error(nil)
			if i%2 == 1 {
				c, want = bash("setsid sleep "+mark+" & kill -9 $PPID; wait"), ErrSupervisorKilled
			}
			r, err := Run(t.Context(), c, o.deliver)
			if !errors.Is(err, want) || (want == nil && o.out.Len() != 300_000) {
				t.Errorf("run %d: %d bytes, %+v, %v", i, o.out.Len(), r, err)
			}
			if left := alive(t, mark); len(left) > 0 {
				t.Errorf("run %d: alive: %s", i, left)
			}
		})
	}
	all.Wait()
}

func TestNoDescriptorLeaks(t *testing.T) {
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	once := func() {
		c := bash("echo hi; echo ho >&2")
		c.Stdin = []byte("x")
		runs(t, c)
		c.Dir = "/no/such"
		if _, err := Run(t.Context(), c, (&output{}).deliver); err == nil {
			t.Error("ran in no folder")
		}
	}
	once()
	before := count()
	for range 10 {
		once()
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func TestNothingOfTheDaemonLeaksIn(t *testing.T) {
	// Descriptors that a careless parent left open, without close-on-exec.
	leak, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(leak.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = leak.Close(), syscall.Close(fd) }()
	warden.mu.Lock()
	if warden.proc != nil {
		warden.discard() // so that the next one inherits it
	}
	warden.mu.Unlock()

	_, o := runs(t, bash("env; tr '\\0' '\\n' </proc/$PPID/environ"))
	if strings.Contains(o.out.String(), canary) {
		t.Errorf("a secret of the daemon is in reach:\n%s", o.out.String())
	}
	_, o = runs(t, bash("for f in /proc/self/fd/*; do echo ${f##*/}; done"))
	if d := cmp.Diff("0\n1\n2\n3\n", o.out.String()); d != "" { // 3 is the listing's own
		t.Errorf("descriptors (-want +got)\n%s", d)
	}
	_, o = runs(t, bash("tty; : </dev/tty"))
	if o.out.String() != "not a tty\n" || !strings.Contains(o.err.String(), "No such device") {
		t.Errorf("there is a terminal: %q %q", o.out.String(), o.err.String())
	}
}

func TestEnvironIsWhatIsNamed(t *testing.T) {
	t.Setenv("PATH", "/bin")
	t.Setenv("HOME", "/home/me")
	t.Setenv("LANG", "")
	t.Setenv("TMPDIR", "/var/tmp")
	t.Setenv("GOFLAGS", "-mod=vendor")
	want := []string{
		"CALL=1", "GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0", "GOFLAGS=-mod=vendor", "HOME=/home/me",
		"LANG=C.UTF-8", "PAGER=less", "PATH=/bin", "TERM=dumb", "TMPDIR=/var/tmp",
	}
	got := Environ([]string{"GOFLAGS", "NOT_SET"}, map[string]string{"CALL": "1", "PAGER": "less"})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestLimitsHold(t *testing.T) {
	// The limits are set just after the command has started: it waits for the last.
	c := bash("for ((i = 0; i < 5000; i++)); do got=$(ulimit -f; ulimit -Hn; ulimit -t; ulimit -v; ulimit -u); [ \"${got// /}\" = $'1024\\n64\\n2\\n1048576\\n5000' ] && break; done; ulimit -f; ulimit -Hn; ulimit -t; ulimit -v; ulimit -u; head -c 3000000 /dev/zero >" + filepath.Join(t.TempDir(), "big"))
	c.Limits = Limits{CPU: 1500 * time.Millisecond, Memory: 1 << 30, FileSize: 1 << 20, OpenFiles: 64, Processes: 5000}
	r, o := runs(t, c)
	if d := cmp.Diff("1024\n64\n2\n1048576\n5000\n", o.out.String()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if r.ExitCode != 128+int(syscall.SIGXFSZ) {
		t.Errorf("writing past the limit: %+v", r)
	}
}

func TestUsageCountsTheWholeTree(t *testing.T) {
	r, _ := runs(t, bash("( ( setsid bash -c 'x=; for ((i=0;i<100000;i++)); do :; done; read -rN 40000000 x </dev/zero' & ) ) ; while pgrep -s 0 -x none; do :; done; head -c 40000000 /dev/zero | tail -c 40000000 | wc -c"))
	if r.CPU < time.Millisecond {
		t.Errorf("CPU %v", r.CPU)
	}
	if r.MaxRSS < 40_000_000 {
		t.Errorf("peak memory %d, though tail held 40 MB", r.MaxRSS)
	}
}

func TestStdinIsGivenWhole(t *testing.T) {
	c := bash("wc -c")
	c.Stdin = bytes.Repeat([]byte("x"), 5<<20)
	if _, o := runs(t, c); o.out.String() != "5242880\n" {
		t.Errorf("got %q", o.out.String())
	}
	c = bash("exit 0") // nobody reads
	c.Stdin = bytes.Repeat([]byte("x"), 5<<20)
	runs(t, c)
	c = bash("cat")
	c.Stdin = []byte{}
	runs(t, c)
}

func TestHugeOutputArrivesWhole(t *testing.T) {
	const size = 1 << 30
	n, largest := 0, 0
	start := time.Now()
	_, err := Run(t.Context(), bash("yes | head -c 1073741824"), func(_ tool.Channel, p []byte) error {
		n += len(p)
		largest = max(largest, len(p))
		return nil
	})
	if err != nil || n != size {
		t.Errorf("%d bytes, %v; want %d", n, err, size)
	}
	if largest > pumpBytes {
		t.Errorf("a piece of %d bytes", largest)
	}
	t.Logf("%.0f MB/s", size/1e6/time.Since(start).Seconds())
}

// BenchmarkSpawn is a whole Run of "true", beside plain os/exec of the same.
func BenchmarkSpawn(b *testing.B) {
	c := bash("true")
	b.Run("sandbox", func(b *testing.B) {
		for b.Loop() {
			if _, err := Run(b.Context(), c, func(tool.Channel, []byte) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			cmd := exec.CommandContext(b.Context(), c.Path, c.Args[1:]...)
			cmd.Env = c.Env
			if _, err := cmd.Output(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkOutput is the speed of the pump, beside io.Copy of the same pipe.
func BenchmarkOutput(b *testing.B) {
	const size = 256 << 20
	c := bash("yes | head -c " + strconv.Itoa(size))
	b.Run("sandbox", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			if _, err := Run(b.Context(), c, func(tool.Channel, []byte) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("floor", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			cmd := exec.CommandContext(b.Context(), c.Path, c.Args[1:]...)
			cmd.Env, cmd.Stdout = c.Env, discard{}
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
