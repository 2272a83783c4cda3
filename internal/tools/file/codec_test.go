package file

import (
	"bytes"
	"strings"
	"testing"
)

func TestDetect(t *testing.T) {
	wide := func(set charset, s string) string {
		b, err := set.encode(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, tc := range []struct{ name, head, want string }{
		{"empty", "", "utf-8"},
		{"ASCII", "hello\n", "utf-8"},
		{"UTF-8", "héllo 世界\n", "utf-8"},
		{"colours of a terminal", "\x1b[31mred\x1b[0m\n", "utf-8"},
		{"UTF-8 with mark", "\xef\xbb\xbfhello", "utf-8-bom"},
		{"mostly UTF-8", "é é é \xff é", "utf-8"},
		{"Latin-1", "caf\xe9 \xe0 la carte", "iso-8859-1"},
		{"Windows-1252", "\x93quoted\x94 \xe9", "windows-1252"},
		{"UTF-16LE with mark", "\xff\xfeh\x00i\x00", "utf-16le"},
		{"UTF-16BE with mark", "\xfe\xff\x00h\x00i", "utf-16be"},
		{"UTF-16LE", wide(utf16LE, "hello world"), "utf-16le"},
		{"UTF-16BE", wide(utf16BE, "hello world"), "utf-16be"},
		{"UTF-32 with mark", "\xff\xfe\x00\x00h\x00\x00\x00", ""},
		{"NUL", "hello\x00world", ""},
		{"control characters", "\x01\x02\x03\x04 abc", ""},
		{"ELF", "\x7fELF\x02\x01\x01\x00\x00\x00", ""},
		{"random", string([]byte{0x8f, 0x01, 0xc3, 0x28, 0xa0, 0x07, 0x99, 0x02}), ""},
	} {
		set, ok := detect([]byte(tc.head), true)
		if got := set.name; ok && got != tc.want || !ok && tc.want != "" {
			t.Errorf("%s: %q, %t; want %q", tc.name, got, ok, tc.want)
		}
	}
	cut := []byte(strings.Repeat("世", 10))
	if set, ok := detect(cut[:len(cut)-1], false); !ok || set.name != "utf-8" {
		t.Errorf("a character cut at the end of the head: %q, %t", set.name, ok)
	}
}

func TestLineEnding(t *testing.T) {
	for text, want := range map[string]string{
		"": "none", "a": "none", "a\n": "lf", "a\r\nb\r\n": "crlf", "a\rb": "cr", "a\r\nb\n": "mixed", "a\nb\r": "mixed",
	} {
		if got := lineEnding(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// Text that was decoded is encoded to the same bytes.
func FuzzCodec(f *testing.F) {
	for _, s := range []string{"", "a\r\n", "caf\xe9", "\x93\x81\x8d", "\xff\xfea\x00", "\xff\xfe\x00\xd8", "\xfe\xff\xd8\x00\xdc\x00", "\xef\xbb\xbf\xef\xbb\xbf", "a\x00b\x00c\x00d\x00e"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		set, ok := detect(raw, true)
		if !ok {
			return
		}
		text, err := set.decode(raw)
		if err != nil {
			return
		}
		back, err := set.encode(text)
		if err != nil || !bytes.Equal(back, raw) {
			t.Fatalf("%s: %q became %q (%v)", set.name, raw, back, err)
		}
	})
}

func FuzzFold(f *testing.F) {
	f.Add("a\r\nb\n\r\r\n")
	f.Fuzz(func(t *testing.T, raw string) {
		g := fold(raw)
		if g.text != strings.ReplaceAll(raw, "\r\n", "\n") {
			t.Fatalf("%q folded to %q", raw, g.text)
		}
		for i := range len(g.text) {
			at := g.raw(i)
			want := raw[at]
			if strings.HasPrefix(raw[at:], "\r\n") {
				want = '\n'
			}
			if g.text[i] != want {
				t.Fatalf("%q: place %d of %q is %q", raw, i, g.text, raw[at:])
			}
		}
		if g.raw(len(g.text)) != len(raw) {
			t.Fatalf("%q: the end is at %d", raw, g.raw(len(g.text)))
		}
	})
}
