package integration

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toold/toold/internal/pgtest"
)

// Postgres is killed under load and comes back, over and over. While it is away
// requests are refused and nothing starts; afterwards the same daemon goes on,
// and the ledger explains everything that is on disk.
func TestPostgresDiesUnderLoad(t *testing.T) {
	server, err := pgtest.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	const database = "toold_outage"
	if err := server.CreateDatabase(t.Context(), database, "template0"); err != nil {
		t.Fatal(err)
	}
	if err := migrated.Migrate(t.Context(), server.DSN(database)); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, server.DSN(database))
	s.put("seed", []byte("something to read\n"))
	d := s.start()
	load := startLoad(t, s, 6)
	type outage struct{ from, to time.Time }
	var outages []outage
	for range times(2, 25) {
		load.progress(100)
		if err := server.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		away := outage{from: time.Now()}
		s.checkAway(t)
		away.to = time.Now()
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		outages = append(outages, away)
		back := time.Now()
		run(t, s.client(t), batch(bash("back", "true")))
		t.Logf("away for %v, and well %v after it was back", away.to.Sub(away.from).Round(time.Millisecond), time.Since(back).Round(time.Millisecond))
	}
	stories := load.end()
	if d.exited() {
		t.Fatal("the daemon ended")
	}
	c := s.client(t)
	for _, told := range stories {
		told.checkOrder(t)
		told.checkSame(t, attach(t, c, told.requestID))
	}
	d.stop()
	f := s.ledger().facts(t)
	f.outages = true
	effects := s.effects(t)
	f.checkEffects(t, effects)
	f.checkTerminal(t)
	f.checkWrites(t, s)
	for _, e := range effects {
		during := slices.ContainsFunc(outages, func(o outage) bool { return e.at.After(o.from) && e.at.Before(o.to) })
		if starts := f.starts[f.key(e.token)]; during && len(starts) > 0 && starts[0].committed.After(e.at) {
			t.Errorf("%s took effect while the ledger was away", e.token)
		}
	}
	s.checkChains(t)
	t.Logf("%d outages, %d batches, %d effects, %d UNKNOWN", len(outages), len(stories), len(effects), f.outcomesNamed("UNKNOWN"))
}

// checkAway sends batches to a daemon whose Postgres is away, until some were
// refused with the promise that nothing runs. The first may be in doubt: Postgres
// may have died with its commit under way.
func (s *site) checkAway(t *testing.T) {
	t.Helper()
	c := s.client(t)
	refused := 0
	for refused < 5 {
		err := execute(t, c, batch(bash("never", "touch never"), read("never-read", "seed")))
		what, notAccepted := refusal(err)
		if status.Code(err) != codes.Unavailable || what != "Unavailable/AUDIT_UNAVAILABLE" {
			t.Fatalf("a batch while Postgres is away: %v", err)
		}
		if notAccepted {
			refused++
		}
	}
	if s.has("never") {
		t.Error("a command ran while Postgres was away")
	}
}
