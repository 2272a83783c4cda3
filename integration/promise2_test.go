package integration

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold/toold/client"
	pb "github.com/toold/toold/proto/toold/v1"
)

// sample is a call of a tool that does something visible if it can, and the
// class that it must be judged as.
type sample struct {
	call *pb.ToolCall
	read bool
}

// samples has every registered tool; a new one must be added here.
func samples() []sample {
	return []sample{
		{read("read", "seed"), true},
		{call("glob", "glob", map[string]any{"pattern": "**"}), true},
		{call("grep", "grep", map[string]any{"pattern": "s"}), true},
		{call("tree", "tree", map[string]any{}), true},
		{call("batch_read", "batch_read", map[string]any{"paths": []string{"seed", "sub/other"}}), true},
		{call("Sleep", "Sleep", map[string]any{"seconds": 0.01}), true},
		{bash("bash-read", "cat seed && ls sub"), true},
		{write("write", "seed", "changed"), false},
		{write("write-new", "new/file", "new"), false},
		{call("edit", "edit", map[string]any{"path": "seed", "originalText": "seed", "newText": "changed"}), false},
		{bash("bash", "touch made && rm -r sub"), false},
		{bash("bash-hidden", "cat seed > made"), false},
		{bash("bash-unknown", `python3 -c 'open("made", "w")'`), false},
	}
}

// Each registered tool is called where only reads are allowed, through both entry
// points: what would change something is refused, has its row, and changes
// nothing.
func TestPromise2_NothingRunsThatPolicyDidNotAllow(t *testing.T) {
	eachStore(t, func(t *testing.T, s *site) {
		s.put("seed", []byte("seed\n"))
		if err := os.Mkdir(filepath.Join(s.workspace, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		s.put("sub/other", []byte("other\n"))
		before := s.snapshot()
		for _, kind := range []struct {
			name, profile, session, refusal string
		}{
			{"plan mode", "ci", "plan", "DENIED/PLAN_MODE"},
			{"profile locked", "locked", "", "DENIED/DEFAULT_DENIED"},
			{"profile standard, nobody to ask", "standard", "", "REJECTED/APPROVAL_NEEDED"},
		} {
			t.Run(kind.name, func(t *testing.T) {
				s.profile = kind.profile
				d := s.start()
				for entry, target := range map[string]string{"tcp": d.address(), "unix": s.socket()} {
					t.Run(entry, func(t *testing.T) {
						c := dial(t, target)
						req := batch()
						req.Spec.AskPolicy = pb.AskPolicy_ASK_POLICY_REJECT
						if kind.session == "plan" {
							req.Spec.SessionId = planSession(t, c)
						}
						s.refusesChanges(t, c, req, kind.refusal)
					})
				}
				d.stop()
			})
		}
		if diff := cmp.Diff(before, s.snapshot()); diff != "" {
			t.Errorf("the workspace changed (-before +after):\n%s", diff)
		}
		s.checkChains(t)
	})
}

func (s *site) refusesChanges(t *testing.T, c *client.Client, req *pb.ExecuteBatchRequest, refusal string) {
	want, called := map[string]string{}, map[string]bool{}
	for _, sample := range samples() {
		req.Calls = append(req.Calls, sample.call)
		called[sample.call.GetTool()] = true
		want[sample.call.GetCallId()] = refusal
		if sample.read {
			want[sample.call.GetCallId()] = "SUCCEEDED"
		}
	}
	list, err := pb.NewCatalogServiceClient(c.Conn()).ListTools(within(t), &pb.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.GetTools() {
		if !called[tool.GetName()] {
			t.Errorf("samples has no call of the tool %s", tool.GetName())
		}
	}
	told := run(t, c, req)
	if diff := cmp.Diff(want, told.outcomes()); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	f := s.ledger().facts(t)
	verdict := map[string]string{"DENIED": "DENY", "REJECTED": "ASK", "SUCCEEDED": "ALLOW"}
	for id, outcome := range want {
		k := callKey{told.batchID, id}
		rows := f.decisions[k]
		kind, _, _ := strings.Cut(outcome, "/")
		if len(rows) != 1 || rows[0].verdict != verdict[kind] || rows[0].reason == "" || rows[0].policy == "" {
			t.Errorf("call %s ended %s and has the decisions %+v", id, outcome, rows)
		}
		if kind != "SUCCEEDED" && len(f.starts[k]) != 0 {
			t.Errorf("call %s ended %s and was started", id, outcome)
		}
	}
}

func planSession(t *testing.T, c *client.Client) string {
	t.Helper()
	r, err := pb.NewSessionServiceClient(c.Conn()).CreateSession(within(t), &pb.CreateSessionRequest{Mode: pb.SessionMode_SESSION_MODE_PLAN})
	if err != nil {
		t.Fatal(err)
	}
	return r.GetSession().GetSessionId()
}

// Plan mode is turned on while a batch is at its first write: that one ends, and
// no other starts.
func TestPromise2_PlanModeHoldsForWhatHasNotStarted(t *testing.T) {
	eachStore(t, func(t *testing.T, s *site) {
		s.start()
		c := s.client(t)
		sessions := pb.NewSessionServiceClient(c.Conn())
		made, err := sessions.CreateSession(within(t), &pb.CreateSessionRequest{})
		if err != nil {
			t.Fatal(err)
		}
		session := made.GetSession().GetSessionId()
		req := batch(bash("first", "until [ -e go ]; do sleep 0.01; done; echo done > first"),
			bash("second", "touch second"), write("third", "third", "x"), read("fourth", "first"))
		req.Spec.SessionId = session
		told := &story{}
		_, err = c.Execute(within(t), req, func(ev *pb.BatchEvent) error {
			if ev.GetStarted() != nil && ev.GetCallId() == "first" {
				_, err := sessions.SetSessionMode(within(t), &pb.SetSessionModeRequest{SessionId: session, Mode: pb.SessionMode_SESSION_MODE_PLAN})
				if err != nil {
					return err
				}
				s.put("go", nil)
			}
			return told.add(ev)
		})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"first": "SUCCEEDED", "second": "DENIED/PLAN_MODE", "third": "DENIED/PLAN_MODE", "fourth": "SUCCEEDED"}
		if diff := cmp.Diff(want, told.outcomes()); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		for _, name := range []string{"second", "third"} {
			if _, err := os.Lstat(filepath.Join(s.workspace, name)); err == nil {
				t.Errorf("%s was made in plan mode", name)
			}
			rows := s.ledger().facts(t).decisions[callKey{told.batchID, name}]
			if len(rows) != 2 || rows[0].verdict != "ALLOW" || rows[1].verdict != "DENY" {
				t.Errorf("%s has the decisions %+v, want an ALLOW and then a DENY", name, rows)
			}
		}
	})
}

// snapshot is every path of the workspace with its type, mode, times and bytes.
func (s *site) snapshot() map[string]string {
	s.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(s.workspace, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var content []byte
		if e.Type().IsRegular() {
			if content, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		all[path] = fmt.Sprintf("%v %v %x", info.Mode(), info.ModTime(), sha256.Sum256(content))
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}
