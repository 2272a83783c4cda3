package budget

import (
	"fmt"
	"math"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
)

// Tokens is a number of tokens.
type Tokens int64

// Tokenizer names a way to count tokens.
type Tokenizer string

// The tokenizers. Estimate, which the empty name means too, never loads a
// vocabulary; it estimates what CL100K would count, which is the more of the two
// for Chinese and nearly the same for the rest. The other two count exactly, by
// byte-pair encoding, up to maxExact bytes, and estimate above.
const (
	Estimate Tokenizer = "estimate"
	CL100K   Tokenizer = "cl100k"
	O200K    Tokenizer = "o200k"
)

// maxExact is the longest text that is counted exactly, in bytes: encoding it
// takes some 20 ms.
const maxExact = 128 << 10

func (t Tokenizer) check() error {
	switch t {
	case "", Estimate, CL100K, O200K:
		return nil
	}
	return fmt.Errorf("tokenizer: %q is unknown; use %q, %q or %q", string(t), Estimate, CL100K, O200K)
}

var (
	cl100kAutomaton = compile(&cl100kPrices)
	o200kAutomaton  = compile(&o200kPrices)

	cl100k = sync.OnceValue(codec.NewCl100kBase)
	o200k  = sync.OnceValue(codec.NewO200kBase)
)

// Counter estimates the tokens of what is written to it, in constant memory. It
// is within 15 % of its vocabulary's real count on English, code, JSON and
// Chinese. The slicing of the stream makes no difference. The zero value is
// ready and estimates as Estimate does; it is not safe for concurrent use.
type Counter struct {
	table *automaton
	row   uint32
	milli uint64
}

// NewCounter makes a Counter for the vocabulary of t; an unknown name is taken
// as Estimate.
func NewCounter(t Tokenizer) *Counter {
	if t == O200K {
		return &Counter{table: o200kAutomaton}
	}
	return &Counter{table: cl100kAutomaton}
}

// Write counts p. It never fails.
func (c *Counter) Write(p []byte) (int, error) {
	count(c, p)
	return len(p), nil
}

// Tokens is the count so far, rounded up.
func (c *Counter) Tokens() Tokens { return Tokens((c.milli + 999) / 1000) }

// lanes is how many parts of a block are walked side by side. One walk is bound
// by the latency of its loads, 2.5 ns a byte; but where a run ends the state is
// the same whatever was long before, so that what follows can be walked already.
const lanes = 4

// block is how much is split into lanes at a time: it stays in the first cache.
const block = 16 << 10

func count[T string | []byte](c *Counter, p T) {
	if c.table == nil {
		c.table = cl100kAutomaton
	}
	for len(p) >= block {
		part, row, ok := split(p[:block])
		if ok {
			walkAbreast(c, part, row)
		} else {
			walk(c, p[:block])
		}
		p = p[block:]
	}
	walk(c, p)
}

// split cuts p into parts of about the same length and gives the row in which
// each but the first begins. ok is false where p has no places for that.
func split[T string | []byte](p T) (part [lanes]T, row [lanes]uint32, ok bool) {
	from := 0
	for i := range lanes - 1 {
		to := len(p) * (i + 1) / lanes
		limit := to + len(p)/lanes/2
		for !runBegins(classTable[p[to-2]], classTable[p[to-1]]) {
			if to++; to == limit {
				return part, row, false
			}
		}
		next, _ := step(inWord, classTable[p[to-1]])
		part[i], row[i+1] = p[from:to], uint32(next)*32
		from = to
	}
	part[lanes-1] = p[from:]
	return part, row, true
}

// runBegins says whether b after a leads from any state to the one to which it
// leads from a word.
func runBegins(a, b class) bool {
	return b == newline || a <= digit && b >= blank && b <= mark
}

func walk[T string | []byte](c *Counter, p T) {
	table, row, milli := c.table, c.row, c.milli
	for i := 0; i < len(p); i++ {
		e := table[row+uint32(classTable[p[i]])]
		row = e >> 16
		milli += uint64(e & math.MaxUint16)
	}
	c.row, c.milli = row, milli
}

func walkAbreast[T string | []byte](c *Counter, part [lanes]T, row [lanes]uint32) {
	table := c.table
	p0, p1, p2, p3 := part[0], part[1], part[2], part[3]
	n := min(len(p0), len(p1), len(p2), len(p3))
	r0, r1, r2, r3 := c.row, row[1], row[2], row[3]
	var m0, m1, m2, m3 uint32 // at most block · MaxUint16 < 2³²
	for i := range n {
		e0 := table[r0+uint32(classTable[p0[i]])]
		e1 := table[r1+uint32(classTable[p1[i]])]
		e2 := table[r2+uint32(classTable[p2[i]])]
		e3 := table[r3+uint32(classTable[p3[i]])]
		r0, r1, r2, r3 = e0>>16, e1>>16, e2>>16, e3>>16
		m0 += e0 & math.MaxUint16
		m1 += e1 & math.MaxUint16
		m2 += e2 & math.MaxUint16
		m3 += e3 & math.MaxUint16
	}
	c.milli += uint64(m0) + uint64(m1) + uint64(m2) + uint64(m3)
	rows := [lanes]uint32{r0, r1, r2, r3}
	for i, p := range part {
		c.row = rows[i]
		walk(c, p[n:])
	}
}

// Count counts the tokens of a whole text. It is deterministic; see Tokenizer
// for when it is exact. An unknown name is taken as Estimate.
func Count[T string | []byte](text T, t Tokenizer) Tokens {
	if len(text) <= maxExact && (t == CL100K || t == O200K) {
		encoder := cl100k
		if t == O200K {
			encoder = o200k
		}
		if n, err := encode(encoder(), string(text)); err == nil {
			return n
		}
	}
	c := NewCounter(t)
	count(c, text)
	return c.Tokens()
}

// maxSpace is the longest run of white space, in bytes, that is encoded in one
// piece: the expression that splits text takes quadratic time over one, 15 s for
// 128 KiB of lines with a blank each.
const maxSpace = 256

// encode counts exactly, but for runs of more than maxSpace.
func encode(encoder *codec.Codec, text string) (n Tokens, err error) {
	from, run := 0, 0
	for i, r := range text {
		if !unicode.IsSpace(r) {
			run = 0
			continue
		}
		if run += utf8.RuneLen(r); run < maxSpace {
			continue
		}
		k, err := encoder.Count(text[from:i])
		if err != nil {
			return 0, err
		}
		n, from, run = n+Tokens(k), i, 0
	}
	k, err := encoder.Count(text[from:])
	return n + Tokens(k), err
}
