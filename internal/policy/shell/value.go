package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// hole stands in a value's text for a part that is not known beforehand. No
// text can hold it: NUL is refused before anything is parsed.
const hole = "\x00"

// value is what a word becomes.
type value struct {
	text  string // each part that is not known is one hole
	glob  bool   // an unquoted pattern is in it
	split bool   // an unquoted hole: may turn out as several words, or none
}

var unknown = value{text: hole}

func literal(s string) value { return value{text: s} }

// known says that the value is exactly its text.
func (v value) known() bool { return !v.glob && !strings.Contains(v.text, hole) }

// is says that the value is known to be one of names.
func (v value) is(names ...string) bool { return v.known() && slices.Contains(names, v.text) }

// maybeOption says that the value cannot be told from an option.
func (v value) maybeOption() bool {
	if v.split || strings.HasPrefix(v.text, hole) {
		return true
	}
	return v.glob && v.text != "" && strings.ContainsRune("*?[", rune(v.text[0]))
}

// arg is the value as it stands in a tool.Command.
func (v value) arg() string {
	if strings.Contains(v.text, hole) {
		return UnknownArg
	}
	return v.text
}

// capped is the value, unknown where it is too long to be kept.
func (v value) capped() value {
	if len(v.text) > maxValue {
		return value{text: hole, split: v.split}
	}
	return v
}

// joined puts values into one, with sep between them.
func joined(vs []value, sep string) value {
	var b strings.Builder
	var all value
	for i, v := range vs {
		if i > 0 {
			b.WriteString(sep)
		}
		if b.Len() > maxValue {
			return unknown
		}
		b.WriteString(v.text)
		all.glob = all.glob || v.glob
	}
	all.text = b.String()
	return all
}

// function is a declared shell function.
type function struct {
	body   *syntax.Stmt
	maybe  bool // declared on a path that may not be taken
	called bool
}

// state is what is known of one shell while its text is walked. A fork sees what
// its parent has and keeps its own changes to itself.
type state struct {
	a      *analyser
	parent *state
	vars   map[string][]value
	funcs  map[string]*function
	dirs   []string // where the shell may be; nil = not known
	args   []value  // "$1" …; only if argsKnown
	zero   value    // "$0"

	argsKnown bool
}

func newState(a *analyser) *state {
	sh := &state{a: a, vars: map[string][]value{}, funcs: map[string]*function{}, zero: literal("bash")}
	if a.opt.Dir != "" {
		sh.dirs = []string{a.opt.Dir}
	}
	return sh
}

func (sh *state) fork() *state {
	return &state{
		a: sh.a, parent: sh, vars: map[string][]value{}, funcs: map[string]*function{},
		dirs: sh.dirs, args: sh.args, argsKnown: sh.argsKnown, zero: sh.zero,
	}
}

// join takes over the changes of a fork whose path may not have been taken: what
// differs is no longer known.
func (sh *state) join(child *state) {
	for name, v := range child.vars {
		if old, ok := sh.get(name); !ok || !slices.Equal(old, v) {
			sh.vars[name] = []value{unknown}
		}
	}
	for name, f := range child.funcs {
		f.maybe = true
		sh.funcs[name] = f
	}
	sh.dirs = union(sh.dirs, child.dirs)
}

// union joins places; too many, or one that is not known, is not known.
func union(a, b []string) []string {
	if a == nil || b == nil {
		return nil
	}
	all := slices.Clone(a)
	for _, d := range b {
		if !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	if len(all) > 4 {
		return nil
	}
	return all
}

func (sh *state) get(name string) ([]value, bool) {
	for s := sh; s != nil; s = s.parent {
		if v, ok := s.vars[name]; ok {
			return v, true
		}
	}
	return nil, false
}

func (sh *state) set(name string, vs ...value) {
	if len(vs) > maxFields {
		vs = []value{unknown}
	}
	for i := range vs {
		vs[i] = vs[i].capped()
	}
	sh.vars[name] = vs
}

func (sh *state) function(name string) *function {
	for s := sh; s != nil; s = s.parent {
		if f, ok := s.funcs[name]; ok {
			return f
		}
	}
	return nil
}

// variable is the value of a variable. set is false where the text has not
// assigned it; then it comes from the environment and, but for a few, is not
// known.
func (sh *state) variable(name string) (vs []value, set bool) {
	if vs, ok := sh.get(name); ok {
		return vs, true
	}
	switch name {
	case "HOME":
		if sh.a.opt.Home != "" {
			return []value{literal(sh.a.opt.Home)}, true
		}
		return []value{unknown}, true
	case "PWD":
		if len(sh.dirs) == 1 {
			return []value{literal(sh.dirs[0])}, true
		}
		return []value{unknown}, true
	case "PATH", "USER", "SHELL", "TERM", "OLDPWD", "TMPDIR":
		return []value{unknown}, true
	case "IFS":
		return []value{literal(" \t\n")}, true
	case "@", "*":
		if sh.argsKnown {
			return sh.args, true
		}
		return []value{{text: hole, split: true}}, true
	case "0":
		return []value{sh.zero}, true
	case "$", "!":
		return []value{literal("$" + name)}, true // some number
	case "#", "?", "-", "_":
		return []value{unknown}, true
	}
	if sh.argsKnown && name != "" && name[0] >= '1' && name[0] <= '9' {
		if i := atoi(name) - 1; i >= 0 && i < len(sh.args) {
			return []value{sh.args[i]}, true
		}
		return []value{{}}, true
	}
	return []value{unknown}, false
}

// atoi reads a short decimal number; -1 is none.
func atoi(s string) int {
	if s == "" || len(s) > 6 {
		return -1
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}
