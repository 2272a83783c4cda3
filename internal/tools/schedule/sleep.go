// Package schedule holds the tools that have to do with time.
package schedule

import (
	"context"
	"strconv"
	"time"

	"github.com/toold/toold/internal/schema"
	"github.com/toold/toold/internal/tool"
)

// Tools makes the scheduling tools.
func Tools() []tool.Tool { return []tool.Tool{newSleep()} }

type sleepArgs struct {
	Seconds float64 `json:"seconds" jsonschema:"minimum=0,maximum=86400" jsonschema_description:"How long to wait, in seconds; fractions are allowed. At most a day."`
}

// slack is what a call may take beyond its sleep before it counts as hanging.
const slack = 30 * time.Second

func newSleep() tool.Tool {
	return schema.Define(tool.Spec{
		Name: "Sleep", Version: "1.0.0", Title: "Wait", Category: "schedule",
		Description: "Waits for some seconds and then succeeds. Use it to give something outside time to happen before you look again. " +
			"Do not use it to wait for a command that you start yourself: that call returns when the command ends.",
		UsageGuidance:  "Prefer one longer sleep to many short ones; the calls of the same batch that only read run meanwhile.",
		Class:          tool.ReadOnly,
		Idempotency:    tool.Idempotent,
		Scope:          tool.ScopeSession,
		Cut:            tool.CutHead,
		DefaultTimeout: time.Minute,
		MaxTimeout:     25 * time.Hour,
	}, func(_ context.Context, _ tool.Env, a sleepArgs) (tool.Action, error) {
		d := time.Duration(a.Seconds * float64(time.Second))
		return tool.Action{
			Class:   tool.ReadOnly,
			Timeout: d + slack,
			Waits:   true,
			Do: func(ctx context.Context, _ tool.Runtime) (tool.Result, error) {
				return sleep(ctx, d)
			},
		}, nil
	})
}

func sleep(ctx context.Context, d time.Duration) (tool.Result, error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return tool.Result{
			Output:   tool.Text{Text: "slept " + d.String()},
			Metadata: map[string]string{"seconds": strconv.FormatFloat(d.Seconds(), 'f', -1, 64)},
		}, nil
	case <-ctx.Done():
		return tool.Result{}, ctx.Err()
	}
}
