package budget

// The estimator is a finite automaton over bytes. A BPE tokenizer first splits
// text into words, groups of up to three digits, runs of punctuation and runs of
// white space, and then splits what its vocabulary does not hold. So the price
// of a byte depends on its class and on what it follows: the first letter of a
// word is dear, the next ones are nearly free until the word becomes too long to
// be one token; a hundred blanks are one token; a Han character is about one.
//
// An automaton needs no memory, gives the same count however a stream is sliced,
// and its count never falls when bytes are added.

// class is what the estimator knows of a byte.
type class uint8

const (
	lower class = iota
	upper
	digit
	blank   // space and tab
	newline // LF and CR
	quote   // " ' `
	bracket // ( ) [ ] { } < >
	mark    // other ASCII punctuation
	control // other ASCII

	// First bytes of longer characters.
	latin    // U+0080–U+02BF: letters with marks, two bytes
	near     // U+02C0–U+07FF: Greek, Cyrillic, Hebrew, Arabic, two bytes
	southern // U+0800–U+1FFF: India, South-East Asia
	sign     // U+2000–U+2FFF: dashes, quotation marks, arrows, box drawing
	kana     // U+3000–U+3FFF, CJK punctuation too
	han      // U+4000–U+9FFF
	hangul   // U+A000–U+DFFF
	wide     // U+E000–U+FFFF: full-width forms, U+FFFD
	astral   // U+10000 and above, four bytes: emoji

	following // second and later bytes of a character
	invalid   // never part of UTF-8
	classes
)

const characters = following - latin // classes of longer characters

func classOf(b byte) class {
	switch {
	case b >= 'a' && b <= 'z':
		return lower
	case b >= 'A' && b <= 'Z':
		return upper
	case b >= '0' && b <= '9':
		return digit
	case b == ' ' || b == '\t':
		return blank
	case b == '\n' || b == '\r':
		return newline
	case b == '"' || b == '\'' || b == '`':
		return quote
	case b == '(' || b == ')' || b == '[' || b == ']' || b == '{' || b == '}' || b == '<' || b == '>':
		return bracket
	case b < 0x20 || b == 0x7f:
		return control
	case b < 0x80:
		return mark
	case b < 0xc0:
		return following
	case b < 0xc2 || b > 0xf4:
		return invalid
	case b < 0xcb:
		return latin
	case b < 0xe0:
		return near
	case b < 0xe2:
		return southern
	case b == 0xe2:
		return sign
	case b == 0xe3:
		return kana
	case b < 0xea:
		return han
	case b < 0xee:
		return hangul
	case b < 0xf0:
		return wide
	default:
		return astral
	}
}

// state is what the estimator remembers of the bytes before: the kind of run it
// is in and how long that run is, up to the longest that is told apart.
type state uint8

const (
	longWord   = 14
	longCaps   = 4
	longDigits = 3
	longBlanks = 3
	longPunct  = 4

	outset   state = 0 // nothing yet, or a line has just ended
	inWord         = outset + 1
	inCaps         = inWord + longWord
	inDigits       = inCaps + longCaps
	inBlanks       = inDigits + longDigits
	inPunct        = inBlanks + longBlanks
	inChar         = inPunct + longPunct // + 4·class + bytes still missing
	states         = inChar + state(characters)*4
)

// kind is what a run begins after.
type kind uint8

const (
	afterLine kind = iota
	afterBlank
	afterBlanks
	afterWord
	afterCaps
	afterDigits
	afterPunct
	afterPuncts
	afterChar
	kinds
)

func (s state) kind() kind {
	switch {
	case s == outset:
		return afterLine
	case s < inCaps:
		return afterWord
	case s < inDigits:
		return afterCaps
	case s < inBlanks:
		return afterDigits
	case s == inBlanks:
		return afterBlank
	case s < inPunct:
		return afterBlanks
	case s == inPunct:
		return afterPunct
	case s < inChar:
		return afterPuncts
	default:
		return afterChar
	}
}

// price names one entry of a vocabulary's prices.
type price struct {
	first bool // of a run
	class class
	index uint8 // first: the kind before; else the length of the run so far
}

// prices are what bytes cost, in thousandths of a token.
type prices struct {
	first [control][kinds]uint16    // the first byte of a run
	next  [control][longWord]uint16 // one more byte of a run of 1, 2 … bytes
	char  [following][2]uint16      // by class from latin on: a longer character: alone, after one of its class
	junk  uint16                    // a control character or an invalid byte
}

func (p *prices) of(q price) uint16 {
	switch {
	case q.class == following:
		return 0
	case q.class >= control && (q.class < latin || q.class >= following):
		return p.junk
	case q.class >= latin:
		if q.first {
			return p.char[q.class][0]
		}
		return p.char[q.class][1]
	case q.first:
		return p.first[q.class][q.index]
	default:
		return p.next[q.class][q.index]
	}
}

// step is the automaton: where a byte of class c leads from s, and its price.
func step(s state, c class) (state, price) {
	first := price{first: true, class: c, index: uint8(s.kind())}
	grow := func(base state, long int) (state, price) {
		n := int(s - base) // length of the run so far, less one
		return base + state(min(n+1, long-1)), price{class: c, index: uint8(n)}
	}
	switch {
	case s >= inChar && (s-inChar)%4 != 0 && c == following:
		return s - 1, price{class: following}
	case c == lower && s.kind() == afterWord:
		return grow(inWord, longWord)
	case c == lower && s == inCaps: // a capitalised word
		return inWord + 1, price{class: lower}
	case c == lower:
		return inWord, first
	case c == upper && s.kind() == afterCaps:
		return grow(inCaps, longCaps)
	case c == upper:
		return inCaps, first
	case c == digit && s.kind() == afterDigits:
		n := s - inDigits
		return inDigits + (n+1)%longDigits, price{class: c, index: uint8(n)}
	case c == digit:
		return inDigits, first
	case c == blank && s >= inBlanks && s < inPunct:
		return grow(inBlanks, longBlanks)
	case c == blank:
		return inBlanks, first
	case c == newline:
		return outset, first
	case c >= quote && c <= mark && s >= inPunct && s < inChar:
		return grow(inPunct, longPunct)
	case c >= quote && c <= mark:
		return inPunct, first
	case c >= latin && c < following:
		whole := inChar + state(c-latin)*4
		return whole + missing(c), price{first: s != whole, class: c}
	default:
		return outset, price{class: invalid}
	}
}

// missing is how many bytes follow the first one of a character.
func missing(c class) state {
	switch c {
	case latin, near:
		return 1
	case astral:
		return 3
	default:
		return 2
	}
}

// automaton is step with a vocabulary's prices, laid out for the machine: by
// state and class, the next state's row in the high 16 bits and the price in the
// low 16.
type automaton [int(states) * 32]uint32

func compile(p *prices) *automaton {
	var a automaton
	for s := range states {
		for c := range classes {
			to, q := step(s, c)
			a[int(s)*32+int(c)] = uint32(to)*32<<16 | uint32(p.of(q))
		}
	}
	return &a
}

var classTable = func() (t [256]class) {
	for b := range 256 {
		t[b] = classOf(byte(b))
	}
	return t
}()
