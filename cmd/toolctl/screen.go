package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	xterm "golang.org/x/term"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/toold/toold/cmd/toolctl/internal/term"
)

// screen is where a command reads and writes. What tools and policies say goes
// out raw into files and pipes, and made harmless on a terminal.
type screen struct {
	in     io.Reader
	out    *output
	err    *output
	outTTY bool
	errTTY bool
	one    bool // out and err are the same file
	colour bool // of out
	size   func() (width, height int)
	getenv func(string) string
}

// output is standard output or standard error. It remembers that a write failed,
// so that no command whose output was lost ends with status 0, and whether its
// last line is still open.
type output struct {
	w    io.Writer
	err  error
	open bool
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if n > 0 {
		o.open = p[n-1] != '\n'
	}
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// newScreen looks at what the files are. NO_COLOR and TERM=dumb turn colours off.
func newScreen(in, out, errs *os.File, getenv func(string) string) *screen {
	s := &screen{
		in: in, out: &output{w: out}, err: &output{w: errs}, getenv: getenv,
		outTTY: xterm.IsTerminal(int(out.Fd())),
		errTTY: xterm.IsTerminal(int(errs.Fd())),
		one:    sameFile(out, errs),
		size: func() (int, int) {
			w, h, err := xterm.GetSize(int(out.Fd()))
			if err != nil || w <= 0 || h <= 0 {
				return 80, 24
			}
			return w, h
		},
	}
	s.colour = s.outTTY && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
	return s
}

func sameFile(a, b *os.File) bool {
	x, err := a.Stat()
	y, err2 := b.Stat()
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// shown makes text ready for out.
func (s *screen) shown(text string) string {
	if s.outTTY {
		return term.Sanitize(text)
	}
	return text
}

// say writes one line to err, a line of its own also where a tool's output left
// one open.
func (s *screen) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if s.errTTY {
		text = term.Sanitize(text)
	}
	s.endLine()
	_, _ = io.WriteString(s.err, text+"\n") // there is nowhere else to tell it
}

// endLine ends the lines that a tool left open: on a terminal, and where err
// would go on with them. A pipe or file on out stays byte for byte what the tool
// gave.
func (s *screen) endLine() {
	if s.outTTY && s.out.open {
		_, _ = io.WriteString(s.out, "\n") // out remembers its failure
		s.err.open = s.err.open && !s.one
	}
	if s.err.open || s.one && s.out.open {
		_, _ = io.WriteString(s.err, "\n")
		s.out.open = s.out.open && !s.one
	}
}

// print writes one line to out.
func (s *screen) print(format string, args ...any) {
	s.put(s.shown(fmt.Sprintf(format, args...)))
}

// put writes lines that are fit for out as they are.
func (s *screen) put(lines ...string) {
	for _, l := range lines {
		_, _ = io.WriteString(s.out, l+"\n") // out remembers its failure
	}
}

// table shows a table on out, as wide as the terminal; in a pipe, as wide as it
// is.
func (s *screen) table(t term.Table) { s.put(s.lines(t)...) }

func (s *screen) lines(t term.Table) []string {
	width := 0
	if s.outTTY {
		width, _ = s.size()
	}
	return t.Lines(width, s.colour)
}

// jsonOf gives a message as one line of JSON, with the names of the proto.
func jsonOf(m proto.Message) (json.RawMessage, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("making JSON: %w", err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil { // protojson varies its spaces
		return nil, fmt.Errorf("making JSON: %w", err)
	}
	return b.Bytes(), nil
}

// printMessage writes a message as indented JSON.
func (s *screen) printMessage(m proto.Message) error {
	text, err := jsonOf(m)
	if err != nil {
		return err
	}
	return s.printJSON(text)
}

// printJSON writes a value as indented JSON. JSON escapes control characters by
// itself; a terminal's other dangers are escaped as JSON does.
func (s *screen) printJSON(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("making JSON: %w", err)
	}
	if _, err := io.WriteString(s.out, s.shown(b.String())); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// word is an enum's value without its type: ALLOW, READ_ONLY; "" for the zero
// value.
func word(e protoreflect.Enum) string {
	values := e.Descriptor().Values()
	v := values.ByNumber(e.Number())
	switch {
	case v == nil:
		return fmt.Sprintf("%d", e.Number())
	case v.Number() == 0:
		return ""
	}
	prefix := len(values.Get(0).Name()) - len("UNSPECIFIED")
	return string(v.Name()[prefix:])
}
