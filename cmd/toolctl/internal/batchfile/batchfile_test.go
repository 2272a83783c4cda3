package batchfile

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       *tooldv1.ExecuteBatchRequest
	}{
		{
			name: "YAML with every kind of field",
			text: `
calls:
  - id: readme
    tool: read
    arguments: {path: README.md, startLine: 0x10, when: 2026-01-31, big: 12345678901234567890123}
    timeout: 90s
  - {tool: glob}
request_id: 42
schedule_mode: program_order
failurePolicy: FAILURE_POLICY_CONTINUE
batch_timeout: 1m30s
max_parallel_reads: 4
budget: {context_remaining_tokens: 8000, truncationStyle: head}
stream: {output_chunks: true}
labels: {team: a, build: 7}
`,
			want: &tooldv1.ExecuteBatchRequest{
				Calls: []*tooldv1.ToolCall{
					{
						CallId: "readme", Tool: "read", Timeout: durationpb.New(90 * time.Second),
						ArgumentsJson: `{"path":"README.md","startLine":16,"when":"2026-01-31","big":12345678901234567890123}`,
					},
					{Tool: "glob"},
				},
				Spec: &tooldv1.BatchSpec{
					RequestId:        "42",
					ScheduleMode:     tooldv1.ScheduleMode_SCHEDULE_MODE_PROGRAM_ORDER,
					FailurePolicy:    tooldv1.FailurePolicy_FAILURE_POLICY_CONTINUE,
					BatchTimeout:     durationpb.New(90 * time.Second),
					MaxParallelReads: 4,
					Budget:           &tooldv1.OutputBudget{ContextRemainingTokens: 8000, TruncationStyle: tooldv1.TruncationStyle_TRUNCATION_STYLE_HEAD},
					Stream:           &tooldv1.StreamOptions{OutputChunks: true},
					Labels:           map[string]string{"team": "a", "build": "7"},
				},
			},
		},
		{
			name: "JSON arguments go out as they stand",
			text: "{\"calls\": [{\"call_id\": \"a\", \"tool\": \"bash\", \"arguments\": {\"command\" :  \"echo \\ud83d\\ude00\", \"n\": 1.50}}]}\n",
			want: &tooldv1.ExecuteBatchRequest{
				Calls: []*tooldv1.ToolCall{{CallId: "a", Tool: "bash", ArgumentsJson: `{"command" :  "echo \ud83d\ude00", "n": 1.50}`}},
				Spec:  &tooldv1.BatchSpec{},
			},
		},
		{
			name: "raw arguments, even broken ones, are for the server to judge",
			text: "calls: [{tool: read, arguments_json: '{oops'}]",
			want: &tooldv1.ExecuteBatchRequest{
				Calls: []*tooldv1.ToolCall{{Tool: "read", ArgumentsJson: "{oops"}},
				Spec:  &tooldv1.BatchSpec{},
			},
		},
		{
			name: "anchors",
			text: "calls: [{tool: a, arguments: &x {p: [1, true, null, hi]}}, {tool: b, arguments: *x}]",
			want: &tooldv1.ExecuteBatchRequest{
				Calls: []*tooldv1.ToolCall{
					{Tool: "a", ArgumentsJson: `{"p":[1,true,null,"hi"]}`},
					{Tool: "b", ArgumentsJson: `{"p":[1,true,null,"hi"]}`},
				},
				Spec: &tooldv1.BatchSpec{},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse("batch.yaml", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseNamesWhatIsWrongAndWhere(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "f: empty"},
		{"[]", "f:1: a batch is a mapping with calls, not a list"},
		{"calls: []", "f:1: no calls: want calls: [{tool: …, arguments: {…}}, …]"},
		{"calls: [{arguments: {}}]", "f:1: calls[0]: names no tool"},
		{"calls:\n  - tool: read\n    argumnets: {}\n", "f:3: calls[0].argumnets: unknown field; did you mean arguments?"},
		{"calls: [{tool: a}]\nschedul_mode: serial\n", "f:2: schedul_mode: unknown field; did you mean schedule_mode?"},
		{"calls: [{tool: a}]\nschedule_mode: fastest\n", "f:2: schedule_mode: want one of reads_first, program_order, serial, by_effect"},
		{"calls: [{tool: a}]\nbudget:\n  max_bytes_per_call: lots\n", "f:3: budget.max_bytes_per_call: want a whole number of 64 bits"},
		{"calls: [{tool: a}]\nbatch_timeout: 90\n", "f:2: batch_timeout: want a duration such as 90s or 5m"},
		{"calls: [{tool: a, arguments: [1]}]", "f:1: calls[0].arguments: want a mapping, not a list"},
		{"calls: [{tool: a}]\ncalls: [{tool: b}]", `f:2: "calls" is there twice, first in line 1`},
		{"calls: [{tool: a}]\nrequest_id: a\nrequestId: b", "f:3: requestId: given twice"},
		{"calls: [{tool: a, arguments: {<<: {x: 1}}}]", "f:1: merge keys (<<) are not supported: write the fields out"},
		{"calls: [{tool: a, arguments: {x: .nan}}]", "f:1: .nan is no JSON number"},
		{"calls: [{tool: a}]\n---\ncalls: []", "f:2: a second document: one file is one batch"},
		{"calls: [", "f:1: not YAML: did not find expected node content"},
		{"{\n \"calls\": [{\"tool\": \"a\"}],\n \"labels\": {\"a\": []}}", "f:3: labels.a: want a text, not a list"},
		{"{\n \"calls\": [{\"tool\": \"a\"},]}", "f:2: not JSON: "},
		{"{\"calls\": [{\"tool\": \"a\"}]} {}", "f:1: more text after the batch"},
		{"{\"calls\": " + strings.Repeat("[", 300), "f:1: nested deeper than 200"},
		{strings.Repeat("[", 300) + strings.Repeat("]", 300), "f:1: nested deeper than 200"},
		{bomb(), "aliases included"},
	} {
		_, err := Parse("f", []byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.60q:\n got %v\nwant %s", tt.text, err, tt.want)
		}
	}
}

// bomb is a file of a few hundred bytes whose aliases make 10⁹ values.
func bomb() string {
	var b strings.Builder
	b.WriteString("calls:\n  - tool: a\n    arguments:\n      a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n")
	for i := 1; i < 9; i++ {
		ref := "*a" + string(rune('0'+i-1))
		b.WriteString("      a" + string(rune('0'+i)) + ": &a" + string(rune('0'+i)) + " [" + strings.Repeat(ref+",", 9) + ref + "]\n")
	}
	return b.String()
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"calls: [{tool: a, arguments: {x: 0o17, y: ~, z: !!str 1}}]", `{"calls":[{"tool":"a","arguments":{"a":1e400}}]}`,
		"calls: [{tool: a, arguments: {? {x: 1} : y}}]", "a: &a [*a]", "{", "\xff", "calls: [{tool: a, arguments: {\"\\xff\": 1}}]",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		req, err := Parse("f", []byte(s))
		if err != nil || strings.Contains(s, "_json") || strings.Contains(s, "Json") {
			return // raw arguments may be anything
		}
		for _, c := range req.GetCalls() {
			if a := c.GetArgumentsJson(); a != "" && !json.Valid([]byte(a)) {
				t.Errorf("arguments %q are not JSON", a)
			}
		}
	})
}
