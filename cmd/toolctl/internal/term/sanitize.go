// Package term writes untrusted text to terminals: what a tool printed must not
// move the cursor, change colours, or show itself in another order than it is.
package term

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Sanitize makes text harmless on a terminal. Newlines and tabs stay, CRLF
// becomes a newline; every other control character, escape sequences with them,
// bidirectional and other invisible formatting characters and invalid bytes are
// shown escaped as in Go.
func Sanitize(s string) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case strings.HasPrefix(s, "\r\n"):
			// the newline follows
		case harmless(r):
			b.WriteRune(r)
		default:
			b.WriteString(escape(r))
		}
		s = s[n:]
	}
	return b.String()
}

// Line is Sanitize for text that must stay on one line: newlines and tabs become
// a space.
func Line(s string) string {
	return strings.Join(strings.Fields(Sanitize(s)), " ")
}

func clean(s string) bool {
	for _, r := range s {
		if r == utf8.RuneError || !harmless(r) {
			return false
		}
	}
	return true
}

// harmless leaves the two joiners, which scripts and emoji need.
func harmless(r rune) bool {
	switch r {
	case '\n', '\t', '\u200c', '\u200d':
		return true
	}
	return !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r) && r != '\u2028' && r != '\u2029'
}

func escape(r rune) string {
	q := fmt.Sprintf("%+q", string(r))
	return q[1 : len(q)-1]
}

// Writer sanitizes a stream. A character or a CRLF that a Write cuts in two is
// kept until the next one; Flush gives out what is left.
type Writer struct {
	w    io.Writer
	rest []byte
}

// NewWriter makes a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write implements io.Writer; n is always len(p) unless w failed.
func (w *Writer) Write(p []byte) (int, error) {
	b := append(w.rest, p...)
	keep := incomplete(b)
	w.rest = bytes.Clone(b[len(b)-keep:])
	if _, err := io.WriteString(w.w, Sanitize(string(b[:len(b)-keep]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes what an unfinished character left behind.
func (w *Writer) Flush() error {
	_, err := io.WriteString(w.w, Sanitize(string(w.rest)))
	w.rest = nil
	return err
}

// incomplete is how many bytes at the end may belong to what comes next.
func incomplete(b []byte) int {
	if bytes.HasSuffix(b, []byte("\r")) {
		return 1
	}
	for n := 1; n <= min(len(b), utf8.UTFMax-1); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
