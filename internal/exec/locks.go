package exec

import (
	"context"
	"sync"
)

// writerLocks gives each workspace one writer at a time, first come first
// served, across batches.
type writerLocks struct {
	mu     sync.Mutex
	queues map[string][]chan struct{} // first is the holder; closed = it is your turn
	fences map[string]int64           // grows with each holder
}

func newWriterLocks() *writerLocks {
	return &writerLocks{queues: make(map[string][]chan struct{}), fences: make(map[string]int64)}
}

// try takes the lock if nobody holds or awaits it.
func (l *writerLocks) try(workspace string) (fence int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queues[workspace]) > 0 {
		return 0, false
	}
	turn := make(chan struct{})
	close(turn)
	l.queues[workspace] = append(l.queues[workspace], turn)
	l.fences[workspace]++
	return l.fences[workspace], true
}

// acquire waits for the lock. It fails only with ctx's cause, and then holds
// nothing.
func (l *writerLocks) acquire(ctx context.Context, workspace string) (fence int64, err error) {
	l.mu.Lock()
	turn := make(chan struct{})
	q := append(l.queues[workspace], turn)
	l.queues[workspace] = q
	if len(q) == 1 {
		close(turn)
	}
	l.mu.Unlock()
	select {
	case <-turn:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fences[workspace]++
		return l.fences[workspace], nil
	case <-ctx.Done():
		l.leave(workspace, turn)
		return 0, context.Cause(ctx)
	}
}

// release hands the lock to the next in line.
func (l *writerLocks) release(workspace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pop(workspace, 0)
}

func (l *writerLocks) leave(workspace string, turn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, t := range l.queues[workspace] {
		if t == turn {
			l.pop(workspace, i)
			return
		}
	}
}

func (l *writerLocks) pop(workspace string, i int) {
	q := l.queues[workspace]
	q = append(q[:i:i], q[i+1:]...)
	if len(q) == 0 {
		delete(l.queues, workspace)
		return
	}
	l.queues[workspace] = q
	if i == 0 {
		close(q[0])
	}
}
