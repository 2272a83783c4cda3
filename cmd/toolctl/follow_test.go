package main

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

// A daemon that is away for long is told in few lines, and its leave in one.
func TestALostDaemonIsToldNowAndThen(t *testing.T) {
	s, _, errs := pipe()
	b := newBoard(&tooldv1.BatchSpec{}, []*tooldv1.ToolCall{{Tool: "bash"}})
	f := &follower{app: &app{screen: s}, board: b, view: &linesView{s, b, false}}
	refused := errors.New("connection refused")
	f.lost(refused, epoch)
	for range 2 {
		if err := f.event(&tooldv1.BatchEvent{BatchId: "b1", Event: &tooldv1.BatchEvent_Draining{Draining: &tooldv1.Draining{}}}); err != nil {
			t.Fatal(err)
		}
	}
	for ms := range 25_000 {
		f.lost(refused, epoch.Add(lostEvery+time.Duration(ms)*time.Millisecond))
	}
	want := "toold does not take the batch (connection refused); trying again\n" +
		"toold is shutting down; what runs may finish\n" +
		"lost toold (connection refused); looking for the batch again\n" +
		"lost toold (connection refused); looking for the batch again\n" +
		"lost toold (connection refused); looking for the batch again\n"
	if diff := cmp.Diff(want, errs.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAPlanThatCannotBeJudgedIsTheCallersMistake(t *testing.T) {
	call := func(stage tooldv1.DecisionStage, allowed bool) *tooldv1.PlannedCall {
		return &tooldv1.PlannedCall{Decision: &tooldv1.PermissionDecision{Stage: stage, Allowed: allowed}}
	}
	allowed := call(tooldv1.DecisionStage_DECISION_STAGE_DEFAULT, true)
	denied := call(tooldv1.DecisionStage_DECISION_STAGE_RULE, false)
	unknown := call(tooldv1.DecisionStage_DECISION_STAGE_INVALID, false)
	for _, tt := range []struct {
		name  string
		calls []*tooldv1.PlannedCall
		want  int
	}{
		{"all allowed", []*tooldv1.PlannedCall{allowed, allowed}, exitOK},
		{"one denied", []*tooldv1.PlannedCall{allowed, denied}, exitCalls},
		{"one unknown", []*tooldv1.PlannedCall{denied, unknown, allowed}, exitUsage},
	} {
		s, _, _ := pipe()
		if got := (&app{screen: s}).report(planned(tt.calls)); got != tt.want {
			t.Errorf("%s: exit status %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestWhatCannotBeJudgedHasNoClass(t *testing.T) {
	d := &tooldv1.PermissionDecision{
		Stage: tooldv1.DecisionStage_DECISION_STAGE_INVALID, Verdict: tooldv1.Verdict_VERDICT_DENY,
		SideEffect: tooldv1.SideEffect_SIDE_EFFECT_SYSTEM_CHANGE, PolicyId: "call.invalid",
	}
	r := &row{id: "0", tool: "nosuch", decision: d, result: &tooldv1.CallResult{
		Outcome: tooldv1.ToolOutcome_TOOL_OUTCOME_INVALID, Error: &tooldv1.ErrorDetail{Reason: "UNKNOWN_TOOL", Message: `there is no tool "nosuch"`},
	}}
	if got, want := r.plainLine(epoch), "0\tnosuch\t-\tINVALID\t-\tINVALID\tUNKNOWN_TOOL · there is no tool \"nosuch\""; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	s, _, errs := pipe()
	s.problem(r, showing{})
	if got, want := errs.String(), "INVALID/UNKNOWN_TOOL: there is no tool \"nosuch\"\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestWhoDecidedIsSaidOnce(t *testing.T) {
	r := &row{decision: &tooldv1.PermissionDecision{PolicyId: "default.ci.ask"}, result: &tooldv1.CallResult{
		Error: &tooldv1.ErrorDetail{Reason: "NO_APPROVER"},
		Hints: []*tooldv1.Hint{{Level: tooldv1.HintLevel_HINT_LEVEL_INFO, Message: "decided by default.ci.ask", Suggestion: "add a rule"}},
	}}
	if diff := cmp.Diff([]string{"info: decided by default.ci.ask", "  add a rule"}, r.advice()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestInfoNamesTheProfileAndTheWorkspaces(t *testing.T) {
	s, out, _ := pipe()
	if err := (&app{screen: s, address: "here"}).showInfo(&tooldv1.GetServerInfoResponse{Profile: "ci", Workspaces: []string{"default", "scratch"}}); err != nil {
		t.Fatal(err)
	}
	want := "WHAT              VALUE\naddress           here\nversion\nstore\nisolation\n" +
		"profile           ci\nworkspaces        default, scratch\npolicy version\ncatalog revision\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
