package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

func TestFollowingShowsEachDecisionOnce(t *testing.T) {
	at := func(id string, second int) *tooldv1.DecisionRecord {
		r := &tooldv1.DecisionRecord{Decision: &tooldv1.PermissionDecision{DecisionId: id}}
		r.Decision.DecideTime = timestamppb.New(epoch.Add(time.Duration(second) * time.Second))
		return r
	}
	tl := &tail{seen: map[string]bool{}}
	var got [][]string
	for i, poll := range [][]*tooldv1.DecisionRecord{
		{at("a", 1), at("b", 2)},
		{at("old", 0), at("a", 1), at("b", 2), at("d", 4)},
		{at("b", 2), at("c-committed-late", 3), at("d", 4)},
		{},
	} {
		var ids []string
		for _, r := range tl.fresh(poll) {
			ids = append(ids, r.GetDecision().GetDecisionId())
		}
		if i == 0 {
			tl.floor = tl.newest
		}
		got = append(got, ids)
	}
	if diff := cmp.Diff([][]string{{"a", "b"}, {"d"}, {"c-committed-late"}, nil}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func record(stage tooldv1.DecisionStage, verdict tooldv1.Verdict) *tooldv1.DecisionRecord {
	return &tooldv1.DecisionRecord{
		BatchId: "01a22c1f-e774-7b14-80d0-cb9a00a7eb9e", CallId: "7", Tool: "bash", Principal: &tooldv1.Principal{Id: "local"},
		Decision: &tooldv1.PermissionDecision{
			Stage: stage, Verdict: verdict, SideEffect: tooldv1.SideEffect_SIDE_EFFECT_SYSTEM_CHANGE,
			PolicyId: "default.ci.system_change", Reason: "because", DecideTime: timestamppb.New(epoch),
		},
	}
}

func TestTheAuditTailFitsAnyTerminalAndNamesTheCall(t *testing.T) {
	t.Setenv("TZ", "UTC")
	asked := record(tooldv1.DecisionStage_DECISION_STAGE_EXPLAIN, tooldv1.Verdict_VERDICT_ALLOW)
	records := []*tooldv1.DecisionRecord{
		record(tooldv1.DecisionStage_DECISION_STAGE_DEFAULT, tooldv1.Verdict_VERDICT_DENY),
		record(tooldv1.DecisionStage_DECISION_STAGE_INVALID, tooldv1.Verdict_VERDICT_DENY),
		asked,
	}
	at := clock(records[0].GetDecision().GetDecideTime())
	for _, tt := range []struct {
		name            string
		explained, wide bool
		want            string
	}{
		{"narrow", true, false, "" +
			"TIME                 VERDICT  TOOL        CALL\n" +
			at + "  DENY     bash        01a22c1f-e774-7b14-80d0-cb9a00a7eb9e/7\n" +
			at + "  INVALID  bash        01a22c1f-e774-7b14-80d0-cb9a00a7eb9e/7\n" +
			at + "  (ALLOW)  bash        01a22c1f-e774-7b14-80d0-cb9a00a7eb9e/7\n"},
		{"without what was only asked", false, false, "" +
			"TIME                 VERDICT  TOOL        CALL\n" +
			at + "  DENY     bash        01a22c1f-e774-7b14-80d0-cb9a00a7eb9e/7\n" +
			at + "  INVALID  bash        01a22c1f-e774-7b14-80d0-cb9a00a7eb9e/7\n"},
		{"wide", false, true, "" +
			"TIME                 VERDICT  TOOL        CLASS          BY          POLICY                    CALL                                    REASON\n" +
			at + "  DENY     bash        SYSTEM_CHANGE  local       default.ci.system_change  01a22c1f-e774-7b14-80d0-cb9a00a7eb9e/7  because\n" +
			at + "  INVALID  bash                       local       default.ci.system_change  01a22c1f-e774-7b14-80d0-cb9a00a7eb9e/7  because\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, out, _ := terminal()
			tl := &tail{app: &app{screen: s, output: outputText}, explained: tt.explained, wide: tt.wide}
			if err := tl.show(tl.wanted(append([]*tooldv1.DecisionRecord{}, records...))); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
