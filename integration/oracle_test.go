package integration

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"github.com/toold/toold/internal/store/postgres"
	"github.com/toold/toold/internal/store/sqlite"
	"github.com/toold/toold/internal/store/storetest"
)

// ledger is the store as an auditor sees it: by SQL, past toold.
type ledger struct {
	db     *sql.DB
	sqlite bool
}

func openLedger(databaseURL, file string) (*ledger, error) {
	if databaseURL != "" {
		db, err := sql.Open("pgx", databaseURL)
		return &ledger{db, false}, err
	}
	db, err := sql.Open("sqlite", "file:"+file+"?mode=ro&_pragma=busy_timeout(5000)")
	return &ledger{db, true}, err
}

func (s *site) database() string { return filepath.Join(s.data, "toold.db") }

func (s *site) ledger() *ledger {
	s.t.Helper()
	l, err := openLedger(s.databaseURL, s.database())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = l.db.Close() })
	return l
}

// sql makes a query written for Postgres one for the store: SQLite has audit_x
// for audit.x.
func (l *ledger) sql(query string) string {
	if !l.sqlite {
		return query
	}
	return strings.NewReplacer("audit.", "audit_", "exec.", "exec_").Replace(query)
}

// moment is a time of either store.
type moment struct{ time.Time }

// Scan implements sql.Scanner.
func (m *moment) Scan(v any) (err error) {
	switch v := v.(type) {
	case time.Time:
		m.Time = v
	case string:
		m.Time, err = time.Parse("2006-01-02 15:04:05.999999", v)
	case nil:
		m.Time = time.Time{}
	default:
		err = fmt.Errorf("%T is no time", v)
	}
	return err
}

// callKey names a call of a batch.
type callKey struct{ batch, call string }

type decision struct {
	id, verdict, code, stage, reason, policy string
	no                                       int
	committed                                time.Time
}

type start struct {
	decision  string
	attempt   int
	committed time.Time
}

type outcome struct {
	outcome, reason string
	attempt         int
}

type liveBatch struct {
	state string
	ended bool
	last  int64
}

// facts is all that the ledger says.
type facts struct {
	batches   map[string]string // batch id by request id
	counts    map[string]int    // number of calls by batch id
	decisions map[callKey][]decision
	starts    map[callKey][]start
	outcomes  map[callKey][]outcome
	live      map[string]liveBatch // by batch id
	tokens    map[string]callKey   // made by key
	// outages: commits were cut off and tried again, so that a start that took
	// effect once may be marked more than once.
	outages bool
}

// facts reads the ledger. It fails the test where a request id has two batches.
func (l *ledger) facts(t testing.TB) *facts {
	t.Helper()
	f := &facts{
		batches: map[string]string{}, counts: map[string]int{}, decisions: map[callKey][]decision{},
		starts: map[callKey][]start{}, outcomes: map[callKey][]outcome{}, live: map[string]liveBatch{},
	}
	l.each(t, `SELECT request_id, batch_id, call_count FROM audit.batches WHERE schedule_mode <> 'EXPLAIN'`, func(scan func(...any) error) error {
		var request, batch string
		var calls int
		err := scan(&request, &batch, &calls)
		if first, twice := f.batches[request]; twice {
			t.Errorf("request %s has the batches %s and %s", request, first, batch)
		}
		f.batches[request], f.counts[batch] = batch, calls
		return err
	})
	l.each(t, `SELECT d.batch_id, d.call_id, d.decision_id, d.verdict, d.reason_code, d.stage, d.reason, d.policy_id, d.decision_no, b.committed_at
		FROM audit.permission_decisions d JOIN audit.blocks b ON b.writer_id = d.writer_id AND b.block_no = d.block_no
		ORDER BY d.batch_id, d.call_id, d.decision_no`, func(scan func(...any) error) error {
		var k callKey
		var d decision
		var at moment
		err := scan(&k.batch, &k.call, &d.id, &d.verdict, &d.code, &d.stage, &d.reason, &d.policy, &d.no, &at)
		d.committed = at.Time
		f.decisions[k] = append(f.decisions[k], d)
		return err
	})
	l.each(t, `SELECT s.batch_id, s.call_id, s.decision_id, s.attempt, b.committed_at
		FROM audit.call_starts s JOIN audit.blocks b ON b.writer_id = s.writer_id AND b.block_no = s.block_no`, func(scan func(...any) error) error {
		var k callKey
		var s start
		var at moment
		err := scan(&k.batch, &k.call, &s.decision, &s.attempt, &at)
		s.committed = at.Time
		f.starts[k] = append(f.starts[k], s)
		return err
	})
	l.each(t, `SELECT batch_id, call_id, outcome, coalesce(error_reason, ''), attempt FROM audit.outcomes`, func(scan func(...any) error) error {
		var k callKey
		var o outcome
		err := scan(&k.batch, &k.call, &o.outcome, &o.reason, &o.attempt)
		f.outcomes[k] = append(f.outcomes[k], o)
		return err
	})
	l.each(t, `SELECT batch_id, state, ended_at IS NOT NULL, last_seq FROM exec.batches`, func(scan func(...any) error) error {
		var id string
		var b liveBatch
		err := scan(&id, &b.state, &b.ended, &b.last)
		f.live[id] = b
		return err
	})
	return f
}

func (l *ledger) each(t testing.TB, query string, row func(scan func(...any) error) error) {
	t.Helper()
	rows, err := l.db.QueryContext(within(t), l.sql(query))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// effect is a line that a command left: its token, which is its call id, and
// when it did so.
type effect struct {
	token string
	at    time.Time
	note  string // what the witness said; empty for others
}

// tokens is the file of the workspace that commands append to.
const tokens = "tokens"

// leaveToken is a command that appends a token, beside the time, to the file.
func leaveToken(token string) string { return "echo " + token + ` $(date +%s%N) >> ` + tokens }

func (s *site) effects(t testing.TB) []effect {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.workspace, tokens))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var out []effect
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) < 2 || line[len(line)-1] != '\n' {
			t.Fatalf("a broken line in the file of tokens: %q", line)
		}
		ns, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, effect{f[0], time.Unix(0, ns), strings.Join(f[2:], " ")})
	}
	return out
}

// clockStep is what SQLite's clock, of whole milliseconds, may be ahead by.
const clockStep = time.Millisecond

// checkEffects holds what is on disk against the ledger: every token is there
// once, and its ALLOW and its start were committed before.
func (f *facts) checkEffects(t testing.TB, effects []effect) {
	t.Helper()
	seen := map[string]bool{}
	for _, e := range effects {
		if seen[e.token] {
			t.Errorf("%s took effect twice", e.token)
		}
		seen[e.token] = true
		f.checkEffect(t, f.key(e.token), e)
	}
	for k, all := range f.outcomes {
		if all[0].outcome == "SUCCEEDED" && isToken(k.call) && !seen[k.call] {
			t.Errorf("%s SUCCEEDED and left nothing", k.call)
		}
	}
}

// key finds the one call that has a token as its id.
func (f *facts) key(token string) callKey {
	if f.tokens == nil {
		f.tokens = map[string]callKey{}
		for k := range f.decisions {
			f.tokens[k.call] = k
		}
	}
	return f.tokens[token]
}

func (f *facts) checkEffect(t testing.TB, k callKey, e effect) {
	t.Helper()
	starts := f.starts[k]
	if len(starts) == 0 || starts[0].attempt != 1 || !f.outages && len(starts) > 1 {
		t.Errorf("%s took effect and has the starts %+v, want one", e.token, starts)
		return
	}
	var allow *decision
	for i, d := range f.decisions[k] {
		if d.id == starts[0].decision && d.verdict == "ALLOW" {
			allow = &f.decisions[k][i]
		}
	}
	switch {
	case allow == nil:
		t.Errorf("%s took effect and its start stands on no ALLOW", e.token)
	case allow.committed.After(e.at.Add(clockStep)):
		t.Errorf("%s took effect at %v, and its ALLOW was committed at %v", e.token, e.at, allow.committed)
	case starts[0].committed.After(e.at.Add(clockStep)):
		t.Errorf("%s took effect at %v, and its start was committed at %v", e.token, e.at, starts[0].committed)
	case e.note != "" && e.note != witnessed:
		t.Errorf("%s looked into the ledger as it took effect: %s", e.token, e.note)
	}
	switch o := f.outcomes[k]; {
	case len(o) != 1:
	case o[0].outcome != "SUCCEEDED" && o[0].outcome != "UNKNOWN" && o[0].outcome != "INTERRUPTED":
		t.Errorf("%s took effect and ended %s", e.token, o[0].outcome)
	}
}

// checkTerminal wants every accepted batch ended, with one outcome a call.
func (f *facts) checkTerminal(t testing.TB) {
	t.Helper()
	outcomes := map[string]int{}
	for k, all := range f.outcomes {
		outcomes[k.batch] += len(all)
		if len(all) != 1 {
			t.Errorf("call %v has %d outcomes", k, len(all))
		}
	}
	for request, id := range f.batches {
		if b := f.live[id]; !b.ended {
			t.Errorf("batch %s of request %s is %s: not terminal", id, request, b.state)
		}
		if outcomes[id] != f.counts[id] {
			t.Errorf("batch %s has %d outcomes for %d calls", id, outcomes[id], f.counts[id])
		}
	}
}

// outcomesNamed counts the outcomes of one kind.
func (f *facts) outcomesNamed(name string) (n int) {
	for _, all := range f.outcomes {
		for _, o := range all {
			if o.outcome == name {
				n++
			}
		}
	}
	return n
}

// checkChains verifies, with no daemon running, every writer's chain down to the
// rows, that events are dense, and that starts stand on earlier ALLOWs.
func (s *site) checkChains(t testing.TB) {
	t.Helper()
	var writers []string
	s.ledger().each(t, `SELECT DISTINCT writer_id FROM audit.blocks`, func(scan func(...any) error) error {
		writers = append(writers, "")
		return scan(&writers[len(writers)-1])
	})
	var store storetest.Store
	var err error
	if s.databaseURL != "" {
		store, err = postgres.Open(within(t), s.databaseURL, postgres.Options{})
	} else {
		store, err = sqlite.Open(within(t), s.database(), sqlite.Options{})
	}
	if err != nil {
		t.Fatal(err)
	}
	storetest.Check(t, store, writers)
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// The witness is this test binary run as a tool's command: before it leaves its
// token it looks by SQL whether its start, and the ALLOW it stands on, are there.
const (
	witnessCommand = "witness"
	witnessed      = "on-record"
)

// leaveWitnessed is leaveToken by the witness.
func (s *site) leaveWitnessed(token string) string {
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("%s %s '%s' '%s' %s", self, witnessCommand, s.databaseURL, s.database(), token)
}

func witness(args []string) int {
	note := witnessed
	if err := look(args[0], args[1], args[2]); err != nil {
		note = err.Error()
	}
	f, err := os.OpenFile(tokens, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 1
	}
	if _, err := fmt.Fprintln(f, args[2], time.Now().UnixNano(), strings.ReplaceAll(note, "\n", " ")); err != nil {
		return 1
	}
	return 0
}

func look(databaseURL, file, token string) error {
	l, err := openLedger(databaseURL, file)
	if err != nil {
		return err
	}
	defer l.db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		var n int
		err := l.db.QueryRowContext(ctx, l.sql(`SELECT count(*) FROM audit.call_starts s JOIN audit.permission_decisions d
			ON d.decision_id = s.decision_id WHERE s.call_id = '`+token+`' AND d.verdict = 'ALLOW'`)).Scan(&n)
		switch {
		case err == nil && n == 0:
			return errors.New("no start on an ALLOW")
		case err == nil:
			return nil
		case l.sqlite || ctx.Err() != nil:
			return err
		}
		time.Sleep(50 * time.Millisecond) // Postgres may be away for a while
	}
}
