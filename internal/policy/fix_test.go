package policy

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/toold/toold/internal/tool"
)

var (
	fixedByFile    = regexp.MustCompile("`(.*)`")
	fixedByProfile = regexp.MustCompile(`--profile (\w+)`)
)

// TestWhatAFixNamesAllowsTheCall does what each fix says, and calls again.
func TestWhatAFixNamesAllowsTheCall(t *testing.T) {
	calls := map[string]Input{
		"a build": bash("go test ./..."), "several commands": bash("cd x && go test ./... | tail -5; make"), "many commands": bash("aa; bb; cc; dd; ee; ff; gg; hh; ii; jj"),
		"an unknown word": bash(`make "$X"`), "an unknown program": bash("$X"), "no command": bash("x=1 > out"), "a strange name": bash("'./a b`[*' 'x: y'; 'true'; './-'; './1.0'"),
		"an isolated build": bash("make").isolated(), "two findings": bash("git reset --hard; reboot"), "a push": bash("git push --force origin main"), "a download": bash("curl -o x https://example.com/a"),
		"a download by address": bash("curl -o x 'http://[::1]:8080/a'"), "some host": bash(`curl "$URL"`), "not understood": bash("if then"),
		"a secret": bash("cat .env"), "a protected path by command": bash("echo x > .env; echo y > .github/workflows/a.yml"), "a protected path": edit("ws:/.git/hooks/[x]*"),
		"a file": edit("ws:/a.go"), "a file outside": edit("/srv/x"), "a host": fetch("example.com:443"), "two hosts": {Tool: "x", Class: tool.ReadOnly, Effects: []tool.Effect{{Verb: tool.VerbConnect, Target: "a:1"}, {Verb: tool.VerbConnect, Target: "b:2"}}},
		"a tool with a dot": {Tool: "mcp.no", Class: tool.Write}, "no effect": {Tool: "x"},
	}
	for _, file := range []string{"", "rules: [{id: allow-go-test, verdict: allow, match: {tools: [nothing]}}, {id: ls, verdict: allow, match: {command: [{program: ls}]}}]"} {
		for profile := range profiles {
			p := mustNew(t, profile, file)
			for name, in := range calls {
				d := p.Decide(in)
				if d.Verdict == Allow {
					if d.Fix != "" {
						t.Errorf("%s, %s: allowed, and %q", profile, name, d.Fix)
					}
					continue
				}
				m := fixedByFile.FindStringSubmatch(d.Fix)
				if m == nil {
					t.Errorf("%s, %s: %s %s: no file in %q", profile, name, verdict(d), d.Reason, d.Fix)
					continue
				}
				with, err := New(Options{Profile: profile, Files: []File{{Name: "a", Data: []byte(file)}, {Name: "b", Data: []byte(m[1])}}})
				if err != nil {
					t.Errorf("%s, %s: %s: %v", profile, name, m[1], err)
				} else if d := with.Decide(in); d.Verdict != Allow {
					t.Errorf("%s, %s: %s: still %s", profile, name, m[1], verdict(d))
				}
				if m := fixedByProfile.FindStringSubmatch(d.Fix); m != nil {
					if d := mustNew(t, m[1], file).Decide(in); d.Verdict != Allow || m[1] == profile {
						t.Errorf("%s, %s: profile %s: still %s", profile, name, m[1], verdict(d))
					}
				}
			}
		}
	}
}

func TestFix(t *testing.T) {
	const deny = "rules: [{id: r, verdict: deny, match: {tools: [bash]}}]"
	for _, c := range []struct {
		name, profile, yaml string
		in                  Input
		want                string
	}{
		{"a command", "development", "", bash("go test ./..."), "an operator can add to the policy file (toold --policy): `rules: [{id: allow-go-test, verdict: allow, match: {tools: [bash], command: [{program: go, subcommand: test}]}}]`, or start toold with --profile ci"},
		{"a file", "locked", "", edit("ws:/a"), "an operator can add to the policy file (toold --policy): `rules: [{id: allow-edit, verdict: allow, match: {tools: [edit]}}]`, or start toold with --profile development"},
		{"a finding", "development", "", bash("git reset --hard").isolated(), "an operator can add to the policy file (toold --policy): `rules: [{id: command.dangerous.discard_changes, verdict: allow}]`"},
		{"a finding, and the default", "standard", "", bash("git reset --hard"), "an operator can add to the policy file (toold --policy): `rules: [{id: command.dangerous.discard_changes, verdict: allow}, {id: allow-git-reset, verdict: allow, match: {tools: [bash], command: [{program: git, subcommand: reset}]}}]`"},
		{"a protected path", "ci", "", edit("ws:/.env"), "an operator can add to the policy file (toold --policy): `rules: [{id: path.protected, verdict: allow, match: {targets: [\"ws:/.env\"]}}]`"},
		{"a host", "ci", "", fetch("example.com:443"), "an operator can add to the policy file (toold --policy): `egress: {allow: [\"example.com:443\"]}`"},
		{"a host, and the default", "standard", "", bash("curl -o x https://a.example"), "an operator can add to the policy file (toold --policy): `{egress: {allow: [\"a.example:443\"]}, rules: [{id: allow-curl, verdict: allow, match: {tools: [bash], command: [{program: curl}]}}]}`"},
		{"a rule", "ci", deny, bash("ls"), "rule r of the policy file decided; only a change of that rule allows it"},
		{"a rule behind a finding", "locked", "rules: [{id: r, verdict: ask, match: {tools: [edit]}}]", edit("ws:/.env"), "a rule of the policy file decides as well; what it says must be changed first"},
		{"a catastrophe", "ci", "", bash("rm -rf /"), "nothing allows it"},
		{"plan mode", "ci", "", bash("make").planned(), "leave plan mode; nothing allows it there"},
	} {
		if got := mustNew(t, c.profile, c.yaml).Decide(c.in).Fix; got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
	if got := (&Policy{}).Decide(bash("make")).Fix; got != "an operator must repair the policy; nothing else allows it" {
		t.Errorf("without a policy: %s", got)
	}
}

// TestAnAllowThatDoesNotReachSaysWhy has rules that a reader of the file would
// think allow the call.
func TestAnAllowThatDoesNotReachSaysWhy(t *testing.T) {
	const goTest = "rules: [{id: r, verdict: allow, match: {tools: [bash], command: [{program: go, subcommand: test}]}}]"
	for _, c := range []struct {
		yaml string
		in   Input
		want string
	}{
		{goTest, bash("go test ./... | python3 x"), "Rule r does not name python3."},
		{goTest, bash("go test $X"), "Rule r allows go test only where every word of it is known before it runs."},
		{goTest, bash("$X"), "Rule r does not name a program that is not known before it runs."},
		{"rules: [{id: r, verdict: allow, match: {targets: ['ws:/src/**']}}]", edit("ws:/docs/a"), "Rule r is not about everything that it does: write ws:/docs/a."},
		{"rules: [{id: r, verdict: allow, match: {tools: [bash]}}]", bash("git push -f"), "Rule r allows the call, but does not answer for this: only a rule with the id command.dangerous.force_push does."},
		{"rules: [{id: r, verdict: allow, match: {tools: [bash]}}]", bash("curl -o x https://example.com"), "Rule r allows the call, but does not answer for this: only a rule with the id egress.allow does."},
	} {
		if d := mustNew(t, "locked", c.yaml).Decide(c.in); !strings.HasSuffix(d.Reason, " "+c.want) {
			t.Errorf("%s: %q, want %q at its end", c.yaml, d.Reason, c.want)
		}
	}
}

func TestAWholeToolIsAllowedByItsName(t *testing.T) {
	for _, profile := range slices.Sorted(maps.Keys(profiles)) {
		d := mustNew(t, profile, "rules: [{id: allow-bash, verdict: allow, match: {tools: [bash]}}]").Decide(bash("go test ./..."))
		if verdict(d) != "ALLOW POLICY_ALLOWED allow-bash" {
			t.Errorf("%s: %s", profile, verdict(d))
		}
	}
}
