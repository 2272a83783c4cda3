package artifact

import (
	"context"
	"errors"
	"io"
	"sync"
)

// Live reads a capture while it is written. It sees every byte as soon as it was
// written, and goes on to work after the capture's end.
type Live struct {
	capture *Capture
	close   sync.Once
}

// Live finds the capture that is being written for an artifact. ok is false when
// there is none (any more). The reader must be closed.
func (d *Disk) Live(id string) (l *Live, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.live[id]
	if c == nil {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readers++
	return &Live{capture: c}, true
}

// Tenant is whose the artifact is.
func (l *Live) Tenant() string { return l.capture.options.Tenant }

// MediaType is the artifact's.
func (l *Live) MediaType() string { return l.capture.options.MediaType }

// Size is how many bytes there are so far.
func (l *Live) Size() int64 {
	l.capture.mu.Lock()
	defer l.capture.mu.Unlock()
	return l.capture.all.size
}

// ReadAt reads what there is so far; where that ends before p does it is io.EOF,
// although more may come.
func (l *Live) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("reading before the beginning")
	}
	s := l.capture.all
	for n < len(p) {
		l.capture.mu.Lock()
		m, onDisk := s.readMemory(p[n:], off+int64(n))
		file := s.file
		l.capture.mu.Unlock()
		if onDisk > 0 {
			if m, err = file.ReadAt(p[n:n+onDisk], off+int64(n)); err != nil {
				return n + m, err
			}
		}
		if m == 0 {
			return n, io.EOF
		}
		n += m
	}
	return n, nil
}

// Wait returns when there are more than off bytes, or no more will come: done.
func (l *Live) Wait(ctx context.Context, off int64) (size int64, done bool, err error) {
	c := l.capture
	for {
		c.mu.Lock()
		size, done = c.all.size, c.done
		if size > off || done {
			c.mu.Unlock()
			return size, done, nil
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return size, false, ctx.Err()
		}
	}
}

// Close ends reading.
func (l *Live) Close() error {
	l.close.Do(func() {
		l.capture.mu.Lock()
		defer l.capture.mu.Unlock()
		l.capture.readers--
		l.capture.release()
	})
	return nil
}
