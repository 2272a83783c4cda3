package budget

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/toold/toold/internal/tool"
)

const uri = "toold://artifacts/0199c0de-7d0f-7aaa-8bbb-0123456789ab"

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String()
}

func TestWhatFitsIsUntouched(t *testing.T) {
	s := Share{Bytes: 1000, Tokens: 500}
	got := FitText("short\n", s, tool.CutHead, uri)
	want := Fitted{Output: tool.Text{Text: "short\n"}, OriginalTokens: 2, KeptTokens: 2}
	got.OriginalTokens, got.KeptTokens = 2, 2
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	c := FitCapture([]byte("sho"), []byte("rt\n"), 6, 2, s, tool.CutHeadTail, uri)
	if d := cmp.Diff(tool.Output(tool.Text{Text: "short\n"}), c.Output); d != "" {
		t.Errorf("capture in two halves (-want +got):\n%s", d)
	}
}

func TestCutSaysWhatAndWhere(t *testing.T) {
	text := lines(1000) // 8,893 bytes
	for _, tt := range []struct {
		name string
		cut  tool.Cut
		want string // a pattern of the visible part
	}{
		{"head", tool.CutHead, `^(line \d+\n)+line 38\n\.\.\.\[truncated by ToolResultBudget: originalTokens=\d+, keptTokens=\d+\] read path=toold://artifacts/[0-9a-f-]+ startLine=39$`},
		{"tail", tool.CutTail, `^\.\.\.\[truncated by ToolResultBudget: originalTokens=\d+, keptTokens=\d+\] read path=toold://artifacts/[0-9a-f-]+ startLine=1\nline 9\d\d\n(line \d+\n)+line 1000\n$`},
		{"head and tail", tool.CutHeadTail, `^line 1\n(line \d+\n)+\.\.\.\[truncated by ToolResultBudget: originalTokens=\d+, keptTokens=\d+\] read path=toold://artifacts/[0-9a-f-]+ startLine=\d+\nline 9\d\d\n(line \d+\n)+line 1000\n$`},
	} {
		f := FitText(text, Share{Bytes: 450, BytesReason: tool.CutByBatchBytes}, tt.cut, uri)
		got := f.Output.(tool.Truncated)
		if !regexp.MustCompile(tt.want).MatchString(got.Visible) {
			t.Errorf("%s: got\n%s", tt.name, got.Visible)
		}
		if d := cmp.Diff(map[string]string{
			"tool_result_truncated":       "true",
			"tool_result_original_tokens": fmt.Sprint(got.OriginalTokens),
			"tool_result_kept_tokens":     fmt.Sprint(got.KeptTokens),
			"tool_result_budget_reason":   "BATCH_BYTES",
		}, f.Metadata); d != "" {
			t.Errorf("%s: metadata (-want +got):\n%s", tt.name, d)
		}
	}
}

func TestReasonIsTheLimitThatCutsDeeper(t *testing.T) {
	text := lines(10_000)
	for _, tt := range []struct {
		share Share
		want  tool.TruncationReason
	}{
		{Share{Bytes: 1000, BytesReason: tool.CutByCallBytes}, tool.CutByCallBytes},
		{Share{Bytes: 1000, BytesReason: tool.CutByCallBytes, Tokens: 10_000}, tool.CutByCallBytes},
		{Share{Bytes: 50_000, BytesReason: tool.CutByCallBytes, Tokens: 100}, tool.CutByContextTokens},
		{Share{Bytes: 1 << 20, BytesReason: tool.CutByCallBytes, Tokens: 100}, tool.CutByContextTokens},
	} {
		if got := FitText(text, tt.share, tool.CutHead, "").Output.(tool.Truncated).Reason; got != tt.want {
			t.Errorf("%+v: got %v, want %v", tt.share, got, tt.want)
		}
	}
}

func TestRequestChoosesTheCut(t *testing.T) {
	tail := tool.CutTail
	f := FitText(lines(1000), Share{Bytes: 400, Cut: &tail}, tool.CutHead, "")
	if v := f.Output.(tool.Truncated).Visible; !strings.HasSuffix(v, "line 1000\n") {
		t.Errorf("got %q", v)
	}
}

func TestTinySharesLoseTheWayThenTheMarker(t *testing.T) {
	text := lines(1000)
	f := FitText(text, Share{Bytes: 120}, tool.CutHead, uri)
	v := f.Output.(tool.Truncated).Visible
	if !strings.Contains(v, "...[truncated by") || strings.Contains(v, "toold://") || len(f.Hints) != 1 || f.Hints[0].Suggestion != "read path="+uri {
		t.Errorf("120 bytes: %q, hints %+v", v, f.Hints)
	}
	f = FitText(text, Share{Bytes: 20}, tool.CutHead, uri)
	if got := f.Output.(tool.Truncated); got.Visible != "" || got.Kept != nil || got.KeptBytes != 0 || len(f.Hints) != 1 {
		t.Errorf("20 bytes: %+v, hints %+v", got, f.Hints)
	}
}

func TestBadBytesBecomeOneMark(t *testing.T) {
	f := FitCapture([]byte("a\xff\xfe\xfdb\x00"), nil, 6, 6, Share{Bytes: 100}, tool.CutHead, uri)
	if d := cmp.Diff(tool.Output(tool.Text{Text: "a\uFFFDb\x00", Lossy: true}), f.Output); d != "" || !f.Lossy {
		t.Errorf("lossy %v (-want +got):\n%s", f.Lossy, d)
	}
}

func TestBinaryIsWholeOrInvisible(t *testing.T) {
	b := tool.Binary{Data: make([]byte, 300), MediaType: "image/png", Size: 300}
	if f := FitBinary(b, Share{Bytes: 300}); f.Truncated {
		t.Error("300 bytes do not fit 300")
	}
	f := FitBinary(b, Share{Bytes: 299, BytesReason: tool.CutByCallBytes})
	want := tool.Truncated{Kind: tool.KindBinary, OriginalBytes: 300, Reason: tool.CutByCallBytes}
	if d := cmp.Diff(tool.Output(want), f.Output); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// checkCut proves what is promised of every cut text: within the share, valid
// UTF-8, and made of the ranges of the original that it names.
func checkCut(t *testing.T, original []byte, f Fitted, s Share) {
	t.Helper()
	if !f.Truncated {
		if text := f.Output.(tool.Text).Text; text != string(repair(original)) || !s.fits(len(text), Count(text, s.Tokenizer)) {
			t.Fatalf("not cut, but %d bytes became %q", len(original), text)
		}
		return
	}
	got := f.Output.(tool.Truncated)
	if !utf8.ValidString(got.Visible) {
		t.Fatalf("not UTF-8: %q", got.Visible)
	}
	if n := Count(got.Visible, s.Tokenizer); !s.fits(len(got.Visible), n) {
		t.Fatalf("%d bytes and %d tokens are over %+v", len(got.Visible), n, s)
	}
	at, kept := int64(0), int64(0)
	rest := got.Visible
	for _, r := range got.Kept {
		if r.Length <= 0 || r.Offset < at || r.Offset+r.Length > int64(len(original)) {
			t.Fatalf("ranges %v of %d bytes", got.Kept, len(original))
		}
		at = r.Offset + r.Length
		kept += r.Length
		piece := string(repair(original[r.Offset:at]))
		var found bool
		if at == int64(len(original)) {
			rest, found = strings.CutSuffix(rest, piece)
		} else {
			rest, found = strings.CutPrefix(rest, piece)
		}
		if !found {
			t.Fatalf("range %v is not at its end of the visible part %q", r, rest)
		}
	}
	if kept != got.KeptBytes || got.OriginalBytes != int64(len(original)) {
		t.Fatalf("kept %d of %d bytes, said %d of %d", kept, len(original), got.KeptBytes, got.OriginalBytes)
	}
	rest = strings.Trim(rest, "\n")
	if rest != "" && !regexp.MustCompile(`^\.\.\.\[truncated by ToolResultBudget: originalTokens=\d+, keptTokens=\d+\]( read path=\S+ startLine=\d+)?$`).MatchString(rest) {
		t.Fatalf("beside the kept ranges stands %q", rest)
	}
}

func FuzzFit(f *testing.F) {
	f.Add([]byte(lines(500)), uint16(400), uint16(0), uint8(2), uint8(0), uint16(100))
	f.Add([]byte(strings.Repeat("春眠不覺曉，處處聞啼鳥。", 90)), uint16(2000), uint16(200), uint8(0), uint8(0), uint16(50))
	f.Add([]byte(strings.Repeat("😀\n\xf0\x9f", 200)), uint16(500), uint16(150), uint8(1), uint8(0), uint16(7))
	f.Add(bytes.Repeat([]byte{0xff, 'a', 0}, 400), uint16(300), uint16(96), uint8(2), uint8(1), uint16(9))
	f.Add([]byte(lines(3)), uint16(0), uint16(1), uint8(2), uint8(0), uint16(0))
	f.Fuzz(func(t *testing.T, b []byte, most, tokens uint16, style, vocabulary uint8, held uint16) {
		s := Share{Bytes: int64(most), BytesReason: tool.CutByCallBytes, Tokens: Tokens(tokens)}
		if vocabulary%8 == 1 {
			s.Tokenizer = CL100K
		}
		own := tool.Cut(style % 3)
		text := FitText(string(b), s, own, uri)
		checkCut(t, b, text, s)
		if d := cmp.Diff(text, FitText(string(b), s, own, uri)); d != "" {
			t.Fatalf("not deterministic:\n%s", d)
		}
		h := min(len(b), int(held))
		tail := b[max(h, len(b)-int(held)):]
		capture := FitCapture(b[:h], tail, int64(len(b)), Count(b, ""), s, own, uri)
		if capture.Truncated || h+len(tail) == len(b) {
			checkCut(t, b, capture, s)
		}
	})
}

func TestStructuredStaysJSON(t *testing.T) {
	numbers := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, ",%d", i)
		}
		return "[" + b.String()[1:] + "]"
	}
	for _, tt := range []struct {
		name, in string
		bytes    int64
		want     string
		hint     string
	}{
		{
			"trailing elements go", `[1,2,3,4,5,6,7,8,9]`, 8, `[1,2,3]`,
			"elements dropped to fit the budget: 6 (the top level keeps 3 of 9)",
		},
		{
			"the array goes, not what stands beside it", `{"total":100,"matches":` + numbers(100) + `,"more":true}`, 60,
			`{"total":100,"matches":[0,1,2,3,4,5,6,7,8,9,10],"more":true}`, "elements dropped to fit the budget: 89 (/matches keeps 11 of 100)",
		},
		{
			"two arrays are cut to one level", `{"a":` + numbers(50) + `,"b":` + numbers(50) + `,"c":[1]}`, 54,
			`{"a":[0,1,2,3,4,5,6,7],"b":[0,1,2,3,4,5,6,7],"c":[1]}`, "elements dropped to fit the budget: 84 (/a keeps 8 of 50, /b keeps 8 of 50)",
		},
		{
			"a long string goes whole", `{"name":"x","body":"` + strings.Repeat("y", 100) + `","n":1}`, 40,
			`{"name":"x","n":1}`, "elements dropped to fit the budget: 1 (the top level keeps 2 of 3)",
		},
		{
			"a first element that is too big is cut inside", `[{"k":` + numbers(100) + `},2]`, 20,
			`[{"k":[0,1,2,3,4]}]`, "elements dropped to fit the budget: 96 (/0/k keeps 5 of 100, the top level keeps 1 of 2)",
		},
		{
			"many members: the first stay", `{"a":1,"b":2,"c":3,"d":4,"e":5}`, 16,
			`{"a":1,"b":2}`, "elements dropped to fit the budget: 3 (the top level keeps 2 of 5)",
		},
		{"blanks", "[ 1 ,\n 2 ,\n 3 ]", 8, "[ 1]", "elements dropped to fit the budget: 2 (the top level keeps 1 of 3)"},
		{"a scalar cannot be cut", `"` + strings.Repeat("z", 100) + `"`, 50, "", "the result does not fit at all"},
		{"deep", strings.Repeat(`[`, 500) + strings.Repeat(`]`, 500), 100, strings.Repeat(`[`, 50) + strings.Repeat(`]`, 50), "elements dropped to fit the budget: 1 (…/0/0/0/0 keeps 0 of 1)"},
	} {
		f := FitStructured(tool.Structured{JSON: []byte(tt.in)}, Share{Bytes: tt.bytes}, uri)
		if got := f.Output.(tool.Truncated).Visible; got != tt.want {
			t.Errorf("%s: got %s\nwant %s", tt.name, got, tt.want)
		}
		if len(f.Hints) != 1 || f.Hints[0].Message != tt.hint || f.Hints[0].Suggestion != "read path="+uri {
			t.Errorf("%s: hints %+v", tt.name, f.Hints)
		}
	}
}

func TestStructuredThatFits(t *testing.T) {
	v := tool.Structured{JSON: []byte(`{"a":1}`), Rendering: strings.Repeat("long ", 20)}
	f := FitStructured(v, Share{Bytes: 50}, uri)
	if d := cmp.Diff(tool.Output(tool.Structured{JSON: v.JSON}), f.Output); d != "" {
		t.Errorf("the rendering alone goes (-want +got):\n%s", d)
	}
}

func FuzzFitStructured(f *testing.F) {
	f.Add([]byte(`{"a":[1,2,{"b":[true,null,"x\"]"]}],"c":{}, "d" : [ [ ] , [1] ]}`), uint16(30), uint16(0))
	f.Add([]byte(`[[[[[[1,2,3],4],5],6],7],8]`), uint16(12), uint16(10))
	f.Add([]byte(`[{"id":1,"t":"é😀"},{"id":2}]`), uint16(20), uint16(0))
	f.Add([]byte("{\"k\xff\":1}"), uint16(4), uint16(0))
	f.Fuzz(func(t *testing.T, b []byte, most, tokens uint16) {
		s := Share{Bytes: int64(most), Tokens: Tokens(tokens)}
		fit := FitStructured(tool.Structured{JSON: b}, s, uri)
		got, cut := fit.Output.(tool.Truncated)
		if !cut || got.Kind != tool.KindStructured || got.Visible == "" {
			return
		}
		if !json.Valid([]byte(got.Visible)) || !s.fits(len(got.Visible), Count(got.Visible, s.Tokenizer)) {
			t.Fatalf("%q cut to %q within %+v", b, got.Visible, s)
		}
		var all []byte
		for _, r := range got.Kept {
			all = append(all, b[r.Offset:r.Offset+r.Length]...)
		}
		if string(all) != got.Visible {
			t.Fatalf("ranges hold %q, visible is %q", all, got.Visible)
		}
		if n := len(fit.Hints[0].Message) + len(fit.Hints[0].Suggestion); n > tool.MaxHints/4 {
			t.Fatalf("a hint of %d bytes", n)
		}
	})
}

func BenchmarkFit(b *testing.B) {
	text := strings.Repeat(lines(1000), 30)
	big := samples(b)["pretty"]
	for _, v := range []Tokenizer{Estimate, O200K} {
		s := Share{Bytes: 100_000, Tokens: 2048, Tokenizer: v}
		b.Run("text/"+string(v), func(b *testing.B) {
			for b.Loop() {
				FitText(text, s, tool.CutHeadTail, uri)
			}
		})
		b.Run("json/"+string(v), func(b *testing.B) {
			for b.Loop() {
				FitStructured(tool.Structured{JSON: []byte(big)}, s, uri)
			}
		})
	}
}
