// Package shell judges command lines without running them. A text is parsed
// once, as bash; its tree is walked with values that are known or not; what the
// programs in it would do is looked up in tables; and the worst of it is the
// verdict. An unknown never lowers a verdict: below Ordinary needs proof, above
// it needs evidence.
package shell

import (
	"fmt"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"

	"github.com/toold/toold/internal/tool"
)

// Verdict is what a careful reviewer would say of a command line. Verdicts are
// ordered: a higher one is worse.
type Verdict uint8

// The verdicts. ReadOnly is proved, never assumed.
const (
	ReadOnly     Verdict = iota + 1 // reads and prints; may run unasked
	Ordinary                        // changes something, or was not understood
	Dangerous                       // irreversible or remote with a legitimate use; a human is asked
	Catastrophic                    // never runs
)

// String gives the verdict's name in lower case.
func (v Verdict) String() string {
	switch v {
	case ReadOnly:
		return "read_only"
	case Ordinary:
		return "ordinary"
	case Dangerous:
		return "dangerous"
	case Catastrophic:
		return "catastrophic"
	default:
		return "unspecified"
	}
}

// Options is what the judge knows of the place where the text would run. Paths
// are absolute and clean, links resolved; an empty one is not known.
type Options struct {
	Dir       string // the working directory
	Workspace string // the workspace's root
	Home      string // the home directory of the user that runs it
}

// Analysis is the judgement of one text.
type Analysis struct {
	Verdict Verdict
	// Class is tool.ReadOnly where the verdict is ReadOnly, else tool.SystemChange.
	Class tool.Class
	// Effects are what the text would do: targets are "ws:/path" inside the
	// workspace and absolute paths outside. {unknown, *} stands for all that
	// could not be said; it is always there unless the class is tool.ReadOnly.
	Effects []tool.Effect
	// Commands are the simple commands in the order in which they were met.
	// Transparent wrappers (env, timeout, sh -c …) are left out where the command
	// that they carry is known.
	Commands []tool.Command
	// Findings has each kind of objection once, as it was first met.
	Findings []tool.Finding
	// Reads are the places that are read by name. The text says nothing of the
	// links on the way: whoever can look has to follow them.
	Reads []Read
}

// CodeProtected is the policy id of a finding that a protected file is written.
const CodeProtected = "path.protected"

// UnknownArg stands in tool.Command.Args for an argument that is not known
// beforehand. No text can hold it: NUL is refused.
const UnknownArg = "\x00unknown"

// Limits. Over one of them a text is Dangerous ("unparsable"), never softer.
const (
	maxText     = 32 << 10 // bytes of a text
	maxBrackets = 100      // brackets open at once
	maxKeywords = 400      // if, while, case … open at once, and ? in arithmetic
	maxDepth    = 64       // commands inside commands
	maxNest     = 8        // strings read as code inside strings read as code
	maxWork     = 32 << 10 // units of work, of about a quarter of a microsecond
	maxValue    = 4 << 10  // bytes of a value; longer ones are unknown
	maxFields   = 512      // words that one word may become
	maxEffects  = 256
)

// Analyse judges text. It is total: every input gets a verdict, in bounded time
// and memory. It is safe for concurrent use.
func Analyse(text string, opt Options) (res Analysis) {
	a := newAnalyser(opt)
	defer func() {
		// A panic here is our own bug, and the text must not profit from it.
		if r := recover(); r != nil {
			a.find("unparsable", fmt.Sprintf("the analysis failed: %v", r))
		}
		res = a.result()
	}()
	if why := unreadable(text); why != "" {
		a.find("unparsable", why)
		return
	}
	sh := newState(a)
	sh.code(text)
	a.uncalled()
	return
}

// analyser collects what is found in one text.
type analyser struct {
	opt      Options
	findings []tool.Finding
	effects  []tool.Effect
	reads    []Read
	commands []tool.Command
	seen     map[string]bool // findings and effects already there
	changes  bool            // something is not provably a reader
	work     int
	depth    int
	nest     int
	spawning int                // > 0 inside a pipeline or in the background
	active   map[*function]bool // functions being judged
	declared []*function        // every function, for those never called
	links    map[string]string  // symbolic links that the text makes
	pipes    map[string]value   // process substitutions by their path
}

func newAnalyser(opt Options) *analyser {
	return &analyser{opt: opt, seen: map[string]bool{}, active: map[*function]bool{}, links: map[string]string{}, pipes: map[string]value{}}
}

// parsers are reused: one holds several KiB of buffers.
var parsers = sync.Pool{New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }}

// parse reads text as bash.
func parse(text string) (*syntax.File, error) {
	p := parsers.Get().(*syntax.Parser)
	defer parsers.Put(p)
	return p.Parse(strings.NewReader(text), "")
}

// step counts work and nesting; it is false when the text is too much. Whoever
// gets true calls the returned function when done.
func (a *analyser) step() (done func(), ok bool) {
	if !a.spend(8) {
		return nil, false
	}
	if a.depth >= maxDepth {
		a.find("unparsable", "the text is too deep to be judged")
		return nil, false
	}
	a.depth++
	return func() { a.depth-- }, true
}

// spend counts units of work; it is false when there were too many.
func (a *analyser) spend(units int) bool {
	a.work += units
	if a.work > maxWork {
		a.find("unparsable", "the text is too much to be judged")
		return false
	}
	return true
}

// weigh counts the work of searching through a text.
func (a *analyser) weigh(text string) bool { return a.spend(len(text) / 8) }

// find records an objection: what is a key of objections, detail says where.
func (a *analyser) find(what, detail string) {
	o, ok := objections[what]
	if !ok {
		panic("no such objection: " + what)
	}
	code := "command.dangerous." + what
	switch {
	case o.tier == tool.TierCatastrophic:
		code = "command.catastrophic." + what
	case what == "protected_path":
		code = CodeProtected
	}
	if a.seen[code] {
		return
	}
	a.seen[code] = true
	reason := o.reason
	if detail != "" {
		reason = detail + ": " + reason
	}
	a.findings = append(a.findings, tool.Finding{Tier: o.tier, Code: code, Reason: reason, Suggest: o.suggest})
}

// effect records what would happen, once.
func (a *analyser) effect(verb tool.Verb, target string) {
	key := string(verb) + " " + target
	if a.seen[key] {
		return
	}
	if len(a.effects) >= maxEffects {
		a.changes = true
		return
	}
	a.seen[key] = true
	a.effects = append(a.effects, tool.Effect{Verb: verb, Target: target})
}

// result maps what was collected to the verdict, in this one place.
func (a *analyser) result() Analysis {
	res := Analysis{Verdict: ReadOnly, Class: tool.ReadOnly, Commands: a.commands, Findings: a.findings, Reads: a.reads}
	if a.changes {
		res.Verdict = Ordinary
	}
	for _, f := range a.findings {
		switch f.Tier {
		case tool.TierDangerous:
			res.Verdict = max(res.Verdict, Dangerous)
		case tool.TierCatastrophic:
			res.Verdict = Catastrophic
		}
	}
	if res.Verdict != ReadOnly {
		res.Class = tool.SystemChange
		a.effect(tool.VerbUnknown, "*")
		if !a.seen["unknown *"] { // the list was full
			a.effects = append(a.effects[:maxEffects-1], tool.Effect{Verb: tool.VerbUnknown, Target: "*"})
		}
	}
	res.Effects = a.effects
	return res
}
