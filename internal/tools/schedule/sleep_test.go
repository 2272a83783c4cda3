package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toold/toold/internal/tool"
)

func prepare(t *testing.T, args string) (tool.Action, error) {
	t.Helper()
	return Tools()[0].Prepare(t.Context(), tool.Env{}, json.RawMessage(args))
}

func TestSleepTakesTheTimeThatItWasGiven(t *testing.T) {
	for args, want := range map[string]time.Duration{
		`{"seconds":0}`:     0,
		`{"seconds":1.25}`:  1250 * time.Millisecond,
		`{"seconds":1e-3}`:  time.Millisecond,
		`{"seconds":86400}`: 24 * time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			a, err := prepare(t, args)
			if err != nil {
				t.Fatal(err)
			}
			if a.Class != tool.ReadOnly || !a.Waits || len(a.Effects) != 0 || a.Timeout <= want || a.Timeout > Tools()[0].Spec().MaxTimeout {
				t.Errorf("%s: %+v", args, a)
			}
			start := time.Now()
			r, err := a.Do(t.Context(), nil)
			if err != nil || time.Since(start) != want {
				t.Errorf("%s took %v (%v)", args, time.Since(start), err)
			}
			if d := cmp.Diff(tool.Text{Text: "slept " + want.String()}, r.Output); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestSleepStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := prepare(t, `{"seconds":3600}`)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := a.Do(ctx, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestSleepRefuses(t *testing.T) {
	for _, args := range []string{`{}`, `{"seconds":-1}`, `{"seconds":86400.5}`, `{"seconds":"1"}`, `{"seconds":1,"minutes":1}`} {
		if _, err := prepare(t, args); err == nil {
			t.Errorf("%s was accepted", args)
		}
	}
}
