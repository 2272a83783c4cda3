package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/toold/toold/internal/tool"
	pb "github.com/toold/toold/proto/toold/v1"
)

func reflectDefaults() reflect.Value { return reflect.ValueOf(defaults()) }

// terminal is what a person sees; ready is closed when the daemon has said all.
type terminal struct {
	mu    sync.Mutex
	text  bytes.Buffer
	ready chan struct{}
	once  sync.Once
}

func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Write(p)
	if strings.Contains(t.text.String(), "Next: ") {
		t.once.Do(func() { close(t.ready) })
	}
	return len(p), nil
}

func (t *terminal) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// shortDir is a folder whose path is short enough for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "toold")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func testConfig(t *testing.T) Config {
	c := defaults()
	c.Listen, c.MetricsListen, c.DataDir, c.Profile = "127.0.0.1:0", "127.0.0.1:0", filepath.Join(shortDir(t), "data"), "ci"
	c.Workspaces = map[string]string{"default": t.TempDir()}
	return c
}

// started runs a daemon; stop takes it down and gives serve's error.
func started(t *testing.T, c Config) (out *terminal, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out = &terminal{ready: make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- serve(ctx, c, out) }()
	select {
	case <-out.ready:
	case err := <-done:
		cancel()
		t.Fatalf("serve: %v\n%s", err, out)
	}
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	return out, stop
}

func dial(t *testing.T, target string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// outcome runs one call and gives its result.
func outcome(t *testing.T, conn *grpc.ClientConn, name, args string) *pb.CallResult {
	t.Helper()
	stream, err := pb.NewExecutionServiceClient(conn).ExecuteBatch(t.Context(), &pb.ExecuteBatchRequest{
		Spec: &pb.BatchSpec{}, Calls: []*pb.ToolCall{{Tool: name, ArgumentsJson: args}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var out *pb.CallResult
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.GetEvent().GetResult() != nil {
			out = r.GetEvent().GetResult()
		}
	}
}

func TestADaemonServesDrainsAndStartsAgain(t *testing.T) {
	c := testConfig(t)
	ws := c.Workspaces["default"]
	if err := os.WriteFile(filepath.Join(ws, "README.md"), []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		out, stop := started(t, c)
		data, _ := filepath.EvalSymlinks(c.DataDir)
		for _, want := range []string{"unix:" + filepath.Join(data, "toold.sock"), data + " (sqlite)", "policy", "ci", "default = ", "read path=README.md"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("nothing says %q:\n%s", want, out)
			}
		}
		conn := dial(t, "unix:"+filepath.Join(c.DataDir, "toold.sock"))
		if r := outcome(t, conn, "read", `{"path":"README.md"}`); !strings.Contains(r.GetOutput().GetText().GetText(), "hello") {
			t.Errorf("read: %v", r)
		}
		if r := outcome(t, conn, "write", `{"path":"a.txt","content":"x"}`); r.GetOutcome() != pb.ToolOutcome_TOOL_OUTCOME_SUCCEEDED {
			t.Errorf("write: %v", r)
		}
		if err := stop(); err != nil {
			t.Errorf("stopping: %v\n%s", err, out)
		}
		if _, err := os.Stat(filepath.Join(c.DataDir, "toold.sock")); err == nil {
			t.Error("the socket is still there")
		}
	}
	for name, want := range map[string]os.FileMode{"": 0o700, "toold.db": 0o600, "mask.key": 0o600} {
		info, err := os.Stat(filepath.Join(c.DataDir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
}

func TestASecondDaemonIsRefused(t *testing.T) {
	c := testConfig(t)
	started(t, c)
	if err := serve(t.Context(), c, io.Discard); err == nil || !strings.Contains(err.Error(), "another toold uses the data folder") {
		t.Errorf("the same folder: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	other := testConfig(t)
	other.Listen = l.Addr().String()
	if err := serve(t.Context(), other, io.Discard); err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("the same port: %v", err)
	}
}

func TestDrainingWaitsForWhatRuns(t *testing.T) {
	c := testConfig(t)
	_, stop := started(t, c)
	conn := dial(t, "unix:"+filepath.Join(c.DataDir, "toold.sock"))
	stream, err := pb.NewExecutionServiceClient(conn).ExecuteBatch(t.Context(), &pb.ExecuteBatchRequest{
		Spec:  &pb.BatchSpec{RequestId: "r-1", Stream: &pb.StreamOptions{OutputChunks: true}},
		Calls: []*pb.ToolCall{{Tool: "bash", ArgumentsJson: `{"command":"echo begun; while [ ! -e go ]; do sleep 0.01; done; echo done > ended"}`}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var told bool
	for {
		r, err := stream.Recv()
		if err != nil {
			break // REPLICA_DRAINING
		}
		switch e := r.GetEvent(); {
		case e.GetChunk() != nil:
			go func() { _ = stop() }()
		case e.GetDraining() != nil:
			told = true
			if err := os.WriteFile(filepath.Join(c.Workspaces["default"], "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !told {
		t.Error("the stream was not told")
	}
	if err := stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
	if _, err := os.Stat(filepath.Join(c.Workspaces["default"], "ended")); err != nil {
		t.Errorf("the call was not waited for: %v", err)
	}
}

func TestWhatOperatorsLookAt(t *testing.T) {
	var down error
	_, registry, err := newMeters()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := observe(registry, func() error { return down })
	go func() { _ = web.Serve(l) }()
	defer func() { _ = web.Close() }()
	get := func(path string, change func(*http.Request)) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(r)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	for path, want := range map[string]string{"/metrics": "go_goroutines", "/healthz": "ok", "/readyz": "ok", "/debug/pprof/goroutine?debug=1": "goroutine profile"} {
		if code, body := get(path, nil); code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.80q", path, code, body)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"another name":   func(r *http.Request) { r.Host = "attacker.example:80" },
		"another origin": func(r *http.Request) { r.Header.Set("Origin", "https://attacker.example") },
	} {
		if code, _ := get("/metrics", change); code != http.StatusForbidden {
			t.Errorf("%s: %d", name, code)
		}
	}
	if code, _ := get("/metrics", func(r *http.Request) { r.Host = "localhost:7434" }); code != 200 {
		t.Errorf("localhost: %d", code)
	}
	down = errors.New("draining")
	if code, body := get("/readyz", nil); code != http.StatusServiceUnavailable || body != "draining\n" {
		t.Errorf("not ready: %d %q", code, body)
	}
}

func TestTheImplicitWorkspaceIsNothingThatMatters(t *testing.T) {
	home := shortDir(t)
	home, _ = filepath.EvalSymlinks(home)
	project, data := filepath.Join(home, "src", "app"), filepath.Join(home, ".local", "share", "toold")
	for _, dir := range []string{project, data} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	for dir, want := range map[string]string{
		project:                       "",
		"/":                           "the root of the file system",
		home:                          "your home folder",
		filepath.Dir(home):            "holds your home folder",
		filepath.Join(home, ".local"): "holds toold's own data",
		data:                          "holds toold's own data",
	} {
		t.Chdir(dir)
		got, err := implicitWorkspace(data)
		switch {
		case want == "" && (err != nil || got != dir):
			t.Errorf("%s: %q, %v", dir, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--workspace")):
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestWorkspacesHoldNeitherDataNorPolicy(t *testing.T) {
	dir := t.TempDir()
	data := &dataDir{path: filepath.Join(dir, "data")}
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte("profile: ci\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "ws"), 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("ws", link); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		config Config
		data   string
		want   string
	}{
		"apart":      {Config{Workspaces: map[string]string{"a": filepath.Join(dir, "ws")}, Policy: policy}, data.path, ""},
		"data":       {Config{Workspaces: map[string]string{"a": dir}}, data.path, "holds the data folder"},
		"policy":     {Config{Workspaces: map[string]string{"a": dir}, Policy: policy}, "/elsewhere", "policy file"},
		"not there":  {Config{Workspaces: map[string]string{"a": filepath.Join(dir, "nope")}}, data.path, "existing folder"},
		"two of one": {Config{Workspaces: map[string]string{"a": filepath.Join(dir, "ws"), "b": filepath.Join(dir, "ws")}}, data.path, "workspaces a and b are both the folder"},
		"by a link":  {Config{Workspaces: map[string]string{"a": filepath.Join(dir, "ws"), "b": link}}, data.path, "workspaces a and b are both the folder"},
	} {
		w, err := openWorkspaces(test.config, &dataDir{path: test.data})
		if w != nil {
			_ = w.Close()
		}
		if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestTheGreetingNamesWhatIsServed(t *testing.T) {
	c := testConfig(t)
	c.Workspaces = map[string]string{"docs": t.TempDir(), "src": t.TempDir()}
	c.DataDir = filepath.Join(shortDir(t), "a folder")
	out, _ := started(t, c)
	if text := out.String(); strings.Contains(text, ":0/metrics") || !strings.Contains(text, "metrics    http://127.0.0.1:") {
		t.Errorf("the port of the metrics:\n%s", text)
	}
	data, _ := filepath.EvalSymlinks(c.DataDir)
	if want := "Next: toolctl exec --data-dir '" + data + "' --workspace docs tree path=.\n"; !strings.Contains(out.String(), want) {
		t.Errorf("want %q:\n%s", want, out)
	}
}

func TestTheMaskKeyIsMadeOnce(t *testing.T) {
	d := &dataDir{path: t.TempDir()}
	first, err := d.maskKey()
	if err != nil || len(first) != 32 {
		t.Fatal(first, err)
	}
	again, err := d.maskKey()
	if err != nil || !bytes.Equal(first, again) {
		t.Errorf("the key changed: %v", err)
	}
	if err := os.WriteFile(d.join(maskKeyName), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.maskKey(); err == nil {
		t.Error("a broken key was taken")
	}
}

func TestBuiltinToolsAreAccepted(t *testing.T) {
	if _, err := tool.NewRegistry(builtin(defaults(), nil)...); err != nil {
		t.Error(err)
	}
}

func TestADataFolderForOthersIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := openDataDir(dir); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("got %v", err)
	}
	if _, err := openDataDir(filepath.Join(t.TempDir(), strings.Repeat("x", 120))); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("a long path: %v", err)
	}
}
