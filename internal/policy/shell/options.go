package shell

import "strings"

// role says what a program does with an option's argument, or with an operand.
type role uint8

const (
	asData   role = iota // only text to it
	asRead               // a path whose contents it reads
	asStat               // a path whose names and metadata it reads
	asLink               // the same, of the link itself where it is one
	asWrite              // a path that it creates or changes
	asDelete             // a path that it deletes
	asCode               // shell code that it runs
	asRun                // a program that it runs, where nobody looks for one
	asDir                // a folder that it works in
	asChange             // it changes something, wherever that is
	asUnseen             // a path that names what it reads
	asHost               // a host that it talks to
)

var roleNames = map[string]role{
	"": asData, "data": asData, "read": asRead, "stat": asStat, "link": asLink, "write": asWrite, "delete": asDelete,
	"code": asCode, "run": asRun, "dir": asDir, "change": asChange, "unseen": asUnseen, "host": asHost,
}

// option is what a table says of one option.
type option struct {
	arg      bool // takes an argument
	optional bool // takes one only if it is attached
	role     role
}

// model is what a table says of a program, or of one of its subcommands.
type model struct {
	options  map[string]option // "-k", "--key"
	operands []role            // the last one repeats; none = it takes none
	posix    bool              // options end at the first operand
	bare     bool              // every word is an operand
	harmless bool              // no option of it changes or runs anything
	changes  bool              // it is never only a reader
}

// newModel reads a table's line. Words of it:
//
//	-abc        flags          --all       a flag
//	-k:ROLE     with argument  --key=ROLE  with argument (no role: only data)
//	-i!         a flag that makes it change something; --in-place! likewise
//	--color?    an argument only where it is attached (--color?ROLE)
//	+           options end at the first operand; as a program of its own: it has subcommands
//	*           it has no options: every word is an operand
//	!           it changes something whatever its arguments are
//	ROLE        of an operand; the last one is that of all further ones
func newModel(line string) *model {
	m := &model{options: map[string]option{}, harmless: true}
	for _, w := range strings.Fields(line) {
		switch {
		case w == "+":
			m.posix = true
		case w == "*":
			m.bare = true
		case w == "!":
			m.changes = true
		case strings.HasPrefix(w, "--"):
			name, o := readOption(w, "=")
			m.add(name, o)
		case w != "-" && strings.HasPrefix(w, "-"):
			letters, o := readOption(w[1:], ":")
			for _, c := range letters {
				m.add("-"+string(c), o)
			}
		default:
			m.operands = append(m.operands, roleNames[w])
		}
	}
	return m
}

// readOption reads one option's word; arg is what comes before an argument's role.
func readOption(w, arg string) (name string, o option) {
	i := strings.IndexAny(w, arg+"?!")
	if i < 0 {
		return w, o
	}
	o.role = roleNames[w[i+1:]]
	switch w[i] {
	case '?':
		o.optional = true
	case '!':
		o.role = asChange
	default:
		o.arg = true
	}
	return w[:i], o
}

func (m *model) add(name string, o option) {
	m.options[name] = o
	if o.role == asWrite || o.role == asRun || o.role == asCode || o.role == asChange {
		m.harmless = false
	}
}

// given is an option as it was met.
type given struct {
	name string // "-k" or "--key", abbreviations completed
	val  value
	role role
}

// parsed are arguments, told apart by a model.
type parsed struct {
	options  []given
	operands []value
	foreign  bool // an option that the table does not know, or an abbreviation
	vague    bool // a value that may be an option
}

// has says whether one of the options was given.
func (p *parsed) has(names ...string) bool {
	_, ok := p.last(names...)
	return ok
}

// last is the last argument given to one of the options.
func (p *parsed) last(names ...string) (value, bool) {
	for i := len(p.options) - 1; i >= 0; i-- {
		for _, n := range names {
			if p.options[i].name == n {
				return p.options[i].val, true
			}
		}
	}
	return value{}, false
}

// parse tells options from operands, as getopt_long does.
func (m *model) parse(args []value) (p parsed) {
	if m.bare {
		return parsed{operands: args}
	}
	for i := 0; i < len(args); i++ {
		v := args[i]
		next := func() value {
			if i+1 < len(args) {
				i++
				return args[i]
			}
			return value{}
		}
		switch {
		case v.is("--"):
			p.operands = append(p.operands, args[i+1:]...)
			return p
		case strings.HasPrefix(v.text, "--"):
			m.long(&p, v, next)
		case len(v.text) > 1 && v.text[0] == '-':
			m.short(&p, v, next)
		case m.posix:
			p.vague = p.vague || v.maybeOption()
			p.operands = append(p.operands, args[i:]...)
			return p
		default:
			p.vague = p.vague || v.maybeOption()
			p.operands = append(p.operands, v)
		}
	}
	return p
}

func (m *model) long(p *parsed, v value, next func() value) {
	name, val, has := strings.Cut(v.text, "=")
	o, ok := m.options[name]
	if !ok {
		p.foreign = true
		if full := m.complete(name); full != "" {
			name, o = full, m.options[full]
		}
	}
	g := given{name: name, role: o.role, val: value{text: val, glob: v.glob, split: v.split}}
	if o.arg && !has {
		g.val = next()
	}
	p.vague = p.vague || v.split
	p.options = append(p.options, g)
}

// complete is the only long option that begins so, or "".
func (m *model) complete(prefix string) (full string) {
	if len(prefix) < 3 {
		return ""
	}
	for name := range m.options {
		if strings.HasPrefix(name, prefix) {
			if full != "" {
				return ""
			}
			full = name
		}
	}
	return full
}

func (m *model) short(p *parsed, v value, next func() value) {
	letters := v.text[1:]
	p.vague = p.vague || v.split
	for j, c := range letters {
		name := "-" + string(c)
		o, ok := m.options[name]
		if !ok {
			p.foreign = true
		}
		g := given{name: name, role: o.role}
		rest := letters[j+len(string(c)):]
		if o.arg || (o.optional && rest != "") {
			if rest != "" {
				g.val = value{text: rest, glob: v.glob}
			} else {
				g.val = next()
			}
			p.options = append(p.options, g)
			return
		}
		p.options = append(p.options, g)
	}
}

// insteadOfFirst are the options of grep, rg, sed and their kin that say what the
// first operand would: then that is a file already.
var insteadOfFirst = strings.Fields("-e --regexp --expression -f --file --from-file --files --type-list")

// judge applies the roles of a model to what was parsed. proven says that
// nothing beyond reading can come of it.
func (sh *state) judge(m *model, p parsed) (proven bool) {
	for _, g := range p.options {
		sh.apply(g.role, g.val)
	}
	first := 0
	if len(m.operands) > 1 && m.operands[0] == asData && p.has(insteadOfFirst...) {
		first = 1
	}
	for i, v := range p.operands {
		if len(m.operands) == 0 {
			return false
		}
		i, last := i+first, len(m.operands)-1
		sh.apply(m.operands[min(i, last)], v)
		for j := i + 1; j <= last && (v.glob || v.split); j++ { // it may be several words
			sh.apply(m.operands[j], v)
		}
	}
	return !m.changes && !p.foreign && (!p.vague || m.harmless)
}

func (sh *state) apply(r role, v value) {
	switch r {
	case asRead:
		if v.text != "-" {
			sh.readAny(v)
		}
	case asStat:
		sh.touch(statsFile, v)
	case asLink:
		sh.touch(statsLink, v)
	case asWrite:
		if v.text == "-" {
			return
		}
		sh.touch(writesFile, v)
	case asDelete:
		sh.touch(deletesFile, v)
	case asCode:
		sh.a.changes = true
		sh.fork().codeOf(v)
	case asRun:
		sh.hidden(v)
	case asChange, asUnseen:
		sh.a.changes = true
	case asHost:
		sh.connect(v)
	}
}

// hidden judges a program that is named in an option or in configuration.
func (sh *state) hidden(v value) {
	sh.a.find("hidden_program", show(v))
	if strings.TrimSpace(v.text) != "" {
		sh.fork().codeOf(v)
	}
}

// readAny reads a path; a process substitution is no path.
func (sh *state) readAny(v value) {
	if _, ok := sh.a.pipes[v.text]; !ok {
		sh.touch(readsFile, v)
	}
}
