package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold/toold/cmd/toolctl/internal/term"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

// epoch is when the stories of these tests begin.
var epoch = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func decision(class tooldv1.SideEffect, verdict tooldv1.Verdict) *tooldv1.BatchEvent_Decision {
	return &tooldv1.BatchEvent_Decision{Decision: &tooldv1.PermissionDecision{
		Allowed: verdict == tooldv1.Verdict_VERDICT_ALLOW, Verdict: verdict, SideEffect: class, PolicyId: "profile.ci",
	}}
}

func succeeded(ms int64, o *tooldv1.ToolOutput) *tooldv1.CallResult {
	return &tooldv1.CallResult{
		Outcome: tooldv1.ToolOutcome_TOOL_OUTCOME_SUCCEEDED, Output: o,
		Usage: &tooldv1.CallUsage{RunTime: durationpb.New(time.Duration(ms) * time.Millisecond)},
	}
}

// story is a batch of three calls: a read that succeeds, a command under way, a
// refused one.
func story() (*board, []*tooldv1.BatchEvent) {
	b := newBoard(&tooldv1.BatchSpec{RequestId: "r1"}, []*tooldv1.ToolCall{
		{CallId: "readme", Tool: "read"}, {CallId: "test", Tool: "bash"}, {Tool: "bash"},
	})
	read, sys := tooldv1.SideEffect_SIDE_EFFECT_READ_ONLY, tooldv1.SideEffect_SIDE_EFFECT_SYSTEM_CHANGE
	allow, deny := tooldv1.Verdict_VERDICT_ALLOW, tooldv1.Verdict_VERDICT_DENY
	events := []*tooldv1.BatchEvent{
		{Event: &tooldv1.BatchEvent_Accepted{Accepted: &tooldv1.BatchAccepted{RequestId: "r1", CallCount: 3}}},
		{CallIndex: proto.Int32(0), Event: decision(read, allow)},
		{CallIndex: proto.Int32(1), Event: decision(sys, allow)},
		{CallIndex: proto.Int32(2), Event: decision(sys, deny)},
		{CallIndex: proto.Int32(2), Event: &tooldv1.BatchEvent_Result{Result: &tooldv1.CallResult{
			Outcome: tooldv1.ToolOutcome_TOOL_OUTCOME_DENIED,
			Error:   &tooldv1.ErrorDetail{Reason: "CATASTROPHIC_COMMAND", Message: "deletes the root\x1b[2J; name a folder"},
			Hints:   []*tooldv1.Hint{{Level: tooldv1.HintLevel_HINT_LEVEL_INFO, Message: "nothing ran", Suggestion: "delete one folder"}},
		}}},
		{CallIndex: proto.Int32(0), Event: &tooldv1.BatchEvent_Result{Result: succeeded(3, &tooldv1.ToolOutput{Output: &tooldv1.ToolOutput_Truncated{Truncated: &tooldv1.Truncated{
			Visible: "1 # toold\n...[truncated]", OriginalTokens: 900, KeptTokens: 96, Reason: tooldv1.TruncationReason_TRUNCATION_REASON_CONTEXT_TOKENS,
			Full: &tooldv1.ArtifactRef{Uri: "toold://artifacts/a1"},
		}}})}},
		{CallIndex: proto.Int32(1), Event: &tooldv1.BatchEvent_Started{Started: &tooldv1.CallStarted{}}},
	}
	for i, ev := range events {
		ev.BatchId, ev.Seq = "b1", int64(i+1)
	}
	return b, events
}

func ending() []*tooldv1.BatchEvent {
	return []*tooldv1.BatchEvent{
		{BatchId: "b1", Seq: 8, CallIndex: proto.Int32(1), Event: &tooldv1.BatchEvent_Result{Result: succeeded(1500, &tooldv1.ToolOutput{
			Output: &tooldv1.ToolOutput_Text{Text: &tooldv1.Text{Text: "\x1b[32mok\x1b[0m\n"}},
		})}},
		{BatchId: "b1", Seq: 9, Event: &tooldv1.BatchEvent_Summary{Summary: &tooldv1.BatchSummary{
			State: tooldv1.BatchState_BATCH_STATE_COMPLETED, Usage: &tooldv1.BatchUsage{WallTime: durationpb.New(1600 * time.Millisecond)},
		}}},
	}
}

func TestTheLiveTableShowsEachCallAsItStands(t *testing.T) {
	b, events := story()
	for _, ev := range events {
		b.apply(ev, epoch)
	}
	for _, tt := range []struct {
		name          string
		width, height int
		want          string
	}{
		{"wide", 100, 20, `
batch b1 · 2 of 3 done
CALL    TOOL  CLASS          VERDICT  TIME  OUTCOME
readme  read  READ_ONLY      ALLOW     3ms  SUCCEEDED  truncated: 96 of 900 tokens
test    bash  SYSTEM_CHANGE  ALLOW      2s  running
2       bash  SYSTEM_CHANGE  DENY           DENIED     CATASTROPHIC_COMMAND · deletes the root\x1b[…`},
		{"narrow", 40, 20, `
batch b1 · 2 of 3 done
CALL    VERDICT  TIME  OUTCOME
readme  ALLOW     3ms  SUCCEEDED
test    ALLOW      2s  running
2       DENY           DENIED`},
		{"low", 40, 6, `
batch b1 · 2 of 3 done
CALL  VERDICT  TIME  OUTCOME
test  ALLOW      2s  running
2     DENY           DENIED
… and 1 call more`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := b.live(epoch.Add(2*time.Second), tt.width, tt.height, false)
			if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), strings.Join(got, "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(got) >= tt.height {
				t.Errorf("%d lines on a screen of %d", len(got), tt.height)
			}
		})
	}
}

func TestTheLiveTableFitsAnyScreen(t *testing.T) {
	b, events := story()
	for _, ev := range events {
		b.apply(ev, epoch)
	}
	for width := 1; width < 120; width++ {
		for height := 2; height < 12; height++ {
			lines := b.live(epoch, width, height, false)
			if len(lines) >= height {
				t.Fatalf("%d×%d: %d lines", width, height, len(lines))
			}
			for _, l := range lines {
				if w := term.Width(l); w > max(width, 9) { // one column always stays
					t.Fatalf("%d×%d: %d columns: %q", width, height, w, l)
				}
			}
		}
	}
}

// pipe is a screen that is no terminal.
func pipe() (*screen, *bytes.Buffer, *bytes.Buffer) {
	var out, errs bytes.Buffer
	return &screen{out: &output{w: &out}, err: &output{w: &errs}, getenv: func(string) string { return "" }}, &out, &errs
}

// terminal is a screen of 80 columns without colours.
func terminal() (*screen, *bytes.Buffer, *bytes.Buffer) {
	s, out, errs := pipe()
	s.outTTY, s.errTTY = true, true
	s.size = func() (int, int) { return 80, 24 }
	return s, out, errs
}

func TestAPipeGetsALineForEachCall(t *testing.T) {
	s, out, errs := pipe()
	b, events := story()
	v := &linesView{s, b, false}
	for _, ev := range append(events, ending()...) {
		if err := v.event(ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `batch b1 accepted: 3 calls
2	bash	SYSTEM_CHANGE	DENY	-	DENIED	CATASTROPHIC_COMMAND · deletes the root\x1b[2J; name a folder
readme	read	READ_ONLY	ALLOW	3ms	SUCCEEDED	truncated: 96 of 900 tokens
test	bash	SYSTEM_CHANGE	ALLOW	1.5s	SUCCEEDED	-
batch b1 finished in 1.6s: 3 calls: 2 succeeded, 1 denied
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("standard output (-want +got):\n%s", diff)
	}
	wantErr := "2:\n  decided by profile.ci\n" +
		"  info: nothing ran\n    delete one folder\noutputs: toolctl get b1/CALL\n"
	if diff := cmp.Diff(wantErr, errs.String()); diff != "" {
		t.Errorf("standard error (-want +got):\n%s", diff)
	}
	if b.allSucceeded() {
		t.Error("a denied call counts as success")
	}
}

func TestTheLiveViewEndsWithTheWholeTable(t *testing.T) {
	s, out, _ := terminal()
	b, events := story()
	v := newLiveView(s, b, true)
	for _, ev := range append(events, ending()...) {
		if err := v.event(ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	got = got[strings.LastIndex(got, "CALL    TOOL"):]
	want := `CALL    TOOL  CLASS          VERDICT  TIME  OUTCOME
readme  read  READ_ONLY      ALLOW     3ms  SUCCEEDED  truncated: 96 of 900 tok…
test    bash  SYSTEM_CHANGE  ALLOW    1.5s  SUCCEEDED
2       bash  SYSTEM_CHANGE  DENY           DENIED     CATASTROPHIC_COMMAND · d…

── readme · read ──
1 # toold
...[truncated]

── test · bash ──
\x1b[32mok\x1b[0m

── 2 · bash ──
batch b1 finished in 1.6s: 3 calls: 2 succeeded, 1 denied
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestJSONHoldsTheWholeBatch(t *testing.T) {
	s, out, _ := pipe()
	b, events := story()
	v := &jsonView{s, b}
	for _, ev := range append(events, ending()...) {
		if err := v.event(ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"batch_id": "b1"`, `"request_id": "r1"`, `"state": "BATCH_STATE_COMPLETED"`, `"call_id": "2"`, `"outcome": "TOOL_OUTCOME_DENIED"`,
		`"policy_id": "profile.ci"`, `"uri": "toold://artifacts/a1"`, `"wall_time": "1.600s"`, `\u001b[32mok`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

func TestAttachLearnsOfCallsThatItDidNotKnow(t *testing.T) {
	b := &board{}
	r := b.apply(&tooldv1.BatchEvent{BatchId: "b1", CallId: "x", CallIndex: proto.Int32(1), Event: decision(0, tooldv1.Verdict_VERDICT_ASK)}, epoch)
	if r == nil || r.id != "x" || len(b.rows) != 2 || b.rows[0].id != "0" {
		t.Errorf("rows %v", b.rows)
	}
	for _, index := range []int32{-1, maxRows} {
		if r := b.apply(&tooldv1.BatchEvent{CallIndex: proto.Int32(index)}, epoch); r != nil {
			t.Errorf("call index %d made a row", index)
		}
	}
}

func TestNumbersAreShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		830 * time.Microsecond: "830µs", 42_400 * time.Microsecond: "42ms", 3140 * time.Millisecond: "3.1s", 125 * time.Second: "2m5s",
	} {
		if got := duration(d); got != want {
			t.Errorf("duration(%v) = %s, want %s", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 100_000: "97.7 KiB", 1 << 30: "1.0 GiB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %s, want %s", n, got, want)
		}
	}
}
