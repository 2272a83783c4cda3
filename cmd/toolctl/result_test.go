package main

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

func TestAResultIsShown(t *testing.T) {
	text := func(s string) *tooldv1.ToolOutput {
		return &tooldv1.ToolOutput{Output: &tooldv1.ToolOutput_Text{Text: &tooldv1.Text{Text: s}}}
	}
	image := &tooldv1.ToolOutput{Output: &tooldv1.ToolOutput_Binary{Binary: &tooldv1.Binary{Data: []byte{0x89, 'P'}, MediaType: "image/png", SizeBytes: 2}}}
	large := &tooldv1.ToolOutput{Output: &tooldv1.ToolOutput_Binary{Binary: &tooldv1.Binary{SizeBytes: 1 << 20, Artifact: &tooldv1.ArtifactRef{Uri: "toold://artifacts/a2"}}}}
	for _, tt := range []struct {
		name             string
		result           *tooldv1.CallResult
		tty, streamed    bool
		wantOut, wantErr string
	}{
		{name: "text goes into a pipe as it is", result: succeeded(1, text("a\x1b[1mb\r\n\xff")), wantOut: "a\x1b[1mb\r\n\xff"},
		{name: "text is harmless on a terminal and ends its line", result: succeeded(1, text("a\x1b[1mb")), tty: true, wantOut: "a\\x1b[1mb\n"},
		{name: "what was shown is not shown again", result: succeeded(1, text("a")), streamed: true},
		{
			name:    "structured output as JSON",
			result:  succeeded(1, &tooldv1.ToolOutput{Output: &tooldv1.ToolOutput_Structured{Structured: &tooldv1.Structured{Json: `{"a":1}`}}}),
			wantOut: "{\"a\":1}\n",
		},
		{
			name:    "or as it is written for people",
			result:  succeeded(1, &tooldv1.ToolOutput{Output: &tooldv1.ToolOutput_Structured{Structured: &tooldv1.Structured{Json: `{}`, TextRendering: "nothing"}}}),
			wantOut: "nothing",
		},
		{name: "bytes go into a pipe", result: succeeded(1, image), wantOut: "\x89P"},
		{name: "but not onto a terminal", result: succeeded(1, image), tty: true, wantErr: "image/png, 2 B: not shown on a terminal; send the output to a file\n"},
		{name: "large bytes are elsewhere", result: succeeded(1, large), wantErr: "application/octet-stream, 1.0 MiB: toolctl artifact get toold://artifacts/a2 -O FILE\n"},
		{
			name: "truncated output says where the rest is",
			result: succeeded(1, &tooldv1.ToolOutput{Output: &tooldv1.ToolOutput_Truncated{Truncated: &tooldv1.Truncated{
				Visible: "head\n", KeptBytes: 5, OriginalBytes: 4096, Reason: tooldv1.TruncationReason_TRUNCATION_REASON_CALL_BYTES,
				Full: &tooldv1.ArtifactRef{Uri: "toold://artifacts/a3"},
			}}}),
			wantOut: "head\n",
			wantErr: "truncated (CALL_BYTES): 5 B of 4.0 KiB; all of it: toolctl artifact get toold://artifacts/a3\n",
		},
		{
			name: "a change is told",
			result: &tooldv1.CallResult{
				Outcome: tooldv1.ToolOutcome_TOOL_OUTCOME_SUCCEEDED,
				Changes: []*tooldv1.Change{{Path: "a.go", AfterSha256: "x", LinesAdded: 3}, {Path: "b.go", BeforeSha256: "x", AfterSha256: "y", LinesAdded: 1, LinesRemoved: 2}},
			},
			wantErr: "changed a.go: +3 −0 lines (new)\nchanged b.go: +1 −2 lines\n",
		},
		{
			name: "but not again when the tool told it",
			result: &tooldv1.CallResult{
				Outcome: tooldv1.ToolOutcome_TOOL_OUTCOME_SUCCEEDED, Output: text("created a.go: 9 bytes, +3 -0 lines\n"),
				Changes: []*tooldv1.Change{{Path: "a.go", AfterSha256: "x", LinesAdded: 3}},
			},
			wantOut: "created a.go: 9 bytes, +3 -0 lines\n",
		},
		{
			name: "bad arguments are named",
			result: &tooldv1.CallResult{
				Outcome: tooldv1.ToolOutcome_TOOL_OUTCOME_INVALID,
				Error: &tooldv1.ErrorDetail{
					Reason: "ARGUMENTS_SCHEMA", Message: "path is missing",
					Violations: []*tooldv1.FieldViolation{{Path: "/limit", Description: "want at least 1"}, {Description: "path is required"}},
				},
			},
			wantErr: "c: INVALID/ARGUMENTS_SCHEMA: path is missing\n  /limit: want at least 1\n  the arguments: path is required\n",
		},
		{
			name: "a failed command keeps its output, exit and hints",
			result: &tooldv1.CallResult{
				Outcome: tooldv1.ToolOutcome_TOOL_OUTCOME_FAILED, Output: text("oops\n"), Exit: &tooldv1.ProcessExit{Code: 3},
				Error: &tooldv1.ErrorDetail{Reason: "NON_ZERO_EXIT", Message: "the command failed", Retryable: true, RetryAfter: durationpb.New(2e9)},
				Hints: []*tooldv1.Hint{{Level: tooldv1.HintLevel_HINT_LEVEL_WARNING, Message: "no such command", Suggestion: "install it"}},
			},
			wantOut: "oops\n",
			wantErr: "c: FAILED/NON_ZERO_EXIT: the command failed\n  exit 3\n  the same call may succeed later, after 2s\n  warning: no such command\n    install it\n",
		},
		{
			name: "the end of standard error is not shown twice",
			result: &tooldv1.CallResult{
				Outcome: tooldv1.ToolOutcome_TOOL_OUTCOME_SUCCEEDED, Output: text("out\nwarn\n"),
				Attachments: []*tooldv1.ToolOutput{text("warn\n"), text("elsewhere\n"), large},
			},
			wantOut: "out\nwarn\n",
			wantErr: "elsewhere\napplication/octet-stream, 1.0 MiB: toolctl artifact get toold://artifacts/a2 -O FILE\n",
		},
		{name: "an output of a kind to come is left out", result: succeeded(1, &tooldv1.ToolOutput{})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, out, errs := pipe()
			if tt.tty {
				s, out, errs = terminal()
			}
			if err := s.result(&row{id: "c", result: tt.result}, showing{name: "c", streamed: tt.streamed}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([2]string{tt.wantOut, tt.wantErr}, [2]string{out.String(), errs.String()}); diff != "" {
				t.Errorf("output, error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAWholeOutputReplacesWhatTheResultHasOfIt(t *testing.T) {
	ref := &tooldv1.ArtifactRef{Uri: "toold://artifacts/a1"}
	cut := &tooldv1.ToolOutput{Output: &tooldv1.ToolOutput_Truncated{Truncated: &tooldv1.Truncated{Visible: "1\n...[truncated]", Full: ref}}}
	lossy := &tooldv1.ToolOutput{Output: &tooldv1.ToolOutput_Text{Text: &tooldv1.Text{Text: "\ufffd", Lossy: true, Artifact: ref}}}
	large := &tooldv1.ToolOutput{Output: &tooldv1.ToolOutput_Binary{Binary: &tooldv1.Binary{SizeBytes: 9, Artifact: ref}}}
	whole := &tooldv1.ToolOutput{Output: &tooldv1.ToolOutput_Text{Text: &tooldv1.Text{Text: "short", Artifact: ref}}}
	errTail := &tooldv1.ToolOutput{Output: &tooldv1.ToolOutput_Text{Text: &tooldv1.Text{Text: "warn\n"}}}
	for _, tt := range []struct {
		name   string
		output *tooldv1.ToolOutput
		fetch  error
		want   [2]string
	}{
		{name: "cut", output: cut, want: [2]string{"\xffwhole", ""}},
		{name: "replaced bytes", output: lossy, want: [2]string{"\xffwhole", ""}},
		{name: "only in an artifact", output: large, want: [2]string{"\xffwhole", ""}},
		{name: "all there", output: whole, want: [2]string{"short", "warn\n"}},
		{name: "gone", output: cut, fetch: errors.New("gone")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, out, errs := pipe()
			fetch := func(uri string) error {
				if uri != ref.GetUri() {
					t.Errorf("asked for %s", uri)
				}
				if tt.fetch == nil {
					_, _ = s.out.Write([]byte("\xffwhole"))
				}
				return tt.fetch
			}
			result := &tooldv1.CallResult{
				Outcome: tooldv1.ToolOutcome_TOOL_OUTCOME_SUCCEEDED, Exit: &tooldv1.ProcessExit{}, Output: tt.output,
				Attachments: []*tooldv1.ToolOutput{errTail},
			}
			if err := s.result(&row{result: result}, showing{whole: fetch}); !errors.Is(err, tt.fetch) {
				t.Errorf("got %v, want %v", err, tt.fetch)
			}
			if diff := cmp.Diff(tt.want, [2]string{out.String(), errs.String()}); diff != "" {
				t.Errorf("output, error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsSaidHasALineOfItsOwn(t *testing.T) {
	for _, tt := range []struct {
		name     string
		one      bool
		out, err string
		wantErr  string
	}{
		{"out and err apart", false, "out", "", "said\n"},
		{"out and err in one file", true, "out", "", "\nsaid\n"},
		{"a line that ended", true, "out\n", "", "said\n"},
		{"the tool's own standard error", false, "", "err", "err\nsaid\n"},
		{"both", true, "out", "err", "err\nsaid\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _, errs := pipe()
			s.one = tt.one
			_, _ = s.out.Write([]byte(tt.out))
			_, _ = s.err.Write([]byte(tt.err))
			s.say("said")
			if diff := cmp.Diff(tt.wantErr, errs.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLiveOutputIsShownOnce(t *testing.T) {
	chunk := func(ch tooldv1.OutputChannel, offset int64, data string) *tooldv1.BatchEvent {
		return &tooldv1.BatchEvent{Event: &tooldv1.BatchEvent_Chunk{Chunk: &tooldv1.OutputChunk{Channel: ch, Offset: offset, Data: []byte(data)}}}
	}
	stdout, stderr := tooldv1.OutputChannel_OUTPUT_CHANNEL_STDOUT, tooldv1.OutputChannel_OUTPUT_CHANNEL_STDERR
	result := ending()[0]
	zero := int32(0)
	result.CallIndex = &zero
	for _, tt := range []struct {
		name             string
		events           []*tooldv1.BatchEvent
		wantOut, wantErr string
	}{
		{
			"chunks, and not the result again",
			[]*tooldv1.BatchEvent{chunk(stdout, 0, "\x1b[32mo"), chunk(stderr, 0, "warn\n"), chunk(stdout, 6, "k\n"), result},
			"\\x1b[32mok\n", "warn\n",
		},
		{
			"the prompt after it has a line of its own",
			[]*tooldv1.BatchEvent{chunk(stderr, 0, "warn\n"), chunk(stdout, 0, "k"), result},
			"k\n", "warn\n",
		},
		{
			"a gap at the end: the result after all",
			[]*tooldv1.BatchEvent{chunk(stdout, 0, "k\n"), {Event: &tooldv1.BatchEvent_Gap{Gap: &tooldv1.OutputGap{}}}, result},
			"k\n\\x1b[32mok\\x1b[0m\n", "[some output was missed; the result:]\n",
		},
		{"no chunks: the result", []*tooldv1.BatchEvent{result}, "\\x1b[32mok\\x1b[0m\n", ""},
		{
			"a gap: the result after all",
			[]*tooldv1.BatchEvent{chunk(stdout, 2048, "k\n"), result},
			"k\n\\x1b[32mok\\x1b[0m\n", "[2.0 KiB missed here]\n[some output was missed; the result:]\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, out, errs := terminal()
			s.one = true
			v := newCallView(s, newBoard(&tooldv1.BatchSpec{}, []*tooldv1.ToolCall{{Tool: "bash"}}))
			for _, ev := range tt.events {
				if err := v.event(ev); err != nil {
					t.Fatal(err)
				}
			}
			if err := v.close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([2]string{tt.wantOut, tt.wantErr}, [2]string{out.String(), errs.String()}); diff != "" {
				t.Errorf("output, error (-want +got):\n%s", diff)
			}
		})
	}
}
