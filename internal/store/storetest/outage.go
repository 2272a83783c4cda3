package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
)

func testFaults(t *testing.T, db Database) {
	s := openFaulty(t, db)
	l := OpenLog(t, s)
	for _, c := range []struct {
		name   string
		faults []Fault
		fails  bool
	}{
		{"failed and not stored, then well", []Fault{Lost}, false},
		{"failed but stored", []Fault{Cut}, false},
		{"failed and not stored, then failed but stored", []Fault{Lost, Cut}, false},
		{"failed twice", []Fault{Lost, Lost}, true},
	} {
		s.Break(c.faults...)
		b := NewBatch(1)
		_, err := l.Intend(bg, b.Accept())
		if errors.Is(err, audit.ErrUnavailable) != c.fails || errors.Is(err, audit.ErrInDoubt) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := s.Batch(bg, "default", b.ID); errors.Is(err, audit.ErrNotFound) != c.fails {
			t.Errorf("%s: reading the batch: %v", c.name, err)
		}
		if got := len(b.Caught.Events()); got == 1 == c.fails {
			t.Errorf("%s: %d events were delivered", c.name, got)
		}
	}
	Check(t, s, s.Writers())
}

func testDoubt(t *testing.T, db Database) {
	for _, c := range []struct {
		name    string
		fault   Fault
		durable bool
	}{
		{"and it was stored", CutAway, true},
		{"and it was not", LostAway, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openFaulty(t, db)
			orphans := make(chan tool.BatchID, 1)
			l := OpenLog(t, s, func(o *audit.Options) { o.Orphaned = func(id tool.BatchID) { orphans <- id } })
			b := NewBatch(1)
			s.Break(c.fault)
			if _, err := l.Intend(bg, b.Accept()); !errors.Is(err, audit.ErrInDoubt) || !errors.Is(err, audit.ErrUnavailable) {
				t.Fatalf("%s: %v, want ErrInDoubt", c.name, err)
			}
			if l.Available() == nil {
				t.Errorf("%s: the log says that it is available", c.name)
			}
			s.Heal()
			// The log looks after the doubtful group before it writes this.
			if err := l.Settle(bg, &audit.Entry{Admin: []audit.AdminEvent{{At: Now(), Actor: "test", Event: "AFTER"}}}); err != nil {
				t.Fatal(err)
			}
			select {
			case id := <-orphans:
				if !c.durable || id != b.ID {
					t.Errorf("%s: batch %s became an orphan", c.name, id)
				}
			default:
				if c.durable {
					t.Errorf("%s: nobody was told", c.name)
				}
			}
			if _, err := s.Batch(bg, "default", b.ID); errors.Is(err, audit.ErrNotFound) == c.durable {
				t.Errorf("%s: reading the batch: %v", c.name, err)
			}
			if got := len(b.Caught.Events()); got == 1 != c.durable {
				t.Errorf("%s: %d events were delivered", c.name, got)
			}
			Check(t, s, s.Writers())
		})
	}
}

func testAway(t *testing.T, db Database) {
	s := openFaulty(t, db)
	l := OpenLog(t, s)
	b := NewBatch(3)
	if _, err := l.Intend(bg, b.Accept()); err != nil {
		t.Fatal(err)
	}
	s.Break(LostAway)
	settled := make(chan error, 4)
	settle := func(e *audit.Entry) {
		// The caller gives up at once; the log does not.
		ctx, cancel := context.WithCancel(bg)
		cancel()
		if err := l.Settle(ctx, e); !errors.Is(err, context.Canceled) && err != nil {
			t.Error(err)
		}
	}
	settle(b.Outcome(0, 10))
	for l.Available() == nil {
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	if _, err := l.Intend(bg, NewBatch(1).Accept()); !errors.Is(err, audit.ErrUnavailable) {
		t.Errorf("an intent while the store is away: %v", err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v to say so", took)
	}
	settle(b.Outcome(1, 11))
	settle(b.Outcome(2, 12))
	go func() { settled <- l.Settle(bg, b.End()) }()
	s.Heal()
	if err := <-settled; err != nil {
		t.Fatal(err)
	}
	events, err := s.Events(bg, b.ID, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, e := range events {
		sizes = append(sizes, len(e.Wire)-2)
	}
	if diff := cmp.Diff([]int{200, 10, 11, 12, 120}, sizes); diff != "" {
		t.Errorf("events out of order (-want +got):\n%s", diff)
	}
	if _, err := l.Intend(bg, NewBatch(1).Accept()); err != nil {
		t.Errorf("after it came back: %v", err)
	}
	Check(t, s, s.Writers())
}
