package exec

import (
	"context"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
)

// Planned is what would become of a call.
type Planned struct {
	Call     tool.CallID
	Wave     int // from 0; calls of one wave would run at once; -1 = would not run
	Decision audit.Decision
	Effects  []tool.Effect
	Hints    []tool.Hint
}

// Explain decides and plans a batch as Execute would, records the decisions at
// stage EXPLAIN, and runs nothing.
func (x *Executor) Explain(ctx context.Context, caller tool.Caller, req Request) ([]Planned, error) {
	if err := x.check(req); err != nil {
		return nil, err
	}
	s, err := x.useSession(ctx, caller, req.Session)
	if err != nil {
		return nil, err
	}
	b, err := x.newBatch(caller, req, s)
	if err != nil {
		return nil, err
	}
	for _, c := range b.calls {
		x.decide(ctx, b, c)
	}
	b.plan()
	facts := b.facts()
	facts.ScheduleMode = "EXPLAIN"
	entry := &audit.Entry{Accept: &audit.Accept{Facts: facts, Dry: true}}
	out := make([]Planned, len(b.calls))
	for i, c := range b.calls {
		out[i] = Planned{Call: c.id, Wave: -1, Decision: c.decision, Effects: c.action.Effects, Hints: c.hints}
		if c.refusal != nil {
			out[i].Hints = append(out[i].Hints, c.refusal.Hints...)
		}
		row := c.decision
		row.Stage = "EXPLAIN"
		entry.Decisions = append(entry.Decisions, row)
	}
	for w, wave := range b.waves {
		for _, i := range wave {
			out[i].Wave = w
		}
	}
	if _, err := x.Log.Intend(ctx, entry); err != nil {
		return nil, &Error{Kind: KindUnavailable, Reason: ReasonAuditUnavailable, Message: "the explanation could not be recorded", Err: err}
	}
	return out, nil
}
