package file

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// charset is how a text file's bytes are to be read: an encoding and the byte
// order mark in front, if any.
type charset struct {
	name  string
	mark  string            // the bytes of the mark; not part of the text
	codec encoding.Encoding // nil: UTF-8, where bytes and text are the same
}

var (
	utf8Set    = charset{name: "utf-8"}
	utf8BOM    = charset{name: "utf-8-bom", mark: "\xef\xbb\xbf"}
	utf16LE    = charset{name: "utf-16le", codec: unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)}
	utf16BE    = charset{name: "utf-16be", codec: unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)}
	utf16LEBOM = charset{name: "utf-16le", mark: "\xff\xfe", codec: utf16LE.codec}
	utf16BEBOM = charset{name: "utf-16be", mark: "\xfe\xff", codec: utf16BE.codec}
	latin1     = charset{name: "iso-8859-1", codec: charmap.ISO8859_1}
	win1252    = charset{name: "windows-1252", codec: charmap.Windows1252}
)

// detect says how head, the first bytes of a file, is encoded; ok is false when
// it is no text. whole says that head is the whole file: otherwise a character
// may be cut at its end.
func detect(head []byte, whole bool) (set charset, ok bool) {
	for _, c := range []charset{utf8BOM, utf16LEBOM, utf16BEBOM} {
		if bytes.HasPrefix(head, []byte(c.mark)) {
			rest := head[len(c.mark):]
			wide := c.codec != nil
			return c, wide && !bytes.HasPrefix(rest, []byte{0, 0}) || !wide && bytes.IndexByte(rest, 0) < 0
		}
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return detectUTF16(head)
	}
	text := head
	if !whole {
		text = trimPartial(text)
	}
	if utf8.Valid(text) {
		return utf8Set, controls(text)*32 <= min(len(text), controlSample)
	}
	good, bad, high := 0, 0, false
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			bad++
			high = high || text[i] < 0xa0
		case n > 1:
			good++
		}
		i += n
	}
	switch {
	case controls(text)*64 > min(len(text), controlSample):
		return charset{}, false
	case good > bad: // UTF-8 with some bytes broken
		return utf8Set, true
	case high:
		return win1252, true
	}
	return latin1, true
}

// detectUTF16 tells UTF-16 without a mark from binary data: mostly Latin text
// has a NUL in every other byte and nowhere else.
func detectUTF16(head []byte) (charset, bool) {
	n := min(len(head), 4096) &^ 1
	var nul [2]int
	for i, b := range head[:n] {
		if b == 0 {
			nul[i&1]++
		}
	}
	switch {
	case n < 8:
		return charset{}, false
	case nul[0] == 0 && nul[1]*10 >= n/2*9:
		return utf16LE, true
	case nul[1] == 0 && nul[0]*10 >= n/2*9:
		return utf16BE, true
	}
	return charset{}, false
}

// trimPartial drops a character that is cut at the end of b.
func trimPartial(b []byte) []byte {
	for i := 1; i <= min(3, len(b)); i++ {
		if tail := b[len(b)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

const controlSample = 8 << 10

// controls counts, in the first controlSample bytes, control characters that
// text does not have.
func controls(b []byte) int {
	n := 0
	for _, c := range b[:min(len(b), controlSample)] {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != '\b' && c != 0x1b || c == 0x7f {
			n++
		}
	}
	return n
}

// decode gives the text of raw, the mark left out. In UTF-8 the text has the
// same bytes, broken ones too. It fails when encode could not give raw back.
func (c charset) decode(raw []byte) (string, error) {
	body, marked := bytes.CutPrefix(raw, []byte(c.mark))
	if !marked {
		return "", fmt.Errorf("the byte order mark of %s is missing", c.name)
	}
	if c.codec == nil {
		return string(body), nil
	}
	text, err := c.codec.NewDecoder().Bytes(body)
	if err != nil {
		return "", fmt.Errorf("decoding %s: %w", c.name, err)
	}
	if back, err := c.encode(string(text)); err != nil || !bytes.Equal(back, raw) {
		return "", fmt.Errorf("the file is not valid %s", c.name)
	}
	return string(text), nil
}

// encode is the inverse of decode. It fails on a character that the encoding
// does not have.
func (c charset) encode(text string) ([]byte, error) {
	if c.codec == nil {
		return append([]byte(c.mark), text...), nil
	}
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("encoding %s: the text is not valid UTF-8", c.name)
	}
	body, err := c.codec.NewEncoder().Bytes([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("the file is in %s, which cannot hold %q", c.name, c.firstAlien(text))
	}
	return append([]byte(c.mark), body...), nil
}

// firstAlien is the first character of text that c does not have.
func (c charset) firstAlien(text string) rune {
	for _, r := range text {
		if _, err := c.codec.NewEncoder().String(string(r)); err != nil {
			return r
		}
	}
	return utf8.RuneError
}
