package artifact

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"os"

	"github.com/toold/toold/internal/budget"
)

// spool holds a stream: its first bytes and its last ones in memory, and all of
// them in a file once the memory is full. The ring of the last bytes is also what
// is still to be written to the file, so that memory and file together have every
// byte, and small writes become large ones. It is not safe for concurrent use.
type spool struct {
	create  func() (*os.File, error)
	head    []byte // the first bytes
	headMax int
	ring    []byte // byte n of the stream, past the head, is at (n − headMax) mod ringMax
	ringMax int
	size    int64
	file    *os.File // nil while memory has everything
	flushed int64    // bytes that file, hash and counter have
	hash    hash.Hash
	counter *budget.Counter // nil: tokens are not counted
	stored  bool            // file has its name among the contents
}

func newSpool(create func() (*os.File, error), headMax, ringMax int, counter *budget.Counter) *spool {
	return &spool{create: create, headMax: headMax, ringMax: ringMax, hash: sha256.New(), counter: counter}
}

// write appends p. After an error a part of p may have been appended.
func (s *spool) write(p []byte) error {
	if n := min(s.headMax-len(s.head), len(p)); n > 0 {
		s.head = append(s.head, p[:n]...)
		s.size += int64(n)
		p = p[n:]
	}
	for len(p) > 0 {
		if s.ring == nil {
			s.ring = make([]byte, s.ringMax)
		}
		waiting := s.size - max(s.flushed, int64(s.headMax))
		if waiting == int64(s.ringMax) {
			if err := s.spill(); err != nil {
				return err
			}
			waiting = 0
		}
		place := s.place(s.size)
		n := copy(s.ring[place:], p[:min(int64(len(p)), int64(s.ringMax)-waiting)])
		s.size += int64(n)
		p = p[n:]
	}
	return nil
}

func (s *spool) place(n int64) int { return int((n - int64(s.headMax)) % int64(s.ringMax)) }

// memory gives the bytes from n on that are in memory in one piece; n < size is
// in the head or among the last ringMax bytes.
func (s *spool) memory(n int64) []byte {
	if n < int64(len(s.head)) {
		return s.head[n:]
	}
	place := s.place(n)
	return s.ring[place:min(int64(s.ringMax), int64(place)+s.size-n)]
}

// spill writes to the file what is only in memory.
func (s *spool) spill() error {
	if s.file == nil {
		f, err := s.create()
		if err != nil {
			return fmt.Errorf("keeping output on disk: %w", err)
		}
		s.file = f
	}
	for s.flushed < s.size {
		piece := s.memory(s.flushed)
		if _, err := s.file.WriteAt(piece, s.flushed); err != nil {
			return fmt.Errorf("keeping output on disk: %w", err)
		}
		s.flushed += int64(len(piece))
		s.digest(piece)
	}
	return nil
}

func (s *spool) digest(piece []byte) {
	_, _ = s.hash.Write(piece)
	if s.counter != nil {
		_, _ = s.counter.Write(piece)
	}
}

// finish completes hash, count and, if there is one, the file.
func (s *spool) finish() error {
	if s.file != nil {
		return s.spill()
	}
	for at := int64(0); at < s.size; {
		piece := s.memory(at)
		s.digest(piece)
		at += int64(len(piece))
	}
	return nil
}

// last copies the last bytes that are not in the head, at most n.
func (s *spool) last(n int64) []byte {
	n = min(n, int64(s.ringMax), s.size-int64(len(s.head)))
	tail := make([]byte, 0, n)
	for at := s.size - n; at < s.size; {
		piece := s.memory(at)
		tail = append(tail, piece...)
		at += int64(len(piece))
	}
	return tail
}

// readMemory copies to p what it can of the stream from off on. It gives onDisk
// > 0 instead where that many bytes are to be read from the file, which has them
// for good.
func (s *spool) readMemory(p []byte, off int64) (n, onDisk int) {
	if off >= int64(s.headMax) && off < s.flushed {
		return 0, int(min(int64(len(p)), s.flushed-off))
	}
	for n < len(p) && off < s.size && (off < int64(s.headMax) || off >= s.flushed) {
		m := copy(p[n:], s.memory(off))
		n += m
		off += int64(m)
	}
	return n, 0
}

// store makes the whole stream, which is finished, durable as a content of d. The
// file keeps serving readers under its new name.
func (s *spool) store(d *Disk) (Blob, error) {
	b := Blob{SHA256: sum(s.hash), Size: s.size}
	switch {
	case s.stored:
		return b, nil
	case s.file == nil && d.has(b):
		return b, d.name(nil, b)
	case s.file == nil:
		f, err := s.create()
		if err != nil {
			return Blob{}, err
		}
		if err := s.copyTo(f); err != nil {
			_ = os.Remove(f.Name())
			return Blob{}, err
		}
		s.file, s.flushed = f, s.size
	}
	if err := d.name(s.file, b); err != nil {
		return Blob{}, err
	}
	s.stored = true
	return b, nil
}

// copyTo writes a stream that is only in memory.
func (s *spool) copyTo(f *os.File) error {
	for at := int64(0); at < s.size; {
		piece := s.memory(at)
		if _, err := f.WriteAt(piece, at); err != nil {
			return err
		}
		at += int64(len(piece))
	}
	return nil
}

// close gives up what was not stored. The open file, if any, still has its bytes.
func (s *spool) close() {
	if s.file != nil && !s.stored {
		_ = os.Remove(s.file.Name())
	}
}

func sum(h hash.Hash) string { return fmt.Sprintf("%x", h.Sum(nil)) }
