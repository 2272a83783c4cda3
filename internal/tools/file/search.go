package file

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Bounds of a search, in bytes.
const (
	smallWindow   = 64 << 10
	maxWindow     = 1 << 20 // a longer line is searched in pieces of this size
	maxWholeText  = 4 << 20 // files that are searched whole: multiline, UTF-16
	maxShownBytes = 500     // of one line
)

// outcome is what became of a file that was searched.
type outcome uint8

const (
	searched outcome = iota
	binaryFile
	tooLargeFile
	unreadableFile
)

// matched is a file with matches. In mode content its text has them, and
// ends[i] is where what belongs to match i ends.
type matched struct {
	path    string
	matches int
	text    []byte
	ends    []int
}

// until gives the text of the first n matches.
func (m *matched) until(n int) []byte {
	if n < len(m.ends) {
		return m.text[:m.ends[n-1]]
	}
	return m.text
}

// searcher looks through files, one after the other.
type searcher struct {
	grepArgs
	scan *scan
	buf  []byte
	stop int // matches after which the rest of a file is left

	// The file that is being searched.
	ctx     context.Context
	found   matched
	b       []byte // the window
	number  int    // of the line at counted
	counted int    // place in b
	shown   int    // number of the last line in the output
	after   int    // lines of context still to show
}

// newSearcher makes a searcher that leaves a file when its mode needs no more.
func newSearcher(a grepArgs, m *matcher) *searcher {
	s := &searcher{grepArgs: a, scan: m.scan(), buf: make([]byte, smallWindow)}
	switch a.Mode {
	case modeFiles:
		s.stop = 1
	case modeCount:
		s.stop = math.MaxInt
	default:
		s.stop = a.Limit + 1
	}
	return s
}

// file searches size bytes of r.
func (s *searcher) file(ctx context.Context, name string, r io.ReaderAt, size int64) (matched, outcome) {
	s.ctx = ctx
	s.found = matched{path: name}
	s.number, s.counted, s.shown, s.after = 1, 0, 0, 0
	if int64(len(s.buf)) < size && len(s.buf) < maxWindow {
		s.buf = make([]byte, maxWindow)
	}
	n, err := readFull(r, s.buf[:min(int64(len(s.buf)), size)], 0)
	if err != nil {
		return s.found, unreadableFile
	}
	head := s.buf[:n]
	wide := bytes.HasPrefix(head, []byte(utf16LEBOM.mark)) || bytes.HasPrefix(head, []byte(utf16BEBOM.mark))
	if !wide && bytes.IndexByte(head, 0) >= 0 {
		return s.found, binaryFile
	}
	if wide || s.Multiline {
		return s.whole(r, head, size, wide)
	}
	return s.stream(r, n, size)
}

// stream searches window after window; n bytes of the first are in buf. Before
// each but the first stand the lines that context may need.
func (s *searcher) stream(r io.ReaderAt, n int, size int64) (matched, outcome) {
	offset, from := int64(n), 0
	last := offset >= size || n < len(s.buf)
	for {
		end := n
		if !last {
			if i := bytes.LastIndexByte(s.buf[from:n], '\n'); i >= 0 {
				end = from + i + 1
			}
		}
		s.b = s.buf[:end]
		s.scan.reset()
		s.lines(from)
		if last || s.full() || s.ctx.Err() != nil {
			return s.finish(), searched
		}
		keep := lineStart(s.b, s.Before)
		s.countTo(keep)
		s.counted = 0
		copy(s.buf, s.buf[keep:n])
		from, n = end-keep, n-keep
		want := min(int64(len(s.buf)-n), size-offset)
		more, err := readFull(r, s.buf[n:n+int(want)], offset)
		if err != nil {
			return s.found, unreadableFile
		}
		offset, n = offset+int64(more), n+more
		last = offset >= size || int64(more) < want
	}
}

// whole searches a file in one piece, across lines where that is asked.
func (s *searcher) whole(r io.ReaderAt, head []byte, size int64, wide bool) (matched, outcome) {
	if size > maxWholeText {
		return s.found, tooLargeFile
	}
	raw := head
	if int64(len(raw)) < size {
		raw = make([]byte, size)
		n, err := readFull(r, raw, 0)
		if err != nil {
			return s.found, unreadableFile
		}
		raw = raw[:n]
	}
	if wide {
		set, ok := detect(raw, true)
		if !ok {
			return s.found, binaryFile
		}
		text, err := set.codec.NewDecoder().Bytes(raw[len(set.mark):])
		if err != nil {
			return s.found, unreadableFile
		}
		raw = text
	}
	s.b = raw
	s.scan.reset()
	if !s.Multiline {
		s.lines(0)
		return s.finish(), searched
	}
	s.b = bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n"))
	s.across()
	return s.finish(), searched
}

// lines reports the matching lines of the window from the line that starts at
// from.
func (s *searcher) lines(from int) {
	for from < len(s.b) && !s.full() {
		start, end := s.scan.line(s.b, from)
		if start < 0 {
			s.trail(from, len(s.b))
			return
		}
		s.trail(from, start)
		s.match(start, end)
		from = end + 1
	}
}

// across reports the lines that the matches of the window are on.
func (s *searcher) across() {
	if len(s.scan.literals) > 0 && s.scan.candidate(s.b, 0) == len(s.b) {
		return
	}
	from := 0
	for from < len(s.b) && !s.full() && s.ctx.Err() == nil {
		loc := s.scan.re.FindIndex(s.b[from:])
		if loc == nil || from+loc[0] == len(s.b) {
			break
		}
		start := bytes.LastIndexByte(s.b[from:from+loc[0]], '\n') + 1 + from
		end := nextByte(s.b, from+max(loc[0], loc[1]-1), '\n')
		s.trail(from, start)
		s.match(start, end)
		from = end + 1
	}
	s.trail(min(from, len(s.b)), len(s.b))
}

// full says that the rest of the file need not be looked at.
func (s *searcher) full() bool {
	return s.found.matches >= s.stop || len(s.found.text) > maxGrepBytes
}

func (s *searcher) finish() matched {
	if s.found.matches > 0 && s.Mode == modeContent {
		s.found.ends = append(s.found.ends, len(s.found.text))
	}
	return s.found
}

// match reports the lines b[start:end] with the context before them.
func (s *searcher) match(start, end int) {
	s.found.matches++
	if s.Mode != modeContent {
		return
	}
	if s.found.matches > 1 {
		s.found.ends = append(s.found.ends, len(s.found.text))
	}
	s.countTo(start)
	context := s.before(start)
	first := s.number - len(context)
	if s.shown > 0 && first > s.shown+1 && s.Before+s.After > 0 {
		s.found.text = append(s.found.text, "--\n"...)
	}
	for i, line := range context {
		s.show('-', first+i, line)
	}
	for n, at := s.number, start; at <= end; n++ {
		stop := min(nextByte(s.b, at, '\n'), end)
		s.show(':', n, s.b[at:stop])
		at = stop + 1
	}
	s.after = s.After
}

// before gives the lines of context in front of start that were not shown yet.
func (s *searcher) before(start int) [][]byte {
	var lines [][]byte
	for at := start; at > 0 && len(lines) < min(s.Before, s.number-1-s.shown); {
		begin := bytes.LastIndexByte(s.b[:at-1], '\n') + 1
		lines = append(lines, s.b[begin:at-1])
		at = begin
	}
	for i, j := 0, len(lines)-1; i < j; i, j = i+1, j-1 {
		lines[i], lines[j] = lines[j], lines[i]
	}
	return lines
}

// trail shows the context that the last match still wants from b[from:to].
func (s *searcher) trail(from, to int) {
	for s.after > 0 && from < to {
		s.countTo(from)
		end := nextByte(s.b, from, '\n')
		s.show('-', s.number, s.b[from:end])
		s.after--
		from = end + 1
	}
}

// countTo moves the known line number to a place in the window.
func (s *searcher) countTo(at int) {
	if at > s.counted {
		s.number += bytes.Count(s.b[s.counted:at], []byte{'\n'})
		s.counted = at
	}
}

func (s *searcher) show(mark byte, number int, line []byte) {
	t := append(s.found.text, s.found.path...)
	t = append(t, mark)
	t = strconv.AppendInt(t, int64(number), 10)
	t = append(t, mark)
	t = s.appendLine(t, bytes.TrimSuffix(line, []byte{'\r'}))
	s.found.text = append(t, '\n')
	s.shown = number
}

// appendLine adds the part of a line that is worth showing: all of it, or what
// is around the match.
func (s *searcher) appendLine(t, line []byte) []byte {
	const lead = 100
	start, end := 0, len(line)
	if end > maxShownBytes {
		if loc := s.scan.re.FindIndex(line); loc != nil {
			start = max(0, loc[0]-lead)
		}
		end = min(len(line), start+maxShownBytes)
		for i := 0; i < utf8.UTFMax && start > 0 && !utf8.RuneStart(line[start]); i++ {
			start--
		}
		for i := 0; i < utf8.UTFMax && end < len(line) && !utf8.RuneStart(line[end]); i++ {
			end++
		}
	}
	if start > 0 {
		t = append(t, "…"...)
	}
	if part := line[start:end]; utf8.Valid(part) {
		t = append(t, part...)
	} else {
		t = append(t, bytes.ToValidUTF8(part, []byte("\uFFFD"))...)
	}
	if end < len(line) {
		t = append(t, "…[line of "...)
		t = strconv.AppendInt(t, int64(len(line)), 10)
		t = append(t, " bytes]"...)
	}
	return t
}

// lineStart is the place in b where its last n lines start.
func lineStart(b []byte, n int) int {
	at := len(b)
	for range n {
		if at == 0 {
			break
		}
		at = bytes.LastIndexByte(b[:at-1], '\n') + 1
	}
	if len(b)-at > maxWindow/2 {
		return len(b) // lines too long to keep for context
	}
	return at
}

// readFull reads until p is full or r ends.
func readFull(r io.ReaderAt, p []byte, at int64) (int, error) {
	n, err := r.ReadAt(p, at)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// descriptor reads an open file without the cost of an os.File.
type descriptor int

// ReadAt implements io.ReaderAt.
func (d descriptor) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		var m int
		err := uninterrupted(func() error {
			m, err = unix.Pread(int(d), p[n:], off+int64(n))
			return err
		})
		if err != nil {
			return n, err
		}
		if m == 0 {
			return n, io.EOF
		}
		n += m
	}
	return n, nil
}
