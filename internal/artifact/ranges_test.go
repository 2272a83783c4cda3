package artifact

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

type memory struct{ *strings.Reader }

func (memory) Close() error { return nil }

func text(s string) Reader { return memory{strings.NewReader(s)} }

func TestReadRange(t *testing.T) {
	for _, tt := range []struct {
		offset, length int64
		want           string
		bad            bool
	}{
		{0, 0, "0123456789", false},
		{3, 2, "34", false},
		{3, 0, "3456789", false},
		{8, 100, "89", false},
		{-3, 0, "789", false},
		{-3, 2, "78", false},
		{-30, 2, "01", false},
		{10, 0, "", false},
		{11, 0, "", true},
		{0, -1, "", true},
	} {
		s, err := ReadRange(text("0123456789"), tt.offset, tt.length)
		if tt.bad {
			if !errors.Is(err, ErrRange) {
				t.Errorf("%d+%d: %v", tt.offset, tt.length, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%d+%d: %v", tt.offset, tt.length, err)
			continue
		}
		if got, err := io.ReadAll(s); string(got) != tt.want || err != nil {
			t.Errorf("%d+%d: got %q, %v", tt.offset, tt.length, got, err)
		}
	}
}

func TestReadLines(t *testing.T) {
	for _, tt := range []struct {
		text         string
		first, count int64
		want, bad    string
	}{
		{"a\nb\nc\n", 1, 0, "a\nb\nc\n", ""},
		{"a\nb\nc\n", 2, 1, "b\n", ""},
		{"a\nb\nc\n", 3, 9, "c\n", ""},
		{"a\nb\nc", 3, 1, "c", ""},
		{"a\nb\nc\n", 4, 1, "", "line 4 is past its 3 lines"},
		{"a\nb\nc", 9, 1, "", "line 9 is past its 3 lines"},
		{"\n\n\n", 2, 1, "\n", ""},
		{"", 1, 5, "", ""},
		{"", 2, 5, "", "line 2 is past its 0 lines"},
		{"a", 0, 1, "", "want first >= 1"},
		{"a", 1, -1, "", "want first >= 1"},
	} {
		s, err := ReadLines(t.Context(), text(tt.text), tt.first, tt.count)
		if tt.bad != "" {
			if !errors.Is(err, ErrRange) || !strings.Contains(err.Error(), tt.bad) {
				t.Errorf("%q %d+%d: %v", tt.text, tt.first, tt.count, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q %d+%d: %v", tt.text, tt.first, tt.count, err)
			continue
		}
		if got, err := io.ReadAll(s); string(got) != tt.want || err != nil {
			t.Errorf("%q %d+%d: got %q, %v", tt.text, tt.first, tt.count, got, err)
		}
	}
}

func TestReadLinesStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ReadLines(ctx, text("a\nb\n"), 2, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func FuzzReadLines(f *testing.F) {
	f.Add([]byte("a\nb\n\nc"), uint8(2), uint8(2), uint16(1))
	f.Add([]byte("\r\n\x00\xff\n"), uint8(1), uint8(0), uint16(30000))
	f.Fuzz(func(t *testing.T, b []byte, first, count uint8, repeat uint16) {
		all := string(bytes.Repeat(b, 1+int(repeat)%(1+200_000/(1+len(b)))))
		var lines []string
		for l := range strings.Lines(all) {
			lines = append(lines, l)
		}
		s, err := ReadLines(context.Background(), text(all), int64(first), int64(count))
		if first == 0 || first > 1 && int(first) > len(lines) {
			if !errors.Is(err, ErrRange) {
				t.Fatalf("line %d of %d: %v", first, len(lines), err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		from := min(int(first)-1, len(lines))
		to := len(lines)
		if count > 0 {
			to = min(to, from+int(count))
		}
		if got, err := io.ReadAll(s); err != nil || string(got) != strings.Join(lines[from:to], "") {
			t.Fatalf("lines %d+%d: %q, %v", first, count, got, err)
		}
	})
}
