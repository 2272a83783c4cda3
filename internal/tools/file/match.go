package file

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// span is text[start:end].
type span struct{ start, end int }

// match finds every occurrence of want in text, from the front and not
// overlapping. A line feed of want matches LF and CRLF, unless want has a CR
// itself. It is empty for an empty want.
func match(text, want string) []span {
	if want == "" {
		return nil
	}
	f := folded{text: text}
	if strings.Contains(want, "\n") && !strings.Contains(want, "\r") {
		f = fold(text)
	}
	var found []span
	for at := 0; ; {
		i := strings.Index(f.text[at:], want)
		if i < 0 {
			return found
		}
		start := at + i
		at = start + len(want)
		found = append(found, span{f.raw(start), f.raw(at)})
	}
}

// replace puts with in the place of every span. Its line feeds become CRLF
// where the replaced text had CRLF, or, where that had no line ending, where
// its line has; a with that has a CR itself is taken as it is.
func replace(text string, found []span, with string) string {
	asIs := !strings.Contains(with, "\n") || strings.Contains(with, "\r")
	crlf := toCRLF(with)
	var b strings.Builder
	b.Grow(len(text) + len(found)*len(with))
	at := 0
	for _, s := range found {
		b.WriteString(text[at:s.start])
		if asIs || ending(text, s) == "\n" {
			b.WriteString(with)
		} else {
			b.WriteString(crlf)
		}
		at = s.end
	}
	b.WriteString(text[at:])
	return b.String()
}

func ending(text string, s span) string {
	old := text[s.start:s.end]
	switch i := strings.IndexByte(old, '\n'); {
	case i > 0 && old[i-1] == '\r':
		return "\r\n"
	case i >= 0:
		return "\n"
	}
	return endingAt(text, s.start)
}

var lineNumber = regexp.MustCompile(`^ *\d+\t`)

// numbered says whether every line of s starts as read numbers lines.
func numbered(s string) bool {
	for line := range strings.SplitSeq(strings.TrimSuffix(s, "\n"), "\n") {
		if !lineNumber.MatchString(line) {
			return false
		}
	}
	return true
}

// region is the part of a file that is closest to what was looked for.
type region struct {
	first, last int // lines, from 1
	text        string
	how         string // how it differs, where that is known
}

// Bounds of the search for what is closest.
const (
	maxScannedLines = 50_000
	maxWantedLines  = 200
	maxEqualLines   = 8
	maxShownLines   = 12
	maxShownLine    = 200
)

// closest finds the lines that share most with want, white space aside.
func closest(text, want string) (region, bool) {
	lines := trimmedLines(text, maxScannedLines)
	wanted := trimmedLines(strings.Trim(want, "\r\n"), maxWantedLines)
	at, equal := bestAlignment(lines, wanted)
	if equal == 0 {
		if at = mostAlike(lines, wanted); at < 0 {
			return region{}, false
		}
	}
	first := min(max(at, 0), len(lines)-1)
	last := min(at+len(wanted), first+maxShownLines, len(lines))
	r := region{first: first + 1, last: max(last, first+1)}
	if equal == len(wanted) {
		r.how = " (only white space differs)"
	}
	var b strings.Builder
	n := 0
	for line := range strings.Lines(text) {
		if n++; n > r.last {
			break
		}
		if n >= r.first {
			line = strings.TrimRight(line, "\r\n")
			if len(line) > maxShownLine {
				line = line[:maxShownLine] + "…"
			}
			b.WriteString(valid(line) + "\n")
		}
	}
	r.text = b.String()
	return r, true
}

func trimmedLines(s string, limit int) []string {
	var out []string
	for line := range strings.Lines(s) {
		if len(out) == limit {
			break
		}
		out = append(out, strings.Join(strings.Fields(line[:min(len(line), 4*maxShownLine)]), " "))
	}
	return out
}

// bestAlignment says at which line of lines wanted would have to start to have
// most lines equal, and how many those are. An empty line counts for nothing
// unless all of them agree.
func bestAlignment(lines, wanted []string) (at, equal int) {
	where := make(map[string][]int, len(wanted))
	for j, w := range wanted {
		if w != "" && len(where[w]) < maxEqualLines {
			where[w] = append(where[w], j)
		}
	}
	votes := make(map[int]int)
	for i, l := range lines {
		for _, j := range where[l] {
			votes[i-j]++
			if n := votes[i-j]; n > equal || n == equal && i-j < at {
				at, equal = i-j, n
			}
		}
	}
	if equal > 0 && at >= 0 && at+len(wanted) <= len(lines) {
		equal = 0
		for j, w := range wanted {
			if lines[at+j] == w {
				equal++
			}
		}
	}
	return at, equal
}

// mostAlike finds the line that shares most pairs of characters with the
// longest wanted line, or -1 where that is less than half.
func mostAlike(lines, wanted []string) int {
	longest, offset := "", 0
	for j, w := range wanted {
		if len(w) > len(longest) {
			longest, offset = w, j
		}
	}
	if utf8.RuneCountInString(longest) < 4 {
		return -1
	}
	var pairs, seen [1 << 16]uint16
	for i := range len(longest) - 1 {
		pairs[pair(longest, i)]++
	}
	best, bestScore := -1, 0.5
	for i, l := range lines {
		if len(l) < 2 || len(l) > 3*len(longest) {
			continue
		}
		shared := 0
		for k := range len(l) - 1 {
			p := pair(l, k)
			if seen[p]++; seen[p] <= pairs[p] {
				shared++
			}
		}
		for k := range len(l) - 1 {
			seen[pair(l, k)] = 0
		}
		score := 2 * float64(shared) / float64(len(l)+len(longest)-2)
		if score > bestScore {
			best, bestScore = max(0, i-offset), score
		}
	}
	return best
}

// pair is the two bytes of s at i.
func pair(s string, i int) uint16 { return uint16(s[i])<<8 | uint16(s[i+1]) }
