// Package integration holds black-box tests of the real binaries: the promises
// of ARCHITECTURE.md by name, faults of what toold stands on, and stories told
// at the command line. It sees toold as its users do: the API, the command
// line, the files, SQL.
//
// TOOLD_FULL=1 asks for full counts (make integration); without it they are
// small (make test).
package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/toold/toold/client"
	"github.com/toold/toold/internal/pgtest"
	pb "github.com/toold/toold/proto/toold/v1"
)

// binaries is the folder of toold and toolctl.
var binaries string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == witnessCommand {
		os.Exit(witness(os.Args[2:]))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "toold-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binaries = dir
	build := exec.Command("go", "build", "-tags", "grpcnotrace", "-o", dir+"/", "../cmd/toold", "../cmd/toolctl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the binaries: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// times is how often something is done: small in make test, full in make
// integration.
func times(small, full int) int {
	if os.Getenv("TOOLD_FULL") != "" {
		return full
	}
	return small
}

// patience bounds every wait. It is never reached unless something hangs.
const patience = time.Minute

// within is a context that ends when patience does.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// await returns once done is true. It asks often, and fails the test when
// patience ends.
func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// migrated is a Postgres database with the schema, made by the real binary.
var migrated = pgtest.Template{Migrate: func(ctx context.Context, dsn string) error {
	out, err := exec.CommandContext(ctx, filepath.Join(binaries, "toold"), "migrate", "--database-url", dsn).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}}

// eachStore runs a test on both stores.
func eachStore(t *testing.T, test func(t *testing.T, s *site)) {
	t.Run("sqlite", func(t *testing.T) { test(t, newSite(t, "")) })
	t.Run("postgres", func(t *testing.T) { test(t, newSite(t, migrated.DSN(t))) })
}

// site is where a daemon lives: what outlasts its processes.
type site struct {
	t           testing.TB
	data        string // the daemon's own folder
	workspace   string // the default workspace
	databaseURL string // empty: SQLite
	profile     string
	config      string // text of the configuration file
	logs        string
}

func newSite(t testing.TB, databaseURL string) *site {
	// Not t.TempDir: a socket's path has at most some 100 bytes.
	dir, err := os.MkdirTemp("", "toold-it-")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{
		t: t, databaseURL: databaseURL, profile: "ci", config: "commands: {grace: 200ms}\n",
		data: filepath.Join(dir, "data"), workspace: filepath.Join(dir, "ws"), logs: filepath.Join(dir, "log"),
	}
	if err := os.Mkdir(s.workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if text, err := os.ReadFile(s.logs); t.Failed() && err == nil {
			t.Logf("the daemon's log, its end:\n%s", text[max(0, len(text)-8000):])
		}
		for pid := range s.processes(t) { // a failure leaves nothing behind either
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone already
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return s
}

// put writes a file of the workspace.
func (s *site) put(name string, content []byte) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.workspace, name), content, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// has reports whether a file of the workspace is there and not empty.
func (s *site) has(name string) bool {
	info, err := os.Stat(filepath.Join(s.workspace, name))
	return err == nil && info.Size() > 0
}

func (s *site) socket() string { return filepath.Join(s.data, "toold.sock") }

// client talks to whichever daemon runs at the site.
func (s *site) client(t testing.TB) *client.Client {
	t.Helper()
	return dial(t, s.socket())
}

func dial(t testing.TB, target string) *client.Client {
	t.Helper()
	c, err := client.Dial(target)
	if err != nil {
		t.Fatal(err)
	}
	c.GiveUpAfter = patience
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// daemon is one process of toold.
type daemon struct {
	*site
	cmd  *exec.Cmd
	gone chan struct{} // closed when the process was waited for
	err  error         // how it ended; after gone
	said int64         // where its part of the log begins
}

// launch starts a process and does not wait until it serves.
func (s *site) launch() *daemon {
	s.t.Helper()
	config := s.data + ".yaml"
	if err := os.WriteFile(config, []byte(s.config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	log, err := os.OpenFile(s.logs, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	d := &daemon{site: s, gone: make(chan struct{})}
	if d.said, err = log.Seek(0, io.SeekEnd); err != nil {
		s.t.Fatal(err)
	}
	d.cmd = exec.Command(filepath.Join(binaries, "toold"), "--config", config, "--data-dir", s.data,
		"--workspace", s.workspace, "--profile", s.profile, "--listen", "127.0.0.1:0", "--metrics-listen", "off")
	d.cmd.Env = append(os.Environ(), "TOOLD_DATABASE_URL="+s.databaseURL)
	d.cmd.Stderr = log
	if err := d.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		d.err = d.cmd.Wait()
		close(d.gone)
	}()
	s.t.Cleanup(d.kill)
	return d
}

// start starts a process and returns when it serves.
func (s *site) start() *daemon {
	s.t.Helper()
	d := s.launch()
	await(s.t, "the daemon's greeting", func() bool { return d.exited() || bytes.Contains(d.log(), []byte("\nNext: ")) })
	if d.exited() {
		s.t.Fatalf("the daemon ended: %v\n%s", d.err, d.log())
	}
	conn := s.client(s.t).Conn()
	health := grpc_health_v1.NewHealthClient(conn)
	ctx := within(s.t)
	await(s.t, "health", func() bool {
		r, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		return err == nil && r.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
	})
	if err := conn.Close(); err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (d *daemon) exited() bool {
	select {
	case <-d.gone:
		return true
	default:
		return false
	}
}

// log is what this process has written.
func (d *daemon) log() []byte {
	text, err := os.ReadFile(d.logs)
	if err != nil {
		d.t.Fatal(err)
	}
	return text[d.said:]
}

var listensOn = regexp.MustCompile(`(?m)^  API +(\S+) and unix:`)

// address is the TCP address that it serves on.
func (d *daemon) address() string {
	d.t.Helper()
	m := listensOn.FindSubmatch(d.log())
	if m == nil {
		d.t.Fatalf("the greeting names no address:\n%s", d.log())
	}
	return string(m[1])
}

// kill ends the process by SIGKILL and returns when it is gone.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill() // it may be gone already
	<-d.gone
}

// stop ends the process by SIGTERM and wants a good end.
func (d *daemon) stop() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Fatal(err)
	}
	select {
	case <-d.gone:
	case <-time.After(patience):
		d.t.Fatal("the daemon did not end on SIGTERM")
	}
	if d.err != nil {
		d.t.Fatalf("the daemon ended badly on SIGTERM: %v\n%s", d.err, d.log())
	}
}

// call makes a call of a batch.
func call(id, tool string, args map[string]any) *pb.ToolCall {
	text, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return &pb.ToolCall{CallId: id, Tool: tool, ArgumentsJson: string(text)}
}

func bash(id, command string) *pb.ToolCall {
	return call(id, "bash", map[string]any{"command": command})
}

func read(id, path string) *pb.ToolCall { return call(id, "read", map[string]any{"path": path}) }

func write(id, path, content string) *pb.ToolCall {
	return call(id, "write", map[string]any{"path": path, "content": content})
}

// batch makes a request, with an id of its own, in program order.
func batch(calls ...*pb.ToolCall) *pb.ExecuteBatchRequest {
	return &pb.ExecuteBatchRequest{
		Spec: &pb.BatchSpec{
			RequestId: client.NewRequestID(), ScheduleMode: pb.ScheduleMode_SCHEDULE_MODE_PROGRAM_ORDER,
			DisconnectPolicy: pb.DisconnectPolicy_DISCONNECT_POLICY_DETACH,
		},
		Calls: calls,
	}
}

// story is what one client was told of a batch.
type story struct {
	batchID string
	events  []*pb.BatchEvent // the numbered ones
	results map[string]*pb.CallResult
	summary *pb.BatchSummary
}

var errGapped = errors.New("the numbers of the events are not dense")

// add takes the next event; one that is not the next is an error.
func (s *story) add(ev *pb.BatchEvent) error {
	if ev.GetSeq() == 0 {
		return nil
	}
	if want := int64(len(s.events) + 1); ev.GetSeq() != want {
		return fmt.Errorf("%w: %d came instead of %d", errGapped, ev.GetSeq(), want)
	}
	s.events = append(s.events, ev)
	s.batchID = ev.GetBatchId()
	if r := ev.GetResult(); r != nil {
		if s.results == nil {
			s.results = map[string]*pb.CallResult{}
		}
		s.results[ev.GetCallId()] = r
	}
	if sum := ev.GetSummary(); sum != nil {
		s.summary = sum
	}
	return nil
}

// outcomes are the outcomes by call, as "SUCCEEDED" or "FAILED/REASON".
func (s *story) outcomes() map[string]string {
	out := map[string]string{}
	for id, r := range s.results {
		out[id] = word(r.GetOutcome())
		if reason := r.GetError().GetReason(); reason != "" {
			out[id] += "/" + reason
		}
	}
	return out
}

func word(o pb.ToolOutcome) string { return o.String()[len("TOOL_OUTCOME_"):] }

// run runs a batch to its summary.
func run(t testing.TB, c *client.Client, req *pb.ExecuteBatchRequest) *story {
	t.Helper()
	s := &story{}
	if _, err := c.Execute(within(t), req, s.add); err != nil {
		t.Fatal(err)
	}
	return s
}

// attach follows the batch of a request id from its first event to its summary.
func attach(t testing.TB, c *client.Client, requestID string) *story {
	t.Helper()
	s := &story{}
	req := &pb.AttachBatchRequest{Batch: &pb.AttachBatchRequest_RequestId{RequestId: requestID}}
	if _, err := c.Attach(within(t), req, s.add); err != nil {
		t.Fatal(err)
	}
	return s
}
