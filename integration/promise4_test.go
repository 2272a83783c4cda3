package integration

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold/toold/client"
	pb "github.com/toold/toold/proto/toold/v1"
)

// Whoever saw the summary finds every outcome by SQL, also when the daemon is
// killed the moment after.
func TestPromise4_WhoSawTheSummaryFindsEveryOutcome(t *testing.T) {
	eachStore(t, func(t *testing.T, s *site) {
		s.put("seed", []byte("seed\n"))
		told := map[string]*story{}
		for range times(4, 100) {
			d := s.start()
			c := s.client(t)
			req := s.randomBatch(client.NewRequestID())
			req.Calls = append(req.Calls, bash("fails", "exit 3"), call("invalid", "read", map[string]any{}), call("unknown", "no_such_tool", nil))
			st := &story{}
			_, err := c.Execute(within(t), req, func(ev *pb.BatchEvent) error {
				err := st.add(ev)
				if ev.GetSummary() != nil {
					_ = d.cmd.Process.Kill()
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			d.kill()
			told[st.batchID] = st
			st.checkOutcomes(t, s.ledger().facts(t))
		}
		s.start().stop()
		f := s.ledger().facts(t)
		for _, st := range told { // and no restart changes that
			st.checkOutcomes(t, f)
		}
		f.checkTerminal(t)
		s.checkChains(t)
	})
}

func (s *story) checkOutcomes(t *testing.T, f *facts) {
	t.Helper()
	stored := map[string]string{}
	for k, rows := range f.outcomes {
		if k.batch == s.batchID {
			for _, o := range rows {
				stored[k.call] += strings.TrimSuffix(o.outcome+"/"+o.reason, "/")
			}
		}
	}
	if diff := cmp.Diff(s.outcomes(), stored); diff != "" {
		t.Errorf("batch %s: outcomes (-told +stored):\n%s", s.batchID, diff)
	}
	summed := map[string]string{}
	for _, c := range s.summary.GetCalls() {
		summed[c.GetCallId()] = word(c.GetOutcome())
	}
	kinds := maps.Clone(stored)
	for id, o := range kinds {
		kinds[id], _, _ = strings.Cut(o, "/")
	}
	if diff := cmp.Diff(summed, kinds); diff != "" {
		t.Errorf("batch %s: outcomes (-summary +stored):\n%s", s.batchID, diff)
	}
}
