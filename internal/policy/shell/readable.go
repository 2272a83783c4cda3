package shell

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// unreadable says why a text is refused before it is parsed; "" is fine.
func unreadable(text string) string {
	if len(text) > maxText {
		return fmt.Sprintf("the text is longer than %d bytes", maxText)
	}
	if !utf8.ValidString(text) {
		return "the text is not UTF-8"
	}
	open, most := 0, 0
	for _, r := range text {
		switch r {
		case '(', '{', '`':
			open++
			most = max(most, open)
		case ')', '}':
			open = max(open-1, 0)
		case '\t', '\n':
		default:
			if invisible(r) {
				return fmt.Sprintf("the text holds the invisible character %U", r)
			}
		}
	}
	if most > maxBrackets {
		return fmt.Sprintf("more than %d brackets are open at once", maxBrackets)
	}
	if nested(text) > maxKeywords || (strings.Contains(text, "((") && strings.Count(text, "?") > maxKeywords) {
		return "constructs are nested too deeply"
	}
	return ""
}

// nested is how many compound commands may be open at once, quotes left aside:
// the parser's time grows with its square.
func nested(text string) (most int) {
	open := 0
	for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" \t\n;&|()", r) }) {
		switch w {
		case "if", "elif", "while", "until", "for", "select", "case", "do", "then":
			open++
			most = max(most, open)
		case "fi", "done", "esac":
			open = max(open-2, 0)
		}
	}
	return most
}

// invisible says whether a character can hide text from a reader, or pass for a
// plain space.
func invisible(r rune) bool {
	switch {
	case r < 0x7f:
		return r < 0x20
	case r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0, r == 0x2800:
		return true // letters that are drawn as nothing
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zs, unicode.Zl, unicode.Zp, unicode.Co)
}
