package shell

import (
	"path"
	"slices"
	"strings"

	"github.com/toold/toold/internal/tool"
)

// systemDirs are the folders whose programs are what their names say.
var systemDirs = strings.Fields("/bin /sbin /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin /opt/homebrew/bin")

// run judges a command whose words are known as far as they can be, and gives
// what it prints. in is its standard input, nil for none.
func (sh *state) run(argv []value, in *value) value {
	done, ok := sh.a.step()
	if !ok {
		return unknown
	}
	defer done()
	if len(argv) == 0 || argv[0].is("") {
		return value{}
	}
	program := argv[0]
	if !program.known() {
		sh.record(argv, "")
		sh.a.find("unknown_code", "the program's name is "+show(program))
		if program.split && len(argv) > 1 {
			sh.run(argv[1:], in) // it may be nothing at all
		}
		return unknown
	}
	if f := sh.function(program.text); f != nil {
		out := sh.callFunction(program.text, f, argv[1:], in)
		if !f.maybe {
			return out
		}
	}
	return sh.external(argv, in)
}

// external judges a command that is no function.
func (sh *state) external(argv []value, in *value) value {
	name := base(argv[0].text)
	if dir, file := path.Split(argv[0].text); dir != "" {
		if clean := path.Clean(dir); !slices.Contains(systemDirs, clean) {
			sh.a.changes = true
		}
		name = file
	}
	if name == "" {
		sh.a.changes = true
		return unknown
	}
	if b, ok := builtins[name]; ok {
		return b(sh, argv, in)
	}
	if w, ok := wrappers[name]; ok {
		return sh.wrapped(w, argv, in)
	}
	return sh.program(name, argv, in)
}

// callFunction judges a function's body with its arguments. One that starts
// itself in a pipeline or in the background never ends.
func (sh *state) callFunction(name string, f *function, args []value, in *value) value {
	f.called = true
	if sh.a.active[f] {
		if sh.a.spawning > 0 {
			sh.a.find("fork_bomb", quote(name+"()"))
		} else {
			sh.a.changes = true
		}
		return unknown
	}
	sh.a.active[f] = true
	defer delete(sh.a.active, f)
	old, known := sh.args, sh.argsKnown
	sh.args, sh.argsKnown = args, !slices.ContainsFunc(args, func(v value) bool { return v.split })
	defer func() { sh.args, sh.argsKnown = old, known }()
	return sh.stmt(f.body, in)
}

// call is a command about to be judged by what its program does.
type call struct {
	name string  // the program
	sub  string  // its subcommand; may be empty
	argv []value // the program and all of its arguments
	args []value // what follows the program, or its subcommand
	p    parsed  // args, told apart by the program's model
	in   *value  // standard input
}

// program judges a program by the tables.
func (sh *state) program(name string, argv []value, in *value) value {
	c := &call{name: name, argv: argv, args: argv[1:], in: in}
	m, proven := models[name], true
	subcommands := m != nil && m.posix
	if subcommands {
		global := m.parse(c.args)
		proven = sh.judge(m, parsed{options: global.options, foreign: global.foreign, vague: global.vague})
		c.args = nil
		if len(global.operands) > 0 {
			c.sub, c.args = global.operands[0].arg(), global.operands[1:]
		}
		if name == "git" {
			sh = sh.gitGlobals(global)
		}
		m = models[strings.TrimSpace(name+" "+c.sub)]
		if c.sub == "" {
			m = nil
		}
	}
	sh.record(argv, c.sub)
	if asksHelp(c) && known(name) {
		return unknown
	}
	sh.hazards(c)
	if m != nil {
		c.p = m.parse(c.args)
		sh.followed(c)
	}
	judge := judges[name]
	if judge != nil {
		proven = judge(sh, c) && proven
	}
	if m != nil {
		proven = sh.judge(m, c.p) && proven && (!subcommands || !c.p.vague) // their tables know not every option
	}
	if !proven || (m == nil && (judge == nil || subcommands)) {
		sh.a.changes = true
	}
	return sh.output(c)
}

// known says whether any table has the program.
func known(name string) bool {
	_, model := models[name]
	_, judged := judges[name]
	return model || judged || hazardous[name] != nil || interpreters[name]
}

// asksHelp recognises a call that only prints what the program is.
func asksHelp(c *call) bool {
	return len(c.argv) == 2 && c.argv[1].is("--help", "--version")
}

// connect records that a host is spoken to; what is not known is any host.
func (sh *state) connect(v value) {
	sh.a.changes = true
	host := hostOf(v)
	sh.a.effect(tool.VerbConnect, host)
}

// hostOf is the "host:port" of a URL, or "*".
func hostOf(v value) string {
	s := v.text
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		scheme, rest = "http", s
	}
	rest, _, _ = strings.Cut(rest, "/")
	rest, _, _ = strings.Cut(rest, "?")
	rest, _, _ = strings.Cut(rest, "#")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	if rest == "" || strings.ContainsAny(rest, hole+"{}[]*\\ ") {
		return "*"
	}
	if !strings.Contains(rest, ":") {
		port := map[string]string{"http": "80", "https": "443", "ftp": "21", "ssh": "22", "git": "9418"}[strings.ToLower(scheme)]
		if port == "" {
			return "*"
		}
		rest += ":" + port
	}
	return strings.ToLower(rest)
}
