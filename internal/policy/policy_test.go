package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold/toold/internal/policy/shell"
	"github.com/toold/toold/internal/tool"
)

// bash is a call of a tool that runs a command line in /workspace.
func bash(text string) Input {
	a := shell.Analyse(text, examplesAt)
	return Input{Tool: "bash", Class: a.Class, Effects: a.Effects, Commands: a.Commands, Findings: a.Findings}
}

// edit is a call that writes a file.
func edit(target string) Input {
	return Input{Tool: "edit", Class: tool.Write, Effects: []tool.Effect{{Verb: tool.VerbRead, Target: target}, {Verb: tool.VerbWrite, Target: target}}}
}

func fetch(host string) Input {
	return Input{Tool: "http_get", Class: tool.ReadOnly, Effects: []tool.Effect{{Verb: tool.VerbConnect, Target: host}}}
}

func (in Input) planned() Input  { in.SessionMode = Plan; return in }
func (in Input) isolated() Input { in.Isolated = true; return in }
func (in Input) by(id string, groups ...string) Input {
	in.Caller = tool.Caller{Principal: tool.Principal{ID: id}, Groups: groups}
	return in
}

func mustNew(tb testing.TB, profile, yaml string) *Policy {
	tb.Helper()
	p, err := New(Options{Profile: profile, Files: []File{{Name: "policy.yaml", Data: []byte(yaml)}}})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// verdict is a decision in one line, for tables.
func verdict(d Decision) string { return fmt.Sprintf("%s %s %s", d.Verdict, d.ReasonCode, d.PolicyID) }

func TestProfiles(t *testing.T) {
	calls := []struct {
		name string
		in   Input
	}{
		{"read", bash("ls")},
		{"write", edit("ws:/a.go")},
		{"write outside", edit("/srv/x")},
		{"command", bash("make")},
		{"isolated command", bash("make").isolated()},
		{"dangerous", bash("git reset --hard")},
		{"catastrophic", bash("rm -rf /")},
		{"protected", edit("ws:/.git/hooks/pre-commit")},
		{"protected by command", bash("echo x > .env")},
		{"connect", fetch("example.com:443")},
		{"plan", bash("make").planned()},
		{"read in plan", bash("ls").planned()},
		{"connect in plan", fetch("example.com:443").planned()},
	}
	want := map[string]string{
		"locked":      "ALLOW DENY DENY DENY DENY DENY DENY DENY DENY ASK DENY ALLOW ASK",
		"standard":    "ALLOW ASK ASK ASK ASK ASK DENY ASK ASK ASK DENY ALLOW ASK",
		"development": "ALLOW ALLOW ASK ASK ALLOW ASK DENY ASK ASK ASK DENY ALLOW ASK",
		"ci":          "ALLOW ALLOW ALLOW ALLOW ALLOW DENY DENY ASK ASK ASK DENY ALLOW ASK",
	}
	for profile, line := range want {
		p := mustNew(t, profile, "")
		for i, v := range strings.Fields(line) {
			if d := p.Decide(calls[i].in); d.Verdict.String() != v {
				t.Errorf("%s, %s: %s, want %s", profile, calls[i].name, verdict(d), v)
			}
		}
	}
}

func TestPrecedence(t *testing.T) {
	const rule = "rules: [{id: %s, verdict: %s, match: {%s}}]"
	allowBash := fmt.Sprintf(rule, "r", "allow", "tools: [bash]")
	denyBash := fmt.Sprintf(rule, "r", "deny", "tools: [bash]")
	askBash := fmt.Sprintf(rule, "r", "ask", "tools: [bash]")
	for _, c := range []struct {
		name, profile, yaml string
		in                  Input
		want                string
	}{
		{"plan mode before tier 1", "ci", "", bash("rm -rf /").planned(), "DENY PLAN_MODE mode.plan"},
		{"no rule lowers tier 1", "ci", allowBash, bash("sudo ls"), "DENY CATASTROPHIC_COMMAND command.catastrophic.privilege"},
		{"no rule opens plan mode", "ci", allowBash, bash("make").planned(), "DENY PLAN_MODE mode.plan"},
		{"a rule's allow does not beat tier 2", "standard", allowBash, bash("git push -f"), "ASK DANGEROUS_COMMAND command.dangerous.force_push"},
		{"a rule's deny beats an ask of tier 2", "standard", denyBash, bash("git push -f"), "DENY POLICY_DENIED r"},
		{"ci denies tier 2", "ci", "", bash("git reset --hard"), "DENY DANGEROUS_COMMAND command.dangerous.discard_changes"},
		{"ci denies tier 2 whatever another rule allows", "ci", allowBash, bash("git reset --hard"), "DENY DANGEROUS_COMMAND command.dangerous.discard_changes"},
		{"a rule by id allows it", "ci", "rules: [{id: command.dangerous.discard_changes, verdict: allow}]", bash("git reset --hard"), "ALLOW DEFAULT_ALLOWED default.ci.system_change"},
		{"a rule by id is about its own finding", "ci", "rules: [{id: command.dangerous.kill, verdict: allow}]", bash("git reset --hard"), "DENY DANGEROUS_COMMAND command.dangerous.discard_changes"},
		{"every finding needs its own", "ci", "rules: [{id: command.dangerous.discard_changes, verdict: allow}]", bash("git reset --hard; reboot"), "DENY DANGEROUS_COMMAND command.dangerous.shutdown"},
		{"a rule by id takes the ask away and leaves the default", "standard", "rules: [{id: command.dangerous.discard_changes, verdict: allow}]", bash("git reset --hard"), "ASK DEFAULT_ASKS default.standard.system_change"},
		{"a rule by id denies", "standard", "rules: [{id: command.dangerous.discard_changes, verdict: deny}]", bash("git reset --hard"), "DENY POLICY_DENIED command.dangerous.discard_changes"},
		{"a rule by id asks where ci would deny", "ci", "rules: [{id: command.dangerous.discard_changes, verdict: ask}]", bash("git reset --hard"), "ASK POLICY_ASKS command.dangerous.discard_changes"},
		{"a rule by id for some callers", "ci", "rules: [{id: command.dangerous.discard_changes, verdict: allow, match: {callers: {groups: [ops]}}}]", bash("git reset --hard").by("a", "dev"), "DENY DANGEROUS_COMMAND command.dangerous.discard_changes"},
		{"a rule's allow beats the default", "locked", allowBash, bash("make"), "ALLOW POLICY_ALLOWED r"},
		{"a rule's ask beats a default allow", "ci", askBash, bash("ls"), "ASK POLICY_ASKS r"},
		{"deny beats ask beats allow", "ci", "rules: [{id: a, verdict: allow, match: {tools: [bash]}}, {id: b, verdict: ask, match: {tools: ['b*']}}, {id: c, verdict: deny, match: {tools: ['*']}}]", bash("ls"), "DENY POLICY_DENIED c"},
		{"ask beats allow", "ci", "rules: [{id: a, verdict: allow, match: {tools: [bash]}}, {id: b, verdict: ask, match: {tools: ['b*']}}]", bash("ls"), "ASK POLICY_ASKS b"},
		{"a protected path asks though a rule allows", "ci", "rules: [{id: a, verdict: allow, match: {tools: [edit]}}]", edit("ws:/.github/workflows/x.yml"), "ASK PROTECTED_PATH path.protected"},
		{"a protected path by letter case", "ci", "", edit("ws:/.GitHub/Workflows/x.yml"), "ASK PROTECTED_PATH path.protected"},
		{"a protected path of the file's own", "ci", "protectedPaths: ['deploy/**']", edit("ws:/deploy/a/b"), "ASK PROTECTED_PATH path.protected"},
		{"a protected path by id", "ci", "rules: [{id: path.protected, verdict: allow, match: {targets: ['.github/**']}}]", edit("ws:/.github/workflows/x.yml"), "ALLOW DEFAULT_ALLOWED default.ci.write"},
		{"a listed host", "ci", "egress: {allow: ['*.example.com']}", fetch("api.example.com:443"), "ALLOW DEFAULT_ALLOWED default.ci.read_only"},
		{"a host that only looks listed", "ci", "egress: {allow: ['*.example.com']}", fetch("api.example.com.evil.net:443"), "ASK EGRESS_ASKS egress.allow"},
		{"a listed host on another port", "ci", "egress: {allow: ['example.com:443']}", fetch("example.com:80"), "ASK EGRESS_ASKS egress.allow"},
		{"an unknown host is not listed", "ci", "egress: {allow: ['**']}", bash("curl $URL"), "ASK EGRESS_ASKS egress.allow"},
		{"all hosts", "ci", "egress: {allow: ['*']}", bash("git push origin topic"), "ALLOW DEFAULT_ALLOWED default.ci.system_change"},
		{"a host that a rule lists", "standard", "rules: [{id: a, verdict: allow, match: {verbs: [connect], targets: ['example.com:443']}}]", fetch("example.com:443"), "ALLOW POLICY_ALLOWED a"},
	} {
		if d := mustNew(t, c.profile, c.yaml).Decide(c.in); verdict(d) != c.want {
			t.Errorf("%s: %s, want %s (matched %v)", c.name, verdict(d), c.want, d.Matched)
		}
	}
}

func TestRules(t *testing.T) {
	npm := "rules: [{id: r, verdict: %s, match: {command: [{program: npm, subcommand: test}, {program: go, subcommand: test}]}}]"
	force := "rules: [{id: r, verdict: deny, match: {command: [{program: git, subcommand: commit, options: [--amend, -a]}]}}]"
	docs := "rules: [{id: r, verdict: allow, match: {tools: [edit, write], verbs: [write], targets: ['docs/**']}}]"
	for _, c := range []struct {
		name, yaml string
		in         Input
		want       string // of a policy whose default is to ask
	}{
		{"allow covers its command", fmt.Sprintf(npm, "allow"), bash("npm test"), "ALLOW r"},
		{"allow sees through wrappers", fmt.Sprintf(npm, "allow"), bash("timeout 60 env CI=1 npm test"), "ALLOW r"},
		{"allow covers several commands", fmt.Sprintf(npm, "allow"), bash("npm test && go test ./..."), "ALLOW r"},
		{"allow wants every command", fmt.Sprintf(npm, "allow"), bash("npm test && make"), "ASK default.standard.system_change"},
		{"allow wants known arguments", fmt.Sprintf(npm, "allow"), bash(`npm test "$X"`), "ASK default.standard.system_change"},
		{"allow wants a command", fmt.Sprintf(npm, "allow"), edit("ws:/a"), "ASK default.standard.write"},
		{"deny takes any command", fmt.Sprintf(npm, "deny"), bash("ls && npm test"), "DENY r"},
		{"deny looks into strings", fmt.Sprintf(npm, "deny"), bash(`sh -c "cd x; npm test"`), "DENY r"},
		{"an option", force, bash("git commit --amend"), "DENY r"},
		{"an option in a cluster", force, bash("git commit -va -m x"), "DENY r"},
		{"an option abbreviated", force, bash("git commit --ame"), "DENY r"},
		{"another option", force, bash("git commit -m x"), "ASK default.standard.system_change"},
		{"an operand like an option", force, bash("git commit -m x -- --amend"), "ASK default.standard.system_change"},
		{"an option that may be there", force, bash(`git commit "$X"`), "ASK r"},
		{"two rules allow together", "rules: [{id: a, verdict: allow, match: {command: [{program: make}]}}, {id: b, verdict: allow, match: {command: [{program: npm}]}}]", bash("make && npm ci"), "ALLOW a"},
		{"a target", docs, edit("ws:/docs/a/b.md"), "ALLOW r"},
		{"another target", docs, edit("ws:/src/docs/b.md"), "ASK default.standard.write"},
		{"another effect beside it", docs, Input{Tool: "edit", Class: tool.Write, Effects: []tool.Effect{{Verb: tool.VerbWrite, Target: "ws:/docs/a"}, {Verb: tool.VerbDelete, Target: "ws:/b"}}}, "ASK default.standard.write"},
		{"a class", "rules: [{id: r, verdict: allow, match: {classes: [WRITE]}}]", edit("ws:/a"), "ALLOW r"},
		{"a subject", "rules: [{id: r, verdict: allow, match: {callers: {subjects: ['ci-*']}}}]", edit("ws:/a").by("ci-7"), "ALLOW r"},
		{"another subject", "rules: [{id: r, verdict: allow, match: {callers: {subjects: ['ci-*']}}}]", edit("ws:/a").by("eve"), "ASK default.standard.write"},
		{"a group", "rules: [{id: r, verdict: allow, match: {callers: {groups: [ops]}}}]", edit("ws:/a").by("eve", "dev", "ops"), "ALLOW r"},
	} {
		d := mustNew(t, "standard", c.yaml).Decide(c.in)
		if got := d.Verdict.String() + " " + d.PolicyID; got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestFilesAreStrict(t *testing.T) {
	for _, c := range []struct{ name, yaml, want string }{
		{"unknown key", "profile: ci\nrulez: []\n", `policy.yaml:2:1: unknown field "rulez"; did you mean rules?; known here: profile, egress, protectedPaths, rules`},
		{"unknown key in a match", "rules:\n- id: a\n  verdict: allow\n  match: {tool: [x]}\n", `policy.yaml:4:11: unknown field "tool"; did you mean tools?; known here: tools, classes, verbs, targets, callers, command`},
		{"unknown key in a later rule", "rules:\n- {id: a, verdict: deny, match: {tools: [x]}}\n- id: b\n  match:\n    command:\n    - programm: x\n", `policy.yaml:6:7: unknown field "programm"; did you mean program?; known here: program, subcommand, options`},
		{"unknown key like no other", "egress:\n  hosts: [a]\n", `policy.yaml:2:3: unknown field "hosts"; known here: allow`},
		{"later key", "rules:\n- id: a\n  verdict: allow\n  when: 'true'\n", `policy.yaml:4:3: unknown field "when"; known here: id, description, verdict, reason, suggest, match, examples`},
		{"a key twice", "profile: ci\nprofile: locked\n", "policy.yaml:2:1:"},
		{"not YAML", "rules: [", "policy.yaml"},
		{"wrong type", "rules: 7", "policy.yaml:1:8:"},
		{"two documents", "profile: ci\n---\nprofile: ci\n", "more than one YAML document"},
		{"profile", "profile: yolo", `profile "yolo": is one of locked, standard, development, ci`},
		{"no id", "rules:\n- verdict: allow\n", `policy.yaml:2: rule "": id`},
		{"an id twice", "rules:\n- {id: a, verdict: deny, match: {tools: [x]}}\n- {id: a, verdict: deny, match: {tools: [y]}}\n", `policy.yaml:3: rule "a": id: is used in policy.yaml already`},
		{"no verdict", "rules: [{id: a, match: {tools: [x]}}]", `verdict "": is one of allow, deny, ask`},
		{"class", "rules: [{id: a, verdict: deny, match: {classes: [READ]}}]", `match.classes: "READ"`},
		{"verb", "rules: [{id: a, verdict: deny, match: {verbs: [eat]}}]", `match.verbs: "eat"`},
		{"glob", "rules: [{id: a, verdict: deny, match: {targets: ['[']}}]", `match.targets: "[" is no valid glob`},
		{"program", "rules: [{id: a, verdict: deny, match: {command: [{subcommand: x}]}}]", "match.command[0].program: is missing"},
		{"option", "rules: [{id: a, verdict: deny, match: {command: [{program: x, options: [force]}]}}]", `"force" is no option`},
		{"match of everything", "rules: [{id: a, verdict: allow}]", `match: is empty`},
		{"tier 1", "rules: [{id: command.catastrophic.privilege, verdict: allow}]", "catastrophic commands are refused always"},
		{"a finding that there is not", "rules: [{id: command.dangerous.nothing, verdict: allow}]", "no finding of that name"},
		{"example", "rules: [{id: a, verdict: deny, match: {command: [{program: git, subcommand: push}]}, examples: {match: ['git pull']}}]", `examples.match: the rule does not match "git pull"`},
		{"counter-example", "rules: [{id: a, verdict: deny, match: {command: [{program: git}]}, examples: {notMatch: ['ls; git pull']}}]", `examples.notMatch: the rule matches "ls; git pull"`},
		{"example of an allow", "rules: [{id: a, verdict: allow, match: {command: [{program: git}]}, examples: {match: ['git pull; ls']}}]", `examples.match: the rule does not match`},
		{"egress", "egress: {allow: ['']}", "egress.allow:"},
	} {
		_, err := New(Options{Files: []File{{Name: "policy.yaml", Data: []byte(c.yaml)}}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", c.name, err, c.want)
		}
	}
}

func TestFileOfTheManual(t *testing.T) {
	p := mustNew(t, "", `profile: standard
rules:
  - id: no-force-push
    verdict: deny
    reason: main is protected
    suggest: push a branch and open a pull request
    match: {tools: [git, bash], command: [{program: git, subcommand: push, options: [--force, -f]}]}
    examples:
      match: ["git push -f origin main"]
      notMatch: ["git push origin topic"]
`)
	got := p.Decide(bash("cd x && git push -f origin main"))
	want := Decision{
		Verdict: Deny, Stage: Rule, ReasonCode: CodeRuleDenies, PolicyID: "no-force-push",
		Reason:  "main is protected. Instead: push a branch and open a pull request.",
		Matched: []string{"command.dangerous.force_push", "egress.allow", "no-force-push"},
		Fix:     "rule no-force-push of the policy file decided; only a change of that rule allows it",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("decision (-want +got):\n%s", d)
	}
	if p.Profile() != "standard" {
		t.Errorf("profile %q", p.Profile())
	}
}

// TestTheManualsRuleOnSecrets counts for whichever tool names one.
func TestTheManualsRuleOnSecrets(t *testing.T) {
	p := mustNew(t, "ci", `rules: [{id: no-secrets, verdict: deny, match: {verbs: [read], targets: ["**/.env", "**/.env.*", "**/*.pem"]}}]`)
	read := func(target string) Input {
		return Input{Tool: "read", Class: tool.ReadOnly, Effects: []tool.Effect{{Verb: tool.VerbRead, Target: target}}}
	}
	for want, calls := range map[Verdict][]Input{
		Deny:  {read("ws:/.env"), read("ws:/a/.env.local"), read("/srv/x.pem"), bash("cat .env"), bash("cd a && head .env")},
		Allow: {read("ws:/env.go"), read("ws:/"), bash("ls"), bash("grep -r x .")},
	} {
		for _, in := range calls {
			if d := p.Decide(in); d.Verdict != want {
				t.Errorf("%v: %s, want %s", in.Effects, verdict(d), want)
			}
		}
	}
}

func TestRulesNameToolsThatThereAre(t *testing.T) {
	for _, c := range []struct{ yaml, want string }{
		{"rules: [{id: a, verdict: deny, match: {tools: [bash, 'b*', '*']}}]", ""},
		{"rules: [{id: a, verdict: deny, match: {classes: [WRITE]}}]", ""},
		{"rules:\n- {id: a, verdict: deny, match: {tools: [bash]}}\n- {id: b, verdict: deny, match: {tools: [bash, Bsh]}}", `policy.yaml:3: rule "b": match.tools: there is no tool "Bsh"; did you mean bash?`},
		{"rules: [{id: a, verdict: deny, match: {tools: ['git*']}}]", `there is no tool "git*"`},
		{"rules: [{id: path.protected, verdict: deny, match: {tools: [vim]}}]", `there is no tool "vim"`},
	} {
		_, err := New(Options{Tools: []string{"bash", "edit"}, Files: []File{{Name: "policy.yaml", Data: []byte(c.yaml)}}})
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q in it", c.yaml, err, c.want)
		}
	}
}

func TestProfileOfOptionsWins(t *testing.T) {
	if p := mustNew(t, "locked", "profile: ci"); p.Profile() != "locked" {
		t.Errorf("profile %q, want locked", p.Profile())
	}
	if p := mustNew(t, "", "profile: ci"); p.Profile() != "ci" {
		t.Errorf("profile %q, want ci", p.Profile())
	}
	if p := mustNew(t, "", ""); p.Profile() != "development" {
		t.Errorf("profile %q, want development", p.Profile())
	}
}

func TestVersionNamesTheContent(t *testing.T) {
	a, b, c := mustNew(t, "ci", ""), mustNew(t, "ci", ""), mustNew(t, "ci", "egress: {allow: [a]}")
	if len(a.Version()) != 16 || a.Version() != b.Version() || a.Version() == c.Version() {
		t.Errorf("versions %s, %s, %s", a.Version(), b.Version(), c.Version())
	}
}

func TestZeroPolicyOnlyReads(t *testing.T) {
	var p Policy
	if d := p.Decide(bash("make")); verdict(d) != "DENY POLICY_UNAVAILABLE policy.unavailable" {
		t.Error(verdict(d))
	}
	if d := p.Decide(bash("ls")); d.Verdict != Allow || d.PolicyID == "" {
		t.Error(verdict(d))
	}
}

// TestEveryDecisionSaysWhy holds what every decision promises against all kinds
// of input.
func TestEveryDecisionSaysWhy(t *testing.T) {
	for name := range profiles {
		p := mustNew(t, name, "rules: [{id: a, verdict: ask, match: {command: [{program: make}]}}]")
		for _, in := range []Input{{}, bash(""), bash("ls"), bash("make"), bash("rm -rf /"), bash("git push -f"), bash("if then"), edit("ws:/.env"), fetch("*"), {Class: 99, Tool: "x"}} {
			d := p.Decide(in)
			if d.Verdict == 0 || d.Stage == 0 || d.PolicyID == "" || d.ReasonCode == "" || !strings.HasSuffix(d.Reason, ".") || len(d.Matched) == 0 {
				t.Errorf("%s: %+v: %+v", name, in, d)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("profile: ci\nrules: [{id: a, verdict: deny, match: {tools: ['*']}}]"))
	f.Add([]byte("a: &a [*a, *a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := New(Options{Files: []File{{Name: "f", Data: data}}})
		if (p == nil) == (err == nil) {
			t.Fatalf("policy %v, error %v", p, err)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	var y strings.Builder
	y.WriteString("rules:\n")
	for i := range 500 {
		fmt.Fprintf(&y, "- {id: r%d, verdict: deny, match: {tools: [bash, 'git*'], command: [{program: p%d, subcommand: s, options: [--force]}]}}\n", i, i)
	}
	p := mustNew(b, "development", y.String())
	for name, in := range map[string]Input{"command": bash("cd x && go test ./... | tail -5"), "edit": edit("ws:/internal/a/b.go")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Decide(in)
			}
		})
	}
}
