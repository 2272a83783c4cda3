package term

import (
	"fmt"
	"io"
	"strings"
)

// Region is a part of the screen, at the cursor, that is drawn again in place.
type Region struct {
	w     io.Writer
	drawn int
}

// NewRegion makes a region on a terminal; nothing is drawn yet.
func NewRegion(w io.Writer) *Region { return &Region{w: w} }

// Draw shows lines in the place of those shown before, in one write. The lines
// must be narrower and fewer than the screen, or they cannot be drawn over.
func (r *Region) Draw(lines []string) error {
	var b strings.Builder
	if r.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", r.drawn)
	}
	for _, l := range lines {
		b.WriteString("\r\x1b[2K" + l + "\n")
	}
	b.WriteString("\x1b[J") // what was drawn below
	r.drawn = len(lines)
	_, err := io.WriteString(r.w, b.String())
	return err
}

// Clear takes the region off the screen.
func (r *Region) Clear() error {
	if r.drawn == 0 {
		return nil
	}
	return r.Draw(nil)
}
