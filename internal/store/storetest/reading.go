package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/session"
	"github.com/toold/toold/internal/tool"
)

func testReading(t *testing.T, db Database) {
	s := openFaulty(t, db)
	l := OpenLog(t, s)
	began := Now()
	var all []*Batch
	for i, edit := range []func(*audit.Batch){
		func(*audit.Batch) {},
		func(b *audit.Batch) { b.Principal = "agent-8" },
		func(b *audit.Batch) { b.Workspace = "other" },
		func(b *audit.Batch) { b.Session = "s-1" },
		func(b *audit.Batch) { b.Labels = map[string]string{"run": "43", "team": `a"b`} },
		func(b *audit.Batch) { b.Tenant = "other" },
	} {
		b := NewBatch(2)
		all = append(all, b)
		e := b.Accept()
		edit(&e.Accept.Facts)
		e.Decisions[1].Verdict, e.Decisions[1].Reason, e.Decisions[1].PolicyID = "DENY", "no", "rule.x"
		for j := range e.Decisions {
			e.Decisions[j].Tenant = e.Accept.Facts.Tenant
		}
		e.Artifacts = []audit.ArtifactEvent{{At: Now(), Artifact: NewID(), Tenant: e.Accept.Facts.Tenant, Batch: b.ID, Call: b.Call(0), Event: "CREATED", Actor: "a", Name: "output", Size: int64(i)}}
		if _, err := l.Intend(bg, e); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range []*audit.Entry{all[0].Outcome(0, 10), all[0].Outcome(1, 10), all[0].End()} {
		if err := l.Settle(bg, e); err != nil {
			t.Fatal(err)
		}
	}
	ids := func(of ...int) (out []tool.BatchID) {
		for _, i := range of {
			out = append(out, all[i].ID)
		}
		return out
	}
	for _, c := range []struct {
		name string
		f    audit.BatchFilter
		want []tool.BatchID
	}{
		{"all of a tenant", audit.BatchFilter{Tenant: "default"}, ids(4, 3, 2, 1, 0)},
		{"a page", audit.BatchFilter{Tenant: "default", Limit: 2}, ids(4, 3)},
		{"the next page", audit.BatchFilter{Tenant: "default", Limit: 2, OlderThan: all[3].ID}, ids(2, 1)},
		{"principal", audit.BatchFilter{Tenant: "default", Principal: "agent-8"}, ids(1)},
		{"workspace", audit.BatchFilter{Tenant: "default", Workspace: "other"}, ids(2)},
		{"session", audit.BatchFilter{Tenant: "default", Session: "s-1"}, ids(3)},
		{"labels", audit.BatchFilter{Tenant: "default", Labels: map[string]string{"team": `a"b`, "run": "43"}}, ids(4)},
		{"labels that do not all match", audit.BatchFilter{Tenant: "default", Labels: map[string]string{"team": `a"b`, "run": "42"}}, nil},
		{"states", audit.BatchFilter{Tenant: "default", States: []string{"COMPLETED", "CANCELLED"}}, ids(0)},
		{"after", audit.BatchFilter{Tenant: "default", After: Now().Add(time.Minute)}, nil},
		{"before", audit.BatchFilter{Tenant: "default", Before: began.Add(-time.Minute)}, nil},
	} {
		found, err := s.Batches(bg, c.f)
		var got []tool.BatchID
		for _, b := range found {
			got = append(got, b.ID)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("batches, %s: %v\n%s", c.name, err, diff)
		}
	}
	testDecisions(t, s, all)
	if _, err := s.Batch(bg, "other", all[0].ID); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("another tenant's batch: %v", err)
	}
	if _, err := s.Batch(bg, "default", "no id"); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("no id: %v", err)
	}
	if _, _, err := s.Request(bg, "default", "agent-7", "unheard of"); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("an unknown request: %v", err)
	}
	arts, err := s.Artifacts(bg, "default", "", "", "", 2)
	if err != nil || len(arts) != 2 || arts[0].Size != 4 {
		t.Fatalf("artifacts: %v, %v", arts, err)
	}
	next, err := s.Artifacts(bg, "default", all[2].ID, all[2].Call(0), arts[1].Artifact, 2)
	if err != nil || len(next) != 1 || next[0].Size != 2 {
		t.Errorf("artifacts of a call: %v, %v", next, err)
	}
	if a, err := s.Artifact(bg, "default", arts[0].Artifact); err != nil || a.Size != 4 {
		t.Errorf("artifact: %v, %v", a, err)
	}
	if _, err := s.Artifact(bg, "other", arts[0].Artifact); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("another tenant's artifact: %v", err)
	}
	for _, c := range []struct {
		after    int64
		maxBytes int
		want     []int64
	}{{0, 1 << 20, []int64{1, 2, 3, 4}}, {2, 1 << 20, []int64{3, 4}}, {0, 1, []int64{1}}, {1, 24, []int64{2, 3}}, {4, 1, nil}} {
		events, err := s.Events(bg, all[0].ID, c.after, c.maxBytes)
		var got []int64
		for _, e := range events {
			got = append(got, e.Seq)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("events after %d, %d bytes: %v\n%s", c.after, c.maxBytes, err, diff)
		}
	}
}

func testDecisions(t *testing.T, s Store, all []*Batch) {
	first, err := s.Decisions(bg, audit.DecisionFilter{Tenant: "default", Limit: 3})
	if err != nil || len(first) != 3 || first[0].Batch != all[4].ID || first[0].Verdict != "DENY" {
		t.Fatalf("decisions: %v, %v", first, err)
	}
	for _, c := range []struct {
		name string
		f    audit.DecisionFilter
		want int
	}{
		{"next page", audit.DecisionFilter{OlderThan: first[2].ID}, 7},
		{"policy", audit.DecisionFilter{PolicyID: "rule.x"}, 5},
		{"verdict", audit.DecisionFilter{Verdict: "ALLOW"}, 5},
		{"tool", audit.DecisionFilter{Tool: "write"}, 0},
		{"principal", audit.DecisionFilter{Principal: "agent-7"}, 10},
		{"batch", audit.DecisionFilter{Batch: all[1].ID}, 2},
		{"from", audit.DecisionFilter{From: Now().Add(time.Hour)}, 0},
		{"until", audit.DecisionFilter{Until: Now().Add(time.Hour)}, 10},
	} {
		c.f.Tenant = "default"
		if got, err := s.Decisions(bg, c.f); err != nil || len(got) != c.want {
			t.Errorf("decisions, %s: %d, want %d: %v", c.name, len(got), c.want, err)
		}
	}
}

func testMaintain(t *testing.T, db Database) {
	s := openFaulty(t, db)
	l := OpenLog(t, s)
	ended, open := NewBatch(1), NewBatch(1)
	for _, b := range []*Batch{ended, open} {
		e := b.Accept()
		e.Held = []audit.Held{{Index: 0, Body: []byte("x")}}
		if _, err := l.Intend(bg, e); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range []*audit.Entry{ended.Outcome(0, 10), ended.End()} {
		if err := l.Settle(bg, e); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, b *Batch, kept bool) {
		t.Helper()
		live, err := s.Batch(bg, "default", b.ID)
		if err != nil {
			t.Fatal(err)
		}
		trail, err := s.Trail(bg, b.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(live.Request) > 0; got != kept {
			t.Errorf("%s: request bytes are there: %v", when, got)
		}
		if got := len(trail.Held) > 0; got != kept {
			t.Errorf("%s: held results are there: %v", when, got)
		}
		if len(trail.Decisions) != 1 {
			t.Errorf("%s: the ledger has %d decisions", when, len(trail.Decisions))
		}
	}
	if err := s.Maintain(bg, Now()); err != nil {
		t.Fatal(err)
	}
	check("within its retention", ended, true)
	if err := s.Maintain(bg, Now().Add(8*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	check("after its retention", ended, false)
	check("unfinished", open, true)
	if _, _, err := s.Request(bg, "default", "agent-7", ended.Request); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("an expired request id: %v", err)
	}
	if events, err := s.Events(bg, open.ID, 0, 1<<20); err != nil || len(events) != 1 {
		t.Errorf("events of an unfinished batch: %v, %v", events, err)
	}
}

func testSessions(t *testing.T, db Database) {
	s := openFaulty(t, db)
	store := s.Store.(session.Store)
	now := Now()
	l := OpenLog(t, s, func(o *audit.Options) { o.Now = func() time.Time { return now } })
	all := &session.Sessions{Store: store, Log: l, Now: func() time.Time { return now }, NewID: NewID}
	anna := tool.Caller{Tenant: "default", Principal: tool.Principal{ID: "anna"}}
	ben := tool.Caller{Tenant: "default", Principal: tool.Principal{ID: "ben"}}
	made, err := all.Create(bg, anna, session.Request{ID: "r-1", Workspace: "w", Labels: map[string]string{"a": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		caller tool.Caller
		r      session.Request
		same   bool
		err    error
	}{
		{"the same request", anna, session.Request{ID: "r-1", Workspace: "w", Labels: map[string]string{"a": "b"}}, true, nil},
		{"the same id for something else", anna, session.Request{ID: "r-1", Workspace: "v"}, false, session.ErrRequestReused},
		{"somebody else's", ben, session.Request{ID: "r-1"}, false, nil},
		{"without an id", anna, session.Request{Mode: session.Plan, TTL: time.Hour}, false, nil},
	} {
		got, err := all.Create(bg, c.caller, c.r)
		if !errors.Is(err, c.err) || c.same != (got.ID == made.ID) && err == nil {
			t.Errorf("%s: %v, %v", c.name, got.ID, err)
		}
	}
	if got, err := all.Get(bg, anna, made.ID); err != nil || cmp.Diff(made, got) != "" {
		t.Errorf("get: %v\n%s", err, cmp.Diff(made, got))
	}
	if _, err := all.Get(bg, ben, made.ID); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("somebody else's session: %v", err)
	}
	planned, err := all.SetMode(bg, anna, made.ID, session.Plan, made.Epoch, "careful")
	if err != nil || planned.Mode != session.Plan || planned.Epoch != 2 {
		t.Errorf("plan mode: %+v, %v", planned, err)
	}
	if err := store.UpdateSession(bg, planned, 1); !errors.Is(err, session.ErrConflict) {
		t.Errorf("a change of an old epoch: %v", err)
	}
	if list, err := all.List(bg, anna, "", 10); err != nil || len(list) != 2 || list[1].Epoch != 2 {
		t.Errorf("list: %v, %v", list, err)
	}
	now = now.Add(20 * time.Hour)
	if used, err := all.Use(bg, anna, made.ID); err != nil || used.ExpiresAt.Sub(now.UTC().Truncate(time.Microsecond)) != session.DefaultTTL {
		t.Errorf("use: %+v, %v", used, err)
	}
	now = now.Add(25 * time.Hour)
	if _, err := all.Use(bg, anna, made.ID); !errors.Is(err, session.ErrClosed) {
		t.Errorf("an expired session: %v", err)
	}
	now = now.Add(-2 * time.Hour)
	for range 2 {
		if closed, err := all.Close(bg, anna, made.ID, ""); err != nil || closed.ClosedAt.IsZero() {
			t.Errorf("close: %+v, %v", closed, err)
		}
	}
	if _, err := all.SetMode(bg, anna, made.ID, session.Normal, 0, ""); !errors.Is(err, session.ErrClosed) {
		t.Errorf("a change of a closed session: %v", err)
	}
}
