package tooldv1_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

func batch(spec *tooldv1.BatchSpec, calls ...*tooldv1.ToolCall) *tooldv1.ExecuteBatchRequest {
	return &tooldv1.ExecuteBatchRequest{Spec: spec, Calls: calls}
}

// TestFieldRules says which requests are refused before anything looks at them,
// and at which field.
func TestFieldRules(t *testing.T) {
	spec := &tooldv1.BatchSpec{}
	byID := &tooldv1.GetBatchRequest_BatchId{BatchId: "b"}
	tests := []struct {
		name    string
		request proto.Message
		refused string // path of the field; empty: accepted
	}{
		{"an empty spec is enough", batch(spec, &tooldv1.ToolCall{Tool: "read"}), ""},
		{"a missing spec", batch(nil), "spec"},
		{"no calls has an error of its own", batch(spec), ""},
		{"a bad tool name is its call's problem", batch(spec, &tooldv1.ToolCall{Tool: "\x00" + strings.Repeat("x", 9999)}), ""},
		{"bad arguments are their call's problem", batch(spec, &tooldv1.ToolCall{ArgumentsJson: "{\x00"}), ""},
		{"a call id with a line break", batch(spec, &tooldv1.ToolCall{CallId: "a\nb"}), "calls[0].call_id"},
		{"a call id with a slash", batch(spec, &tooldv1.ToolCall{CallId: "a/b"}), ""},
		{"a call id in Chinese", batch(spec, &tooldv1.ToolCall{CallId: "调用"}), ""},
		{"NUL in a rationale", batch(spec, &tooldv1.ToolCall{Rationale: "a\x00"}), "calls[0].rationale"},
		{"a negative timeout", batch(spec, &tooldv1.ToolCall{Timeout: durationpb.New(-time.Second)}), "calls[0].timeout"},
		{"a request id of 64", batch(&tooldv1.BatchSpec{RequestId: strings.Repeat("x", 64)}), ""},
		{"a request id of 65", batch(&tooldv1.BatchSpec{RequestId: strings.Repeat("x", 65)}), "spec.request_id"},
		{"a request id with a blank", batch(&tooldv1.BatchSpec{RequestId: "a b"}), "spec.request_id"},
		{"BY_EFFECT has an error of its own", batch(&tooldv1.BatchSpec{ScheduleMode: tooldv1.ScheduleMode_SCHEDULE_MODE_BY_EFFECT}), ""},
		{"a mode of the future", batch(&tooldv1.BatchSpec{ScheduleMode: 99}), "spec.schedule_mode"},
		{"a negative batch timeout", batch(&tooldv1.BatchSpec{BatchTimeout: durationpb.New(-1)}), "spec.batch_timeout"},
		{"an unknown tokenizer", batch(&tooldv1.BatchSpec{Budget: &tooldv1.OutputBudget{Tokenizer: "p50k"}}), "spec.budget.tokenizer"},
		{"NUL in a label", batch(&tooldv1.BatchSpec{Labels: map[string]string{"team": "a\x00"}}), `spec.labels["team"]`},
		{"a label without a name", batch(&tooldv1.BatchSpec{Labels: map[string]string{"": "a"}}), `spec.labels[""]`},
		{"attaching to nothing", &tooldv1.AttachBatchRequest{}, "batch"},
		{"attaching from a negative number", &tooldv1.AttachBatchRequest{Batch: &tooldv1.AttachBatchRequest_BatchId{BatchId: "b"}, AfterSeq: -1}, "after_seq"},
		{"getting a batch", &tooldv1.GetBatchRequest{Batch: byID}, ""},
		{"a page of 501", &tooldv1.ListBatchesRequest{PageSize: 501}, "page_size"},
		{"an artifact's last bytes", &tooldv1.ReadArtifactRequest{Uri: "toold://artifacts/a", Range: &tooldv1.ReadArtifactRequest_Bytes{Bytes: &tooldv1.ByteRange{Offset: -10}}}, ""},
		{"an artifact's line 0", &tooldv1.ReadArtifactRequest{Uri: "toold://artifacts/a", Range: &tooldv1.ReadArtifactRequest_Lines{Lines: &tooldv1.LineRange{}}}, "lines.first"},
		{"setting no mode", &tooldv1.SetSessionModeRequest{SessionId: "s"}, "mode"},
		{"a session for 31 days", &tooldv1.CreateSessionRequest{Ttl: durationpb.New(31 * 24 * time.Hour)}, "ttl"},
		{"asking for nothing in particular", &tooldv1.ListDecisionsRequest{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := protovalidate.Validate(tt.request)
			if got := field(t, err); got != tt.refused {
				t.Errorf("refused at %q, want %q (%v)", got, tt.refused, err)
			}
		})
	}
}

// field is the path of the first violation.
func field(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var invalid *protovalidate.ValidationError
	if !errors.As(err, &invalid) {
		t.Fatalf("a rule does not compile: %v", err)
	}
	return protovalidate.FieldPathString(invalid.Violations[0].Proto.GetField())
}
