package shell

import (
	"regexp"
	"slices"
	"strings"

	"github.com/toold/toold/internal/tool"
)

func isConnect(e tool.Effect) bool { return e.Verb == tool.VerbConnect }

// sedScript judges sed: its script may write files and run programs.
func sedScript(sh *state, c *call) bool {
	var scripts []value
	for _, g := range c.p.options {
		if g.name == "-e" || g.name == "--expression" {
			scripts = append(scripts, g.val)
		}
	}
	files := c.p.operands
	if len(scripts) == 0 && !c.p.has("-f", "--file") && len(files) > 0 {
		scripts, files = files[:1], files[1:]
	}
	if c.p.has("-i", "-I", "--in-place") {
		for _, f := range files {
			sh.touch(writesFile, f)
		}
	}
	proven := true
	for _, s := range scripts {
		if !s.known() && strings.Contains(s.text, hole) {
			proven = false
			continue
		}
		proven = sh.sed(s.text, c.in) && proven
	}
	return proven
}

// sed reads a script far enough to know what it writes and runs.
func (sh *state) sed(s string, in *value) (proven bool) {
	if !sh.a.weigh(s) {
		return false
	}
	r := sedReader{s: s}
	proven = true
	for r.skip(" \t\n;{}"); r.i < len(s); r.skip(" \t\n;{}") {
		if !r.address() {
			return false
		}
		cmd := r.next()
		switch cmd {
		case 's', 'y':
			if !r.delimited(cmd) {
				return false
			}
			proven = sh.sedFlags(&r, in) && proven
		case 'w', 'W':
			proven = sh.sedWrites(r.line()) && proven
		case 'e':
			code := r.line()
			if code == "" && in != nil {
				code = in.text
			}
			sh.fork().codeOf(literal(strings.TrimSpace(code)))
			proven = false
		case 'r', 'R':
			sh.touch(readsFile, literal(strings.TrimSpace(r.line())))
		case 'a', 'i', 'c':
			r.text()
		case '#':
			r.line()
		case ':', 'b', 't', 'T': // what ends a label differs: what may follow it is judged
			for r.i < len(s) && strings.IndexByte(";\n}", s[r.i]) < 0 {
				r.i++
			}
		case 'q', 'Q', 'l', 'L':
			r.skip("0123456789 ")
		case 'p', 'P', 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'x', '=', 'z', 'F', 0:
		default:
			return false
		}
	}
	return proven
}

func (sh *state) sedFlags(r *sedReader, in *value) (proven bool) {
	for r.i < len(r.s) {
		switch r.s[r.i] {
		case 'g', 'p', 'i', 'I', 'm', 'M', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', ' ':
			r.i++
		case 'e':
			if in != nil {
				sh.fork().codeOf(*in)
			}
			return false
		case 'w':
			r.i++
			return sh.sedWrites(r.line())
		case ';', '\n', '}':
			return true
		default:
			return false
		}
	}
	return true
}

func (sh *state) sedWrites(file string) bool {
	v := literal(strings.TrimSpace(file))
	sh.touch(writesFile, v)
	return v.is("/dev/stdout", "/dev/stderr")
}

type sedReader struct {
	s string
	i int
}

func (r *sedReader) next() byte {
	if r.i >= len(r.s) {
		return 0
	}
	r.i++
	return r.s[r.i-1]
}

func (r *sedReader) skip(chars string) {
	for r.i < len(r.s) && strings.IndexByte(chars, r.s[r.i]) >= 0 {
		r.i++
	}
}

func (r *sedReader) line() string {
	line, _, _ := strings.Cut(r.s[r.i:], "\n")
	r.i += len(line)
	return line
}

// text skips what a, i and c print: lines, as long as each ends in a backslash.
func (r *sedReader) text() {
	for r.i < len(r.s) {
		line := r.line()
		r.i = min(r.i+1, len(r.s))
		if trimmed := strings.TrimRight(line, "\\"); (len(line)-len(trimmed))%2 == 0 {
			return
		}
	}
}

// delimited skips the two parts of s or y, or the one of an address ('/'). It is
// false where seds may disagree about their ends.
func (r *sedReader) delimited(cmd byte) bool {
	delim := r.next()
	if delim == 0 || strings.IndexByte("/|#,:@!%~;_+=", delim) < 0 {
		return false
	}
	if !r.part(delim, cmd != 'y') {
		return false
	}
	return cmd == '/' || r.part(delim, false)
}

// part skips to the delimiter. In a regular expression it counts for nothing
// inside brackets; elsewhere a bracket is a character like any other.
func (r *sedReader) part(delim byte, expr bool) bool {
	for r.i < len(r.s) {
		switch c := r.next(); {
		case c == delim:
			return true
		case c == '\n':
			return false
		case c == '\\':
			if r.next() == 0 {
				return false
			}
		case c == '[' && expr:
			if !r.brackets() {
				return false
			}
		}
	}
	return false
}

// brackets skips a bracket expression; its "[" has been read.
func (r *sedReader) brackets() bool {
	if strings.HasPrefix(r.s[r.i:], "^") {
		r.i++
	}
	for first := true; r.i < len(r.s); first = false {
		switch c := r.next(); {
		case c == ']' && !first:
			return true
		case c == '\n', c == '\\' && strings.HasPrefix(r.s[r.i:], "]"):
			return false
		case c == '[' && r.i < len(r.s) && strings.IndexByte(":.=", r.s[r.i]) >= 0:
			end := strings.Index(r.s[r.i+1:], string(r.s[r.i])+"]")
			if end < 0 {
				return false
			}
			r.i += end + 3
		}
	}
	return false
}

// address skips the addresses before a command.
func (r *sedReader) address() bool {
	for range 2 {
		r.skip(" \t")
		switch {
		case r.i >= len(r.s):
			return true
		case r.s[r.i] == '/':
			if !r.delimited('/') {
				return false
			}
			r.skip("IM")
		case r.s[r.i] == '\\':
			r.i++
			if !r.delimited('/') {
				return false
			}
			r.skip("IM")
		default:
			r.skip("0123456789$~+")
		}
		r.skip(" \t")
		if r.i >= len(r.s) || r.s[r.i] != ',' {
			break
		}
		r.i++
	}
	r.skip(" \t!")
	return true
}

var quotedText = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|` + "`[^`]*`")

// stringsIn are the texts between quotes in a piece of code, escapes removed.
func stringsIn(code string) (out []string) {
	for _, q := range quotedText.FindAllString(code, 64) {
		s := q[1 : len(q)-1]
		out = append(out, strings.NewReplacer(`\"`, `"`, `\'`, `'`, `\\`, `\`, `\n`, "\n").Replace(s))
	}
	return out
}

// worst judges text that might be run, and keeps only what is objected to. What
// does not parse is no code.
func (sh *state) worst(text string) {
	if !sh.a.weigh(text) {
		return
	}
	if _, err := parse(text); err != nil || strings.TrimSpace(text) == "" {
		return
	}
	sh.a.changes = true
	sh.fork().code(text)
}

// interpreters are the languages whose programs may come in an option or from
// standard input.
var interpreters = map[string]bool{
	"python": true, "python2": true, "python3": true, "perl": true, "ruby": true, "node": true, "nodejs": true, "php": true, "lua": true, "deno": true, "bun": true, "osascript": true, "tclsh": true, "Rscript": true, "pypy3": true, "ts-node": true, "tsx": true,
}

var (
	inlineOption = regexp.MustCompile(`^(-[a-zA-Z0-9]*[ceErpn]|--eval|--print|--run|eval)$`)
	codeForks    = regexp.MustCompile(`\bfork\b`)
)

// What inline code calls to do a thing, in any of the languages.
var (
	codeRuns    = words("system exec spawn popen subprocess ` qx passthru Open3 child_process check_call check_output run")
	codeDeletes = words("rmtree rm_rf rm_r unlink rmdir rmSync remove_tree removedirs File.delete os.remove rm(")
	codeLoops   = words("while loop for until")
	codeFetches = words("urlopen requests.get Net::HTTP LWP fetch( open-uri URI.open file_get_contents(")
	codeEvals   = words("exec eval compile")
)

func words(s string) []string { return strings.Fields(s) }

func containsAny(text string, list []string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(text, s) })
}

// interprets judges an interpreter: inline code is searched for what it would
// run or delete; code from a pipe is not known.
func interprets(sh *state, c *call) bool {
	args := append([]value{}, c.args...)
	if c.sub != "" {
		args = append([]value{literal(c.sub)}, args...)
	}
	inline, file := false, false
	for i, v := range args {
		if inlineOption.MatchString(v.text) && i+1 < len(args) {
			inline = true
			sh.inline(args[i+1])
		} else if !strings.HasPrefix(v.text, "-") && !file {
			file = true
			if out, ok := sh.a.pipes[v.text]; ok {
				sh.fed()
				sh.inline(out)
			}
		}
	}
	if module := slices.ContainsFunc(args, func(v value) bool { return strings.HasPrefix(v.text, "-m") }); c.in != nil && !inline && !module {
		if !file || slices.ContainsFunc(args, func(v value) bool { return v.is("-") }) {
			if strings.Contains(c.in.text, hole) {
				sh.fed()
			}
			sh.inline(*c.in)
		}
	}
	return false
}

// inline judges code of another language: its strings, by what it calls.
func (sh *state) inline(code value) {
	text := code.text
	if !sh.a.weigh(text) {
		return
	}
	if strings.Contains(text, "fork") && codeForks.MatchString(text) && containsAny(text, codeLoops) {
		sh.a.find("fork_bomb", show(code))
	}
	if containsAny(text, codeFetches) && containsAny(text, codeEvals) {
		sh.a.find("remote_code", show(code))
	}
	runs, deletes := containsAny(text, codeRuns), containsAny(text, codeDeletes)
	if !runs && !deletes {
		return
	}
	texts := stringsIn(text)
	if runs {
		sh.worst(strings.Join(texts, " ")) // ["rm", "-rf", "/"]
	}
	for _, s := range texts {
		if runs {
			sh.worst(s)
		}
		if deletes && (strings.HasPrefix(s, "/") || strings.HasPrefix(s, "~") || strings.HasPrefix(s, ".")) {
			sh.touch(deletesTree, sh.homely(s))
		}
	}
}

// homely expands a leading "~", as libraries do.
func (sh *state) homely(s string) value {
	if s == "~" || strings.HasPrefix(s, "~/") {
		return value{text: sh.tilde("~") + s[1:]}
	}
	return literal(s)
}
