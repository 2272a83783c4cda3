package budget

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/toold/toold/internal/tool"
)

// FitStructured fits one JSON value. What does not fit loses whole elements, the
// last ones of its largest arrays first, and whole members of objects where that
// is not enough, so that it stays valid JSON, made of ranges of the original. A
// hint says how many are gone and from where; uri, if any, is where all of it is.
// The rendering goes as soon as it, or the value, does not fit. What is not valid
// JSON is cut as text.
func FitStructured(v tool.Structured, s Share, uri string) Fitted {
	tokens := Count(v.JSON, s.Tokenizer)
	if s.fits(len(v.JSON), tokens) {
		if !s.fits(len(v.Rendering), Count(v.Rendering, s.Tokenizer)) {
			v.Rendering = ""
		}
		return Fitted{Output: v, OriginalTokens: tokens, KeptTokens: tokens}
	}
	if !utf8.Valid(v.JSON) || !json.Valid(v.JSON) {
		return FitText(string(v.JSON), s, tool.CutHead, uri)
	}
	o := parseOutline(v.JSON, s.Bytes)
	r := s.room()
	// The part is a function of the bytes it may take, so the most bytes whose
	// part fits the tokens too are what is looked for.
	n := r.longest(len(v.JSON), func(k int) []byte { return o.within(k).bytes(v.JSON) })
	t := tool.Truncated{
		Kind: tool.KindStructured, OriginalBytes: int64(len(v.JSON)), OriginalTokens: int64(tokens), Reason: s.reason(int64(len(v.JSON)), tokens),
	}
	kept := o.within(n)
	visible := kept.bytes(v.JSON)
	t.Visible, t.Kept = string(visible), kept.ranges
	t.KeptBytes, t.KeptTokens = int64(len(visible)), int64(Count(visible, s.Tokenizer))
	if len(visible) == 0 {
		return truncated(t, restHint("the result does not fit at all", uri))
	}
	return truncated(t, restHint(kept.message(), uri))
}

// selection is what is kept of a JSON text.
type selection struct {
	ranges  []tool.ByteRange // ascending, apart from each other
	size    int
	dropped int    // elements and members
	losses  []loss // the first few
}

// loss is a container that lost some of its elements.
type loss struct {
	pointer     string
	kept, total int
}

// maxLosses is how many containers the hint names.
const maxLosses = 3

func (s *selection) keep(from, to int) {
	if from >= to {
		return
	}
	s.size += to - from
	if n := len(s.ranges); n > 0 && s.ranges[n-1].Offset+s.ranges[n-1].Length == int64(from) {
		s.ranges[n-1].Length += int64(to - from)
		return
	}
	s.ranges = append(s.ranges, tool.ByteRange{Offset: int64(from), Length: int64(to - from)})
}

func (s *selection) lose(path []string, kept, total int) {
	if kept == total {
		return
	}
	s.dropped += total - kept
	if len(s.losses) < maxLosses {
		s.losses = append(s.losses, loss{pointer(path), kept, total})
	}
}

func (s *selection) bytes(text []byte) []byte {
	b := make([]byte, 0, s.size)
	for _, r := range s.ranges {
		b = append(b, text[r.Offset:r.Offset+r.Length]...)
	}
	return b
}

func (s *selection) message() string {
	var where []string
	for _, l := range s.losses {
		where = append(where, fmt.Sprintf("%s keeps %d of %d", l.pointer, l.kept, l.total))
	}
	return fmt.Sprintf("elements dropped to fit the budget: %d (%s)", s.dropped, strings.Join(where, ", "))
}

// pointer makes a JSON pointer of raw keys and positions, bounded: the last few,
// long ones shortened.
func pointer(path []string) string {
	const most = 4
	if len(path) == 0 {
		return "the top level"
	}
	var b strings.Builder
	if len(path) > most {
		b.WriteString("…")
		path = path[len(path)-most:]
	}
	for _, p := range path {
		if len(p) > 40 {
			p = strings.ToValidUTF8(p[:40], "") + "…"
		}
		b.WriteByte('/')
		b.WriteString(pointerEscapes.Replace(p))
	}
	return b.String()
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// within selects at most room bytes of the outlined text; none if that cannot
// be valid JSON.
func (o *outline) within(room int) *selection {
	c := cutter{text: o.text}
	if room >= o.root.least() {
		c.value(&o.root, room)
	}
	return &c.selection
}

type cutter struct {
	selection
	text []byte
	path []string
}

// value keeps v, or what fits room of it. room is at least v.least().
func (c *cutter) value(v *node, room int) {
	switch {
	case v.size() <= room:
		c.keep(v.from, v.to)
	case v.object:
		c.object(v, room)
	default:
		c.array(v, room)
	}
}

// array keeps as many first elements as fit whole, and a part of the next one if
// it is the first, or if most of the room would be left.
func (c *cutter) array(v *node, room int) {
	whole := room
	c.keep(v.from, v.from+1)
	room -= 2
	kept := 0
	for i := range v.kids {
		kid := &v.kids[i]
		gap := kid.from - v.gapStart(i)
		if gap+kid.size() <= room {
			c.keep(v.gapStart(i), kid.to)
			room -= gap + kid.size()
			kept++
			continue
		}
		if gap+kid.least() <= room && (i == 0 || room > whole/2) {
			c.keep(v.gapStart(i), kid.from)
			c.descend(fmt.Sprint(i), kid, room-gap)
			kept++
		}
		break
	}
	c.lose(c.path, kept, v.count)
	c.keep(v.to-1, v.to)
}

// object keeps all members and cuts the largest arrays and objects among them to
// one level, or, where even that does not fit, the members that do.
func (c *cutter) object(v *node, room int) {
	c.keep(v.from, v.from+1)
	room -= 2
	level := v.level(room)
	kept := 0
	for i := range v.kids {
		kid := &v.kids[i]
		overhead := kid.value - v.gapStart(i)
		if kept == 0 {
			overhead = kid.value - kid.from
		}
		take := kid.size()
		if level >= 0 {
			take = min(take, max(level, kid.least()))
		} else if overhead+take > room {
			take = kid.least()
		}
		if overhead+take > room {
			continue
		}
		c.keep(kid.value-overhead, kid.value)
		before := c.size
		c.descend(c.key(kid), kid, take)
		room -= overhead + c.size - before
		kept++
	}
	c.lose(c.path, kept, v.count)
	c.keep(v.to-1, v.to)
}

func (c *cutter) descend(name string, v *node, room int) {
	c.path = append(c.path, name)
	inner := *v
	inner.from = v.value
	c.value(&inner, room)
	c.path = c.path[:len(c.path)-1]
}

// key is a member's key as written, without its quotation marks.
func (c *cutter) key(v *node) string {
	k := string(c.text[v.from:v.value])
	return strings.Trim(k[:strings.LastIndexByte(k, '"')+1], `"`)
}
