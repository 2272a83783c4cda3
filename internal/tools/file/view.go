package file

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// view takes a text in pieces and keeps the lines of a range of it, numbered
// unless they are to be bare and cut to a sane length, and counts all of them. Memory is bounded by the
// range's maxBytes, whatever it is fed.
type view struct {
	lineRange
	out       strings.Builder
	lastShown int // 0 = none, or first-1
	cutLines  int
	firstCut  int
	crlf      int // shown lines that end in CRLF
	open      int // 1 when the last shown line has no ending
	lossy     bool
	full      bool // maxBytes reached
	ended     bool
	total     int // lines, once ended

	line   int    // the one that is being read, from 1
	inLine bool   // something of it was seen
	text   []byte // its beginning, up to maxLineBytes
	length int    // its bytes so far
}

const maxLineBytes = maxLineRunes*utf8.UTFMax + 1

func newView(r lineRange) *view {
	return &view{lineRange: r, line: 1, lastShown: r.first - 1}
}

// done says that nothing more would be shown.
func (v *view) done() bool { return v.full || v.line > v.last }

func (v *view) feed(p []byte) {
	for len(p) > 0 {
		if v.line < v.first || v.done() {
			p = v.skip(p)
			continue
		}
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			v.take(p)
			return
		}
		if v.length == 0 {
			v.show(p[:min(i, maxLineBytes)], i, true)
		} else {
			v.take(p[:i])
			v.show(v.text, v.length, true)
		}
		p = p[i+1:]
	}
}

// skip counts lines that are not shown and gives the rest of p, which starts
// with the first line to show.
func (v *view) skip(p []byte) []byte {
	n := bytes.Count(p, []byte{'\n'})
	if v.done() || v.line+n < v.first {
		v.line += n
		v.inLine = p[len(p)-1] != '\n'
		return nil
	}
	for v.line < v.first {
		p = p[bytes.IndexByte(p, '\n')+1:]
		v.line++
	}
	v.inLine = false
	return p
}

func (v *view) take(p []byte) {
	v.inLine = v.inLine || len(p) > 0
	v.length += len(p)
	if room := maxLineBytes - len(v.text); room > 0 {
		v.text = append(v.text, p[:min(room, len(p))]...)
	}
}

// show adds a line of which text is the beginning and length the bytes in all.
func (v *view) show(text []byte, length int, terminated bool) {
	whole := length == len(text)
	if !terminated {
		v.open = 1
	} else if n := len(text) - 1; whole && n >= 0 && text[n] == '\r' {
		text = text[:n]
		v.crlf++
	}
	if !v.bare {
		v.number()
	}
	kept, cut := clip(text, maxLineRunes)
	if !utf8.Valid(kept) {
		v.lossy = true
		kept = bytes.ToValidUTF8(kept, []byte("\uFFFD"))
	}
	v.out.Write(kept)
	if cut || !whole {
		if v.cutLines++; v.firstCut == 0 {
			v.firstCut = v.line
		}
		fmt.Fprintf(&v.out, "…[cut: the line has %d bytes]", length)
	}
	v.out.WriteByte('\n')
	v.lastShown = v.line
	v.full = v.out.Len() > v.maxBytes
	v.line++
	v.text, v.length, v.inLine = v.text[:0], 0, false
}

// number writes the line's number, six wide, and a tab.
func (v *view) number() {
	var b [32]byte
	digits := strconv.AppendInt(b[:0], int64(v.line), 10)
	const blank = "      "
	v.out.WriteString(blank[min(len(digits), len(blank)):])
	v.out.Write(digits)
	v.out.WriteByte('\t')
}

// end says that the text is over.
func (v *view) end() {
	if v.inLine && v.line >= v.first && !v.done() {
		v.show(v.text, v.length, false)
	}
	v.ended = true
	v.total = v.line - 1
	if v.inLine {
		v.total++
	}
}

// clip gives at most n characters of b.
func clip(b []byte, n int) (kept []byte, cut bool) {
	if len(b) <= n {
		return b, false
	}
	at := 0
	for range n {
		if at >= len(b) {
			return b, false
		}
		_, size := utf8.DecodeRune(b[at:])
		at += size
	}
	return b[:at], at < len(b)
}
