package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/goccy/go-yaml"

	"github.com/toold/toold/internal/policy/shell"
	"github.com/toold/toold/internal/tool"
)

// File is one policy file: its name, for messages, and what is in it.
type File struct {
	Name string
	Data []byte
}

// maxFile bounds a policy file, in bytes.
const maxFile = 1 << 20

// document is a policy file as it is written.
type document struct {
	Profile        string    `yaml:"profile"`
	Egress         egress    `yaml:"egress"`
	ProtectedPaths []string  `yaml:"protectedPaths"`
	Rules          []ruleDoc `yaml:"rules"`
}

type egress struct {
	Allow []string `yaml:"allow"`
}

type ruleDoc struct {
	ID          string      `yaml:"id"`
	Description string      `yaml:"description"`
	Verdict     string      `yaml:"verdict"`
	Reason      string      `yaml:"reason"`
	Suggest     string      `yaml:"suggest"`
	Match       matchDoc    `yaml:"match"`
	Examples    examplesDoc `yaml:"examples"`
}

type matchDoc struct {
	Tools   []string     `yaml:"tools"`
	Classes []string     `yaml:"classes"`
	Verbs   []string     `yaml:"verbs"`
	Targets []string     `yaml:"targets"`
	Callers callersDoc   `yaml:"callers"`
	Command []commandDoc `yaml:"command"`
}

type callersDoc struct {
	Subjects []string `yaml:"subjects"`
	Groups   []string `yaml:"groups"`
}

type commandDoc struct {
	Program    string   `yaml:"program"`
	Subcommand string   `yaml:"subcommand"`
	Options    []string `yaml:"options"`
}

type examplesDoc struct {
	Match    []string `yaml:"match"`
	NotMatch []string `yaml:"notMatch"`
}

// read parses a policy file strictly: a key that means nothing is an error.
func read(f File) (doc document, err error) {
	if len(f.Data) > maxFile {
		return doc, fmt.Errorf("%s: is larger than %d bytes", f.Name, maxFile)
	}
	dec := yaml.NewDecoder(bytes.NewReader(f.Data), yaml.Strict())
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		var ye yaml.Error
		if errors.As(err, &ye) && ye.GetToken() != nil {
			at := ye.GetToken().Position
			return doc, fmt.Errorf("%s:%d:%d: %s%s", f.Name, at.Line, at.Column, ye.GetMessage(), f.known(err))
		}
		return doc, fmt.Errorf("%s: %w", f.Name, err)
	}
	if err := dec.Decode(new(document)); !errors.Is(err, io.EOF) {
		return doc, fmt.Errorf("%s: holds more than one YAML document; keep one a file", f.Name)
	}
	return doc, nil
}

// line is where in a file the rule number i begins; 0 if that cannot be told.
func (f File) line(i int) int {
	p, err := yaml.PathString(fmt.Sprintf("$.rules[%d]", i))
	if err != nil {
		return 0
	}
	node, err := p.ReadNode(bytes.NewReader(f.Data))
	if err != nil || node.GetToken() == nil {
		return 0
	}
	return node.GetToken().Position.Line
}

var ruleID = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$`)

// compile checks a rule as it is written and makes it ready to match.
func compile(d ruleDoc) (*rule, error) {
	r := &rule{id: d.ID, reason: d.Reason, suggest: d.Suggest, callers: callers{subjects: d.Match.Callers.Subjects, groups: d.Match.Callers.Groups}}
	if !ruleID.MatchString(d.ID) {
		return nil, fmt.Errorf("id %q: give letters, digits, '.', '_' and '-', at most 128", d.ID)
	}
	switch d.Verdict {
	case "allow":
		r.verdict = Allow
	case "deny":
		r.verdict = Deny
	case "ask":
		r.verdict = Ask
	default:
		return nil, fmt.Errorf("verdict %q: is one of allow, deny, ask", d.Verdict)
	}
	if strings.HasPrefix(d.ID, "command.catastrophic.") {
		return nil, errors.New("id: catastrophic commands are refused always; no rule changes that")
	}
	r.overrides = shell.IsCode(d.ID) || d.ID == idEgress
	if strings.HasPrefix(d.ID, "command.dangerous.") && !r.overrides {
		return nil, errors.New("id: command safety has no finding of that name; `toolctl explain` shows those of a call")
	}
	for _, name := range d.Match.Classes {
		c, ok := tool.ParseClass(name)
		if !ok {
			return nil, fmt.Errorf("match.classes: %q is none of READ_ONLY, WRITE, SYSTEM_CHANGE", name)
		}
		r.classes = append(r.classes, c)
	}
	verbs := []tool.Verb{tool.VerbRead, tool.VerbWrite, tool.VerbDelete, tool.VerbExec, tool.VerbConnect, tool.VerbUnknown}
	for _, v := range d.Match.Verbs {
		if !slices.Contains(verbs, tool.Verb(v)) {
			return nil, fmt.Errorf("match.verbs: %q is none of read, write, delete, exec, connect, unknown", v)
		}
		r.verbs = append(r.verbs, tool.Verb(v))
	}
	for key, globs := range map[string][]string{"match.tools": d.Match.Tools, "match.targets": d.Match.Targets, "match.callers.subjects": d.Match.Callers.Subjects} {
		if err := validGlobs(globs); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	r.tools, r.targets = d.Match.Tools, d.Match.Targets
	for i, c := range d.Match.Command {
		if c.Program == "" {
			return nil, fmt.Errorf("match.command[%d].program: is missing", i)
		}
		for _, o := range c.Options {
			if !strings.HasPrefix(o, "-") || len(o) < 2 {
				return nil, fmt.Errorf("match.command[%d].options: %q is no option; write it with its dashes", i, o)
			}
		}
		r.commands = append(r.commands, commandPattern{program: c.Program, subcommand: c.Subcommand, options: c.Options})
	}
	if !r.overrides && r.matchesAnything() {
		return nil, errors.New("match: is empty; a rule for every call says tools: [\"*\"]")
	}
	return r, r.prove(d.Examples)
}

func validGlobs(globs []string) error {
	for _, g := range globs {
		if g == "" || !doublestar.ValidatePattern(g) {
			return fmt.Errorf("%q is no valid glob", g)
		}
	}
	return nil
}

// examplesAt is where a rule's examples are supposed to run.
var examplesAt = shell.Options{Dir: "/workspace", Workspace: "/workspace", Home: "/home/agent"}

// prove holds a rule against its own examples.
func (r *rule) prove(examples examplesDoc) error {
	for _, text := range examples.Match {
		if !r.matchesText(text) {
			return fmt.Errorf("examples.match: the rule does not match %q", text)
		}
	}
	for _, text := range examples.NotMatch {
		if r.matchesText(text) {
			return fmt.Errorf("examples.notMatch: the rule matches %q", text)
		}
	}
	return nil
}

// matchesText holds a rule against a command line, whoever runs it with whichever
// tool.
func (r *rule) matchesText(text string) bool {
	a := shell.Analyse(text, examplesAt)
	in := Input{Class: a.Class, Effects: a.Effects, Commands: a.Commands, Findings: a.Findings}
	anyone := *r
	anyone.tools, anyone.callers = nil, callers{}
	if r.overrides && !slices.ContainsFunc(a.Findings, func(f tool.Finding) bool { return f.Code == r.id }) && r.id != idEgress {
		return false
	}
	if anyone.verdict == Allow && !r.overrides {
		return anyone.covers(&in)
	}
	return anyone.concerns(&in) != no
}
