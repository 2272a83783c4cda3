package budget

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/toold/toold/internal/tool"
)

// ends is an output that does not fit: its first and last bytes, which may
// overlap, of size in all.
type ends struct {
	head, tail []byte
	size       int64
	tokens     Tokens
}

// headPart is the part of a head-and-tail cut that is head, in percent: errors
// and summaries stand at the end of what commands print.
const headPart = 40

// marker is the line at the cut and, beside it, the way to the rest.
func marker(original, kept Tokens, uri string, line int) string {
	m := fmt.Sprintf("...[truncated by ToolResultBudget: originalTokens=%d, keptTokens=%d]", original, kept)
	if uri != "" {
		m += fmt.Sprintf(" read path=%s startLine=%d", uri, line)
	}
	return m
}

// cut keeps of e what fits beside the marker. Where the share has no room for
// the way to the rest, that becomes a hint; where it has none for the marker
// alone, nothing is visible.
func (s Share) cut(e ends, own tool.Cut, uri string) Fitted {
	style := own
	if s.Cut != nil {
		style = *s.Cut
	}
	t := tool.Truncated{
		Kind: tool.KindText, OriginalBytes: e.size, OriginalTokens: int64(e.tokens), Reason: s.reason(e.size, e.tokens),
	}
	var hints []tool.Hint
	lossy := false
	for _, place := range []string{uri, ""} {
		if p, visible, ok := s.keep(e, style, place); ok {
			t.Visible, t.Kept, t.KeptTokens = visible, p.ranges(e), int64(p.tokens)
			lossy = !utf8.Valid(e.head[:p.end]) || !utf8.Valid(e.tail[p.start:])
			for _, r := range t.Kept {
				t.KeptBytes += r.Length
			}
			break
		}
		hints = []tool.Hint{restHint("the output was cut", uri)}
	}
	f := truncated(t, hints...)
	f.Lossy = lossy
	return f
}

// keep chooses what is kept of e beside a marker that names place.
func (s Share) keep(e ends, style tool.Cut, place string) (p parts, visible string, ok bool) {
	// What is reserved may fall short by the few tokens that two texts cost more
	// together than apart.
	for slack := Tokens(4); slack <= 64; slack *= 2 {
		reserve := "\n" + marker(e.tokens, e.tokens, place, len(e.head)) + "\n"
		left := s.room()
		left.bytes -= int64(len(reserve))
		left.tokens -= Count(reserve, s.Tokenizer) + slack
		p = left.divide(e, style)
		visible = p.visible(e, style, place)
		if s.fits(len(visible), Count(visible, s.Tokenizer)) {
			return p, visible, true
		}
	}
	return parts{}, "", false
}

// parts is what is kept of an output: head[:end] and tail[start:].
type parts struct {
	end, start int
	tokens     Tokens
}

func (r room) divide(e ends, style tool.Cut) parts {
	p := parts{start: len(e.tail)}
	if style != tool.CutTail {
		forHead := r
		if style == tool.CutHeadTail {
			forHead.bytes, forHead.tokens = r.bytes*headPart/100, r.tokens*headPart/100
		}
		p.end = forHead.prefix(e.head)
		head := repair(e.head[:p.end])
		p.tokens = Count(head, r.tokenizer)
		r.bytes -= int64(len(head))
		r.tokens -= p.tokens
	}
	if style != tool.CutHead {
		overlap := max(0, int64(p.end)+int64(len(e.tail))-e.size)
		p.start = int(overlap) + r.suffix(e.tail[overlap:])
		p.tokens += Count(repair(e.tail[p.start:]), r.tokenizer)
	}
	return p
}

func (p parts) visible(e ends, style tool.Cut, place string) string {
	head, tail := repair(e.head[:p.end]), repair(e.tail[p.start:])
	line := 1
	if style != tool.CutTail {
		line += bytes.Count(e.head[:p.end], []byte{'\n'})
	}
	var v bytes.Buffer
	v.Write(head)
	if len(head) > 0 && head[len(head)-1] != '\n' {
		v.WriteByte('\n')
	}
	v.WriteString(marker(e.tokens, p.tokens, place, line))
	if len(tail) > 0 {
		v.WriteByte('\n')
		v.Write(tail)
	}
	return v.String()
}

func (p parts) ranges(e ends) []tool.ByteRange {
	var r []tool.ByteRange
	if p.end > 0 {
		r = append(r, tool.ByteRange{Length: int64(p.end)})
	}
	if n := int64(len(e.tail) - p.start); n > 0 {
		r = append(r, tool.ByteRange{Offset: e.size - n, Length: n})
	}
	return r
}

// room is what is still to be filled of a share.
type room struct {
	bytes     int64
	tokens    Tokens
	tokenizer Tokenizer
}

// unlimited is more tokens than any text has, and bears arithmetic.
const unlimited Tokens = 1 << 50

func (s Share) room() room {
	r := room{s.Bytes, s.Tokens, s.Tokenizer}
	if r.tokens == 0 {
		r.tokens = unlimited
	}
	return r
}

func (r room) holds(b []byte) bool {
	return int64(len(b)) <= r.bytes && (r.tokens > unlimited/2 || Count(b, r.tokenizer) <= r.tokens)
}

// longest is the most bytes, of n, whose part has room. It measures about twice
// what it finds, not all of what it is given: an exact count is dear. Whatever
// part does, an empty one is taken to fit, and another only after it was tried.
func (r room) longest(n int, part func(k int) []byte) int {
	n = int(min(int64(n), r.bytes))
	if n <= 0 || r.tokens <= 0 {
		return 0
	}
	low, high := 0, n+1
	for k := min(n, 64); k > low; k = min(n, 2*k) {
		if !r.holds(part(k)) {
			high = k
			break
		}
		low = k
	}
	for high-low > 1 {
		if mid := low + (high-low)/2; r.holds(part(mid)) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// nearLine is how many bytes are given up to cut at a line's end, where kept
// bytes would fit.
func nearLine(kept int) int { return min(kept/4, 4<<10) }

// prefix is how many of b's first bytes have room: up to a line's end where one
// is near, and never a part of a character.
func (r room) prefix(b []byte) int {
	n := r.longest(len(b), func(k int) []byte { return repair(b[:k]) })
	n -= broken(b[:n])
	if line := bytes.LastIndexByte(b[:n], '\n') + 1; line > 0 && n-line <= nearLine(n) {
		return line
	}
	return n
}

// suffix is where the last bytes of b begin that have room: after a line's end
// where one is near, and never within a character.
func (r room) suffix(b []byte) int {
	n := r.longest(len(b), func(k int) []byte { return repair(b[len(b)-k:]) })
	start := len(b) - n
	for i := 0; i < utf8.UTFMax-1 && start < len(b) && !utf8.RuneStart(b[start]); i++ {
		start++
	}
	if start > 0 && b[start-1] == '\n' {
		return start
	}
	if line := bytes.IndexByte(b[start:], '\n') + 1; line > 0 && line <= nearLine(n) {
		return start + line
	}
	return start
}

// broken is how many bytes at the end of b begin a character that is not whole.
func broken(b []byte) int {
	for i := 1; i <= min(len(b), utf8.UTFMax-1); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-i:]) {
				return i
			}
			return 0
		}
	}
	return 0
}

// repair is b as valid UTF-8, each run of bad bytes as one U+FFFD; b itself
// where it is valid.
func repair(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return bytes.ToValidUTF8(b, []byte("\uFFFD"))
}
