package sandbox

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/toold/toold/internal/tool"
)

const (
	// pumpBytes is the most that is read and delivered at once.
	pumpBytes = 32 << 10
	// drainBytes bounds what is read of a pipe after the command's end, should
	// a process outside its tree hold the other end: the largest pipe there is
	// without privilege.
	drainBytes = 1 << 20
)

// pump reads a command's two pipes and delivers what comes, one piece at a time.
// After the first refusal it reads on, so that no writer is stuck, and drops
// what it reads.
type pump struct {
	deliver func(tool.Channel, []byte) error
	refused chan struct{} // closed when deliver fails

	mu      sync.Mutex
	err     error
	pipes   []*os.File
	readers sync.WaitGroup
}

func newPump(deliver func(tool.Channel, []byte) error) *pump {
	return &pump{deliver: deliver, refused: make(chan struct{})}
}

// read starts to read r, which becomes the pump's to close.
func (p *pump) read(ch tool.Channel, r *os.File) {
	p.pipes = append(p.pipes, r)
	p.readers.Go(func() {
		buf := make([]byte, pumpBytes)
		for {
			n, err := r.Read(buf)
			p.give(ch, buf[:n])
			if errors.Is(err, os.ErrDeadlineExceeded) {
				p.drain(ch, r, buf)
				return
			}
			if err != nil {
				return
			}
		}
	})
}

func (p *pump) give(ch tool.Channel, b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil || len(b) == 0 {
		return
	}
	if p.err = p.deliver(ch, b); p.err != nil {
		close(p.refused)
	}
}

// drain takes what is in the pipe now and does not wait for its end.
func (p *pump) drain(ch tool.Channel, r *os.File, buf []byte) {
	conn, err := r.SyscallConn()
	if err != nil || r.SetReadDeadline(time.Time{}) != nil {
		return
	}
	for left := drainBytes; left > 0; {
		n := 0
		if conn.Read(func(fd uintptr) bool {
			n, err = syscall.Read(int(fd), buf)
			return true
		}) != nil || err != nil || n <= 0 {
			return
		}
		p.give(ch, buf[:n])
		left -= n
	}
}

// finish delivers what the pipes still hold, closes them, and gives the error
// of the first refused delivery. No process of the command is left by then.
func (p *pump) finish() error {
	for _, r := range p.pipes {
		// A pipe that cannot be woken has come to its end.
		_ = r.SetReadDeadline(time.Unix(1, 0))
	}
	p.readers.Wait()
	for _, r := range p.pipes {
		_ = r.Close()
	}
	return p.err
}
