package budget

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// samples are what the estimator is measured on: none of it was fitted to.
func samples(tb testing.TB) map[string]string {
	tb.Helper()
	read := func(pattern string) string {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			tb.Fatalf("no sample matches %s (%v)", pattern, err)
		}
		var all strings.Builder
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				tb.Fatal(err)
			}
			all.Write(b)
		}
		return all.String()
	}
	return map[string]string{
		"english": read("testdata/english.txt"),
		"chinese": read("testdata/chinese.txt"),
		"code":    read("*.go") + read("../tool/*.go"),
		"json":    generatedJSON(tb, ""),
		"pretty":  generatedJSON(tb, "  "),
		"log":     read("testdata/build.log"),
	}
}

// generatedJSON is 200 records of the kind that tools return.
func generatedJSON(tb testing.TB, indent string) string {
	tb.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("server client request parser buffer timeout handler config session index worker cache")
	type record struct {
		ID      string         `json:"id"`
		Path    string         `json:"path"`
		Line    int            `json:"line"`
		Score   float64        `json:"score"`
		Matched bool           `json:"matched"`
		Tags    []string       `json:"tags"`
		Text    string         `json:"text"`
		Owner   map[string]any `json:"owner"`
		Time    string         `json:"modifiedTime"`
	}
	word := func() string { return words[r.IntN(len(words))] }
	var all []record
	for i := range 200 {
		all = append(all, record{
			ID: fmt.Sprintf("%08x-%04x", r.Uint32(), r.Uint32()&0xffff), Path: "internal/" + word() + "/" + word() + ".go",
			Line: r.IntN(2000), Score: float64(r.IntN(1000)) / 1000, Matched: i%3 == 0, Tags: []string{word(), word()},
			Text:  "\tif err := " + word() + "." + word() + "(ctx); err != nil {",
			Owner: map[string]any{"name": word(), "active": true, "teams": nil},
			Time:  fmt.Sprintf("2025-%02d-%02dT%02d:%02d:00Z", 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60)),
		})
	}
	b, err := json.MarshalIndent(all, "", indent)
	if indent == "" {
		b, err = json.Marshal(all)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

// exactly counts all of text with the real vocabulary, piece by piece.
func exactly(text string, t Tokenizer) (n Tokens) {
	for len(text) > 0 {
		cut := min(len(text), 100_000)
		if i := strings.LastIndexByte(text[:cut], '\n'); cut < len(text) && i > 0 {
			cut = i + 1
		}
		n += Count(text[:cut], t)
		text = text[cut:]
	}
	return n
}

func TestEstimatorIsClose(t *testing.T) {
	for name, text := range samples(t) {
		for _, v := range []Tokenizer{CL100K, O200K} {
			want := exactly(text, v)
			c := NewCounter(v)
			_, _ = c.Write([]byte(text))
			ratio := float64(c.Tokens()) / float64(want)
			t.Logf("%-8s %-6s %7d bytes %6d tokens, estimated %6d: %+.1f %%", name, v, len(text), want, c.Tokens(), 100*(ratio-1))
			if ratio < 0.85 || ratio > 1.15 {
				t.Errorf("%s as %s: estimated %d tokens, really %d", name, v, c.Tokens(), want)
			}
		}
	}
}

// The default is CL100K's estimate; for what is not Chinese it holds for o200k too.
func TestDefaultEstimateServesBothVocabularies(t *testing.T) {
	for name, text := range samples(t) {
		if name == "chinese" {
			continue
		}
		got, want := Count(text, ""), exactly(text, O200K)
		if ratio := float64(got) / float64(want); ratio < 0.85 || ratio > 1.15 {
			t.Errorf("%s: estimated %d tokens, o200k has %d", name, got, want)
		}
	}
}

func TestCounterDoesNotSeeSlices(t *testing.T) {
	text := []byte(samples(t)["chinese"] + samples(t)["json"])
	var whole, sliced Counter
	_, _ = whole.Write(text)
	r := rand.New(rand.NewPCG(3, 4))
	last := Tokens(0)
	for rest := text; len(rest) > 0; {
		n := min(len(rest), 1+r.IntN(40))
		_, _ = sliced.Write(rest[:n])
		rest = rest[n:]
		if sliced.Tokens() < last {
			t.Fatalf("the count fell from %d to %d", last, sliced.Tokens())
		}
		last = sliced.Tokens()
	}
	if whole.Tokens() != sliced.Tokens() {
		t.Errorf("%d tokens at once, %d in slices", whole.Tokens(), sliced.Tokens())
	}
}

func TestCountOfSmallTexts(t *testing.T) {
	for _, tt := range []struct {
		text   string
		lo, hi Tokens
	}{
		{"", 0, 0},
		{"a", 1, 1},
		{"ok\n", 1, 3},
		{"hello world", 2, 4},
		{strings.Repeat(" ", 1000), 1, 20},
		{strings.Repeat("\n", 1000), 1, 1000},
		{"\x00\xff\xfe", 2, 6},
		{strings.Repeat("好", 100), 70, 200},
	} {
		for _, v := range []Tokenizer{Estimate, CL100K, O200K} {
			if got := Count(tt.text, v); got < tt.lo || got > tt.hi {
				t.Errorf("Count(%.20q, %s) = %d, want %d to %d", tt.text, v, got, tt.lo, tt.hi)
			}
		}
	}
}

// Each of these took seconds before white space was encoded in pieces; the test's
// own deadline judges.
func TestExactCountBearsHostileText(t *testing.T) {
	for _, unit := range []string{" \n", "\t\u3000\r\n", "a", "A", "\u0301", "!\n", "\x00\xff", "Aa1'"} {
		text := strings.Repeat(unit, maxExact/len(unit))
		for _, v := range []Tokenizer{CL100K, O200K} {
			if n := Count(text, v); n <= 0 || n > maxExact {
				t.Errorf("%q as %s: %d tokens", unit, v, n)
			}
		}
	}
}

func BenchmarkCounter(b *testing.B) {
	for name, text := range samples(b) {
		block := bytes.Repeat([]byte(text), 1+(1<<20)/len(text))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(block)))
			var c Counter
			for b.Loop() {
				_, _ = c.Write(block)
			}
		})
	}
}

// BenchmarkExact is what the estimator saves.
func BenchmarkExact(b *testing.B) {
	text := samples(b)["code"]
	text = text[:min(len(text), 100_000)]
	for _, v := range []Tokenizer{CL100K, O200K} {
		b.Run(string(v), func(b *testing.B) {
			Count("warm", v)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Count(text, v)
			}
		})
	}
}

func FuzzCounterDoesNotSeeSlices(f *testing.F) {
	f.Add([]byte("func main() {\n\tfmt.Println(\"hi\")\n}\n"))
	f.Add([]byte("a1.b 22 ..C好\xe5\n"))
	f.Add([]byte{0xf0, 'a', 0, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		b = bytes.Repeat(b, 1+2*block/len(b)) // long enough to be walked abreast
		var whole, sliced Counter
		_, _ = whole.Write(b)
		for i := range b {
			_, _ = sliced.Write(b[i : i+1])
		}
		if whole != sliced {
			t.Fatalf("%+v at once, %+v byte by byte", whole.Tokens(), sliced.Tokens())
		}
	})
}
