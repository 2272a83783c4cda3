package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/toold/toold/internal/tool"
)

// code judges text that the shell would run, and gives what it prints.
func (sh *state) code(text string) value {
	if sh.a.nest++; sh.a.nest > maxNest {
		sh.a.nest--
		sh.a.find("unparsable", "code is nested too deeply in strings")
		return unknown
	}
	defer func() { sh.a.nest-- }()
	if !sh.a.weigh(text) {
		return unknown
	}
	f, err := parse(text)
	if err != nil {
		sh.a.find("unparsable", err.Error())
		return unknown
	}
	return sh.stmts(f.Stmts, nil)
}

// codeOf judges a value that the shell would run. What is not known is dangerous.
func (sh *state) codeOf(v value) value {
	if !strings.Contains(v.text, hole) {
		return sh.code(v.text)
	}
	sh.a.find("unknown_code", "")
	// What is known of it may already be worse.
	if rest := strings.ReplaceAll(v.text, hole, " "); strings.TrimSpace(rest) != "" {
		if _, err := parse(rest); err == nil {
			sh.code(rest)
		}
	}
	return unknown
}

// uncalled judges the functions that nothing in the text calls.
func (a *analyser) uncalled() {
	for i := 0; i < len(a.declared); i++ {
		if f := a.declared[i]; !f.called {
			f.called = true
			newState(a).stmt(f.body, nil)
		}
	}
}

// stmts judges statements that run one after another, and gives what they print.
// in is what they read from standard input, nil for nothing.
func (sh *state) stmts(list []*syntax.Stmt, in *value) value {
	var out []value
	for _, s := range list {
		before := sh.dirs
		out = append(out, sh.stmt(s, in))
		sh.dirs = union(sh.dirs, before) // a cd may have failed
	}
	return joined(out, "")
}

// stmt judges one statement, and gives what it prints.
func (sh *state) stmt(s *syntax.Stmt, in *value) value {
	done, ok := sh.a.step()
	if !ok {
		return unknown
	}
	defer done()
	if s.Background || s.Coprocess {
		sh.a.spawning++
		defer func() { sh.a.spawning-- }()
		sh = sh.fork()
	}
	silent := false
	for _, r := range s.Redirs {
		if text, isInput := sh.redirect(r); isInput {
			in = &text
		} else if r.Op != syntax.DplIn && r.Op != syntax.DplOut {
			silent = true
		}
	}
	out := sh.command(s.Cmd, in)
	if silent {
		return value{}
	}
	return out
}

func (sh *state) command(cmd syntax.Command, in *value) value {
	switch c := cmd.(type) {
	case nil:
		return value{}
	case *syntax.CallExpr:
		return sh.call(c, in)
	case *syntax.BinaryCmd:
		return sh.binary(c, in)
	case *syntax.Block:
		return sh.stmts(c.Stmts, in)
	case *syntax.Subshell:
		return sh.fork().stmts(c.Stmts, in)
	case *syntax.IfClause:
		return sh.ifClause(c, in)
	case *syntax.WhileClause:
		sh.whileClause(c, in)
	case *syntax.ForClause:
		sh.forClause(c, in)
	case *syntax.CaseClause:
		sh.word(c.Word)
		for _, item := range c.Items {
			child := sh.fork()
			for _, p := range item.Patterns {
				child.word(p)
			}
			child.stmts(item.Stmts, in)
			sh.join(child)
		}
	case *syntax.FuncDecl:
		if c.Name == nil || c.Body == nil {
			sh.a.find("unparsable", "a function without a name or a body")
			break
		}
		f := &function{body: c.Body}
		sh.a.declared = append(sh.a.declared, f)
		sh.funcs[c.Name.Value] = f
		return value{}
	case *syntax.DeclClause:
		sh.declare(c)
		return value{}
	case *syntax.TimeClause:
		if c.Stmt != nil {
			return sh.stmt(c.Stmt, in)
		}
	case *syntax.CoprocClause:
		sh.a.changes = true
		sh.a.spawning++
		sh.fork().stmt(c.Stmt, in)
		sh.a.spawning--
	case *syntax.ArithmCmd:
		sh.arithmetic(c.X)
		return value{}
	case *syntax.LetClause:
		for _, e := range c.Exprs {
			sh.arithmetic(e)
		}
		return value{}
	case *syntax.TestClause:
		sh.test(c.X)
		return value{}
	default:
		sh.a.find("unparsable", "a construct that is not understood")
	}
	return unknown
}

// binary judges pipelines and lists. Of "a && b && c" each runs only where those
// before it did, so that a directory change counts for what follows it.
func (sh *state) binary(c *syntax.BinaryCmd, in *value) value {
	switch c.Op {
	case syntax.Pipe, syntax.PipeAll:
		sh.a.spawning++
		defer func() { sh.a.spawning-- }()
		out := sh.fork().stmt(c.X, in)
		return sh.fork().stmt(c.Y, &out)
	case syntax.AndStmt:
		child := sh.fork()
		var out []value
		for _, s := range andChain(c) {
			out = append(out, child.stmt(s, in))
		}
		sh.join(child)
		return joined(out, "")
	default:
		x := sh.stmt(c.X, in)
		child := sh.fork()
		child.stmt(c.Y, in)
		sh.join(child)
		return x
	}
}

func andChain(c *syntax.BinaryCmd) []*syntax.Stmt {
	if x, ok := c.X.Cmd.(*syntax.BinaryCmd); ok && x.Op == syntax.AndStmt && len(c.X.Redirs) == 0 && !c.X.Background {
		return append(andChain(x), c.Y)
	}
	return []*syntax.Stmt{c.X, c.Y}
}

func (sh *state) ifClause(c *syntax.IfClause, in *value) value {
	sh.stmts(c.Cond, in)
	then := sh.fork()
	then.stmts(c.Then, in)
	if c.Else != nil {
		other := sh.fork()
		other.ifClause(c.Else, in)
		sh.join(other)
	}
	sh.join(then)
	return unknown
}

// whileClause judges a loop as it first runs, and once more with all that it
// assigns unknown.
func (sh *state) whileClause(c *syntax.WhileClause, in *value) {
	if spins(c) {
		sh.a.find("fork_bomb", "")
	}
	child := sh.fork()
	child.stmts(c.Cond, in)
	child.stmts(c.Do, in)
	sh.join(child)
	if len(child.vars) > 0 || len(child.dirs) != len(sh.dirs) {
		again := sh.fork()
		again.stmts(c.Cond, in)
		again.stmts(c.Do, in)
		sh.join(again)
	}
}

// spins recognises an endless loop that starts processes and waits for none.
func spins(c *syntax.WhileClause) bool {
	if len(c.Cond) != 1 {
		return false
	}
	cond, ok := c.Cond[0].Cmd.(*syntax.CallExpr)
	if !ok || len(cond.Args) != 1 || !slices.Contains([]string{"true", ":", "false"}, cond.Args[0].Lit()) {
		return false
	}
	starts := false
	for _, s := range c.Do {
		if s.Background {
			starts = true
		} else if call, ok := s.Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 && slices.Contains([]string{"sleep", "wait", "break", "exit"}, call.Args[0].Lit()) {
			return false
		}
	}
	return starts
}

// maxItems bounds how many values of a loop's variable are judged one by one.
const maxItems = 16

func (sh *state) forClause(c *syntax.ForClause, in *value) {
	items := []value{unknown}
	name := ""
	var counting []syntax.ArithmExpr
	switch loop := c.Loop.(type) {
	case *syntax.WordIter:
		name = loop.Name.Value
		if loop.InPos.IsValid() {
			items = sh.fields(loop.Items)
		} else {
			items, _ = sh.variable("@")
		}
	case *syntax.CStyleLoop:
		counting = []syntax.ArithmExpr{loop.Init, loop.Cond, loop.Post}
	}
	if len(items) > maxItems {
		items = append(items[:maxItems:maxItems], unknown)
	}
	if len(items) == 0 {
		items = []value{unknown}
	}
	if len(items) == 1 && !items[0].known() {
		items = append(items, items[0]) // there may be several rounds
	}
	for _, v := range items {
		child := sh.fork()
		for _, e := range counting {
			child.arithmeticIndex(e)
		}
		if name != "" {
			v.split = false // one item, whatever it is
			child.assigns(name, v)
			child.set(name, v)
		}
		child.stmts(c.Do, in)
		sh.join(child)
	}
}

// test judges [[ … ]]: words in it are expanded, some of them twice.
func (sh *state) test(x syntax.TestExpr) {
	switch x := x.(type) {
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			for _, side := range []syntax.TestExpr{x.X, x.Y} {
				if w, ok := side.(*syntax.Word); ok {
					sh.evaluated(sh.word(w))
				}
			}
		}
		sh.test(x.X)
		sh.test(x.Y)
	case *syntax.UnaryTest:
		sh.test(x.X)
	case *syntax.ParenTest:
		sh.test(x.X)
	case *syntax.Word:
		if v := sh.word(x); strings.Contains(v.text, "[") {
			sh.subscript(v)
		}
	}
}

// declare judges export, declare, local, readonly and typeset.
func (sh *state) declare(c *syntax.DeclClause) {
	if len(c.Args) == 0 {
		sh.a.find("secret", "the whole environment")
	}
	if c.Variant.Value == "export" {
		sh.a.changes = true
	}
	for _, as := range c.Args {
		if as.Naked && as.Name == nil {
			for _, v := range sh.fields([]*syntax.Word{as.Value}) {
				sh.declaration(v)
			}
			continue
		}
		sh.assign(as)
	}
}

// declaration judges an argument of a declaring builtin: "NAME=value" or an option.
func (sh *state) declaration(v value) {
	name, val, ok := strings.Cut(v.text, "=")
	if !ok {
		// -i evaluates what is assigned, -n expands it, -x shows it to programs.
		if strings.HasPrefix(name, "-") && strings.ContainsAny(name, "inx") {
			sh.a.changes = true
		}
		sh.subscript(v)
		return
	}
	sh.subscript(literal(name))
	sh.assigns(name, literal(val))
	sh.set(name, literal(val))
}

// assign judges one assignment and remembers it.
func (sh *state) assign(as *syntax.Assign) {
	name := as.Name.Value
	var vs []value
	switch {
	case as.Naked:
		if _, ok := sh.get(name); ok {
			return
		}
		sh.assigns(name, value{})
		return
	case as.Array != nil:
		for _, e := range as.Array.Elems {
			sh.arithmeticIndex(e.Index)
			if e.Value != nil {
				vs = append(vs, sh.fields([]*syntax.Word{e.Value})...)
			}
		}
	default:
		vs = []value{sh.word(as.Value)}
	}
	if as.Index != nil {
		sh.arithmeticIndex(as.Index)
		vs = []value{unknown}
	}
	if as.Append {
		old, _ := sh.get(name)
		if as.Array != nil {
			vs = append(slices.Clone(old), vs...)
		} else {
			vs = []value{joined(append(slices.Clone(old[:min(1, len(old))]), vs...), "")}
		}
	}
	sh.assigns(name, joined(vs, " "))
	sh.set(name, vs...)
}

func (sh *state) arithmeticIndex(e syntax.ArithmExpr) {
	if e != nil {
		sh.arithmetic(e)
	}
}

// call judges a simple command.
func (sh *state) call(c *syntax.CallExpr, in *value) value {
	if len(c.Args) == 0 {
		for _, as := range c.Assigns {
			sh.assign(as)
		}
		return value{}
	}
	if len(c.Assigns) > 0 && !splitsInput(c) {
		env := sh.fork()
		for _, as := range c.Assigns {
			env.assign(as)
			env.exports(as.Name.Value, value{})
		}
		sh.spoiled(c.Assigns)
	}
	return sh.run(sh.fields(c.Args), in)
}

// splitsInput recognises "IFS= read …", which changes nothing else.
func splitsInput(c *syntax.CallExpr) bool {
	return len(c.Assigns) == 1 && c.Assigns[0].Name.Value == "IFS" && c.Assigns[0].Value == nil && c.Args[0].Lit() == "read"
}

// spoiled notes variables that a command gets with it: eval and the shell's own
// builtins may keep them.
func (sh *state) spoiled(list []*syntax.Assign) {
	for _, as := range list {
		if _, ok := sh.get(as.Name.Value); ok {
			sh.vars[as.Name.Value] = []value{unknown}
		}
	}
}

// record notes a simple command for rules and for the audit row.
func (sh *state) record(argv []value, sub string) {
	c := tool.Command{Program: base(argv[0].text), Subcommand: sub, Known: true, Args: make([]string, 0, len(argv)-1)}
	if !argv[0].known() {
		c.Program, c.Known = UnknownArg, false
	}
	for _, v := range argv[1:] {
		c.Known = c.Known && !strings.Contains(v.text, hole)
		c.Args = append(c.Args, v.arg())
	}
	sh.a.commands = append(sh.a.commands, c)
	target := "*"
	if argv[0].known() {
		target = strings.TrimSpace(c.Program + " " + sub)
	}
	sh.a.effect(tool.VerbExec, target)
}
