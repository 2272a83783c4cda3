package policy

import (
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/toold/toold/internal/policy/shell"
	"github.com/toold/toold/internal/tool"
)

// rule is a compiled rule. An empty condition holds always.
type rule struct {
	id        string
	verdict   Verdict
	reason    string
	suggest   string
	overrides bool // it answers for a finding of command safety, whose id it has
	tools     []string
	classes   []tool.Class
	verbs     []tool.Verb
	targets   []string
	callers   callers
	commands  []commandPattern
}

type callers struct{ subjects, groups []string }

// commandPattern matches a command as the parser saw it: any of the options, if
// there are some.
type commandPattern struct {
	program    string
	subcommand string
	options    []string
}

func (r *rule) matchesAnything() bool {
	return len(r.tools)+len(r.classes)+len(r.verbs)+len(r.targets)+len(r.callers.subjects)+len(r.callers.groups)+len(r.commands) == 0
}

// answer is what a rule says of a call. A maybe comes from what is not known
// before it runs.
type answer uint8

const (
	no answer = iota
	maybe
	yes
)

// applies holds the conditions on who calls what; those on the effects are left
// to concerns and covers.
func (r *rule) applies(in *Input) bool {
	if len(r.tools) > 0 && !matchAny(r.tools, in.Tool) {
		return false
	}
	if len(r.classes) > 0 && !slices.Contains(r.classes, in.Class.OrWidest()) {
		return false
	}
	if len(r.callers.subjects) > 0 && !matchAny(r.callers.subjects, in.Caller.Principal.ID) {
		return false
	}
	return len(r.callers.groups) == 0 || slices.ContainsFunc(r.callers.groups, func(g string) bool { return slices.Contains(in.Caller.Groups, g) })
}

// concerns says whether any part of a call is what the rule is about. It is the
// question for deny and ask.
func (r *rule) concerns(in *Input) answer {
	if !r.applies(in) {
		return no
	}
	if (len(r.verbs) > 0 || len(r.targets) > 0) && !slices.ContainsFunc(in.Effects, r.about) {
		return no
	}
	if len(r.commands) == 0 {
		return yes
	}
	worst := no
	for i := range in.Commands {
		for _, p := range r.commands {
			worst = max(worst, p.match(&in.Commands[i]))
		}
	}
	return worst
}

// covers says whether the rule is about the whole of a call. It is the question
// for allow: each command must be one that the rule names, known to the last
// argument, and each effect beyond reading one of its verbs on its targets.
func (r *rule) covers(in *Input) bool {
	if !r.applies(in) || (len(r.commands) > 0 && len(in.Commands) == 0) {
		return false
	}
	for i := range in.Commands {
		if !r.names(&in.Commands[i]) {
			return false
		}
	}
	if len(r.verbs) == 0 && len(r.targets) == 0 {
		return true
	}
	some := false
	for _, e := range in.Effects {
		about := r.about(e)
		some = some || about
		carried := len(r.commands) > 0 && (e.Verb == tool.VerbExec || e.Verb == tool.VerbUnknown)
		if !about && !carried && e.Verb != tool.VerbRead {
			return false
		}
	}
	return some
}

// names says whether the rule names a command, with certainty.
func (r *rule) names(c *tool.Command) bool {
	return len(r.commands) == 0 || c.Known && slices.ContainsFunc(r.commands, func(p commandPattern) bool { return p.match(c) == yes })
}

// about says whether an effect is one of the rule's verbs on one of its targets.
func (r *rule) about(e tool.Effect) bool {
	if len(r.verbs) > 0 && !slices.Contains(r.verbs, e.Verb) {
		return false
	}
	return len(r.targets) == 0 || slices.ContainsFunc(r.targets, func(g string) bool { return matchTarget(g, e) })
}

// matchTarget matches a glob on an effect's target: a path of the workspace with
// or without "ws:/", an absolute path, a host with or without its port, a program
// with its subcommand.
func matchTarget(g string, e tool.Effect) bool {
	if matchGlob(g, e.Target) {
		return true
	}
	if p, ok := strings.CutPrefix(e.Target, "ws:/"); ok {
		return matchGlob(strings.TrimPrefix(strings.TrimPrefix(g, "ws:/"), "/"), p)
	}
	if e.Verb == tool.VerbConnect {
		return matchHost(g, e.Target)
	}
	return false
}

// matchHost matches "*", "host", "host:port", "*.domain" and "*.domain:port" on
// a "host:port". The unknown host "*" matches only "*".
func matchHost(g, target string) bool {
	if g == "*" {
		return true
	}
	if target == "*" {
		return false
	}
	host := target
	if i := strings.LastIndexByte(target, ':'); i >= 0 {
		host = target[:i]
	}
	g = strings.ToLower(g)
	return matchGlob(g, target) || matchGlob(g, host)
}

func matchAny(globs []string, s string) bool {
	return slices.ContainsFunc(globs, func(g string) bool { return matchGlob(g, s) })
}

func matchGlob(g, s string) bool {
	if !strings.ContainsAny(g, `*?[{\`) {
		return g == s
	}
	ok, err := doublestar.Match(g, s)
	return ok && err == nil
}

// match holds a pattern against a command. Where an argument is not known, an
// option may be there.
func (p commandPattern) match(c *tool.Command) answer {
	if p.program != c.Program {
		return no
	}
	if p.subcommand != "" && !slices.Contains([]string{p.subcommand, shell.UnknownArg}, subcommand(c)) {
		return no
	}
	if len(p.options) == 0 {
		if p.subcommand != "" && subcommand(c) == shell.UnknownArg {
			return maybe
		}
		return yes
	}
	for _, o := range p.options {
		if hasOption(c.Args, o) {
			return yes
		}
	}
	if slices.Contains(c.Args, shell.UnknownArg) {
		return maybe
	}
	return no
}

// subcommand is what the parser saw as one, or else the first operand: the parser
// does not know every program.
func subcommand(c *tool.Command) string {
	if c.Subcommand != "" {
		return c.Subcommand
	}
	for _, a := range c.Args {
		if !strings.HasPrefix(a, "-") {
			return a
		}
	}
	return ""
}

// hasOption says whether an option is among arguments: whole, with a value, or as
// a letter of a cluster. Nothing after "--" is an option.
func hasOption(args []string, option string) bool {
	for _, a := range args {
		switch {
		case a == "--":
			return false
		case a == option, strings.HasPrefix(a, option+"=") && strings.HasPrefix(option, "--"):
			return true
		case len(a) > 3 && strings.HasPrefix(a, "--") && strings.HasPrefix(option, a):
			return true // abbreviated
		case len(option) == 2 && len(a) > 2 && a[0] == '-' && a[1] != '-' && strings.Contains(a[1:], option[1:]):
			return true
		}
	}
	return false
}
