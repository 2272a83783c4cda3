package file

import (
	"io"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// ignoreRules are the patterns of the ignore files of one folder, above those
// of the folders that it is in. nil ignores nothing.
type ignoreRules struct {
	outer *ignoreRules
	base  string // the folder, relative to the workspace, with a "/" at its end; "" for the workspace
	rules []ignoreRule
}

// ignoreRule is one pattern of an ignore file, as gitignore(5) has it.
type ignoreRule struct {
	how      matchHow
	pattern  string
	anchored bool // matched with the path below base, not with the name
	dirOnly  bool
	negated  bool
}

type matchHow uint8

const (
	matchExact  matchHow = iota // the pattern is the name
	matchSuffix                 // "*" and then the pattern
	matchGlob
)

// ignored says whether the entry at rel (relative to the workspace, its last
// part is name) is ignored. Its folder is not ignored: otherwise nobody would
// ask. The last rule that matches decides, the inner folder's before the
// outer's.
func (r *ignoreRules) ignored(rel, name string, isDir bool) bool {
	for ; r != nil; r = r.outer {
		for i := len(r.rules) - 1; i >= 0; i-- {
			rule := &r.rules[i]
			if rule.dirOnly && !isDir {
				continue
			}
			subject := name
			if rule.anchored {
				subject = rel[len(r.base):]
			}
			if rule.match(subject) {
				return !rule.negated
			}
		}
	}
	return false
}

func (r *ignoreRule) match(s string) bool {
	switch r.how {
	case matchExact:
		return s == r.pattern
	case matchSuffix:
		return strings.HasSuffix(s, r.pattern)
	default:
		return doublestar.MatchUnvalidated(r.pattern, s)
	}
}

// Bounds of one ignore file.
const (
	maxIgnoreBytes = 1 << 20
	maxIgnoreRules = 20_000
)

// parseIgnore reads the lines of an ignore file. What is no pattern is passed
// over, as git does.
func parseIgnore(text string) []ignoreRule {
	var rules []ignoreRule
	for line := range strings.Lines(strings.TrimPrefix(text, "\uFEFF")) {
		if rule, ok := parseIgnoreLine(strings.TrimRight(line, "\r\n")); ok && len(rules) < maxIgnoreRules {
			rules = append(rules, rule)
		}
	}
	return rules
}

func parseIgnoreLine(p string) (r ignoreRule, ok bool) {
	if strings.HasPrefix(p, "#") {
		return r, false
	}
	p = trimTrailingSpaces(p)
	if p, r.negated = strings.CutPrefix(p, "!"); p == "" {
		return r, false
	}
	if p, r.dirOnly = strings.CutSuffix(p, "/"); p == "" {
		return r, false
	}
	r.anchored = strings.Contains(p, "/")
	p = strings.TrimPrefix(p, "/")
	if rest, deep := strings.CutPrefix(p, "**/"); deep && !strings.Contains(rest, "/") {
		p, r.anchored = rest, false
	}
	const meta = `*?[\`
	switch {
	case !strings.ContainsAny(p, meta):
		r.how, r.pattern = matchExact, p
	case !r.anchored && p[0] == '*' && !strings.ContainsAny(p[1:], meta):
		r.how, r.pattern = matchSuffix, p[1:]
	default:
		r.how, r.pattern = matchGlob, globOf(p)
	}
	return r, r.how != matchGlob || doublestar.ValidatePattern(r.pattern)
}

// trimTrailingSpaces drops the spaces at the end that no backslash keeps.
func trimTrailingSpaces(p string) string {
	t := strings.TrimRight(p, " ")
	slashes := len(t) - len(strings.TrimRight(t, `\`))
	if slashes%2 == 1 && len(t) < len(p) {
		t += " "
	}
	return t
}

// globOf turns a gitignore pattern into one of doublestar: braces are no
// alternatives there, and "dir/**" is what is inside, not dir itself.
func globOf(p string) string {
	var b strings.Builder
	inClass := false
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c == '\\' && i+1 < len(p):
			b.WriteByte(c)
			i++
		case c == '[' && !inClass && strings.IndexByte(p[i:], ']') > 0:
			inClass = true
		case c == ']':
			inClass = false
		case (c == '{' || c == '}') && !inClass:
			b.WriteByte('\\')
		}
		b.WriteByte(p[i])
	}
	g := b.String()
	if strings.HasSuffix(g, "/**") {
		g += "/*"
	}
	return g
}

// within gives the rules for the contents of d (at rel, relative to the
// workspace): those of the folders around it and its own. A folder that is a
// repository of its own starts afresh.
func (r *ignoreRules) within(d *folder, rel string) *ignoreRules {
	base := ""
	if rel != "." {
		base = rel + "/"
	}
	var own []ignoreRule
	if git, err := d.enter(".git"); err == nil {
		r = nil
		if info, err := git.enter("info"); err == nil {
			own = parseIgnore(info.text("exclude"))
			info.release()
		}
		git.release()
	}
	own = append(own, parseIgnore(d.text(".gitignore"))...)
	if len(own) == 0 {
		return r
	}
	return &ignoreRules{outer: r, base: base, rules: own}
}

// text reads an ignore file; what cannot be read is empty.
func (d *folder) text(name string) string {
	f, _, err := d.open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxIgnoreBytes))
	if err != nil {
		return ""
	}
	return string(b)
}
