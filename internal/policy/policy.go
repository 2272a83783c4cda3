package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/toold/toold/internal/policy/shell"
	"github.com/toold/toold/internal/tool"
)

// idEgress is the policy id of a question about a host.
const idEgress = "egress.allow"

// Options make a policy.
type Options struct {
	// Profile is locked, standard, development or ci. Empty: the files', else
	// development.
	Profile string
	// Files are policy files; their rules count alike. Their protected paths are
	// added to shell.Protected.
	Files []File
	// Tools are the names of the tools that there are; a rule on others is an
	// error. nil: not checked.
	Tools []string
}

// Policy is a set of rules with a profile. It does not change and may be used
// concurrently. The zero Policy stands for one that could not be had: it denies
// all but READ_ONLY.
type Policy struct {
	version   string
	profile   profile
	rules     []*rule
	overrides map[string][]*rule // by the id that they answer for
	protected shell.Globs
	egress    []string
}

// New reads and checks a policy. Its errors name the file, the line and what is
// wrong there.
func New(o Options) (*Policy, error) {
	p := &Policy{overrides: map[string][]*rule{}}
	protected := slices.Clone(shell.Protected)
	name, seen := o.Profile, map[string]string{}
	for _, f := range o.Files {
		doc, err := read(f)
		if err != nil {
			return nil, fmt.Errorf("policy file %w", err)
		}
		switch {
		case o.Profile != "" || doc.Profile == "":
		case name != "" && name != doc.Profile:
			return nil, fmt.Errorf("policy file %s: profile %q, but another file says %q", f.Name, doc.Profile, name)
		default:
			name = doc.Profile
		}
		for i, d := range doc.Rules {
			err := p.add(d, f.Name, seen)
			if err == nil {
				err = knownTools(d.Match.Tools, o.Tools)
			}
			if err != nil {
				return nil, fmt.Errorf("policy file %s:%d: rule %q: %w", f.Name, f.line(i), d.ID, err)
			}
		}
		p.egress = append(p.egress, doc.Egress.Allow...)
		protected = append(protected, doc.ProtectedPaths...)
	}
	if err := validGlobs(protected); err != nil {
		return nil, fmt.Errorf("protectedPaths: %w", err)
	}
	if err := validGlobs(p.egress); err != nil {
		return nil, fmt.Errorf("egress.allow: %w", err)
	}
	if name == "" {
		name = "development"
	}
	var ok bool
	if p.profile, ok = profiles[name]; !ok {
		return nil, fmt.Errorf("profile %q: is one of locked, standard, development, ci", name)
	}
	p.protected = shell.NewGlobs(protected...)
	p.version = digest(name, protected, p.egress, o.Files)
	return p, nil
}

// add compiles a rule of a file. Ids are unique over all files.
func (p *Policy) add(d ruleDoc, file string, seen map[string]string) error {
	r, err := compile(d)
	if err != nil {
		return err
	}
	if where, ok := seen[r.id]; ok && !r.overrides {
		return fmt.Errorf("id: is used in %s already", where)
	}
	seen[r.id] = file
	if r.overrides {
		p.overrides[r.id] = append(p.overrides[r.id], r)
		return nil
	}
	p.rules = append(p.rules, r)
	return nil
}

// knownTools says which of a rule's globs match no tool.
func knownTools(globs, tools []string) error {
	for _, g := range globs {
		if tools != nil && !slices.ContainsFunc(tools, func(name string) bool { return matchGlob(g, name) }) {
			return fmt.Errorf("match.tools: there is no tool %q%s", g, meant(g, tools))
		}
	}
	return nil
}

// digest names a policy by all that it is made of.
func digest(profile string, protected, egress []string, files []File) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q %q %q", profile, protected, egress)
	for _, f := range files {
		_, _ = fmt.Fprintf(h, "%d\n%s", len(f.Data), f.Data)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Version is the policy's digest, 16 hex digits: equal policies have equal ones.
func (p *Policy) Version() string { return p.version }

// Profile is the name of the profile in force; empty for the zero Policy.
func (p *Policy) Profile() string { return p.profile.name }

// Decide answers for a call. It is pure and total.
func (p *Policy) Decide(in Input) Decision {
	d := p.decide(&in)
	if d.Verdict == Allow {
		return d
	}
	switch d.Stage {
	case Default:
		d.Reason += p.nearly(&in)
	case Command:
		if i := slices.IndexFunc(p.rules, func(r *rule) bool { return r.verdict == Allow && r.covers(&in) }); i >= 0 {
			d.Reason += fmt.Sprintf(" Rule %s allows the call, but does not answer for this: only a rule with the id %s does.", p.rules[i].id, d.PolicyID)
		}
	}
	d.Fix = p.fix(&in, d)
	return d
}

func (p *Policy) decide(in *Input) Decision {
	class := in.Class.OrWidest()
	if p.version == "" && class != tool.ReadOnly {
		return Decision{
			Verdict: Deny, Stage: Availability, ReasonCode: CodeUnavailable, PolicyID: "policy.unavailable", Matched: []string{"policy.unavailable"},
			Reason: "The policy cannot be read, so that only READ_ONLY calls run. An operator must repair it.",
		}
	}
	if in.SessionMode == Plan && class != tool.ReadOnly {
		return Decision{
			Verdict: Deny, Stage: ModeStage, ReasonCode: CodePlanMode, PolicyID: "mode.plan", Matched: []string{"mode.plan"},
			Reason: fmt.Sprintf("The session is in plan mode, and this call of %s is %s. Only READ_ONLY calls run: look, write the plan, and leave plan mode to carry it out.", in.Tool, class),
		}
	}
	for _, f := range in.Findings {
		if f.Tier == tool.TierCatastrophic {
			return Decision{
				Verdict: Deny, Stage: Catastrophic, ReasonCode: CodeCatastrophic, PolicyID: f.Code, Matched: []string{f.Code},
				Reason: "This is never run: " + sentence(f.Reason) + instead(f.Suggest),
			}
		}
	}
	var b ballot
	p.safety(in, &b)
	if !p.consult(in, &b) {
		// Not only where nothing was asked: a human's yes must not allow what the
		// profile denies outright.
		if d := p.profile.answer(in, class); !b.decided() || d.Verdict == Deny {
			b.cast(d)
		}
	}
	return b.result()
}

// ballot collects what is said of a call. A denial beats a question, and that a
// permission; among equals the first stands.
type ballot struct {
	best    Decision
	matched []string
}

func (b *ballot) cast(d Decision) {
	b.matched = append(b.matched, d.PolicyID)
	if b.best.Verdict == 0 || severity(d.Verdict) > severity(b.best.Verdict) {
		b.best = d
	}
}

func severity(v Verdict) int {
	switch v {
	case Allow:
		return 1
	case Ask:
		return 2
	default:
		return 3
	}
}

func (b *ballot) decided() bool { return b.best.Verdict != 0 }

func (b *ballot) result() Decision {
	d := b.best
	d.Matched = b.matched
	return d
}

// safety casts what command safety, protected paths and egress say.
func (p *Policy) safety(in *Input, b *ballot) {
	protected := false
	for _, f := range in.Findings {
		if f.Tier != tool.TierDangerous {
			continue
		}
		d := Decision{Verdict: Ask, Stage: Command, ReasonCode: CodeDangerous, PolicyID: f.Code, Reason: sentence(f.Reason) + instead(f.Suggest)}
		if f.Code == shell.CodeProtected {
			protected, d.ReasonCode = true, CodeProtected
		} else if p.profile.strict {
			d.Verdict = Deny
		}
		p.settle(in, d, b)
	}
	for _, e := range in.Effects {
		if !protected && p.changesProtected(e) {
			protected = true
			p.settle(in, Decision{
				Verdict: Ask, Stage: Command, ReasonCode: CodeProtected, PolicyID: shell.CodeProtected,
				Reason: fmt.Sprintf("%s decides what runs later or holds secrets, so that a human is asked before it changes. Leave it as it is, or show the change you would make.", e.Target),
			}, b)
		}
	}
	if e, ok := p.unlisted(in); ok {
		host := e.Target
		if host == "*" {
			host = "a host that cannot be told beforehand"
		}
		p.settle(in, Decision{
			Verdict: Ask, Stage: Command, ReasonCode: CodeEgress, PolicyID: idEgress,
			Reason: fmt.Sprintf("This connects to %s, which no rule lists; a request can carry secrets out. Use what is in the workspace, or ask for the host to be added to egress.allow.", host),
		}, b)
	}
}

// changesProtected says whether an effect is a change of a protected path.
func (p *Policy) changesProtected(e tool.Effect) bool {
	return (e.Verb == tool.VerbWrite || e.Verb == tool.VerbDelete) && p.protected.Match(strings.TrimPrefix(e.Target, "ws:/"))
}

// settle casts an objection, or what a rule with its id makes of it. A permission
// only takes the objection away.
func (p *Policy) settle(in *Input, d Decision, b *ballot) {
	var by *rule
	for _, r := range p.overrides[d.PolicyID] {
		if r.concerns(in) == yes && (r.verdict != Allow || len(r.commands) == 0 || r.coversNamed(in)) &&
			(by == nil || severity(r.verdict) > severity(by.verdict)) {
			by = r
		}
	}
	switch {
	case by == nil:
		b.cast(d)
	case by.verdict == Allow:
		b.matched = append(b.matched, by.id)
	default:
		b.cast(by.decision(in))
	}
}

// unlisted is the first connection of a call to a host that nothing lists.
func (p *Policy) unlisted(in *Input) (tool.Effect, bool) {
	for _, e := range in.Effects {
		if e.Verb != tool.VerbConnect || slices.ContainsFunc(p.egress, func(g string) bool { return matchHost(g, e.Target) }) {
			continue
		}
		if !slices.ContainsFunc(p.rules, func(r *rule) bool { return r.lists(in, e) }) {
			return e, true
		}
	}
	return tool.Effect{}, false
}

// consult casts what the rules say, and tells whether one said anything.
func (p *Policy) consult(in *Input, b *ballot) (some bool) {
	var allows []*rule
	for _, r := range p.rules {
		if r.verdict == Allow {
			if r.applies(in) {
				allows = append(allows, r)
			}
			continue
		}
		switch r.concerns(in) {
		case yes:
			some = true
			b.cast(r.decision(in))
		case maybe:
			some = true
			d := r.decision(in)
			d.Verdict, d.ReasonCode = Ask, CodeRuleAsks
			d.Reason = "An argument is not known before it runs, and may be what this rule is about. " + d.Reason
			b.cast(d)
		}
	}
	for _, r := range together(allows, in) {
		some = true
		b.cast(r.decision(in))
	}
	return some
}

// together gives the rules that allow a call: one that covers it whole, else
// those on commands that do so together.
func together(allows []*rule, in *Input) (out []*rule) {
	for _, r := range allows {
		if r.covers(in) {
			return []*rule{r}
		}
	}
	for i := range in.Commands {
		j := slices.IndexFunc(allows, func(r *rule) bool {
			return len(r.verbs)+len(r.targets) == 0 && len(r.commands) > 0 && r.names(&in.Commands[i])
		})
		if j < 0 {
			return nil
		}
		if !slices.Contains(out, allows[j]) {
			out = append(out, allows[j])
		}
	}
	return out
}

// lists says whether an allowing rule names the host of a connection.
func (r *rule) lists(in *Input, e tool.Effect) bool {
	return r.verdict == Allow && len(r.targets) > 0 && slices.Contains(r.verbs, tool.VerbConnect) && r.applies(in) && r.about(e)
}

// coversNamed says whether each command of a call is one that the rule names.
func (r *rule) coversNamed(in *Input) bool {
	for i := range in.Commands {
		if !r.names(&in.Commands[i]) {
			return false
		}
	}
	return true
}

// decision is what a rule says, in words.
func (r *rule) decision(in *Input) Decision {
	d := Decision{Verdict: r.verdict, Stage: Rule, PolicyID: r.id, Reason: sentence(r.reason)}
	switch r.verdict {
	case Allow:
		d.ReasonCode = CodeRuleAllows
		if r.reason == "" {
			d.Reason = fmt.Sprintf("Rule %s allows it.", r.id)
		}
	case Deny:
		d.ReasonCode = CodeRuleDenies
		if r.reason == "" {
			d.Reason = fmt.Sprintf("Rule %s denies this call of %s.", r.id, in.Tool)
		}
	default:
		d.ReasonCode = CodeRuleAsks
		if r.reason == "" {
			d.Reason = fmt.Sprintf("Rule %s wants a human to decide on this call of %s.", r.id, in.Tool)
		}
	}
	d.Reason += instead(r.suggest)
	return d
}

// sentence ends text with a full stop.
func sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") || strings.HasSuffix(s, "!") || strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}

func instead(suggest string) string {
	if suggest == "" {
		return ""
	}
	return " Instead: " + sentence(suggest)
}
