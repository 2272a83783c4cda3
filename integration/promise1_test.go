package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/toold/toold/client"
	pb "github.com/toold/toold/proto/toold/v1"
)

// Clients keep sending batches of reads, writes and commands that leave tokens,
// while the daemon is killed at random moments, in the middle of its own start
// too. Afterwards the ledger explains everything that is on disk.
func TestPromise1_NothingRunsThatIsNotOnRecord(t *testing.T) {
	eachStore(t, func(t *testing.T, s *site) {
		s.put("seed", []byte("something to read\n"))
		load := startLoad(t, s, 6)
		kills := times(5, 120)
		var d *daemon
		for i := range kills {
			if i%5 == 3 { // while it starts and recovers
				d = s.launch()
				time.Sleep(rand.N(150 * time.Millisecond))
			} else {
				d = s.start()
				load.progress(rand.Int64N(80))
			}
			d.kill()
		}
		d = s.start()
		stories := load.end()
		d.stop()

		f := s.ledger().facts(t)
		effects := s.effects(t)
		f.checkEffects(t, effects)
		f.checkTerminal(t)
		f.checkWrites(t, s)
		if n := f.outcomesNamed("UNKNOWN"); n > kills {
			t.Errorf("%d calls are UNKNOWN after %d kills; one workspace has one writer at a time", n, kills)
		}
		s.checkChains(t)
		s.start()
		c := s.client(t)
		for _, told := range stories {
			told.checkOrder(t)
			told.checkSame(t, attach(t, c, told.requestID))
		}
		t.Logf("%d kills, %d batches, %d effects, %d UNKNOWN", kills, len(stories), len(effects), f.outcomesNamed("UNKNOWN"))
	})
}

// load is a number of clients that send batches until they are told to stop.
type load struct {
	stop    chan struct{}
	clients sync.WaitGroup
	mu      sync.Mutex
	stories []*told
	events  atomic.Int64 // that came to any of the clients
	t       *testing.T
}

// told is a story with its request's id.
type told struct {
	story
	requestID string
}

func startLoad(t *testing.T, s *site, clients int) *load {
	l := &load{stop: make(chan struct{}), t: t}
	for i := range clients {
		c := s.client(t)
		l.clients.Go(func() {
			for n := 0; !closed(l.stop); n++ {
				l.one(c, s.randomBatch(fmt.Sprintf("%d-%d", i, n)))
			}
		})
	}
	t.Cleanup(func() { l.end() })
	return l
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (l *load) one(c *client.Client, req *pb.ExecuteBatchRequest) {
	told := &told{requestID: req.GetSpec().GetRequestId()}
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	_, err := c.Execute(ctx, req, func(ev *pb.BatchEvent) error {
		l.events.Add(1)
		return told.add(ev)
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if refused := (*client.Error)(nil); errors.As(err, &refused) && refused.Refused {
		return
	}
	if err != nil {
		l.t.Errorf("request %s: %v", told.requestID, err)
		return
	}
	l.stories = append(l.stories, told)
}

// progress returns when so many more events have come, or after a while.
func (l *load) progress(events int64) {
	want := l.events.Load() + events
	for end := time.Now().Add(3 * time.Second); l.events.Load() < want && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// end lets the batches under way come to their end, and gives what was told.
func (l *load) end() []*told {
	if !closed(l.stop) {
		close(l.stop)
	}
	l.clients.Wait()
	return l.stories
}

var orders = []pb.ScheduleMode{
	pb.ScheduleMode_SCHEDULE_MODE_READS_FIRST, pb.ScheduleMode_SCHEDULE_MODE_PROGRAM_ORDER, pb.ScheduleMode_SCHEDULE_MODE_SERIAL,
}

// randomBatch has one to six calls: reads, commands that leave a token, writes.
func (s *site) randomBatch(name string) *pb.ExecuteBatchRequest {
	req := batch()
	req.Spec.ScheduleMode = orders[rand.IntN(len(orders))]
	for i := range 1 + rand.IntN(6) {
		token := fmt.Sprintf("token-%s-%d", name, i)
		var c *pb.ToolCall
		switch rand.IntN(8) {
		case 0, 1:
			c = bash(token, leaveToken(token))
		case 2:
			c = bash(token, s.leaveWitnessed(token))
		case 3, 4:
			c = write("write-"+token, "out/"+token, token)
		case 5:
			c = call("grep-"+token, "grep", map[string]any{"pattern": "read", "path": "seed"})
		default:
			c = read("read-"+token, "seed")
		}
		req.Calls = append(req.Calls, c)
	}
	return req
}

// checkWrites holds the files that were written against the ledger.
func (f *facts) checkWrites(t testing.TB, s *site) {
	t.Helper()
	for k, all := range f.outcomes {
		token, is := strings.CutPrefix(k.call, "write-")
		if !is {
			continue
		}
		content, err := os.ReadFile(filepath.Join(s.workspace, "out", token))
		there := err == nil
		switch o := all[0].outcome; {
		case there && !bytes.Equal(content, []byte(token)):
			t.Errorf("%s holds %q", token, content)
		case there && (len(f.starts[k]) == 0 || len(f.starts[k]) > 1 && !f.outages):
			t.Errorf("%s is written and has %d starts", token, len(f.starts[k]))
		case o == "SUCCEEDED" && !there:
			t.Errorf("%s SUCCEEDED and is not there", k.call)
		case o != "SUCCEEDED" && o != "UNKNOWN" && there:
			t.Errorf("%s ended %s and is there", k.call, o)
		}
	}
}

// checkOrder wants a story that the API promises: `accepted` first; of each call a
// decision, then its start if it has one, then one result; the summary last, with
// the calls in order and the numbers of their results.
func (s *story) checkOrder(t testing.TB) {
	t.Helper()
	decided, started, result := map[string]bool{}, map[string]bool{}, map[string]int64{}
	last := len(s.events) - 1
	for i, ev := range s.events {
		id := ev.GetCallId()
		wrong := func(what string) { t.Errorf("batch %s: event %d, of call %q, %s: %v", s.batchID, i+1, id, what, ev) }
		if result[id] != 0 {
			wrong("comes after the call's result")
		}
		switch {
		case (i == 0) != (ev.GetAccepted() != nil):
			wrong("is not the first as `accepted` is to be")
		case (i == last) != (ev.GetSummary() != nil):
			wrong("is not the last as the summary is to be")
		case ev.GetDecision() != nil:
			decided[id] = true
		case ev.GetStarted() != nil:
			if !decided[id] {
				wrong("starts what was not decided")
			}
			started[id] = true
		case ev.GetResult() != nil:
			result[id] = ev.GetSeq()
			if ran := ev.GetResult().GetOutcome() == pb.ToolOutcome_TOOL_OUTCOME_SUCCEEDED; !decided[id] || ran && isToken(id) && !started[id] {
				wrong("ends what was not decided, or not started")
			}
		}
	}
	if want := s.events[0].GetAccepted().GetCallCount(); int(want) != len(s.summary.GetCalls()) {
		t.Errorf("batch %s: the summary has %d of %d calls", s.batchID, len(s.summary.GetCalls()), want)
	}
	for i, c := range s.summary.GetCalls() {
		if c.GetResultSeq() == 0 || c.GetResultSeq() != result[c.GetCallId()] {
			t.Errorf("batch %s: the summary says that result %d of call %q is event %d; it was %d", s.batchID, i, c.GetCallId(), c.GetResultSeq(), result[c.GetCallId()])
		}
	}
}

// isToken reports whether a call is a command that leaves a token.
func isToken(id string) bool { return strings.HasPrefix(id, "token-") }

// checkSame wants two readers of a batch to have been told the same.
func (t1 *story) checkSame(t testing.TB, t2 *story) {
	t.Helper()
	if len(t1.events) != len(t2.events) {
		t.Errorf("batch %s: one reader was told %d events, another %d", t1.batchID, len(t1.events), len(t2.events))
		return
	}
	for i := range t1.events {
		if !proto.Equal(asAttached(t1.events[i]), asAttached(t2.events[i])) {
			t.Errorf("batch %s: event %d was told differently:\n%v\n%v", t1.batchID, i+1, t1.events[i], t2.events[i])
		}
	}
}

// asAttached is an event without what depends on the stream that it came by.
func asAttached(ev *pb.BatchEvent) *pb.BatchEvent {
	if ev.GetAccepted() == nil {
		return ev
	}
	ev = proto.CloneOf(ev)
	ev.GetAccepted().Attached = true
	return ev
}
