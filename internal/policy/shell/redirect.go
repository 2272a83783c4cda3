package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// redirect judges a redirection. isInput says that the statement reads from it,
// and then text is what it reads.
func (sh *state) redirect(r *syntax.Redirect) (text value, isInput bool) {
	if r.N != nil && (strings.HasPrefix(r.N.Value, "{") || (r.Op == syntax.RdrIn && r.N.Value != "0")) {
		sh.a.changes = true // /dev/fd and the like may open it again, to write
	}
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		if r.Hdoc != nil {
			if quotedDelimiter(r.Word) {
				text = literal(rawText(r.Hdoc))
				sh.a.weigh(text.text)
			} else {
				text = sh.wordIn(r.Hdoc, hdoc)
			}
		}
		return text, true
	case syntax.WordHdoc:
		w := sh.word(r.Word)
		w.text += "\n"
		return w, true
	case syntax.RdrIn:
		v := sh.word(r.Word)
		if out, ok := sh.a.pipes[v.text]; ok {
			return out, true
		}
		for _, p := range sh.paths(v) {
			sh.socket(p)
		}
		sh.touch(readsFile, v)
		return unknown, true
	case syntax.DplIn, syntax.DplOut:
		v := sh.word(r.Word)
		if v.known() && strings.Trim(v.text, "0123456789-") == "" {
			if !v.is("1", "2", "-", "1-", "2-") {
				sh.a.changes = true // see descriptor
			}
			return value{}, false
		}
		sh.touch(writesFile, v)
		return value{}, false
	case syntax.RdrInOut:
		sh.touch(writesFile, sh.word(r.Word))
		return unknown, true
	default:
		sh.touch(writesFile, sh.word(r.Word))
		return value{}, false
	}
}

func quotedDelimiter(w *syntax.Word) bool {
	for _, p := range w.Parts {
		if l, ok := p.(*syntax.Lit); !ok || strings.Contains(l.Value, "\\") {
			return true
		}
	}
	return false
}

func rawText(w *syntax.Word) string {
	var b strings.Builder
	for _, p := range w.Parts {
		if l, ok := p.(*syntax.Lit); ok {
			b.WriteString(l.Value)
		}
	}
	if b.Len() > maxText {
		return ""
	}
	return b.String()
}
