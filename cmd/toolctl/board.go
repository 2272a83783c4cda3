package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

// board is what is known of a batch: the events that came, folded.
type board struct {
	batchID   string
	requestID string
	attached  bool
	rows      []*row // call order
	summary   *tooldv1.BatchSummary
	note      string // shown in the live title
}

// row is one call of a board.
type row struct {
	id       string
	tool     string
	decision *tooldv1.PermissionDecision
	waiting  *tooldv1.ApprovalRequested // set while a human is awaited
	started  time.Time                  // when we heard of it; zero: not yet
	running  bool                       // by GetBatch
	result   *tooldv1.CallResult
	seq      int64 // of the result
}

// newBoard makes the board of a batch about to run.
func newBoard(spec *tooldv1.BatchSpec, calls []*tooldv1.ToolCall) *board {
	b := &board{requestID: spec.GetRequestId()}
	for i, c := range calls {
		id := c.GetCallId()
		if id == "" {
			id = strconv.Itoa(i)
		}
		b.rows = append(b.rows, &row{id: id, tool: c.GetTool()})
	}
	return b
}

// boardOf makes the board of a batch as GetBatch tells it.
func boardOf(batch *tooldv1.Batch) *board {
	b := &board{batchID: batch.GetBatchId(), requestID: batch.GetRequestId()}
	for i, c := range batch.GetCalls() {
		r := &row{
			id: c.GetCall().GetCallId(), tool: c.GetCall().GetTool(), decision: c.GetDecision(), result: c.GetResult(),
			running: c.GetState() == tooldv1.CallState_CALL_STATE_RUNNING,
		}
		if r.id == "" {
			r.id = strconv.Itoa(i)
		}
		b.rows = append(b.rows, r)
	}
	return b
}

// apply folds one event in and gives the row that it is about, nil for events of
// the batch. Calls that were not known yet are added.
func (b *board) apply(ev *tooldv1.BatchEvent, now time.Time) *row {
	if b.batchID == "" {
		b.batchID = ev.GetBatchId()
	}
	if a := ev.GetAccepted(); a != nil {
		b.requestID, b.attached = a.GetRequestId(), a.GetAttached()
	}
	if s := ev.GetSummary(); s != nil {
		b.summarize(s)
	}
	r := b.row(ev)
	if r == nil {
		return nil
	}
	switch e := ev.GetEvent().(type) {
	case *tooldv1.BatchEvent_Decision:
		r.decision = e.Decision
	case *tooldv1.BatchEvent_ApprovalRequested:
		r.waiting = e.ApprovalRequested
	case *tooldv1.BatchEvent_ApprovalResolved:
		r.waiting = nil
	case *tooldv1.BatchEvent_Started:
		r.started = now
	case *tooldv1.BatchEvent_Chunk:
		if r.started.IsZero() {
			r.started = now // a read has no started event
		}
	case *tooldv1.BatchEvent_Result:
		r.result, r.waiting, r.seq = e.Result, nil, ev.GetSeq()
	}
	return r
}

// summarize fills in what was not seen: results before the event that attach
// began after.
func (b *board) summarize(s *tooldv1.BatchSummary) {
	b.summary = s
	for i, c := range s.GetCalls() {
		if i >= len(b.rows) {
			return
		}
		r := b.rows[i]
		if r.seq = c.GetResultSeq(); r.result == nil {
			r.result = &tooldv1.CallResult{Outcome: c.GetOutcome()}
		}
	}
}

// maxRows bounds what a server that names ever new calls can make us keep.
const maxRows = 1 << 16

func (b *board) row(ev *tooldv1.BatchEvent) *row {
	if ev.CallIndex == nil {
		return nil
	}
	i := int(ev.GetCallIndex())
	if i < 0 || i >= maxRows {
		return nil
	}
	for len(b.rows) <= i {
		b.rows = append(b.rows, &row{id: strconv.Itoa(len(b.rows))})
	}
	if id := ev.GetCallId(); id != "" {
		b.rows[i].id = id
	}
	return b.rows[i]
}

// allSucceeded says whether every call has an outcome and it is SUCCEEDED.
func (b *board) allSucceeded() bool {
	for _, r := range b.rows {
		if r.result.GetOutcome() != tooldv1.ToolOutcome_TOOL_OUTCOME_SUCCEEDED {
			return false
		}
	}
	return true
}

// tally counts the outcomes: "14 calls: 12 succeeded, 1 failed, 1 denied".
func (b *board) tally() string {
	counts := map[tooldv1.ToolOutcome]int{}
	for _, r := range b.rows {
		counts[r.result.GetOutcome()]++
	}
	var parts []string
	for o := range tooldv1.ToolOutcome(len(tooldv1.ToolOutcome_name)) {
		name := strings.ToLower(strings.ReplaceAll(word(o), "_", " "))
		if o == tooldv1.ToolOutcome_TOOL_OUTCOME_UNSPECIFIED {
			continue
		}
		if n := counts[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, name))
		}
	}
	if n := counts[tooldv1.ToolOutcome_TOOL_OUTCOME_UNSPECIFIED]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d without an outcome yet", n))
	}
	return fmt.Sprintf("%s: %s", plural(len(b.rows), "call"), strings.Join(parts, ", "))
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// state is the outcome, or how far the call has come.
func (r *row) state() string {
	switch {
	case r.result != nil:
		return word(r.result.GetOutcome())
	case r.waiting != nil:
		return "waiting for approval"
	case r.running || !r.started.IsZero():
		return "running"
	case r.decision.GetAllowed():
		return "allowed"
	}
	return "queued"
}

// took is the run time: of the result, or so far; "" before the start.
func (r *row) took(now time.Time) string {
	if r.result != nil {
		if d := r.result.GetUsage().GetRunTime(); d != nil {
			return duration(d.AsDuration())
		}
		return ""
	}
	if r.started.IsZero() {
		return ""
	}
	return duration(now.Sub(r.started))
}

// detail is what matters most about the call now, in a few words.
func (r *row) detail() string {
	res := r.result
	var parts []string
	switch {
	case res == nil && r.waiting != nil:
		return "until " + r.waiting.GetExpireTime().AsTime().Local().Format(time.TimeOnly)
	case res == nil:
		return ""
	case res.GetError() != nil:
		parts = append(parts, res.GetError().GetReason())
		if e := res.GetExit(); e != nil {
			parts = append(parts, exitWord(e))
		}
		parts = append(parts, res.GetError().GetMessage())
	}
	if t := res.GetOutput().GetTruncated(); t != nil {
		parts = append(parts, "truncated: "+kept(t))
	}
	if n := len(res.GetChanges()); n > 0 {
		parts = append(parts, plural(n, "file")+" changed")
	}
	if res.GetReplayed() {
		parts = append(parts, "replayed")
	}
	for _, h := range res.GetHints() {
		if h.GetLevel() >= tooldv1.HintLevel_HINT_LEVEL_WARNING {
			parts = append(parts, h.GetCode())
		}
	}
	return strings.Join(parts, " · ")
}

func exitWord(e *tooldv1.ProcessExit) string {
	switch {
	case e.GetOomKilled():
		return "killed: out of memory"
	case e.GetSignal() != "":
		return e.GetSignal()
	}
	return fmt.Sprintf("exit %d", e.GetCode())
}

// duration shows a time in three digits or so: 830µs, 42ms, 3.1s, 2m5s.
func duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// size shows bytes: 831 B, 48.2 KiB.
func size(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n)/1024, "KMGTPE"
	for f >= 1024 && len(units) > 1 {
		f, units = f/1024, units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", f, units[0])
}

// forget leaves only the names of the calls, for a story told from the start.
func (b *board) forget() {
	for _, r := range b.rows {
		*r = row{id: r.id, tool: r.tool}
	}
}
