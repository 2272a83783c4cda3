package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold/toold/client"
	"github.com/toold/toold/cmd/toolctl/internal/term"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

// TestEveryReasonHasANextStep reads the manual, which is the proto.
func TestEveryReasonHasANextStep(t *testing.T) {
	files, err := filepath.Glob("../../proto/toold/v1/*.proto")
	if err != nil || len(files) == 0 {
		t.Fatalf("no proto files: %v", err)
	}
	comment := regexp.MustCompile(`\n\s*//`)
	reasons := regexp.MustCompile(`\b(?:INVALID_ARGUMENT|ALREADY_EXISTS|FAILED_PRECONDITION|NOT_FOUND|RESOURCE_EXHAUSTED|UNAVAILABLE|OUT_OF_RANGE|DATA_LOSS|ABORTED|INTERNAL)/([A-Z_]+(?:,\s+[A-Z]+_[A-Z_]+)*)`)
	codeWords := regexp.MustCompile(`^(ALREADY_EXISTS|FAILED_PRECONDITION|NOT_FOUND|RESOURCE_EXHAUSTED|OUT_OF_RANGE|DATA_LOSS)$`)
	found := 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range reasons.FindAllStringSubmatch(comment.ReplaceAllString(string(text), ""), -1) {
			for _, r := range strings.FieldsFunc(m[1], func(r rune) bool { return r == ',' || r == ' ' }) {
				if codeWords.MatchString(r) {
					continue
				}
				found++
				if nextSteps[r] == "" {
					t.Errorf("%s: nothing to do about %s", filepath.Base(f), r)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d reasons found in the proto files", found)
	}
}

func refusal(c codes.Code, reason string, metadata map[string]string) error {
	s, err := status.New(c, "no").WithDetails(&errdetails.ErrorInfo{Domain: "toold", Reason: reason, Metadata: metadata})
	if err != nil {
		panic(err)
	}
	return s.Err()
}

func TestErrorsSayWhatToDoAndEndWithTheirStatus(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		code int
		want string
	}{
		{"nothing wrong", nil, exitOK, ""},
		{"a call failed", errCalls, exitCalls, ""},
		{"usage", usage(errors.New("bad flag")), exitUsage, "toolctl: bad flag\n"},
		{
			"no daemon", status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:7433: connect: connection refused"`), exitService,
			"toolctl: cannot reach toold at here: dial tcp 127.0.0.1:7433: connect: connection refused\n  next: start it with: toold\n        or say where it is: --address, --data-dir (TOOLD_ADDRESS, TOOLD_DATA_DIR)\n",
		},
		{
			"a refused batch", &client.Error{RequestID: "r", Refused: true, Err: refusal(codes.ResourceExhausted, "TOO_MANY_CALLS", map[string]string{"limit": "256", "value": "300", "accepted": "false"})}, exitUsage,
			"toolctl: no (ResourceExhausted/TOO_MANY_CALLS)\n  limit: 256\n  value: 300\n  next: split the batch into smaller ones (limits: toolctl info)\n",
		},
		{
			"a lost batch", &client.Error{BatchID: "b1", LastSeq: 4, Err: refusal(codes.Internal, "BUG", nil)}, exitService,
			"toolctl: no (Internal/BUG)\n  next: this is a fault of toold: report it with toold's log lines of this moment\n  the batch may still be running; look again: toolctl attach b1\n",
		},
		{
			"a daemon that shuts down", &client.Error{RequestID: "r", Refused: true, Err: refusal(codes.Unavailable, "REPLICA_DRAINING", map[string]string{"accepted": "false"})}, exitService,
			"toolctl: toold is shutting down; nothing ran (Unavailable/REPLICA_DRAINING)\n  next: try again once toold is started anew\n",
		},
		{
			"a number that is too high", &client.Error{BatchID: "b1", LastSeq: 500, Err: refusal(codes.OutOfRange, "SEQ_AHEAD", map[string]string{"last_seq": "4"})}, exitUsage,
			"toolctl: no (OutOfRange/SEQ_AHEAD)\n  last seq: 4\n  next: leave --after out, or give the number of an event that the batch has\n",
		},
		{"a closed session", refusal(codes.FailedPrecondition, "SESSION_CLOSED", nil), exitUsage, "toolctl: no (FailedPrecondition/SESSION_CLOSED)\n  next: make a new session: toolctl session create\n"},
		{"a request id used before", refusal(codes.AlreadyExists, "REQUEST_ID_REUSED", nil), exitUsage, "toolctl: no (AlreadyExists/REQUEST_ID_REUSED)\n  next: this request id named another batch before: use a new one, or none and toolctl makes it\n"},
		{"a full daemon", refusal(codes.ResourceExhausted, "QUEUE_FULL", nil), exitService, "toolctl: no (ResourceExhausted/QUEUE_FULL)\n  next: too many batches are running: try again shortly, or cancel one (toolctl list --state running)\n"},
		{"what is not there", refusal(codes.NotFound, "BATCH_NOT_FOUND", nil), exitUsage, "toolctl: no (NotFound/BATCH_NOT_FOUND)\n  next: list what there is: toolctl list\n"},
		{"too slow", context.DeadlineExceeded, exitService, "toolctl: context deadline exceeded\n  next: wait longer with --timeout, or see whether toold at here is well: toolctl info\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _, errs := pipe()
			a := &app{screen: s, address: "here"}
			if code := a.report(tt.err); code != tt.code {
				t.Errorf("exit status %d, want %d", code, tt.code)
			}
			if diff := cmp.Diff(tt.want, errs.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCommandLinesThatAreWrong(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "b.yaml")
	if err := os.WriteFile(file, []byte("calls:\n- tool: read\nbudgte: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		line string
		want string
	}{
		{"batch", "accepts 1 arg(s), received 0\nusage: toolctl batch FILE"},
		{"batch " + filepath.Join(dir, "gone.yaml"), "no such file or directory"},
		{"batch " + file, ":3: budgte: unknown field; did you mean budget?"},
		{"nonsense", "unknown command \"nonsense\""},
		{"list --nope", "unknown flag: --nope"},
		{"list --state odd", "--state odd: want cancelled, completed, running, waiting-approval"},
		{"list -n 0", "-n 0: want at least 1"},
		{"list -o xml", "-o xml: want text or json"},
		{"batch x -o xml", "-o xml: want text or json or jsonl"},
		{"exec read --json {} path=a", "either --json or key=value, not both"},
		{"exec read --json {} --mode upside-down", "--mode upside-down: want program-order, reads-first, serial"},
		{"get a/b c", "name the call once"},
		{"artifact get x --bytes 5", "--bytes 5: want two numbers with a colon"},
		{"session mode s1 off", "--mode off: want normal, plan"},
		{"audit tail -f -o json", "use -o jsonl"},
		{"completion nosh", `unknown command "nosh" for "toolctl completion"`},
		{"version 2", `unknown command "2" for "toolctl version"`},
		{"info --address http://h:7433", "--address http://h:7433: it is no web address; want HOST:PORT"},
		{"info --address 127.0.0.1", "--address 127.0.0.1: there is no port; want HOST:PORT"},
		{"info --address h:", "--address h:: there is no port"},
		{`exec read --json {"path":}`, `--json: line 1, column 9: '}' cannot stand here; want a value`},
	} {
		s, _, errs := pipe()
		s.in = strings.NewReader("")
		if code := run(t.Context(), strings.Fields(tt.line), s); code != exitUsage || !strings.Contains(errs.String(), tt.want) {
			t.Errorf("%s: exit status %d, said %q; want %d, %q", tt.line, code, errs, exitUsage, tt.want)
		}
	}
}

func TestTheExamplesAreGoodBatches(t *testing.T) {
	files, err := filepath.Glob("../../examples/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, f := range files {
		s, _, _ := pipe()
		req, err := (&app{screen: s}).readBatch(f)
		if err != nil {
			t.Error(err)
		}
		for _, c := range req.GetCalls() {
			if !json.Valid([]byte(c.GetArgumentsJson())) {
				t.Errorf("%s: arguments of %s: %s", f, c.GetCallId(), c.GetArgumentsJson())
			}
		}
	}
}

func TestWithoutADaemonTheNextStepIsSaid(t *testing.T) {
	for _, line := range []string{"info", "list", "exec read path=a", "exec read --json {}"} {
		s, _, errs := pipe()
		env := map[string]string{"TOOLD_ADDRESS": "unix://" + filepath.Join(t.TempDir(), "none.sock")}
		s.getenv = func(k string) string { return env[k] }
		if code := run(t.Context(), strings.Fields(line), s); code != exitService || !strings.Contains(errs.String(), "start it with: toold") {
			t.Errorf("%s: exit status %d, said %q", line, code, errs)
		}
	}
}

func TestTheMetricsAddressIsToldFromTheAPI(t *testing.T) {
	metrics := httptest.NewServer(http.NotFoundHandler())
	defer metrics.Close()
	s, _, errs := pipe()
	code := run(t.Context(), []string{"info", "--address", metrics.Listener.Addr().String()}, s)
	if code != exitService || !strings.Contains(errs.String(), "speaks HTTP/1.1, so it is not toold's API\n  next: give the address of the API") {
		t.Errorf("exit status %d, said %q", code, errs)
	}
}

func TestTheVersionIsACommandToo(t *testing.T) {
	s, flag, _ := pipe()
	run(t.Context(), []string{"--version"}, s)
	s, command, _ := pipe()
	if code := run(t.Context(), []string{"version"}, s); code != exitOK || command.String() != flag.String() {
		t.Errorf("exit status %d, printed %q, want %q", code, command, flag)
	}
}

func TestEveryKindOfAddressIsTaken(t *testing.T) {
	for _, address := range []string{"127.0.0.1:7433", "[::1]:7433", "toold:7433", ":7433", "unix:///run/toold.sock", "unix:toold.sock", "/run/toold.sock", "dns:///toold:7433", "dns:toold:7433", "passthrough:///x"} {
		if err := checkAddress(address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestASessionsStateIsWhatTheListsSay(t *testing.T) {
	session := func(id string, expires time.Time) *tooldv1.Session {
		return &tooldv1.Session{SessionId: id, ExpireTime: timestamppb.New(expires)}
	}
	open := []*tooldv1.Session{session("a", epoch.Add(time.Hour))}
	for _, tt := range []struct {
		session *tooldv1.Session
		want    string
	}{
		{session("a", epoch.Add(time.Hour)), "OPEN"},
		{session("b", epoch.Add(time.Hour)), "CLOSED"},
		{session("c", epoch), "EXPIRED"},
	} {
		if got := stateOf(tt.session, open, epoch); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.session.GetSessionId(), got, tt.want)
		}
	}
}

func TestWhereTooldIsLookedFor(t *testing.T) {
	with, without := t.TempDir(), t.TempDir()
	for _, dir := range []string{with, filepath.Join(with, "toold"), filepath.Join(with, ".local", "share", "toold")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, socketName), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, address, dataDir string
		env                    map[string]string
		want, err              string
	}{
		{name: "the address wins", address: "h:1", dataDir: with, want: "h:1"},
		{name: "the data folder's socket", dataDir: with, want: "unix://" + with + "/toold.sock"},
		{name: "a data folder without one", dataDir: without, err: "start it with: toold --data-dir " + without},
		{name: "XDG", env: map[string]string{"XDG_DATA_HOME": with, "HOME": without}, want: "unix://" + with + "/toold/toold.sock"},
		{name: "a relative XDG is no XDG", env: map[string]string{"XDG_DATA_HOME": "x", "HOME": with}, want: "unix://" + with + "/.local/share/toold/toold.sock"},
		{name: "nothing there", env: map[string]string{"HOME": without}, want: defaultAddress},
		{name: "no home", want: defaultAddress},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _, _ := pipe()
			s.getenv = func(k string) string { return tt.env[k] }
			got, err := (&app{screen: s, address: tt.address, dataDir: tt.dataDir}).target()
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %v; want %q, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestRangesOfArtifacts(t *testing.T) {
	for in, want := range map[string]*tooldv1.ByteRange{
		"0:10": {Length: 10}, "5:": {Offset: 5}, ":7": {Length: 7}, "-4096:": {Offset: -4096}, ":": {}, "10:10": nil, "-5:3": nil, "x:": nil, "5": nil,
	} {
		got, err := parseBytes(in)
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || (err == nil) != (want != nil) {
			t.Errorf("--bytes %s: %v %s", in, err, diff)
		}
	}
	for in, want := range map[string]*tooldv1.LineRange{
		"1:1": {First: 1, Count: 1}, "10:20": {First: 10, Count: 11}, "3:": {First: 3}, ":4": {First: 1, Count: 4}, "0:3": nil, "5:4": nil,
	} {
		got, err := parseLines(in)
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || (err == nil) != (want != nil) {
			t.Errorf("--lines %s: %v %s", in, err, diff)
		}
	}
}

func TestLostOutputIsNoSuccess(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal("no /dev/full here: this test wants Linux")
	}
	defer full.Close()
	s, _, errs := pipe()
	s.out = &output{w: full}
	if code := run(t.Context(), []string{"--version"}, s); code != exitUsage || !strings.Contains(errs.String(), "no space left") {
		t.Errorf("exit status %d, said %q", code, errs)
	}
}

func TestOnlyTextGoesToATerminal(t *testing.T) {
	for in, want := range map[string]bool{"": true, "héllo": true, "h\xc3": true, "日\xe6\x97": true, "a\x00b": false, "\x89PNG\r\n\x1a\n": false, "\xff\xfe": false} {
		if got := isText([]byte(in)); got != want {
			t.Errorf("isText(%q) = %v", in, got)
		}
	}
	if _, err := (textOnly{term.NewWriter(&strings.Builder{})}).Write([]byte{0}); !errors.Is(err, errBinary) {
		t.Errorf("got %v", err)
	}
}
