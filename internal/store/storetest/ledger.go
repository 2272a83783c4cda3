package storetest

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
)

// full is an entry with every kind of row, every column set, and strings that
// JSON, SQL and array literals like to damage.
func full(b *Batch) *audit.Entry {
	const nasty = `"quoted" 'single' \back {curly,brace} <&> ünï 漢字 ` + "\u2028\t\n\x7f"
	code := -1
	e := b.Accept()
	f := &e.Accept.Facts
	f.Session, f.OnBehalfOf, f.AgentVersion, f.ConversationID, f.TraceID = tool.SessionID(NewID()), nasty, "2", "conv", "0af7651916cd43dd8448eb211c80319c"
	f.Labels = map[string]string{nasty: nasty, "": "empty key", "b": "2", "a": ""}
	f.PeerAddr = "2001:DB8:0:0:0:0:0:1%eth0"
	d := &e.Decisions[0]
	d.Class, d.Reason, d.Matched, d.ApprovalID = tool.Write, nasty, []string{nasty, "", "NULL", `a"b\c`}, NewID()
	d.OnBehalfOf, d.Session, d.SessionEpoch, d.EvalMicros = "anna", f.Session, 7, 1<<31-1
	d.First.Effects = []tool.Effect{{Verb: "write", Target: nasty}, {Verb: "exec", Target: ""}}
	d.First.ArgsMasked, d.First.Rationale = `{"x":"`+strings.Repeat("é", 5000)+`"}`, nasty
	again := b.Decision(0)
	again.ID, again.No, again.First, again.Verdict, again.Reason = NewID(), 2, nil, "DENY", "no"
	e.Decisions = append(e.Decisions, again)
	e.Starts = []audit.Start{{StartedAt: Now(), Attempt: 1, Executor: "builtin", Workspace: "default", Decision: d.ID}}
	e.Outcomes = []audit.Outcome{
		{
			FinishedAt: Now(), Batch: b.ID, Call: b.Call(0), Tenant: "default", Tool: "bash", Tier: "COLD", Class: tool.SystemChange,
			Outcome: tool.Failed, ErrorReason: "NON_ZERO_EXIT", ErrorDomain: "toold", ExitCode: &code, ExitSignal: "SIGKILL", Attempt: 2,
			Queue: 1999 * time.Microsecond, Approval: time.Hour, Run: time.Minute, OutputKind: "BINARY", OutputBytes: 1 << 40,
			OutputSHA256: Digest(9), OutputTokens: 5, KeptTokens: 4, Truncated: true, ArtifactIDs: []string{NewID(), NewID()}, RecoveredBy: "r2",
		},
	}
	e.Artifacts = []audit.ArtifactEvent{
		{
			At: Now(), Artifact: NewID(), Tenant: "default", Batch: b.ID, Call: b.Call(0), Event: "CREATED", Actor: "agent-7", Name: "output", Size: 12,
			SHA256: Digest(3), MediaType: "text/plain",
		},
		{At: Now(), Artifact: NewID(), Tenant: "default", Event: "READ", Actor: nasty},
	}
	e.Admin = []audit.AdminEvent{
		{At: Now(), Tenant: "default", Actor: "anna", Event: "SESSION_CREATED", Subject: nasty, Before: `{"b": 1,  "a":1.0, "a":2}`, After: `[]`, Reason: nasty},
		{At: Now(), Actor: "system", Event: "DAEMON_STARTED"},
	}
	e.Held = []audit.Held{{Index: 3, Body: []byte{0, 1, 0xff}}}
	return e
}

func testRows(t *testing.T, db Database) {
	s := openFaulty(t, db)
	l := OpenLog(t, s)
	b := NewBatch(2)
	e := full(b)
	if _, err := l.Intend(bg, e); err != nil {
		t.Fatal(err)
	}
	writer := s.Writers()[0]
	got, err := s.Block(bg, writer, 1)
	if err != nil {
		t.Fatal(err)
	}
	same := cmp.Options{
		cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(audit.Receipt{}),
		cmp.Comparer(func(a, b time.Time) bool { return a.UnixMicro() == b.UnixMicro() }),
		cmp.Comparer(func(a, b time.Duration) bool { return a.Milliseconds() == b.Milliseconds() }),
	}
	if diff := cmp.Diff(e.Decisions, values(got.Decisions), same); diff != "" {
		t.Errorf("decisions (-written +read):\n%s", diff)
	}
	if diff := cmp.Diff([]audit.Batch{e.Accept.Facts}, values(got.Batches), same); diff != "" {
		t.Errorf("batch (-written +read):\n%s", diff)
	}
	if diff := cmp.Diff(e.Outcomes, values(got.Outcomes), same); diff != "" {
		t.Errorf("outcomes (-written +read):\n%s", diff)
	}
	if diff := cmp.Diff(e.Artifacts, values(got.Artifacts), same); diff != "" {
		t.Errorf("artifacts (-written +read):\n%s", diff)
	}
	if diff := cmp.Diff(e.Admin, values(got.Admin), same); diff != "" {
		t.Errorf("admin events (-written +read):\n%s", diff)
	}
	trail, err := s.Trail(bg, b.ID)
	if err != nil {
		t.Fatal(err)
	}
	if want := (audit.HeldRow{Batch: b.ID, Index: 3, Body: []byte{0, 1, 0xff}}); len(trail.Held) != 1 || cmp.Diff(want, trail.Held[0]) != "" {
		t.Errorf("held results: %v", trail.Held)
	}
	if len(trail.Starts) != 1 || trail.Starts[0].Decision != e.Decisions[0].ID || trail.Starts[0].Args != e.Decisions[0].ArgsDigest {
		t.Errorf("starts: %+v", trail.Starts)
	}
	checkChain(t, s, writer)
}

func values[R any](in []audit.Leaf[R]) []R {
	var out []R
	for _, l := range in {
		out = append(out, *l.Row)
	}
	return out
}

func testBatch(t *testing.T, db Database) {
	s := openFaulty(t, db)
	l := OpenLog(t, s)
	b := NewBatch(3)
	e := b.Accept()
	e.Decisions[1].Class = tool.Write
	e.Decisions[2].Verdict, e.Decisions[2].Reason = "DENY", "no"
	ids := []string{e.Decisions[0].ID, e.Decisions[1].ID, e.Decisions[2].ID}
	digests := []audit.Digest{e.Decisions[0].ArgsDigest, e.Decisions[1].ArgsDigest, e.Decisions[2].ArgsDigest}
	receipts, err := l.Intend(bg, e)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, false} {
		if got := receipts[i].Permits(b.ID, b.Call(i), digests[i]); got != want || receipts[i].Decision() != ids[i] {
			t.Errorf("receipt %d permits: %v, want %v", i, got, want)
		}
	}
	live, err := s.Batch(bg, "default", b.ID)
	if err != nil || live.State != "RUNNING" || live.LastSeq != 1 {
		t.Errorf("live batch: %+v, %v", live, err)
	}
	if open, err := s.Unfinished(bg); err != nil || len(open) != 1 {
		t.Errorf("unfinished: %v, %v", open, err)
	}
	started, err := l.Intend(bg, &audit.Entry{Starts: []audit.Start{{StartedAt: Now(), Attempt: 1, Executor: "builtin", On: receipts[1]}}})
	if err != nil {
		t.Fatal(err)
	}
	if !started[0].Permits(b.ID, b.Call(1), digests[1]) || started[0].Permits(b.ID, b.Call(1), digests[2]) || started[0].Permits(b.ID, b.Call(0), digests[1]) {
		t.Error("a start's receipt permits its own call with its own arguments, and nothing else")
	}
	for i := range 3 {
		if err := l.Settle(bg, b.Outcome(i, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Settle(bg, b.End()); err != nil {
		t.Fatal(err)
	}
	stored, err := s.Events(bg, b.ID, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stored, b.Caught.Events()); diff != "" || len(stored) != 5 {
		t.Errorf("delivered is not what is stored:\n%s", diff)
	}
	if got := stored[4].Wire[len(stored[4].Wire)-2:]; got[0] != 0x10 || got[1] != 5 {
		t.Errorf("the last event ends in % x, want its number as field 2", got)
	}
	live, err = s.Batch(bg, "default", b.ID)
	if err != nil || live.State != "COMPLETED" || live.LastSeq != 5 || live.EndedAt.IsZero() {
		t.Errorf("ended batch: %+v, %v", live, err)
	}
	Check(t, s, s.Writers())
}

func testClaims(t *testing.T, db Database) {
	s := openFaulty(t, db)
	l := OpenLog(t, s)
	first := NewBatch(1)
	if _, err := l.Intend(bg, first.Accept()); err != nil {
		t.Fatal(err)
	}
	want := &audit.TakenError{Batch: first.ID, Digest: Digest(1)}
	for _, c := range []struct {
		name string
		edit func(*audit.Batch)
		want *audit.TakenError
	}{
		{"the same id", func(*audit.Batch) {}, want},
		{"of another principal", func(b *audit.Batch) { b.Principal = "agent-8" }, nil},
		{"of another tenant", func(b *audit.Batch) { b.Tenant = "other" }, nil},
		{"no id at all", func(b *audit.Batch) { b.RequestID = "" }, nil},
		{"again no id", func(b *audit.Batch) { b.RequestID = "" }, nil},
	} {
		b := NewBatch(1)
		e := b.Accept()
		e.Accept.Facts.RequestID = first.Request
		c.edit(&e.Accept.Facts)
		_, err := l.Intend(bg, e)
		var taken *audit.TakenError
		errors.As(err, &taken)
		if diff := cmp.Diff(c.want, taken); diff != "" || c.want == nil && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if id, d, err := s.Request(bg, "default", "agent-7", first.Request); id != first.ID || d != Digest(1) || err != nil {
		t.Errorf("request: %s, %v", id, err)
	}

	// Many at once: one wins, in the group or across groups, and all others learn
	// which.
	race := NewBatch(1)
	var wg sync.WaitGroup
	var mu sync.Mutex
	winners, holders := map[tool.BatchID]bool{}, map[tool.BatchID]bool{}
	for range 20 {
		wg.Go(func() {
			b := NewBatch(1)
			b.Request = race.Request
			_, err := l.Intend(bg, b.Accept())
			mu.Lock()
			defer mu.Unlock()
			var taken *audit.TakenError
			if errors.As(err, &taken) {
				holders[taken.Batch] = true
			} else if err == nil {
				winners[b.ID] = true
			} else {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(winners, holders); diff != "" || len(winners) != 1 {
		t.Errorf("winners and holders differ: %s", diff)
	}
	checkChain(t, s, s.Writers()[0])
}

func testDataErrors(t *testing.T, db Database) {
	s := openFaulty(t, db)
	l := OpenLog(t, s)
	invalid := map[string]func(*audit.Entry){
		"NUL":                    func(e *audit.Entry) { e.Decisions[0].Reason = "a\x00b" },
		"invalid UTF-8":          func(e *audit.Entry) { e.Decisions[0].First.ArgsMasked = "\xff" },
		"in a label":             func(e *audit.Entry) { e.Accept.Facts.Labels["x"] = "\xff" },
		"no UUID":                func(e *audit.Entry) { e.Decisions[0].ID = "7" },
		"no policy":              func(e *audit.Entry) { e.Decisions[0].PolicyID = "" },
		"a time far away":        func(e *audit.Entry) { e.Accept.Facts.AcceptedAt = time.Unix(0, 0) },
		"a number too large":     func(e *audit.Entry) { e.Decisions[0].First.Index = 1 << 40 },
		"no facts":               func(e *audit.Entry) { e.Decisions[0].First = nil },
		"a start without allow":  func(e *audit.Entry) { e.Starts = []audit.Start{{StartedAt: Now(), Decision: NewID()}} },
		"a start on a forgery":   func(e *audit.Entry) { e.Starts = []audit.Start{{StartedAt: Now()}} },
		"events without a batch": func(e *audit.Entry) { e.Stream = nil },
	}
	for name, spoil := range invalid {
		e := NewBatch(1).Accept()
		spoil(e)
		var want *audit.InvalidError
		if _, err := l.Intend(bg, e); !errors.As(err, &want) {
			t.Errorf("%s: %v, want an InvalidError", name, err)
		}
	}

	// What only the database refuses: found by halving, among others in one group.
	refused := map[string]func(*audit.Entry){
		"an unknown stage":          func(e *audit.Entry) { e.Decisions[0].Stage = "MAYBE" },
		"an unknown verdict":        func(e *audit.Entry) { e.Decisions[1].Verdict = "PERHAPS" },
		"a refusal without reason":  func(e *audit.Entry) { e.Decisions[0].Verdict = "DENY" },
		"a batch that exists":       func(e *audit.Entry) { e.Admin = []audit.AdminEvent{{At: Now(), Actor: "a", Event: "E", Before: "{"}} },
		"a refusal and other calls": func(e *audit.Entry) { e.Decisions[2].Verdict = "ASK" },
	}
	good := make([]*Batch, 30)
	var wg sync.WaitGroup
	for i := range good {
		good[i] = NewBatch(3)
		wg.Go(func() {
			if _, err := l.Intend(bg, good[i].Accept()); err != nil {
				t.Errorf("a good entry: %v", err)
			}
		})
	}
	for name, spoil := range refused {
		wg.Go(func() {
			e := NewBatch(3).Accept()
			spoil(e)
			_, err := l.Intend(bg, e)
			if err == nil || errors.Is(err, audit.ErrUnavailable) {
				t.Errorf("%s: %v, want a data error", name, err)
			}
		})
	}
	wg.Wait()
	if err := l.Available(); err != nil {
		t.Errorf("a bad row is not an outage: %v", err)
	}
	batches, err := s.Batches(bg, audit.BatchFilter{})
	if err != nil || len(batches) != len(good) {
		t.Errorf("%d batches are kept, want the %d good ones: %v", len(batches), len(good), err)
	}
	Check(t, s, s.Writers())
}

func testReopen(t *testing.T, db Database) {
	s := openFaulty(t, db)
	l := OpenLog(t, s)
	b := NewBatch(1)
	if _, err := l.Intend(bg, b.Accept()); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(bg); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Intend(bg, NewBatch(1).Accept()); !errors.Is(err, audit.ErrUnavailable) {
		t.Errorf("a closed log: %v", err)
	}
	old := s.Writers()[0]
	_, last, err := s.Head(bg, old)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = openFaulty(t, db)
	l = OpenLog(t, s)
	live, err := s.Unfinished(bg)
	if err != nil || len(live) != 1 || live[0].ID != b.ID || len(live[0].Request) != 600 {
		t.Fatalf("unfinished after opening again: %v, %v", live, err)
	}
	again := &Batch{ID: b.ID, Calls: 1, Caught: new(Caught)}
	again.Stream = audit.NewStream(b.ID, live[0].LastSeq, again.Caught.deliver)
	for _, e := range []*audit.Entry{again.Outcome(0, 10), again.End()} {
		if err := l.Settle(bg, e); err != nil {
			t.Fatal(err)
		}
	}
	first, err := s.Block(bg, s.Writers()[0], 1)
	if err != nil || first.Prev != audit.FirstPrev(last) {
		t.Errorf("the first block of a new writer is not chained to the last of the old one: %v", err)
	}
	Check(t, s, append(s.Writers(), old))
}

func testStorm(t *testing.T, db Database) {
	s := openFaulty(t, db)
	l := OpenLog(t, s, func(o *audit.Options) { o.FlushTimeout = 30 * time.Second })
	for i := range 40 {
		s.Break([]Fault{None, Lost, Cut, None, Lost, Lost, Cut}[i%7])
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 5 {
				b := NewBatch(4)
				for {
					_, err := l.Intend(bg, b.Accept())
					if err == nil {
						break
					}
					if !errors.Is(err, audit.ErrUnavailable) || errors.Is(err, audit.ErrInDoubt) {
						t.Error(err)
						return
					}
				}
				var calls sync.WaitGroup
				for i := range b.Calls {
					calls.Go(func() {
						if err := l.Settle(bg, b.Outcome(i, 50+i)); err != nil {
							t.Error(err)
						}
					})
				}
				calls.Wait()
				if err := l.Settle(bg, b.End()); err != nil {
					t.Error(err)
				}
				if n := len(b.Caught.Events()); n != 6 {
					t.Errorf("%d events were delivered, want 6", n)
				}
			}
		})
	}
	wg.Wait()
	batches, err := s.Batches(bg, audit.BatchFilter{States: []string{"COMPLETED"}})
	if err != nil || len(batches) != 80 {
		t.Errorf("%d completed batches, want 80: %v", len(batches), err)
	}
	Check(t, s, s.Writers())
}
