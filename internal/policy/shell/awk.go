package shell

import (
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// awkRuns are the words and signs by which an awk program starts others, writes,
// reads what was not named, or shows the environment.
var awkRuns = regexp.MustCompile(`\b(system|getline|extension|ENVIRON|ARGV|ARGC|SYMTAB)\b|[|@>]`)

// awkScript judges awk: what its program prints to, and what it runs.
func awkScript(sh *state, c *call) bool {
	p := awkModel.parse(c.args)
	if p.foreign || p.vague || p.has("-f", "-i", "-l", "-o", "-p", "-d", "-E") || len(p.operands) == 0 {
		return false
	}
	code, files := p.operands[0], p.operands[1:]
	for _, f := range files {
		if name, _, ok := strings.Cut(f.text, "="); !ok || !syntax.ValidName(name) {
			sh.readAny(f)
		}
	}
	if strings.Contains(code.text, hole) || !sh.a.weigh(code.text) {
		return false
	}
	bare, ok := bareAwk(code.text)
	if ok && !awkRuns.MatchString(strings.ReplaceAll(bare, "||", "")) {
		return true
	}
	for _, s := range stringsIn(code.text) {
		sh.worst(s)
		if strings.Contains(s, "/") && strings.Contains(code.text, ">") {
			sh.touch(writesFile, literal(s))
		}
	}
	return false
}

var awkModel = newModel("+ -F: -v: -f: -i: -l: -o? -p? -d? -E: -nrSst --field-separator= --assign= --sandbox --posix --re-interval read")

// bareAwk is a program without its strings, regular expressions and comments. It
// is false where a slash may begin an expression or divide.
func bareAwk(code string) (bare string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(code); i++ {
		switch c := code[i]; {
		case c == '#':
			for i < len(code) && code[i] != '\n' {
				i++
			}
			b.WriteByte('\n')
		case c == '\\' && strings.HasPrefix(code[i+1:], "\n"):
			i++
			b.WriteByte(' ')
		case c == '"':
			if i = awkText(code, i, '"'); i < 0 {
				return "", false
			}
			b.WriteString(`""`)
		case c == '/':
			divides, sure := awkDivides(b.String())
			switch {
			case !sure:
				return "", false
			case divides:
				b.WriteByte('/')
				continue
			}
			if i = awkText(code, i, '/'); i < 0 {
				return "", false
			}
			b.WriteString("0")
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

// awkText is where the string or expression ends that begins at i; -1 where that
// cannot be said.
func awkText(code string, i int, end byte) int {
	class := false
	for i++; i < len(code); i++ {
		switch c := code[i]; {
		case c == '\n':
			return -1
		case c == '\\':
			i++
		case end == '/' && c == '[':
			class = true
		case c == ']':
			class = false
		case c == end && class:
			return -1 // awks disagree
		case c == end:
			return i
		}
	}
	return -1
}

var awkOperator = regexp.MustCompile(`(^|[^A-Za-z0-9_])(print|printf|return|in|else|do|exit|case)$`)

// awkDivides says whether a slash after before divides.
func awkDivides(before string) (divides, sure bool) {
	before = strings.TrimRight(before, " \t")
	switch {
	case before == "", awkOperator.MatchString(before):
		return false, true
	case strings.HasSuffix(before, ")"), strings.HasSuffix(before, "++"), strings.HasSuffix(before, "--"):
		return false, false
	}
	last := before[len(before)-1]
	return last == '"' || last == ']' || last == '_' || last == '.' || last >= 0x80 ||
		('0' <= last && last <= '9') || ('a' <= last|0x20 && last|0x20 <= 'z'), true
}
