package artifact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// ErrRange is a range that is not within the artifact.
var ErrRange = errors.New("the range is not in the artifact")

// ReadRange reads length bytes from offset on, or what there is of them. A
// negative offset counts from the end; a length of 0 means to the end. An offset
// that is not in the artifact is ErrRange. Nothing is read ahead: the result
// holds no memory, and can be sought in.
func ReadRange(r Reader, offset, length int64) (*io.SectionReader, error) {
	size := r.Size()
	from := offset
	if offset < 0 {
		from = max(0, size+offset)
	}
	if from > size {
		return nil, fmt.Errorf("%w: offset %d is past its %d bytes", ErrRange, offset, size)
	}
	if length < 0 {
		return nil, fmt.Errorf("%w: length %d is negative; 0 means to the end", ErrRange, length)
	}
	if length == 0 || length > size-from {
		length = size - from
	}
	return io.NewSectionReader(r, from, length), nil
}

// ReadLines reads count lines from line first on (1 = the first), or what there
// is of them; a count of 0 means to the end. Line ends are kept. A line that is
// not in the artifact is ErrRange; line 1 always is. It reads the artifact up to
// the last of the lines once, in a constant 64 KiB, and stops when ctx ends.
func ReadLines(ctx context.Context, r Reader, first, count int64) (*io.SectionReader, error) {
	if first < 1 || count < 0 {
		return nil, fmt.Errorf("%w: want first >= 1 and count >= 0, got %d and %d", ErrRange, first, count)
	}
	s := lineScanner{ctx: ctx, r: r, size: r.Size(), buf: make([]byte, 64<<10)}
	if err := s.skip(first - 1); err != nil {
		return nil, err
	}
	from := s.at
	if from == s.size && first > 1 {
		return nil, fmt.Errorf("%w: line %d is past its %d lines", ErrRange, first, s.lines)
	}
	s.at, s.lines = from, 0
	if count == 0 {
		return io.NewSectionReader(r, from, s.size-from), nil
	}
	if err := s.skip(count); err != nil {
		return nil, err
	}
	return io.NewSectionReader(r, from, s.at-from), nil
}

// lineScanner walks over lines.
type lineScanner struct {
	ctx   context.Context
	r     io.ReaderAt
	size  int64
	at    int64 // the place after the last line that was skipped
	lines int64 // that were skipped, the unfinished last one too
	buf   []byte
}

// skip goes over n lines, or to the end.
func (s *lineScanner) skip(n int64) error {
	var last byte = '\n'
	for n > 0 && s.at < s.size {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		chunk := s.buf[:min(int64(len(s.buf)), s.size-s.at)]
		if m, err := s.r.ReadAt(chunk, s.at); m < len(chunk) {
			return fmt.Errorf("reading an artifact at byte %d: %w", s.at, err)
		}
		last = chunk[len(chunk)-1]
		if ends := int64(bytes.Count(chunk, []byte{'\n'})); ends < n {
			n -= ends
			s.lines += ends
			s.at += int64(len(chunk))
			continue
		}
		for ; n > 0; n-- {
			i := bytes.IndexByte(chunk, '\n') + 1
			chunk = chunk[i:]
			s.at += int64(i)
			s.lines++
		}
		return nil
	}
	if last != '\n' {
		s.lines++
	}
	return nil
}
