package term

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// Style is a way to show a cell; the zero value is plain.
type Style string

// The styles, as SGR parameters.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Cyan   Style = "36"
)

// Paint wraps harmless text in the style; with colour off it gives the text.
func (s Style) Paint(text string, colour bool) string {
	if !colour || s == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// Cell is one field of a table. Its text is sanitized when it is shown.
type Cell struct {
	Text  string
	Style Style
}

// Column describes a column. Where not all fit, those with the highest Drop go
// first; Drop 0 always stays. Min and Max bound the width, 0 = unbounded; the
// last column shrinks to what is left, below its Min only when no other can go.
type Column struct {
	Title string
	Drop  int
	Min   int
	Max   int
	Right bool
}

// Table is rows under columns.
type Table struct {
	Columns []Column
	Rows    [][]Cell
}

const gap = "  "

// minLast is what the last column wants at least before others are dropped.
const minLast = 8

// Lines lays the table out in at most max columns of the screen (0 = any
// width), header first.
func (t Table) Lines(maxWidth int, colour bool) []string {
	widths := t.widths()
	shown := t.fit(widths, maxWidth)
	lines := make([]string, 0, len(t.Rows)+1)
	head := make([]Cell, len(t.Columns))
	for i, c := range t.Columns {
		head[i] = Cell{c.Title, Dim}
	}
	lines = append(lines, t.line(head, shown, widths, colour))
	for _, row := range t.Rows {
		lines = append(lines, t.line(row, shown, widths, colour))
	}
	return lines
}

func (t Table) widths() []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = max(c.Min, Width(c.Title))
		for _, row := range t.Rows {
			if i < len(row) {
				widths[i] = max(widths[i], Width(Line(row[i].Text)))
			}
		}
		if c.Max > 0 {
			widths[i] = min(widths[i], max(c.Max, Width(c.Title)))
		}
	}
	return widths
}

// fit chooses the columns that are shown and shrinks the last of them.
func (t Table) fit(widths []int, maxWidth int) []int {
	shown := make([]int, len(t.Columns))
	for i := range shown {
		shown[i] = i
	}
	if maxWidth <= 0 {
		return shown
	}
	for {
		total := -len(gap)
		worst := -1
		for at, i := range shown {
			total += widths[i] + len(gap)
			if d := t.Columns[i].Drop; d > 0 && (worst < 0 || d > t.Columns[shown[worst]].Drop) {
				worst = at
			}
		}
		last := shown[len(shown)-1]
		spare := maxWidth - (total - widths[last])
		if spare >= min(widths[last], max(minLast, t.Columns[last].Min)) || worst < 0 {
			widths[last] = max(1, min(widths[last], spare))
			return shown
		}
		shown = append(shown[:worst], shown[worst+1:]...)
	}
}

func (t Table) line(row []Cell, shown, widths []int, colour bool) string {
	var b strings.Builder
	for at, i := range shown {
		var c Cell
		if i < len(row) {
			c = row[i]
		}
		text := Clip(Line(c.Text), widths[i])
		pad := strings.Repeat(" ", widths[i]-Width(text))
		text = c.Style.Paint(text, colour)
		switch {
		case t.Columns[i].Right:
			b.WriteString(pad + text)
		case at == len(shown)-1:
			b.WriteString(text)
		default:
			b.WriteString(text + pad)
		}
		if at < len(shown)-1 {
			b.WriteString(gap)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// Width is how many columns of the screen harmless text takes.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Clip cuts harmless text to a width, ending it with "…" where it was cut.
func Clip(s string, maxWidth int) string {
	if Width(s) <= maxWidth {
		return s
	}
	var b strings.Builder
	left := maxWidth - 1
	for _, r := range s {
		if left -= runeWidth(r); left < 0 {
			break
		}
		b.WriteRune(r)
	}
	return b.String() + "…"
}
