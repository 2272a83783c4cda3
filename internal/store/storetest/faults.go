package storetest

import (
	"context"
	"errors"
	"sync"

	"github.com/toold/toold/internal/audit"
)

// Fault is what happens to one commit.
type Fault int

// The faults. A lost one leaves nothing behind, a cut one is durable all the same;
// both give an error. After the away kinds the store cannot be asked either, until
// Heal.
const (
	None Fault = iota
	Lost
	Cut
	LostAway
	CutAway
)

var errFault = errors.New("injected fault")

// Faulty is a store whose commits fail as they are told to.
type Faulty struct {
	Store
	mu      sync.Mutex
	next    []Fault
	away    bool
	writers map[string]bool
}

// Break queues faults for the next commits, one each.
func (f *Faulty) Break(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = append(f.next, faults...)
}

// Heal ends being away.
func (f *Faulty) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = false
}

// Writers names every writer that has committed.
func (f *Faulty) Writers() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for w := range f.writers {
		out = append(out, w)
	}
	return out
}

func (f *Faulty) take() Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return Lost
	}
	if len(f.next) == 0 {
		return None
	}
	fault := f.next[0]
	f.next = f.next[1:]
	f.away = fault == LostAway || fault == CutAway
	return fault
}

// Commit implements audit.Store.
func (f *Faulty) Commit(ctx context.Context, g audit.Group) error {
	fault := f.take()
	sealed := g.Seal
	g.Seal = func(lost []*audit.TakenError) *audit.Block {
		b := sealed(lost)
		if b != nil {
			f.mu.Lock()
			f.writers[b.Writer] = true
			f.mu.Unlock()
		}
		return b
	}
	switch fault {
	case Lost, LostAway:
		g.Seal(make([]*audit.TakenError, len(g.Claims)))
		return errFault
	case Cut, CutAway:
		if err := f.Store.Commit(ctx, g); err != nil {
			return err
		}
		return errFault
	default:
		return f.Store.Commit(ctx, g)
	}
}

// Head implements audit.Store.
func (f *Faulty) Head(ctx context.Context, writer string) (int64, audit.Digest, error) {
	f.mu.Lock()
	away := f.away
	f.mu.Unlock()
	if away {
		return 0, audit.Digest{}, errFault
	}
	return f.Store.Head(ctx, writer)
}
