package policy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/toold/toold/internal/policy/shell"
	"github.com/toold/toold/internal/tool"
)

// fix says what an operator could set so that a refused call would be allowed.
// What it names was tried: with it, Decide allows this very call.
func (p *Policy) fix(in *Input, d Decision) string {
	switch d.Stage {
	case Availability:
		return "an operator must repair the policy; nothing else allows it"
	case ModeStage:
		return "leave plan mode; nothing allows it there"
	case Catastrophic:
		return "nothing allows it"
	case Rule:
		return fmt.Sprintf("rule %s of the policy file decided; only a change of that rule allows it", d.PolicyID)
	}
	var ways []string
	if doc, ok := p.addition(in, d); ok {
		ways = append(ways, "add to the policy file (toold --policy): `"+doc.String()+"`")
	}
	for _, name := range []string{"standard", "development", "ci"} {
		other := *p
		other.profile = profiles[name]
		if other.decide(in).Verdict == Allow {
			ways = append(ways, "start toold with --profile "+name)
			break
		}
	}
	if len(ways) == 0 {
		return "a rule of the policy file decides as well; what it says must be changed first"
	}
	return "an operator can " + strings.Join(ways, ", or ")
}

// maxAdditions bounds what is put together for one call.
const maxAdditions = 16

// addition is what a policy file lacks for a call that was refused as d. ok is
// false where nothing that is added helps: a rule refuses it, too.
func (p *Policy) addition(in *Input, d Decision) (doc document, ok bool) {
	for range maxAdditions {
		next := document{}
		switch {
		case d.Stage == Rule:
			return doc, false
		case d.PolicyID == idEgress:
			e, _ := p.unlisted(in)
			next.Egress.Allow = []string{literalGlob(e.Target)}
		case d.Stage == Command:
			next.Rules = []ruleDoc{{ID: d.PolicyID, Verdict: "allow", Match: matchDoc{Targets: p.protectedTargets(in, d.PolicyID)}}}
		default:
			next.Rules = []ruleDoc{p.allowing(in)}
		}
		with, err := p.with(next)
		if err != nil {
			return doc, false
		}
		after := with.decide(in)
		if after.PolicyID == d.PolicyID && after.Verdict != Allow && d.PolicyID != idEgress { // it did not help
			return doc, false
		}
		doc.Egress.Allow = append(doc.Egress.Allow, next.Egress.Allow...)
		doc.Rules = append(doc.Rules, next.Rules...)
		if after.Verdict == Allow {
			return doc, true
		}
		p, d = with, after
	}
	return doc, false
}

// with is the policy with a file's content more.
func (p *Policy) with(doc document) (*Policy, error) {
	q := *p
	q.rules, q.overrides, q.egress = slices.Clone(p.rules), maps.Clone(p.overrides), append(slices.Clone(p.egress), doc.Egress.Allow...)
	for _, d := range doc.Rules {
		r, err := compile(d)
		switch {
		case err != nil:
			return nil, err
		case r.overrides:
			q.overrides[r.id] = append(slices.Clone(q.overrides[r.id]), r)
		default:
			q.rules = append(q.rules, r)
		}
	}
	return &q, nil
}

// Bounds of what a suggested rule names: how many commands or targets, and the
// bytes of all targets or of one program. Beyond them it names none.
const (
	maxNamed     = 8
	maxNameBytes = 512
)

// protectedTargets are the protected paths that a call changes; none for all
// other findings, and where there are many.
func (p *Policy) protectedTargets(in *Input, id string) (out []string) {
	if id != shell.CodeProtected {
		return nil
	}
	for _, e := range in.Effects {
		if p.changesProtected(e) {
			out = append(out, literalGlob(e.Target))
		}
	}
	if len(out) > maxNamed || len(strings.Join(out, "")) > maxNameBytes {
		return nil
	}
	return out
}

// allowing is the narrowest rule that allows a call: its tool and, where they are
// known, its commands.
func (p *Policy) allowing(in *Input) ruleDoc {
	d := ruleDoc{Verdict: "allow", Match: matchDoc{Tools: []string{literalGlob(in.Tool)}}}
	name := in.Tool
	for _, c := range in.Commands {
		named := commandDoc{Program: c.Program, Subcommand: c.Subcommand}
		if !c.Known || len(c.Program)+len(c.Subcommand) > maxNameBytes/maxNamed {
			d.Match.Command = nil // no rule on commands allows what is not known
			break
		}
		if !slices.ContainsFunc(d.Match.Command, func(old commandDoc) bool { return old.Program == named.Program && old.Subcommand == named.Subcommand }) {
			d.Match.Command = append(d.Match.Command, named)
		}
	}
	switch n := len(d.Match.Command); {
	case n == 1:
		name = strings.TrimSpace(d.Match.Command[0].Program + " " + d.Match.Command[0].Subcommand)
	case n > maxNamed:
		d.Match.Command = nil
	}
	d.ID = p.unused("allow-" + name)
	return d
}

var notInID = regexp.MustCompile(`[^a-zA-Z0-9_.-]+`)

// unused makes a rule's id that no rule has.
func (p *Policy) unused(name string) string {
	name = notInID.ReplaceAllString(name, "-")
	name = name[:min(len(name), 120)]
	id := name
	for n := 2; slices.ContainsFunc(p.rules, func(r *rule) bool { return r.id == id }); n++ {
		id = name + "-" + strconv.Itoa(n)
	}
	return id
}

var globSigns = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "{", `\{`)

// literalGlob is a glob that matches only s; the unknown target "*" stays what it is.
func literalGlob(s string) string {
	if s == "*" {
		return s
	}
	return globSigns.Replace(s)
}

// String is the document as YAML, in one line.
func (d document) String() string {
	var parts []string
	if len(d.Egress.Allow) > 0 {
		parts = append(parts, "egress: {allow: "+list(d.Egress.Allow)+"}")
	}
	if len(d.Rules) > 0 {
		rules := make([]string, len(d.Rules))
		for i, r := range d.Rules {
			rules[i] = r.String()
		}
		parts = append(parts, "rules: ["+strings.Join(rules, ", ")+"]")
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (d ruleDoc) String() string {
	var match []string
	if len(d.Match.Tools) > 0 {
		match = append(match, "tools: "+list(d.Match.Tools))
	}
	if len(d.Match.Targets) > 0 {
		match = append(match, "targets: "+list(d.Match.Targets))
	}
	if len(d.Match.Command) > 0 {
		commands := make([]string, len(d.Match.Command))
		for i, c := range d.Match.Command {
			commands[i] = "{program: " + scalar(c.Program)
			if c.Subcommand != "" {
				commands[i] += ", subcommand: " + scalar(c.Subcommand)
			}
			commands[i] += "}"
		}
		match = append(match, "command: ["+strings.Join(commands, ", ")+"]")
	}
	out := "{id: " + scalar(d.ID) + ", verdict: " + d.Verdict
	if len(match) > 0 {
		out += ", match: {" + strings.Join(match, ", ") + "}"
	}
	return out + "}"
}

func list(items []string) string {
	out := make([]string, len(items))
	for i, s := range items {
		out[i] = scalar(s)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// plain are the scalars that need no quotes; the rest means something else there.
var (
	plain = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_.-]*$`)
	other = regexp.MustCompile(`(?i)^(true|false|yes|no|on|off|y|n|null)$`)
)

func scalar(s string) string {
	if plain.MatchString(s) && !other.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

// nearly says why the rules that would allow a call do not; empty where there is
// none.
func (p *Policy) nearly(in *Input) string {
	var allows []*rule
	for _, r := range p.rules {
		if r.verdict == Allow && r.applies(in) {
			allows = append(allows, r)
		}
	}
	for _, r := range allows {
		if len(r.commands) == 0 {
			for _, e := range in.Effects {
				if e.Verb != tool.VerbRead && !r.about(e) {
					return fmt.Sprintf(" Rule %s is not about everything that it does: %s %s.", r.id, e.Verb, e.Target)
				}
			}
			continue
		}
		for i := range in.Commands {
			c := &in.Commands[i]
			if slices.ContainsFunc(allows, func(r *rule) bool { return len(r.commands) > 0 && r.names(c) }) {
				continue
			}
			name := strings.TrimSpace(c.Program + " " + c.Subcommand)
			if c.Program == shell.UnknownArg {
				name = "a program that is not known before it runs"
			}
			known := *c
			known.Known = true
			if !c.Known && r.names(&known) {
				return fmt.Sprintf(" Rule %s allows %s only where every word of it is known before it runs.", r.id, name)
			}
			return fmt.Sprintf(" Rule %s does not name %s.", r.id, name)
		}
	}
	return ""
}
