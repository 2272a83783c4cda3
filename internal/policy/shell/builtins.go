package shell

import (
	"strings"
)

// builtins are the shell's own commands that change what it knows, or that run
// code. The first argument is the state to change.
var builtins map[string]func(sh *state, argv []value, in *value) value

func init() {
	builtins = map[string]func(*state, []value, *value) value{
		"cd": cd, "pushd": cd, "popd": popd,
		"eval": evalWords, "source": source, ".": source,
		"export": declared, "declare": declared, "typeset": declared, "local": declared, "readonly": declared, "let": declared,
		"set": setArgs, "shift": forgetArgs, "getopts": forgetArgs,
		"read": readVars, "mapfile": mapfile, "readarray": mapfile, "unset": readVars,
		"trap": trap, "alias": alias, "hash": hash, "enable": enable, "history": history, "fc": history,
		"exec": execute, "command": command, "builtin": command,
		"test": testWords, "[": testWords, "printf": printf,
		"shopt": shopt, "exit": changesNothing, "return": changesNothing, "break": changesNothing, "continue": changesNothing, "dirs": changesNothing, "umask": umask, "ulimit": umask, "bind": changes,
	}
}

func cd(sh *state, argv []value, _ *value) value {
	p := newModel("-LPen data").parse(argv[1:])
	target := value{text: hole}
	if vs, _ := sh.variable("HOME"); len(vs) > 0 {
		target = vs[0]
	}
	if len(p.operands) > 0 {
		target = p.operands[len(p.operands)-1]
	}
	if target.is("-") || target.glob || strings.HasPrefix(target.text, "+") || strings.Contains(target.text, hole) {
		sh.dirs = nil
	} else if p.has("-P") {
		sh.dirs = sh.physical(target)
	} else {
		sh.dirs = sh.paths(target)
	}
	sh.stray(sh.dirs)
	delete(sh.vars, "PWD")
	return value{}
}

// stray notes a working directory outside the workspace: what a reader reads
// there need not be named.
func (sh *state) stray(dirs []string) {
	for _, d := range dirs {
		if !below(d, sh.a.opt.Workspace) {
			sh.a.changes = true
		}
		sh.visit(Read{Path: d})
	}
	if len(dirs) == 0 {
		sh.a.changes = true
	}
}

func popd(sh *state, _ []value, _ *value) value {
	sh.dirs = nil
	return value{}
}

func evalWords(sh *state, argv []value, _ *value) value {
	return sh.codeOf(joined(afterDashes(argv), " "))
}

// afterDashes are a builtin's arguments without a leading "--".
func afterDashes(argv []value) []value {
	if len(argv) > 1 && argv[1].is("--") {
		return argv[2:]
	}
	return argv[1:]
}

// source judges what is read as code: a substitution, standard input, or a file
// that cannot be seen from here.
func source(sh *state, argv []value, in *value) value {
	sh.a.changes = true
	args := afterDashes(argv)
	if len(args) == 0 {
		return value{}
	}
	file := args[0]
	if out, ok := sh.a.pipes[file.text]; ok {
		return sh.codeOf(out)
	}
	if file.is("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0") {
		if in == nil {
			return value{}
		}
		return sh.codeOf(*in)
	}
	sh.record(argv, "")
	sh.touch(readsFile, file)
	sh.dirs = nil // the file may do anything to this shell
	return unknown
}

func declared(sh *state, argv []value, _ *value) value {
	for _, v := range argv[1:] {
		sh.declaration(v)
	}
	return value{}
}

func setArgs(sh *state, argv []value, _ *value) value {
	if len(argv) == 1 {
		sh.a.find("secret", "the whole environment")
	}
	for i, v := range argv[1:] {
		if strings.HasPrefix(v.text, "-") && strings.ContainsAny(v.text, "akP"+hole) || v.is("allexport", "keyword", "history", "physical") || argv[i].is("-o") && !v.known() {
			sh.a.changes = true // programs get to see what is assigned from here on; cd leads elsewhere
		}
		if v.is("--") {
			sh.args, sh.argsKnown = argv[i+2:], true
			return value{}
		}
		if !strings.HasPrefix(v.text, "-") && !strings.HasPrefix(v.text, "+") && i == 0 {
			sh.args, sh.argsKnown = argv[1:], true
			return value{}
		}
	}
	return value{}
}

func forgetArgs(sh *state, argv []value, _ *value) value {
	for _, v := range argv[1:] { // getopts assigns to one of them
		sh.assigns(v.text, unknown)
		sh.set(v.text, unknown)
	}
	sh.args, sh.argsKnown = nil, false
	return value{}
}

// readVars judges read and unset: the names they are given get other values.
func readVars(sh *state, argv []value, _ *value) value {
	for _, name := range []string{"REPLY", "MAPFILE"} { // where none is named
		sh.set(name, unknown)
	}
	for _, v := range argv[1:] {
		sh.subscript(v)
		if !strings.HasPrefix(v.text, "-") {
			sh.assigns(v.text, unknown)
			sh.set(v.text, unknown)
		}
	}
	return value{}
}

func mapfile(sh *state, argv []value, in *value) value {
	p := newModel("-t -C:code -c: -d: -n: -O: -s: -u: data").parse(argv[1:])
	for _, g := range p.options {
		sh.apply(g.role, g.val)
	}
	return readVars(sh, append([]value{argv[0]}, p.operands...), in)
}

func trap(sh *state, argv []value, _ *value) value {
	if args := afterDashes(argv); len(args) > 1 && !args[0].is("-", "") {
		sh.a.changes = true
		sh.fork().codeOf(args[0])
	}
	return value{}
}

// alias judges the body of each alias as code: other shells expand them.
func alias(sh *state, argv []value, _ *value) value {
	for _, v := range argv[1:] {
		if name, body, ok := strings.Cut(v.text, "="); ok {
			sh.a.changes = true
			if known(name) || builtins[name] != nil {
				sh.a.find("redefined_program", show(v))
			}
			sh.fork().codeOf(literal(body))
		}
	}
	return unknown
}

func hash(sh *state, argv []value, _ *value) value {
	if newModel("-lrdt -p:read data").has(argv[1:], "-p") {
		sh.a.find("redefined_program", quote(joined(argv, " ").text))
	}
	return unknown
}

func enable(sh *state, argv []value, _ *value) value {
	if newModel("-adnps -f:read data").has(argv[1:], "-f") {
		sh.a.find("injected_environment", quote(joined(argv, " ").text))
	}
	sh.a.changes = true
	return unknown
}

// has parses args only to look for an option.
func (m *model) has(args []value, names ...string) bool {
	p := m.parse(args)
	return p.has(names...)
}

func history(sh *state, argv []value, _ *value) value {
	if len(argv) > 1 {
		sh.a.changes = true
		p := newModel("-c -d: -s -p -l -nr -e: -a:write -w:write").parse(argv[1:])
		for _, g := range p.options {
			sh.apply(g.role, g.val)
		}
		if p.has("-c", "-d") {
			sh.a.find("logs", quote(joined(argv, " ").text))
		}
	}
	return unknown
}

func execute(sh *state, argv []value, in *value) value {
	p := newModel("+ -cl -a: data").parse(argv[1:])
	if len(p.operands) == 0 {
		return value{}
	}
	return sh.run(p.operands, in)
}

// command judges command and builtin: what follows, functions left aside.
func command(sh *state, argv []value, in *value) value {
	p := newModel("+ -pvV data").parse(argv[1:])
	if p.has("-v", "-V") {
		if len(p.operands) == 1 {
			return p.operands[0]
		}
		return unknown
	}
	if len(p.operands) == 0 {
		return value{}
	}
	if !p.operands[0].known() {
		return sh.run(p.operands, in)
	}
	return sh.external(p.operands, in)
}

func testWords(sh *state, argv []value, _ *value) value {
	for i, v := range argv[1:] {
		if argv[i].is("-v") || strings.Contains(v.text, "$(") {
			sh.subscript(v)
		}
		if v.split && (i == 0 || argv[i].is("-a", "-o", "!", "(")) {
			sh.a.changes = true // it may be -v and a name to expand
		}
	}
	return value{}
}

func printf(sh *state, argv []value, in *value) value {
	if len(argv) > 1 {
		if name, ok := strings.CutPrefix(argv[1].text, "-v"); ok {
			v := literal(name)
			if name == "" && len(argv) > 2 {
				v = argv[2]
			}
			sh.subscript(v)
			sh.assigns(v.text, unknown)
			sh.set(v.text, unknown)
			return value{}
		}
		if argv[1].maybeOption() {
			sh.a.changes = true
		}
	}
	sh.record(argv, "")
	return sh.output(&call{name: "printf", argv: argv, args: argv[1:], in: in})
}

// shellOptions are those of shopt that change nothing beyond what patterns match.
var shellOptions = strings.Fields("nullglob failglob dotglob nocaseglob globstar extglob nocasematch inherit_errexit")

// shopt judges options of the shell: others than those that are known here make
// it read a text in another way.
func shopt(sh *state, argv []value, _ *value) value {
	for _, v := range argv[1:] {
		if !v.is("-s", "-u", "-p", "-q") && !v.is(shellOptions...) {
			sh.a.changes = true
		}
	}
	return unknown
}

func changesNothing(*state, []value, *value) value { return unknown }

func changes(sh *state, _ []value, _ *value) value {
	sh.a.changes = true
	return unknown
}

func umask(sh *state, argv []value, _ *value) value {
	for _, v := range argv[1:] {
		if !v.is("-S", "-p", "-a") {
			sh.a.changes = true
		}
	}
	return unknown
}

// harmlessVars may be set for a command that is still only a reader. The others
// that no program listens to are the text's own.
var harmlessVars = strings.Fields("LANG LANGUAGE TZ NO_COLOR FORCE_COLOR CLICOLOR TERM COLUMNS LINES")

// spoilers are variables that make programs load or run something: names, or
// beginnings of names that end in "*".
var spoilers = strings.Fields(`LD_* DYLD_* BASH_ENV BASH_CMDS BASH_ALIASES BASH_LOADABLES_PATH ENV SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND EXECIGNORE GLOBIGNORE
	GIT_CONFIG* GIT_EXTERNAL_DIFF GIT_SSH* GIT_PAGER GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_ASKPASS GIT_EXEC_PATH GIT_PROXY_COMMAND GIT_TEMPLATE_DIR
	PAGER MANPAGER *_PAGER LESSOPEN LESSCLOSE EDITOR VISUAL BROWSER
	PYTHONPATH PYTHONSTARTUP PYTHONHOME PYTHONINSPECT PERL5OPT PERL5LIB PERL5DB RUBYOPT RUBYLIB NODE_OPTIONS NODE_PATH JAVA_TOOL_OPTIONS _JAVA_OPTIONS
	RUSTC_WRAPPER TAR_OPTIONS RIPGREP_CONFIG_PATH GREP_OPTIONS CLASSPATH`)

// commandVars hold a command that some program runs by a shell.
var commandVars = strings.Fields("PAGER MANPAGER *_PAGER GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_ASKPASS EDITOR VISUAL BROWSER PROMPT_COMMAND LESSOPEN LESSCLOSE PS4")

// movers change which program or file a name means: harmless in themselves, but
// nothing after them is proved.
var movers = strings.Fields("PATH BASH_* HIST* POSIXLY_CORRECT IFS CDPATH HOME TMPDIR XDG_* GIT_* LESS PYTHON* npm_* NPM_* GOFLAGS GOENV CARGO_* MAKEFLAGS DOCKER_* KUBECONFIG AWS_* *_PROXY *_proxy HTTP* RUSTFLAGS")

// varMatches says whether a variable's name is in a list.
func varMatches(list []string, name string) bool {
	for _, p := range list {
		if rest, ok := strings.CutPrefix(p, "*"); ok && strings.HasSuffix(name, rest) {
			return true
		}
		if rest, ok := strings.CutSuffix(p, "*"); ok && strings.HasPrefix(name, rest) {
			return true
		}
		if p == name {
			return true
		}
	}
	return false
}

// exports judges a variable that programs get to see: one that is not known to
// be harmless may mean something to them.
func (sh *state) exports(name string, v value) {
	if !strings.HasPrefix(name, "LC_") && !varMatches(harmlessVars, name) {
		sh.a.changes = true
	}
	sh.assigns(name, v)
}

// assigns judges what the assignment of a variable does to later programs.
func (sh *state) assigns(name string, v value) {
	switch {
	case strings.HasPrefix(name, "LC_"), varMatches(harmlessVars, name):
	case varMatches(spoilers, name):
		if v.is("", "cat", "less", "true", "vim", "vi", "nano", "never") && !strings.HasPrefix(name, "LD_") {
			sh.a.changes = true
			return
		}
		sh.a.find("injected_environment", quote(name+"="+v.text))
		if varMatches(commandVars, name) {
			sh.fork().codeOf(literal(strings.TrimLeft(v.text, "|-")))
		}
	case name == "PATH" && sh.insecurePath(v):
		sh.a.find("injected_environment", quote(name+"="+v.text))
	case varMatches(movers, name):
		sh.a.changes = true
	}
}

// insecurePath says whether a search path begins with a folder that the agent
// can write.
func (sh *state) insecurePath(v value) bool {
	first, _, _ := strings.Cut(v.text, ":")
	return first == "" || first == "." || strings.HasPrefix(first, "./") || strings.HasPrefix(first, "/tmp")
}
