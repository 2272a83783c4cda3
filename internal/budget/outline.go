package budget

// outline is the shape of a valid JSON text, as far as a part of limit bytes can
// show it.
type outline struct {
	text  []byte
	root  node
	limit int
	nodes int // that may still be made
}

// Bounds of an outline. What is deeper or more is kept or dropped whole.
const (
	maxOutlineDepth = 64
	maxOutlineNodes = 1 << 16
)

// node is a value with its key, if it is an object's member.
type node struct {
	from, value, to int // text[from:to] is key and value, text[value:to] the value
	kids            []node
	count           int // of elements or members, those past kids too
	container       bool
	object          bool
}

// size is the value's length in bytes.
func (v *node) size() int { return v.to - v.value }

// least is the fewest bytes that a part of the value takes.
func (v *node) least() int {
	if v.container {
		return min(2, v.size())
	}
	return v.size()
}

// gapStart is where the comma and the blanks before kid i begin.
func (v *node) gapStart(i int) int {
	if i == 0 {
		return v.value + 1
	}
	return v.kids[i-1].to
}

// level is the size that the arrays and objects among v's members are cut to, so
// that all members take at most room: the largest such, or -1 where there is
// none.
func (v *node) level(room int) int {
	if len(v.kids) < v.count {
		return -1
	}
	total := func(level int) int {
		n := 0
		for i := range v.kids {
			kid := &v.kids[i]
			n += kid.value - v.gapStart(i) + min(kid.size(), max(level, kid.least()))
		}
		return n
	}
	if total(0) > room {
		return -1
	}
	low, high := 0, room+1
	for high-low > 1 {
		if mid := low + (high-low)/2; total(mid) <= room {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

func parseOutline(text []byte, limit int64) *outline {
	o := &outline{text: text, limit: int(min(limit, int64(len(text)))), nodes: maxOutlineNodes}
	o.root = o.parse(o.blanks(0), 0, true)
	return o
}

// parse reads the value at i. What is inside it is outlined only if wanted.
func (o *outline) parse(i, depth int, wanted bool) node {
	v := node{from: i, value: i}
	switch o.text[i] {
	case '"':
		v.to = o.stringEnd(i)
	case '[', '{':
		v.container, v.object = true, o.text[i] == '{'
		o.inside(&v, depth, wanted && depth < maxOutlineDepth)
	default:
		v.to = i + 1
		for v.to < len(o.text) && !endsScalar(o.text[v.to]) {
			v.to++
		}
	}
	return v
}

func endsScalar(b byte) bool {
	switch b {
	case ',', ']', '}', ' ', '\t', '\r', '\n':
		return true
	}
	return false
}

func (o *outline) inside(v *node, depth int, wanted bool) {
	i := o.blanks(v.value + 1)
	for o.text[i] != ']' && o.text[i] != '}' {
		from := i
		if v.object {
			i = o.blanks(o.blanks(o.stringEnd(i)) + 1)
		}
		// An array's element that begins past the limit cannot be kept.
		wanted := wanted && o.nodes > 0 && (v.object || from-v.value <= o.limit)
		if wanted {
			o.nodes--
		}
		kid := o.parse(i, depth+1, wanted)
		kid.from = from
		v.count++
		if wanted && len(v.kids) == v.count-1 {
			v.kids = append(v.kids, kid)
		}
		if i = o.blanks(kid.to); o.text[i] == ',' {
			i = o.blanks(i + 1)
		}
	}
	v.to = i + 1
}

func (o *outline) blanks(i int) int {
	for i < len(o.text) && (o.text[i] == ' ' || o.text[i] == '\n' || o.text[i] == '\t' || o.text[i] == '\r') {
		i++
	}
	return i
}

// stringEnd is the place after the string that begins at i.
func (o *outline) stringEnd(i int) int {
	for i++; o.text[i] != '"'; i++ {
		if o.text[i] == '\\' {
			i++
		}
	}
	return i + 1
}
