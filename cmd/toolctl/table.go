package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/toold/toold/cmd/toolctl/internal/term"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

var callColumns = []term.Column{
	{Title: "CALL", Max: 24},
	{Title: "TOOL", Max: 20, Drop: 4},
	{Title: "CLASS", Drop: 3},
	{Title: "VERDICT", Drop: 2},
	{Title: "TIME", Drop: 1, Right: true},
	{Title: "OUTCOME"},
	{Title: "", Drop: 5},
}

// cells is a call as a line of the table.
func (r *row) cells(now time.Time) []term.Cell {
	return []term.Cell{
		{Text: r.id},
		{Text: r.tool},
		classCell(r.decision),
		verdictCell(r.decision),
		{Text: r.took(now), Style: term.Dim},
		{Text: r.state(), Style: r.style()},
		{Text: r.detail(), Style: term.Dim},
	}
}

func (r *row) style() term.Style {
	switch {
	case r.result == nil && r.waiting != nil:
		return term.Yellow
	case r.result == nil && !r.started.IsZero():
		return term.Cyan
	case r.result == nil:
		return term.Dim
	}
	return outcomeStyle(r.result.GetOutcome())
}

func outcomeStyle(o tooldv1.ToolOutcome) term.Style {
	switch o {
	case tooldv1.ToolOutcome_TOOL_OUTCOME_SUCCEEDED:
		return term.Green
	case tooldv1.ToolOutcome_TOOL_OUTCOME_SKIPPED, tooldv1.ToolOutcome_TOOL_OUTCOME_CANCELLED:
		return term.Yellow
	}
	return term.Red
}

// invalid says whether a decision is about a call that could not be judged: its
// verdict and its class are only what is safest.
func invalid(d *tooldv1.PermissionDecision) bool {
	return d.GetStage() == tooldv1.DecisionStage_DECISION_STAGE_INVALID || d.GetPolicyId() == "call.invalid"
}

func classCell(d *tooldv1.PermissionDecision) term.Cell {
	if invalid(d) {
		return term.Cell{}
	}
	return term.Cell{Text: word(d.GetSideEffect()), Style: classStyle(d.GetSideEffect())}
}

// verdictCell shows what was only asked about in parentheses.
func verdictCell(d *tooldv1.PermissionDecision) term.Cell {
	c := term.Cell{Text: word(d.GetVerdict()), Style: verdictStyle(d.GetVerdict())}
	if invalid(d) {
		c = term.Cell{Text: "INVALID", Style: term.Red}
	}
	if d.GetStage() == tooldv1.DecisionStage_DECISION_STAGE_EXPLAIN {
		c = term.Cell{Text: "(" + c.Text + ")", Style: term.Dim}
	}
	return c
}

func verdictStyle(v tooldv1.Verdict) term.Style {
	switch v {
	case tooldv1.Verdict_VERDICT_ALLOW:
		return term.Green
	case tooldv1.Verdict_VERDICT_DENY:
		return term.Red
	case tooldv1.Verdict_VERDICT_ASK:
		return term.Yellow
	}
	return term.Plain
}

func classStyle(c tooldv1.SideEffect) term.Style {
	switch c {
	case tooldv1.SideEffect_SIDE_EFFECT_READ_ONLY:
		return term.Plain
	case tooldv1.SideEffect_SIDE_EFFECT_WRITE:
		return term.Yellow
	}
	return term.Bold
}

// live lays the board out for a screen of a size: when not all calls fit, those
// that are under way come first and the rest are counted.
func (b *board) live(now time.Time, width, height int, colour bool) []string {
	room := max(1, height-4) // title, header, "more", the cursor's line
	rows := b.rows
	if len(rows) > room {
		rows = busiest(rows, room)
	}
	t := term.Table{Columns: callColumns}
	for _, r := range rows {
		t.Rows = append(t.Rows, r.cells(now))
	}
	lines := []string{term.Clip(term.Line(b.title()), width)}
	lines = append(lines, t.Lines(width, colour)...)
	if n := len(b.rows) - len(rows); n > 0 {
		lines = append(lines, term.Clip(fmt.Sprintf("… and %s more", plural(n, "call")), width))
	}
	if len(lines) >= height {
		lines = lines[:max(1, height-1)]
	}
	return lines
}

func (b *board) title() string {
	done := 0
	for _, r := range b.rows {
		if r.result != nil {
			done++
		}
	}
	title := fmt.Sprintf("batch %s · %d of %d done", b.batchID, done, len(b.rows))
	if b.batchID == "" {
		title = fmt.Sprintf("batch not yet accepted · %s", plural(len(b.rows), "call"))
	}
	if b.note != "" {
		title += " · " + b.note
	}
	return title
}

// busiest chooses n rows, in call order: those under way, then those not begun,
// then the last that ended.
func busiest(rows []*row, n int) []*row {
	chosen := make([]bool, len(rows))
	take := func(i int, fits bool) {
		if fits && n > 0 && !chosen[i] {
			chosen[i] = true
			n--
		}
	}
	for i, r := range rows {
		take(i, r.result == nil && (!r.started.IsZero() || r.waiting != nil))
	}
	for i, r := range rows {
		take(i, r.result == nil)
	}
	for i := len(rows) - 1; i >= 0; i-- {
		take(i, true)
	}
	var out []*row
	for i, r := range rows {
		if chosen[i] {
			out = append(out, r)
		}
	}
	return out
}

// plainLine is a call that ended, as one line for a pipe: fields of the table,
// separated by tabs.
func (r *row) plainLine(now time.Time) string {
	var fields []string
	for _, c := range r.cells(now) {
		text := term.Line(c.Text)
		if text == "" {
			text = "-"
		}
		fields = append(fields, text)
	}
	return strings.Join(fields, "\t")
}
