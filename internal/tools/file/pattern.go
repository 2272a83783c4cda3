package file

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toold/toold/internal/tool"
)

// matcher is a compiled search pattern. It is safe for concurrent use.
type matcher struct {
	re *regexp.Regexp
	// literals: every match contains one of them; none: nothing is known.
	literals []literal
	// exact: where a literal is, there is a match; re need not be asked.
	exact bool
}

// compilePattern compiles a pattern of RE2 in which ^ and $ are the ends of a
// line. Without multiline it is matched with one line at a time.
func compilePattern(a grepArgs) (*matcher, error) {
	text := a.Pattern
	if a.FixedString {
		text = regexp.QuoteMeta(text)
	}
	flags := syntax.Perl &^ syntax.OneLine
	if a.IgnoreCase {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(text, flags)
	if err != nil {
		return nil, tool.BadArgument("/pattern", ReasonPattern, "%v; use RE2 syntax (no look-around, no back-references), or set fixedString to search for the text as it stands", err)
	}
	if !a.Multiline && namesLineBreak(tree) {
		return nil, tool.BadArgument("/pattern", ReasonPattern, "names a line break; set multiline to search across lines")
	}
	re, err := regexp.Compile(tree.String())
	if err != nil {
		return nil, tool.BadArgument("/pattern", ReasonPattern, "%v", err)
	}
	m := &matcher{re: re}
	m.literals, m.exact = required(tree)
	if len(m.literals) > maxLiterals {
		m.literals, m.exact = nil, false
	}
	return m, nil
}

// namesLineBreak says whether the pattern has a line break as a literal.
func namesLineBreak(re *syntax.Regexp) bool {
	if re.Op == syntax.OpLiteral && slices.Contains(re.Rune, '\n') {
		return true
	}
	return slices.ContainsFunc(re.Sub, namesLineBreak)
}

// maxLiterals bounds the alternatives that are looked for one by one.
const maxLiterals = 8

// required gives literals one of which is in every match; exact says that each
// is a match.
func required(re *syntax.Regexp) (lits []literal, exact bool) {
	switch re.Op {
	case syntax.OpLiteral:
		return literalOf(re)
	case syntax.OpCapture:
		return required(re.Sub[0])
	case syntax.OpPlus:
		lits, _ = required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			lits, _ = required(re.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if some, _ := required(sub); weight(some) > weight(lits) {
				lits = some
			}
		}
	case syntax.OpAlternate:
		exact = true
		for _, sub := range re.Sub {
			some, whole := required(sub)
			if len(some) == 0 {
				return nil, false
			}
			lits, exact = append(lits, some...), exact && whole
		}
		return lits, exact
	}
	return lits, false
}

// weight ranks sets of literals: the longer the shortest and the fewer they
// are, the better.
func weight(lits []literal) int {
	if len(lits) == 0 || len(lits) > maxLiterals {
		return 0
	}
	shortest := len(lits[0].text)
	for _, l := range lits {
		shortest = min(shortest, len(l.text))
	}
	return 16*shortest - len(lits) + 1
}

// literalOf makes a literal of a node. Where case does not count, that is its
// longest part of ASCII without k and s, which have other forms (the Kelvin
// sign and the long s).
func literalOf(re *syntax.Regexp) (lits []literal, exact bool) {
	text := string(re.Rune)
	if re.Flags&syntax.FoldCase == 0 {
		return []literal{newLiteral(text, false)}, true
	}
	best, start := "", 0
	lower := strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, text)
	for i, r := range lower + "k" {
		if r == 'k' || r == 's' || r >= utf8.RuneSelf {
			if i-start > len(best) {
				best = lower[start:i]
			}
			start = i + utf8.RuneLen(r)
		}
	}
	if best == "" {
		return nil, false
	}
	return []literal{newLiteral(best, true)}, best == lower
}

// literal is a text to look for, fast.
type literal struct {
	text []byte // lower case where fold
	fold bool   // ASCII letters match in either case
	rare int    // where in text the byte is that is least common in files
}

// rarity has letters from the most to the least common in source and prose.
const rarity = "etaoinsrlcdumpfhgbyvwxkqjz"

func newLiteral(text string, fold bool) literal {
	l := literal{text: []byte(text), fold: fold}
	best := -2
	for i, c := range l.text {
		if rank := strings.IndexByte(rarity, c); rank > best {
			l.rare, best = i, rank
		}
	}
	return l
}

// index is the place of the first occurrence in b, or -1.
func (l *literal) index(b []byte) int {
	if !l.fold {
		return bytes.Index(b, l.text)
	}
	lower := l.text[l.rare]
	upper := lower
	if 'a' <= lower && lower <= 'z' {
		upper -= 'a' - 'A'
	}
	low, up := -1, -1 // the next place of each, from at
	for at := l.rare; at < len(b); at++ {
		if low < at {
			low = nextByte(b, at, lower)
		}
		if up < at {
			up = nextByte(b, at, upper)
		}
		if at = min(low, up); at >= len(b) {
			return -1
		}
		start := at - l.rare
		if start+len(l.text) > len(b) {
			return -1
		}
		if equalFoldASCII(b[start:start+len(l.text)], l.text) {
			return start
		}
	}
	return -1
}

func nextByte(b []byte, from int, c byte) int {
	if i := bytes.IndexByte(b[from:], c); i >= 0 {
		return from + i
	}
	return len(b)
}

// equalFoldASCII compares b with lower, which has no capitals.
func equalFoldASCII(b, lower []byte) bool {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// scan looks for the matching lines of one piece of text. Each literal is
// looked for only once it lies behind.
type scan struct {
	*matcher
	next []int // per literal the place of its next occurrence
}

func (m *matcher) scan() *scan { return &scan{matcher: m, next: make([]int, len(m.literals))} }

// reset forgets what was known of the last piece.
func (s *scan) reset() {
	for i := range s.next {
		s.next[i] = -1
	}
}

// candidate gives the place of the first literal at or after from, or len(b).
func (s *scan) candidate(b []byte, from int) int {
	first := len(b)
	for i := range s.literals {
		if s.next[i] < from {
			s.next[i] = len(b)
			if at := s.literals[i].index(b[from:]); at >= 0 {
				s.next[i] = from + at
			}
		}
		first = min(first, s.next[i])
	}
	return first
}

// line gives the first matching line of b that starts at or after from, which
// is the start of a line; its ending is not in it. start is -1 when there is
// none.
func (s *scan) line(b []byte, from int) (start, end int) {
	for from < len(b) {
		start = from
		if len(s.literals) > 0 {
			at := s.candidate(b, from)
			if at == len(b) {
				return -1, 0
			}
			start = bytes.LastIndexByte(b[from:at], '\n') + 1 + from
		}
		end = nextByte(b, start, '\n')
		if s.exact || s.re.Match(bytes.TrimSuffix(b[start:end], []byte{'\r'})) {
			return start, end
		}
		from = end + 1
	}
	return -1, 0
}
