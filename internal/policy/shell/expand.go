package shell

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// fields turns words into values as bash would: braces, then parameters,
// commands and arithmetic, then splitting. Patterns are kept as patterns.
func (sh *state) fields(words []*syntax.Word) []value {
	var out []value
	for _, w := range words {
		syntax.SplitBraces(w)
		for _, parts := range braces(w.Parts) {
			x := expansion{sh: sh, splitting: true}
			x.parts(parts, plain)
			if !sh.a.spend(4) {
				return append(out, value{text: hole, split: true})
			}
			out = append(out, x.done()...)
			if len(out) > maxFields {
				return append(out[:maxFields], value{text: hole, split: true})
			}
		}
	}
	return out
}

// word turns a word into the one value that it is where nothing is split: in an
// assignment, a redirection, a here-document.
func (sh *state) word(w *syntax.Word) value { return sh.wordIn(w, plain) }

func (sh *state) wordIn(w *syntax.Word, q quoting) value {
	if w == nil {
		return value{}
	}
	x := expansion{sh: sh}
	x.parts(w.Parts, q)
	return joined(x.done(), " ").capped()
}

// braces expands {a,b} and {1..3}. More than maxFields become a hole.
func braces(parts []syntax.WordPart) [][]syntax.WordPart {
	for i, p := range parts {
		b, ok := p.(*syntax.BraceExp)
		if !ok {
			continue
		}
		var out [][]syntax.WordPart
		for _, rest := range braces(parts[i+1:]) {
			for _, elem := range braceElems(b) {
				one := append(append(append([]syntax.WordPart{}, parts[:i]...), elem...), rest...)
				if out = append(out, one); len(out) > maxFields {
					return [][]syntax.WordPart{{&syntax.Lit{Value: hole}}}
				}
			}
		}
		return out
	}
	return [][]syntax.WordPart{parts}
}

func braceElems(b *syntax.BraceExp) (out [][]syntax.WordPart) {
	if !b.Sequence {
		for _, w := range b.Elems {
			out = append(out, braces(w.Parts)...)
		}
		return out
	}
	from, to := b.Elems[0].Lit(), b.Elems[1].Lit()
	lo, hi, step := atoi(from), atoi(to), 1
	letters := lo < 0 && hi < 0 && len(from) == 1 && len(to) == 1
	if letters {
		lo, hi = int(from[0]), int(to[0])
	}
	if len(b.Elems) > 2 || lo < 0 || hi < 0 || max(hi-lo, lo-hi) >= maxFields {
		return [][]syntax.WordPart{{&syntax.Lit{Value: hole}}}
	}
	if hi < lo {
		step = -1
	}
	for n := lo; ; n += step {
		s := strconv.Itoa(n)
		if letters {
			s = string(rune(n))
		}
		out = append(out, []syntax.WordPart{&syntax.Lit{Value: s}})
		if n == hi {
			return out
		}
	}
}

type quoting uint8

const (
	plain  quoting = iota
	quoted         // inside "…"
	hdoc           // a here-document's body
)

// expansion builds the values of one word.
type expansion struct {
	sh        *state
	splitting bool
	out       []value
	cur       value
	buf       strings.Builder
	started   bool // the current value exists, even if it is empty
}

func (x *expansion) done() []value {
	x.flush()
	return x.out
}

func (x *expansion) flush() {
	if x.started || x.buf.Len() > 0 {
		x.cur.text = x.buf.String()
		if x.cur.text == "[" || x.cur.text == "[[" {
			x.cur.glob = false // a bracket alone opens no class
		}
		if x.cur.split && !strings.Contains(x.cur.text, hole) {
			x.cur.split = false
		}
		if len(x.out) < maxFields {
			x.out = append(x.out, x.cur)
		}
	}
	x.cur, x.started = value{}, false
	x.buf.Reset()
}

func (x *expansion) add(s string) {
	if x.buf.Len()+len(s) > maxText || !x.sh.a.spend(len(s)/64) {
		s = hole
	}
	x.buf.WriteString(s)
}

func (x *expansion) parts(parts []syntax.WordPart, q quoting) {
	for i, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			x.lit(p.Value, q, i == 0)
		case *syntax.SglQuoted:
			x.started = true
			s := p.Value
			if p.Dollar {
				s, _, _ = expand.Format(nil, s, nil)
				s, _, _ = strings.Cut(s, "\x00")
			}
			x.add(s)
		case *syntax.DblQuoted:
			x.started = true
			x.parts(p.Parts, quoted)
			if x.buf.Len() == 0 && len(p.Parts) == 1 && isAll(p.Parts[0]) {
				x.started = false // "$@" of nothing is no word
			}
		case *syntax.ParamExp:
			x.values(x.sh.param(p), q, isAll(p))
		case *syntax.CmdSubst:
			out := x.sh.fork().stmts(p.Stmts, nil)
			out.text = strings.TrimRight(out.text, "\n")
			x.values([]value{out.capped()}, q, false)
		case *syntax.ArithmExp:
			x.sh.arithmetic(p.X)
			x.values([]value{unknown}, quoted, false)
		case *syntax.ProcSubst:
			x.started = true
			x.add(x.sh.procSubst(p))
		case *syntax.ExtGlob:
			x.cur.glob = true
			if strings.ContainsAny(p.Pattern.Value, "$`(") {
				x.sh.a.changes = true
				x.sh.expandAgain(p.Pattern.Value)
			}
			x.add("*")
		default:
			x.add(hole)
		}
	}
}

// isAll says whether a part is "$@" or "${a[@]}", which stays several words even
// where it is quoted.
func isAll(p syntax.WordPart) bool {
	e, ok := p.(*syntax.ParamExp)
	if !ok || e.Param == nil || e.Length {
		return false
	}
	if e.Param.Value == "@" {
		return true
	}
	w, ok := e.Index.(*syntax.Word)
	return ok && w.Lit() == "@"
}

// values appends what an expansion gave.
func (x *expansion) values(vs []value, q quoting, all bool) {
	if q != plain || !x.splitting {
		for i, v := range vs {
			if i > 0 && all && x.splitting {
				x.flush()
				x.started = true
			} else if i > 0 {
				x.add(" ")
			}
			x.started = x.started || all
			x.cur.glob = x.cur.glob || v.glob
			x.cur.split = x.cur.split || (all && v.split)
			x.add(v.text)
		}
		return
	}
	ifs := " \t\n"
	if v, ok := x.sh.variable("IFS"); ok && len(v) == 1 {
		ifs = v[0].text
	}
	for i, v := range vs {
		if i > 0 {
			x.flush()
		}
		x.cur.split = x.cur.split || strings.Contains(ifs, hole)
		start := 0
		for j := 0; j <= len(v.text); j++ {
			if j < len(v.text) && strings.IndexByte(ifs, v.text[j]) < 0 {
				continue
			}
			if piece := v.text[start:j]; piece != "" {
				x.cur.glob = x.cur.glob || v.glob || strings.ContainsAny(piece, "*?[")
				x.cur.split = x.cur.split || strings.Contains(piece, hole)
				x.add(piece)
			}
			if j < len(v.text) {
				x.flush()
			}
			start = j + 1
		}
	}
}

// lit appends literal text, its escapes removed.
func (x *expansion) lit(s string, q quoting, first bool) {
	if first && q == plain && strings.HasPrefix(s, "~") && x.buf.Len() == 0 {
		name, _, _ := strings.Cut(s, "/")
		x.add(x.sh.tilde(name))
		s = s[len(name):]
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			next := s[i+1]
			if q == plain || strings.IndexByte("$`\\\n", next) >= 0 || (q == quoted && next == '"') {
				i++
				if next != '\n' {
					b.WriteByte(next)
				}
				continue
			}
		}
		if q == plain && (c == '*' || c == '?' || c == '[') {
			x.cur.glob = true
		}
		b.WriteByte(c)
	}
	x.add(b.String())
}

func (sh *state) tilde(name string) string {
	switch name {
	case "~":
		vs, _ := sh.variable("HOME")
		return joined(vs, " ").text
	case "~+":
		vs, _ := sh.variable("PWD")
		return joined(vs, " ").text
	case "~root":
		return "/root"
	}
	if strings.ContainsAny(name, "\\-") {
		return hole
	}
	return "/home/" + name[1:]
}

// procSubst judges a process substitution and gives the path by which its
// command knows it.
func (sh *state) procSubst(p *syntax.ProcSubst) string {
	sh.a.spawning++
	out := sh.fork().stmts(p.Stmts, nil)
	sh.a.spawning--
	path := "/dev/fd/" + strconv.Itoa(63+len(sh.a.pipes))
	sh.a.pipes[path] = out
	return path
}

// arithmetic judges what hides in an arithmetic expression. A variable in it is
// read as an expression again, so that only numbers are harmless.
func (sh *state) arithmetic(n syntax.Node) {
	if n == nil {
		return
	}
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Word:
			if !sh.a.spend(2) {
				return false
			}
			sh.evaluated(sh.word(n))
			return false
		case *syntax.Lit:
			return false
		}
		return true
	})
}

// evaluated judges text that is evaluated as an arithmetic expression: names in
// it stand for expressions again.
func (sh *state) evaluated(v value) {
	done, ok := sh.a.step()
	if !ok {
		return
	}
	defer done()
	sh.subscript(v)
	for _, name := range strings.FieldsFunc(v.text, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		if varMatches(spoilers, name) || varMatches(movers, name) {
			sh.a.changes = true // it may be assigned there
		}
		if vs, ok := sh.get(name); ok && syntax.ValidName(name) && joined(vs, " ").text != v.text {
			sh.evaluated(joined(vs, " "))
		}
	}
}

// subscript judges text that bash expands once more: the operand of test -v,
// printf -v, unset and the like.
func (sh *state) subscript(v value) {
	if strings.Contains(v.text, hole) {
		sh.a.changes = true
	}
	if strings.Contains(v.text, "$(") || strings.Contains(v.text, "`") {
		sh.a.changes = true
		sh.expandAgain(v.text)
	}
}

// expandAgain judges the substitutions in text that is expanded as if it stood
// in double quotes.
func (sh *state) expandAgain(text string) {
	p := parsers.Get().(*syntax.Parser)
	defer parsers.Put(p)
	w, err := p.Document(strings.NewReader(text))
	if err != nil {
		sh.a.find("unparsable", quote(text))
		return
	}
	sh.wordIn(w, hdoc)
}
