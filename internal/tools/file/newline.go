package file

import (
	"sort"
	"strings"
)

// lineEnding names the line ending in use in text: "lf", "crlf", "cr", "mixed"
// or "none".
func lineEnding(text string) string {
	crlf := strings.Count(text, "\r\n")
	lf := strings.Count(text, "\n") - crlf
	switch cr := strings.Count(text, "\r") - crlf; {
	case lf+crlf+cr == 0:
		return "none"
	case crlf+cr == 0:
		return "lf"
	case lf+cr == 0:
		return "crlf"
	case lf+crlf == 0:
		return "cr"
	}
	return "mixed"
}

// toCRLF turns every line feed that stands alone into CRLF.
func toCRLF(text string) string {
	if !strings.Contains(text, "\n") {
		return text
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
}

// folded is a text with every CRLF as a line feed, and the way back.
type folded struct {
	text string
	cuts []int // places in text of the line feeds that lost a CR, ascending
}

func fold(raw string) folded {
	if !strings.Contains(raw, "\r\n") {
		return folded{text: raw}
	}
	var b strings.Builder
	b.Grow(len(raw))
	var cuts []int
	for {
		before, after, found := strings.Cut(raw, "\r\n")
		b.WriteString(before)
		if !found {
			return folded{b.String(), cuts}
		}
		cuts = append(cuts, b.Len())
		b.WriteByte('\n')
		raw = after
	}
}

// raw gives the place in the raw text of place at in the folded one. A CR
// belongs to the line feed that follows it.
func (f folded) raw(at int) int { return at + sort.SearchInts(f.cuts, at) }

// endingAt is the line ending of the line that holds the place at of text, or
// of the line before it where it is the last and has none.
func endingAt(text string, at int) string {
	end := strings.IndexByte(text[at:], '\n')
	if end >= 0 {
		end += at
	} else {
		end = strings.LastIndexByte(text[:at], '\n')
	}
	if end > 0 && text[end-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// countLines counts the lines of text; a last one without an ending counts.
func countLines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}
