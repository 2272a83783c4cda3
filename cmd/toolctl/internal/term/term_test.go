package term

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestSanitizeLeavesNothingThatATerminalObeys(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"plain text", "hello, wörld 日本\n\tx", "hello, wörld 日本\n\tx"},
		{"colour", "\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`},
		{"window title", "\x1b]0;pwned\a", `\x1b]0;pwned\a`},
		{"eight-bit CSI", "\u009b31m", `\u009b31m`},
		{"overwriting a line", "safe\rrm -rf /", `safe\rrm -rf /`},
		{"backspaces", "a\b\bb", `a\b\bb`},
		{"Windows line ends", "a\r\nb\r\n", "a\nb\n"},
		{"NUL and DEL", "a\x00b\x7f", `a\x00b\x7f`},
		{"right-to-left override", "user\u202etxt.exe", `user\u202etxt.exe`},
		{"tag characters", "a\U000e0041", `a\U000e0041`},
		{"line separator", "a\u2028b", `a\u2028b`},
		{"invalid UTF-8", "a\xff\xfeb", `a\xff\xfeb`},
		{"a real replacement character", "a\ufffdb", "a\ufffdb"},
		{"joined emoji", "👩\u200d🔧", "👩\u200d🔧"},
	} {
		if got := Sanitize(tt.in); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func FuzzSanitize(f *testing.F) {
	for _, s := range []string{"a\r\n\x1b[2Jb", "\u202e\xff", "é\xc3", "日本\r"} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, s string, cut int) {
		whole := Sanitize(s)
		if !utf8.ValidString(whole) {
			t.Fatalf("invalid UTF-8 from %q", s)
		}
		for _, r := range whole {
			if !harmless(r) {
				t.Fatalf("%q kept %q", s, r)
			}
		}
		if cut < 0 || cut > len(s) {
			return
		}
		var b strings.Builder
		w := NewWriter(&b)
		_, _ = w.Write([]byte(s[:cut]))
		_, _ = w.Write([]byte(s[cut:]))
		_ = w.Flush()
		if b.String() != whole {
			t.Fatalf("in two writes %q, in one %q", b.String(), whole)
		}
	})
}

func TestATableFitsItsScreen(t *testing.T) {
	table := Table{
		Columns: []Column{{Title: "CALL", Max: 10}, {Title: "CLASS", Drop: 2}, {Title: "TIME", Drop: 1, Right: true}, {Title: "OUTCOME"}},
		Rows: [][]Cell{
			{{Text: "read"}, {Text: "read"}, {Text: "3 ms"}, {Text: "SUCCEEDED"}},
			{{Text: "a-very-long-call-id"}, {Text: "system"}, {Text: "120 ms"}, {Text: "DENIED\nby\x1b[1m policy"}},
			{{Text: "日本語"}, {}, {}, {Text: "queued"}},
		},
	}
	for _, tt := range []struct {
		name  string
		width int
		want  string
	}{
		{"any width", 0, `
CALL        CLASS     TIME  OUTCOME
read        read      3 ms  SUCCEEDED
a-very-lo…  system  120 ms  DENIED by\x1b[1m policy
日本語                      queued`},
		{"the last column shrinks", 40, `
CALL        CLASS     TIME  OUTCOME
read        read      3 ms  SUCCEEDED
a-very-lo…  system  120 ms  DENIED by\x…
日本語                      queued`},
		{"columns go by their rank", 30, `
CALL          TIME  OUTCOME
read          3 ms  SUCCEEDED
a-very-lo…  120 ms  DENIED by…
日本語              queued`},
		{"hardly any room", 14, `
CALL        O…
read        S…
a-very-lo…  D…
日本語      q…`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines := table.Lines(tt.width, false)
			if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), strings.Join(lines, "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, l := range lines {
				if tt.width > 0 && Width(l) > tt.width {
					t.Errorf("line of %d columns: %q", Width(l), l)
				}
			}
		})
	}
}

func TestColourIsOnlyWhereAsked(t *testing.T) {
	if got := Red.Paint("no", true); got != "\x1b[31mno\x1b[0m" {
		t.Errorf("got %q", got)
	}
	if got := Red.Paint("no", false); got != "no" {
		t.Errorf("got %q", got)
	}
}

func TestARegionIsDrawnOver(t *testing.T) {
	var b strings.Builder
	r := NewRegion(&b)
	for _, lines := range [][]string{{"a", "b"}, {"c"}, nil} {
		if err := r.Draw(lines); err != nil {
			t.Fatal(err)
		}
	}
	want := "\r\x1b[2Ka\n\r\x1b[2Kb\n\x1b[J" + "\x1b[2A\r\x1b[2Kc\n\x1b[J" + "\x1b[1A\x1b[J"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
