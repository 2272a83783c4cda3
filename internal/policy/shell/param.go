package shell

import (
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// param is the value of a parameter expansion. Every word in it is judged,
// whether or not it is used.
func (sh *state) param(p *syntax.ParamExp) []value {
	done, ok := sh.a.step()
	if !ok {
		return []value{unknown}
	}
	defer done()
	if p.Param == nil {
		return []value{unknown}
	}
	name := p.Param.Value
	vs, set := sh.variable(name)
	if p.Index != nil {
		vs = sh.element(vs, p.Index)
	} else if name != "@" && name != "*" && len(vs) > 1 {
		vs = vs[:1]
	}
	switch {
	case p.Excl && p.Names == 0:
		if v := joined(vs, " "); v.known() && syntax.ValidName(v.text) {
			vs, _ = sh.variable(v.text)
			return vs
		}
		sh.subscript(joined(vs, " "))
		return []value{unknown}
	case p.Excl, p.Length:
		return []value{unknown}
	case p.Slice != nil:
		return sh.slice(vs, p.Slice)
	case p.Repl != nil:
		from, to := sh.word(p.Repl.Orig), sh.word(p.Repl.With)
		return each(vs, func(s string) (string, bool) {
			if !from.known() || !to.known() || from.text == "" || strings.ContainsAny(from.text[:1], "#%") {
				return "", false
			}
			n := 1
			if p.Repl.All {
				n = strings.Count(s, from.text)
			}
			if n*len(to.text) > maxValue {
				return "", false
			}
			return strings.Replace(s, from.text, to.text, n), true
		})
	case p.Exp != nil:
		return sh.operator(name, vs, set, p.Exp)
	}
	return vs
}

// element is ${a[i]}.
func (sh *state) element(vs []value, index syntax.ArithmExpr) []value {
	w, ok := index.(*syntax.Word)
	if !ok {
		sh.arithmetic(index)
		return []value{unknown}
	}
	i := sh.word(w)
	if i.is("@", "*") {
		return vs
	}
	if n := atoi(i.text); n >= 0 && n < len(vs) {
		return vs[n : n+1]
	}
	sh.evaluated(i)
	return []value{unknown}
}

// each maps known values; the others, and those that f refuses, are unknown: what
// becomes of a pattern is not what becomes of the names that it matches.
func each(vs []value, f func(string) (string, bool)) []value {
	out := make([]value, len(vs))
	for i, v := range vs {
		out[i] = value{text: hole, split: v.split}
		if !v.known() {
			continue
		}
		if s, ok := f(v.text); ok {
			out[i] = literal(s).capped()
		}
	}
	return out
}

// slice is ${x:1:2}, for plain ASCII text and numbers.
func (sh *state) slice(vs []value, s *syntax.Slice) []value {
	number := func(e syntax.ArithmExpr) int {
		if w, ok := e.(*syntax.Word); ok {
			v := sh.word(w)
			sh.evaluated(v)
			return atoi(v.text)
		}
		sh.arithmetic(e)
		return -1
	}
	from, length := number(s.Offset), -2
	if s.Length != nil {
		length = number(s.Length)
	}
	return each(vs, func(t string) (string, bool) {
		if from < 0 || length == -1 || len(t) != utf8.RuneCountInString(t) {
			return "", false
		}
		t = t[min(from, len(t)):]
		if length >= 0 {
			t = t[:min(length, len(t))]
		}
		return t, true
	})
}

// operator is ${x:-w} and its kin. A variable that the text did not assign is
// taken as unset: commands get a cleared environment.
func (sh *state) operator(name string, vs []value, set bool, e *syntax.Expansion) []value {
	w := sh.word(e.Word)
	empty := set && len(vs) == 1 && vs[0].text == ""
	switch e.Op {
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
		colon := e.Op == syntax.DefaultUnsetOrNull || e.Op == syntax.AssignUnsetOrNull
		if set && (!empty || !colon) {
			return vs
		}
		if e.Op == syntax.AssignUnset || e.Op == syntax.AssignUnsetOrNull {
			sh.assigns(name, w)
			sh.set(name, w)
		}
		return []value{w}
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		return []value{w}
	case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
		return vs
	case syntax.RemSmallPrefix, syntax.RemLargePrefix:
		return each(vs, func(s string) (string, bool) { return strings.TrimPrefix(s, w.text), w.known() })
	case syntax.RemSmallSuffix, syntax.RemLargeSuffix:
		return each(vs, func(s string) (string, bool) { return strings.TrimSuffix(s, w.text), w.known() })
	case syntax.UpperAll:
		return each(vs, func(s string) (string, bool) { return strings.ToUpper(s), w.text == "" })
	case syntax.LowerAll:
		return each(vs, func(s string) (string, bool) { return strings.ToLower(s), w.text == "" })
	case syntax.OtherParamOps:
		if w.is("P") { // expanded once more, as a prompt
			sh.a.find("unknown_code", "${"+name+"@P}")
			sh.expandAgain(strings.ReplaceAll(joined(vs, " ").text, hole, ""))
		}
	}
	return each(vs, func(string) (string, bool) { return "", false })
}
