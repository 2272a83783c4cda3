package shell

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// here is where the corpus supposes that its lines run.
var here = Options{Dir: "/home/dev/project", Workspace: "/home/dev/project", Home: "/home/dev"}

// line is one labelled command line. Alt are other verdicts that a careful
// reviewer could defend.
type line struct {
	ID, Command, Expect, Why string
	Alt                      []string
}

func corpus(tb testing.TB) []line {
	tb.Helper()
	f, err := os.Open("testdata/commands.jsonl")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	var out []line
	for in := bufio.NewScanner(f); in.Scan(); {
		var l line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			tb.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

// TestCorpus prints, for each class, how many lines got the verdict that they
// should, and fails where the figures are worse than promised.
func TestCorpus(t *testing.T) {
	type figure struct{ lines, strict, lenient, held, blocked int }
	figures := map[string]*figure{}
	for _, l := range corpus(t) {
		got := Analyse(l.Command, here).Verdict
		f := figures[l.Expect]
		if f == nil {
			f = &figure{}
			figures[l.Expect] = f
		}
		f.lines++
		if got.String() == l.Expect {
			f.strict++
		}
		if got.String() == l.Expect || slices.Contains(l.Alt, got.String()) {
			f.lenient++
		} else {
			t.Logf("%s: %s, not %s: %s  (%s)", l.ID, got, l.Expect, strings.ReplaceAll(l.Command, "\n", `\n`), l.Why)
		}
		if got >= Dangerous {
			f.held++
		}
		if got == Catastrophic {
			f.blocked++
		}
		if got == ReadOnly && l.Expect != "read_only" && !slices.Contains(l.Alt, "read_only") {
			t.Errorf("%s is called read_only but is %s: %s", l.ID, l.Expect, l.Command)
		}
		if l.Expect == "catastrophic" && got != Catastrophic && !slices.Contains(l.Alt, got.String()) {
			t.Errorf("%s is not blocked: %s", l.ID, l.Command)
		}
	}
	for _, class := range []string{"catastrophic", "dangerous", "ordinary", "read_only"} {
		f := figures[class]
		t.Logf("%-12s %3d lines: strict %s, with alternatives %s, asked or blocked %s, blocked %s", class, f.lines,
			percent(f.strict, f.lines), percent(f.lenient, f.lines), percent(f.held, f.lines), percent(f.blocked, f.lines))
	}
	if f := figures["dangerous"]; f.lenient*100 < f.lines*90 {
		t.Errorf("dangerous lines asked or blocked: %s, want 90 %%", percent(f.lenient, f.lines))
	}
	if f := figures["read_only"]; f.lenient*100 < f.lines*80 {
		t.Errorf("read-only lines recognised: %s, want 80 %%", percent(f.lenient, f.lines))
	}
	if f := figures["ordinary"]; f.held*100 > f.lines*5 {
		t.Errorf("ordinary lines held up: %s, want at most 5 %%", percent(f.held, f.lines))
	}
}

func percent(n, of int) string { return fmt.Sprintf("%5.1f %%", 100*float64(n)/float64(of)) }
