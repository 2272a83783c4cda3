package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The oracle itself: each way in which a ledger and a disk can disagree is found.
func TestTheOracleSees(t *testing.T) {
	now := time.Now()
	k := callKey{"batch", "token-a"}
	for _, c := range []struct {
		name    string
		spoil   func(*facts)
		effects []effect
		want    string
	}{
		{"nothing wrong", func(*facts) {}, []effect{{"token-a", now, witnessed}}, ""},
		{"an effect of nobody's", func(*facts) {}, []effect{{"token-b", now, ""}}, "token-b took effect and has the starts []"},
		{"an effect twice", func(*facts) {}, []effect{{"token-a", now, ""}, {"token-a", now, ""}}, "token-a took effect twice"},
		{"an effect before its start", func(*facts) {}, []effect{{"token-a", now.Add(-time.Minute), ""}}, "its ALLOW was committed at"},
		{"a start that came late", func(f *facts) { f.starts[k][0].committed = now.Add(time.Second) }, []effect{{"token-a", now, ""}}, "its start was committed at"},
		{"a second start", func(f *facts) { f.starts[k] = append(f.starts[k], start{"d", 2, now}) }, []effect{{"token-a", now, ""}}, "has the starts"},
		{"a start on a refusal", func(f *facts) { f.decisions[k][0].verdict = "DENY" }, []effect{{"token-a", now, ""}}, "stands on no ALLOW"},
		{"a witness that saw nothing", func(*facts) {}, []effect{{"token-a", now, "no start on an ALLOW"}}, "looked into the ledger"},
		{"an effect of what never ran", func(f *facts) { f.outcomes[k][0].outcome = "SKIPPED" }, []effect{{"token-a", now, ""}}, "took effect and ended SKIPPED"},
		{"a success without an effect", func(*facts) {}, nil, "SUCCEEDED and left nothing"},
		{"a call without an outcome", func(f *facts) { delete(f.outcomes, k) }, []effect{{"token-a", now, ""}}, "0 outcomes for 1 calls"},
		{"a call with two outcomes", func(f *facts) { f.outcomes[k] = append(f.outcomes[k], f.outcomes[k][0]) }, []effect{{"token-a", now, ""}}, "has 2 outcomes"},
		{"a batch that goes on", func(f *facts) { f.live["batch"] = liveBatch{state: "RUNNING"} }, []effect{{"token-a", now, ""}}, "not terminal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &facts{
				batches: map[string]string{"request": "batch"}, counts: map[string]int{"batch": 1},
				decisions: map[callKey][]decision{k: {{id: "d", verdict: "ALLOW", no: 1, committed: now.Add(-time.Second)}}},
				starts:    map[callKey][]start{k: {{"d", 1, now.Add(-time.Second)}}},
				outcomes:  map[callKey][]outcome{k: {{"SUCCEEDED", "", 1}}},
				live:      map[string]liveBatch{"batch": {"COMPLETED", true, 5}},
			}
			c.spoil(f)
			found := &complaints{TB: t}
			f.checkEffects(found, c.effects)
			f.checkTerminal(found)
			all := strings.Join(found.all, "\n")
			if (c.want == "") != (all == "") || !strings.Contains(all, c.want) {
				t.Errorf("the oracle says %q, want %q", all, c.want)
			}
		})
	}
}

// complaints is a test that only notes what is wrong.
type complaints struct {
	testing.TB
	all []string
}

// Errorf implements testing.TB.
func (c *complaints) Errorf(format string, args ...any) {
	c.all = append(c.all, fmt.Sprintf(format, args...))
}
