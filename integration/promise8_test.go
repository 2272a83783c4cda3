package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toold/toold/client"
	pb "github.com/toold/toold/proto/toold/v1"
)

// beat is a script that writes the time into a file over and over.
func beat(file string) string {
	return fmt.Sprintf("while :; do date +%%s%%N >> %s; sleep 0.01; done", file)
}

// escapes are ways to outlive a command. Each is told what to run.
var escapes = map[string]string{
	"background":    "(%s) &",
	"nohup":         "nohup bash -c '%s' >/dev/null 2>&1 & disown",
	"setsid":        "setsid bash -c '%s' &",
	"double-fork":   "( ( setsid bash -c '%s' & ) & )",
	"ignores-TERM":  `setsid bash -c 'trap "" TERM INT HUP; %s' &`,
	"closed-output": "setsid bash -c 'exec <&- >&- 2>&-; %s' &",
}

// Commands that leave processes behind in every known way end by themselves, at
// their timeout, by cancellation, and by the daemon's death: when the result is
// told, none of the processes is alive, and none has written since.
func TestPromise8_NoProcessOutlivesItsResult(t *testing.T) {
	eachStore(t, func(t *testing.T, s *site) {
		d := s.start()
		c := s.client(t)
		for _, end := range []struct {
			name, last, outcome string
			timeout             int
			then                func(batchID string)
		}{
			{name: "exit", last: "echo done", outcome: "SUCCEEDED"},
			{name: "exit-badly", last: "exit 3", outcome: "FAILED/NON_ZERO_EXIT"},
			{name: "timeout", last: "wait; sleep 600", outcome: "TIMED_OUT/CALL_TIMEOUT", timeout: 2},
			{name: "cancel", last: "wait; sleep 600", outcome: "INTERRUPTED/FORCE_CANCEL", then: func(id string) { forceCancel(t, c, id) }},
			{name: "killed-daemon", last: "wait; sleep 600", outcome: "UNKNOWN/REPLICA_CRASHED", then: func(string) {
				d.kill()
				d = s.start()
			}},
		} {
			s.checkEscapes(t, c, end.name, end.last, end.outcome, end.timeout, end.then)
		}
	})
}

// checkEscapes starts all escapes in one command, which goes on with last when
// every one of them beats, and has then done meanwhile.
func (s *site) checkEscapes(t *testing.T, c *client.Client, name, last, outcome string, timeout int, then func(batchID string)) {
	t.Helper()
	var script strings.Builder
	var files []string
	for way, form := range escapes {
		file := "beat-" + name + "-" + way
		files = append(files, file)
		fmt.Fprintf(&script, form+"\n", beat(file))
	}
	for _, f := range files {
		fmt.Fprintf(&script, "until [ -s %s ]; do sleep 0.01; done\n", f)
	}
	fmt.Fprintf(&script, "echo all > all-%s\n%s\n", name, last)
	args := map[string]any{"command": script.String()}
	if timeout > 0 {
		args["timeoutSeconds"] = timeout
	}
	ended := make(chan struct{})
	accepted := make(chan string, 1)
	told := &story{}
	var at time.Time
	var alive map[int]string
	go func() {
		defer close(ended)
		_, err := c.Execute(within(t), batch(call(name, "bash", args)), func(ev *pb.BatchEvent) error {
			if ev.GetAccepted() != nil {
				accepted <- ev.GetBatchId()
			}
			if ev.GetResult() != nil {
				at, alive = time.Now(), s.processes(t)
			}
			return told.add(ev)
		})
		if err != nil {
			t.Error(err)
		}
	}()
	await(t, "all escapes", func() bool { return s.has("all-"+name) || closed(ended) })
	if then != nil {
		then(<-accepted)
	}
	<-ended
	if got := told.outcomes()[name]; got != outcome {
		t.Errorf("%s: the call ended %s, want %s: %v", name, got, outcome, told.results[name])
	}
	if len(alive) > 0 {
		t.Errorf("%s: alive when the result was told: %v", name, alive)
	}
	for _, f := range files {
		if last := s.lastBeat(t, f); last.After(at) {
			t.Errorf("%s: %s was written %v after the result", name, f, last.Sub(at))
		}
	}
}

// lastBeat is the last whole time in a file.
func (s *site) lastBeat(t *testing.T, file string) time.Time {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.workspace, file))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	ns, err := strconv.ParseInt(lines[max(0, len(lines)-2)], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(0, ns)
}

func forceCancel(t *testing.T, c *client.Client, batchID string) {
	t.Helper()
	_, err := pb.NewExecutionServiceClient(c.Conn()).CancelBatch(within(t), &pb.CancelBatchRequest{BatchId: batchID, Mode: pb.CancelMode_CANCEL_MODE_FORCE})
	if err != nil {
		t.Error(err)
	}
}

// processes are those that run in the workspace, with their command lines:
// whatever its commands start inherits that folder. What is dead and not waited
// for yet runs nowhere.
func (s *site) processes(t testing.TB) map[int]string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Error(err)
	}
	all := map[int]string{}
	for _, dir := range dirs {
		at, err := os.Readlink(dir)
		if err != nil || !strings.HasPrefix(at, s.workspace) {
			continue // gone meanwhile, or somebody else's
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err != nil {
			t.Error(err)
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(dir), "cmdline")) // gone meanwhile: no line
		all[pid] = strings.ReplaceAll(string(line), "\x00", " ")
	}
	return all
}
