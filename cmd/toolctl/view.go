package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/toold/toold/cmd/toolctl/internal/term"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

// view shows a batch while it runs: it folds each event into its board, given
// one after another. note is a word to whoever watches. close comes once, when
// the board has the summary or the batch is left; then ctx is over.
type view interface {
	event(ev *tooldv1.BatchEvent) error
	note(text string)
	close(ctx context.Context) error
}

// batchView chooses how a batch is shown.
func (a *app) batchView(b *board, outputs bool) view {
	switch {
	case a.output == outputJSON:
		return &jsonView{a.screen, b}
	case a.output == outputJSONL:
		return &eventsView{a.screen, b}
	case a.outTTY:
		return newLiveView(a.screen, b, outputs)
	}
	return &linesView{a.screen, b, outputs}
}

// redrawEvery is how often running times are shown anew.
const redrawEvery = 100 * time.Millisecond

// liveView draws the table over and over, and at the end once more, whole.
type liveView struct {
	*screen
	board   *board
	outputs bool
	region  *term.Region

	mu   sync.Mutex // guards the board against the ticker
	stop chan struct{}
	done chan struct{}
}

func newLiveView(s *screen, b *board, outputs bool) *liveView {
	v := &liveView{
		screen: s, board: b, outputs: outputs, region: term.NewRegion(s.out),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	go v.tick()
	return v
}

func (v *liveView) tick() {
	defer close(v.done)
	t := time.NewTicker(redrawEvery)
	defer t.Stop()
	for {
		select {
		case <-v.stop:
			return
		case now := <-t.C:
			v.mu.Lock()
			width, height := v.size()
			_ = v.region.Draw(v.board.live(now, width, height, v.colour)) // close tells what a broken terminal says
			v.mu.Unlock()
		}
	}
}

func (v *liveView) event(ev *tooldv1.BatchEvent) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.board.apply(ev, time.Now())
	v.board.note = ""
	return nil
}

func (v *liveView) note(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.board.note = text
}

func (v *liveView) close(context.Context) error {
	close(v.stop)
	<-v.done
	if err := v.region.Clear(); err != nil {
		return err
	}
	t := term.Table{Columns: callColumns}
	for _, r := range v.board.rows {
		t.Rows = append(t.Rows, r.cells(time.Now()))
	}
	v.table(t)
	return v.closing(v.board, v.outputs, false)
}

// linesView writes one line for each call that ended.
type linesView struct {
	*screen
	board   *board
	outputs bool
}

func (v *linesView) event(ev *tooldv1.BatchEvent) error {
	r := v.board.apply(ev, time.Now())
	var err error
	switch ev.GetEvent().(type) {
	case *tooldv1.BatchEvent_Accepted:
		_, err = fmt.Fprintf(v.out, "batch %s accepted: %s\n", v.board.batchID, plural(len(v.board.rows), "call"))
	case *tooldv1.BatchEvent_Result:
		if r != nil {
			_, err = fmt.Fprintln(v.out, r.plainLine(time.Now()))
		}
	}
	return err
}

func (v *linesView) note(text string) { v.say("%s", text) }

func (v *linesView) close(context.Context) error {
	if v.board.summary == nil {
		return nil
	}
	return v.closing(v.board, v.outputs, true)
}

// eventsView writes each event as a line of JSON.
type eventsView struct {
	*screen
	board *board
}

func (v *eventsView) event(ev *tooldv1.BatchEvent) error {
	v.board.apply(ev, time.Now())
	line, err := jsonOf(ev)
	if err != nil {
		return err
	}
	_, err = io.WriteString(v.out, v.shown(string(line))+"\n")
	return err
}

func (v *eventsView) note(text string) { v.say("%s", text) }

func (v *eventsView) close(context.Context) error { return nil }

// jsonView writes one JSON object at the end.
type jsonView struct {
	*screen
	board *board
}

func (v *jsonView) event(ev *tooldv1.BatchEvent) error {
	v.board.apply(ev, time.Now())
	return nil
}

func (v *jsonView) note(text string) { v.say("%s", text) }

func (v *jsonView) close(context.Context) error {
	if v.board.summary == nil {
		return nil
	}
	doc, err := v.board.document()
	if err != nil {
		return err
	}
	return v.printJSON(doc)
}

// document is a batch that ended, as JSON: the summary, its calls with their
// tools, decisions and results; enum values as in the API.
type document struct {
	BatchID   string          `json:"batch_id"`
	RequestID string          `json:"request_id"`
	Attached  bool            `json:"attached,omitempty"` // the request was known: an earlier run's story
	State     string          `json:"state"`
	Calls     []documentCall  `json:"calls"`
	Usage     json.RawMessage `json:"usage,omitempty"`
}

type documentCall struct {
	CallID    string          `json:"call_id"`
	Tool      string          `json:"tool"`
	Outcome   string          `json:"outcome"`
	ResultSeq int64           `json:"result_seq"`
	Decision  json.RawMessage `json:"decision,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
}

func (b *board) document() (document, error) {
	d := document{
		BatchID: b.batchID, RequestID: b.requestID, Attached: b.attached,
		State: b.summary.GetState().String(), Calls: []documentCall{},
	}
	var err error
	if d.Usage, err = jsonOf(b.summary.GetUsage()); err != nil {
		return d, err
	}
	for _, r := range b.rows {
		c := documentCall{CallID: r.id, Tool: r.tool, Outcome: r.result.GetOutcome().String(), ResultSeq: r.seq}
		if r.decision != nil {
			if c.Decision, err = jsonOf(r.decision); err != nil {
				return d, err
			}
		}
		if r.result != nil {
			if c.Result, err = jsonOf(r.result); err != nil {
				return d, err
			}
		}
		d.Calls = append(d.Calls, c)
	}
	return d, nil
}

// closing says how the batch ended and how to see more; told: the outcomes were
// said.
func (s *screen) closing(b *board, outputs, told bool) error {
	for _, r := range b.rows {
		if outputs && r.result != nil {
			s.put("", term.Bold.Paint("── "+term.Line(r.id+" · "+r.tool)+" ──", s.colour))
			if err := s.result(r, showing{name: r.id, told: told}); err != nil {
				return err
			}
		} else if r.result.GetError() != nil {
			s.problem(r, showing{name: r.id, told: told})
		}
	}
	if b.summary == nil {
		return nil
	}
	word := "finished"
	if b.summary.GetState() == tooldv1.BatchState_BATCH_STATE_CANCELLED {
		word = "was cancelled"
	}
	s.print("batch %s %s in %s: %s", b.batchID, word, duration(b.summary.GetUsage().GetWallTime().AsDuration()), b.tally())
	if !outputs {
		s.say("outputs: toolctl get %s/CALL", b.batchID)
	}
	return nil
}
