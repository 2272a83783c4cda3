package storetest

import (
	"context"
	"testing"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
)

// Check is the one checker: whatever happened before, each writer's chain holds
// down to the rows, each batch's events are dense, each start stands on an earlier
// ALLOW, and each call of an ended batch has exactly one outcome.
func Check(t testing.TB, s Store, writers []string) {
	t.Helper()
	ctx := context.Background()
	for _, w := range writers {
		checkChain(t, s, w)
	}
	batches, err := s.Batches(ctx, audit.BatchFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		checkEvents(t, s, b)
		checkTrail(t, s, b)
	}
}

func checkChain(t testing.TB, s Store, writer string) {
	t.Helper()
	ctx := context.Background()
	head, hash, err := s.Head(ctx, writer)
	if err != nil {
		t.Fatal(err)
	}
	var prev audit.Digest
	for no := int64(1); no <= head; no++ {
		b, err := s.Block(ctx, writer, no)
		if err != nil {
			t.Fatalf("block %s %d: %v", writer, no, err)
		}
		rows := len(b.Batches) + len(b.Decisions) + len(b.Starts) + len(b.Outcomes) + len(b.Artifacts) + len(b.Admin)
		switch {
		case no > 1 && b.Prev != prev:
			t.Errorf("block %s %d does not follow the one before", writer, no)
		case rows != b.Leaves:
			t.Errorf("block %s %d has %d rows, want %d", writer, no, rows, b.Leaves)
		case audit.Root(b.Digests()) != b.Root:
			t.Errorf("block %s %d: the rows are not those that were hashed", writer, no)
		case audit.BlockHash(b.Prev, b.Writer, b.No, b.Leaves, b.Root) != b.Hash:
			t.Errorf("block %s %d: wrong hash", writer, no)
		}
		prev = b.Hash
	}
	if head > 0 && prev != hash {
		t.Errorf("the head of %s is not its last block", writer)
	}
}

func checkEvents(t testing.TB, s Store, b audit.LiveBatch) {
	t.Helper()
	events, err := s.Events(context.Background(), b.ID, 0, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range events {
		if e.Seq != int64(i+1) {
			t.Errorf("batch %s: event %d has number %d", b.ID, i+1, e.Seq)
		}
	}
	if int64(len(events)) != b.LastSeq {
		t.Errorf("batch %s: %d events, and the last number is %d", b.ID, len(events), b.LastSeq)
	}
}

func checkTrail(t testing.TB, s Store, b audit.LiveBatch) {
	t.Helper()
	trail, err := s.Trail(context.Background(), b.ID)
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]bool{}
	calls := map[tool.CallID]int{}
	for _, d := range trail.Decisions {
		allowed[d.ID] = d.Verdict == "ALLOW"
		if d.No == 1 {
			calls[d.Call] = 0
		}
	}
	for _, st := range trail.Starts {
		if !allowed[st.Decision] {
			t.Errorf("batch %s: call %s started without an ALLOW", b.ID, st.Call)
		}
	}
	for _, o := range trail.Outcomes {
		calls[o.Call]++
	}
	for c, n := range calls {
		if n > 1 || n == 0 && !b.EndedAt.IsZero() {
			t.Errorf("batch %s: call %s has %d outcomes", b.ID, c, n)
		}
	}
}
