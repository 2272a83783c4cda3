package artifact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/toold/toold/internal/budget"
	"github.com/toold/toold/internal/tool"
)

// stream is n bytes in lines, no two parts alike.
func stream(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%d: the quick brown fox\n", i)
	}
	return b.Bytes()[:n]
}

func finish(tb testing.TB, c *Capture) Summary {
	tb.Helper()
	s, err := c.Finish()
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestCaptureKeepsEverything(t *testing.T) {
	d := openDisk(t)
	for _, size := range []int{0, 1, headBytes - 1, headBytes, headBytes + 1, headBytes + tailBytes, headBytes + tailBytes + 1, 3<<20 + 7} {
		for _, piece := range []int{1 << 10, 100_003, 1 << 22} {
			want := stream(size)
			c := d.NewCapture(CaptureOptions{})
			for rest := want; len(rest) > 0; {
				n := min(piece, len(rest))
				if _, err := c.Write(tool.Stdout, rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			s := finish(t, c)
			h := min(size, headBytes)
			diff := cmp.Diff(Summary{
				Size: int64(size),
				Head: append([]byte{}, want[:h]...), Tail: append([]byte{}, want[max(h, size-tailBytes):]...),
				Tokens: budget.Count(want, ""), SHA256: hexSum(want),
			}, s, cmp.Transformer("text", func(b []byte) string { return string(b) }))
			if diff != "" {
				t.Errorf("%d bytes in pieces of %d (-want +got):\n%.2000s", size, piece, diff)
			}
			for range 2 { // keeping twice changes nothing
				k, err := c.Keep(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if got := readBlob(t, d, k.Output); !bytes.Equal(got, want) {
					t.Errorf("%d bytes in pieces of %d: kept %d others", size, piece, len(got))
				}
			}
			c.Close()
			c.Close()
		}
	}
	if left := files(t, d.tmp); len(left) > 0 {
		t.Errorf("left in tmp: %v", left)
	}
}

func TestChannelsAreInOrderAndStderrApart(t *testing.T) {
	d := openDisk(t)
	c := d.NewCapture(CaptureOptions{})
	defer c.Close()
	var all, stderr bytes.Buffer
	var offsets [tool.Log + 1]int64
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 5000 {
		ch := tool.Channel(1 + r.IntN(3))
		line := fmt.Appendf(nil, "%d of channel %d%s\n", i, ch, strings.Repeat(".", r.IntN(300)))
		off, err := c.Write(ch, line)
		if err != nil || off != offsets[ch] {
			t.Fatalf("offset %d, %v; want %d", off, err, offsets[ch])
		}
		offsets[ch] += int64(len(line))
		all.Write(line)
		if ch == tool.Stderr {
			stderr.Write(line)
		}
	}
	finish(t, c)
	k, err := c.Keep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(readBlob(t, d, k.Output), all.Bytes()) {
		t.Error("the output is not in order of arrival")
	}
	if k.Stderr == nil || !bytes.Equal(readBlob(t, d, *k.Stderr), stderr.Bytes()) {
		t.Errorf("standard error by itself: %+v", k.Stderr)
	}
}

func TestStderrAloneIsTheOutput(t *testing.T) {
	d := openDisk(t)
	c := d.NewCapture(CaptureOptions{})
	defer c.Close()
	if _, err := c.Write(tool.Stderr, []byte("oh no\n")); err != nil {
		t.Fatal(err)
	}
	s := finish(t, c)
	k, err := c.Keep(t.Context())
	if err != nil || k.Stderr != nil || string(s.Head) != "oh no\n" {
		t.Errorf("kept %+v (%v), summary %+v", k, err, s)
	}
}

func TestCaptureStopsAtItsMax(t *testing.T) {
	d := openDisk(t)
	c := d.NewCapture(CaptureOptions{Max: 10})
	defer c.Close()
	if _, err := c.Write(tool.Stdout, []byte("1234567")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.Write(tool.Stderr, []byte("89abcd")); !errors.Is(err, tool.ErrOutputCapped) {
			t.Fatalf("got %v", err)
		}
	}
	if s := finish(t, c); string(s.Head) != "123456789a" || !s.Capped {
		t.Errorf("got %+v", s)
	}
	if _, err := c.Write(tool.Stdout, []byte("x")); !errors.Is(err, ErrFinished) {
		t.Errorf("after the end: %v", err)
	}
}

func TestDroppedCaptureLeavesNothing(t *testing.T) {
	d := openDisk(t)
	c := d.NewCapture(CaptureOptions{})
	if _, err := c.Write(tool.Stdout, stream(1<<20)); err != nil {
		t.Fatal(err)
	}
	if len(files(t, d.dir)) != 1 {
		t.Error("a megabyte is not on disk")
	}
	c.Close()
	if left := files(t, d.dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := c.Keep(t.Context()); err == nil {
		t.Error("a closed capture was kept")
	}
}

func TestFullDiskEndsTheCapture(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal("no /dev/full here: this test wants Linux")
	}
	_ = full.Close()
	d := openDisk(t)
	c := d.NewCapture(CaptureOptions{})
	defer c.Close()
	c.all.create = func() (*os.File, error) { return os.OpenFile("/dev/full", os.O_RDWR, 0) }
	c.all.stored = true // /dev/full is not ours to remove
	for range 2 {
		if _, err := c.Write(tool.Stdout, stream(1<<20)); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("writing: %v", err)
		}
	}
	if _, err := c.Finish(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("finishing: %v", err)
	}
	if _, err := c.Keep(t.Context()); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("keeping: %v", err)
	}
	if stored := files(t, d.dir); len(stored) > 0 {
		t.Errorf("stored: %v", stored)
	}
}

func TestTwoWritersAndAFollower(t *testing.T) {
	d := openDisk(t)
	c := d.NewCapture(CaptureOptions{ID: "a1", Tenant: "team"})
	live, ok := d.Live("a1")
	if !ok {
		t.Fatal("not found")
	}
	var followed bytes.Buffer
	var reading, writing sync.WaitGroup
	reading.Go(func() {
		for done := false; !done; {
			var size int64
			var err error
			at := int64(followed.Len())
			if size, done, err = live.Wait(t.Context(), at); err != nil {
				t.Error(err)
				return
			}
			if _, err := io.Copy(&followed, io.NewSectionReader(live, at, size-at)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for _, ch := range []tool.Channel{tool.Stdout, tool.Stderr} {
		writing.Go(func() {
			for i := range 20_000 {
				if _, err := c.Write(ch, fmt.Appendf(nil, "%d %d\n", ch, i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writing.Wait()
	s := finish(t, c)
	reading.Wait()
	if hexSum(followed.Bytes()) != s.SHA256 {
		t.Errorf("followed %d bytes, other than the %d that were written", followed.Len(), s.Size)
	}
	var next [tool.Log + 1]int
	for line := range strings.Lines(followed.String()) {
		var ch, i int
		if _, err := fmt.Sscanf(line, "%d %d", &ch, &i); err != nil || i != next[ch] {
			t.Fatalf("line %q out of order (%v)", line, err)
		}
		next[ch]++
	}
	if _, err := c.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, ok := d.Live("a1"); ok {
		t.Error("still live after its end")
	}
	part := make([]byte, 100)
	if _, err := live.ReadAt(part, 200_000); err != nil || !bytes.Equal(part, followed.Bytes()[200_000:200_100]) {
		t.Errorf("an open reader of an ended capture: %q, %v", part, err)
	}
	if err := live.Close(); err != nil {
		t.Error(err)
	}
}

func TestLiveReadsEveryPlace(t *testing.T) {
	d := openDisk(t)
	c := d.NewCapture(CaptureOptions{ID: "x"})
	defer c.Close()
	live, _ := d.Live("x")
	defer func() { _ = live.Close() }()
	want := stream(700_000)
	r := rand.New(rand.NewPCG(5, 6))
	for at := 0; at < len(want); {
		n := min(1+r.IntN(50_000), len(want)-at)
		if _, err := c.Write(tool.Stdout, want[at:at+n]); err != nil {
			t.Fatal(err)
		}
		at += n
		for range 20 {
			off := r.IntN(at + 10)
			p := make([]byte, r.IntN(100_000))
			m, err := live.ReadAt(p, int64(off))
			if end := min(at, off+len(p)); !bytes.Equal(p[:m], want[min(off, at):max(end, min(off, at))]) {
				t.Fatalf("%d bytes at %d of %d: %d wrong ones (%v)", len(p), off, at, m, err)
			}
			if (m < len(p)) != errors.Is(err, io.EOF) {
				t.Fatalf("%d of %d bytes with %v", m, len(p), err)
			}
		}
	}
	if _, err := live.ReadAt(make([]byte, 1), -1); err == nil {
		t.Error("read before the beginning")
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	d := openDisk(t)
	synctest.Test(t, func(t *testing.T) {
		c := d.NewCapture(CaptureOptions{ID: "w"})
		live, _ := d.Live("w")
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		go func() { _, _, err = live.Wait(ctx, 0) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		var done bool
		go func() { _, done, err = live.Wait(t.Context(), 0) }()
		synctest.Wait()
		c.Close()
		synctest.Wait()
		if !done || err != nil {
			t.Errorf("after the end: done %v, %v", done, err)
		}
		_ = live.Close()
	})
}

// BenchmarkCapture is 1 GB through a capture: SHA-256, tokens and file included.
// The floors are hashing alone, and writing the same bytes to a file alone.
func BenchmarkCapture(b *testing.B) {
	const total, piece = 1 << 30, 32 << 10
	block := stream(piece)
	b.Run("capture", func(b *testing.B) {
		d := openDisk(b)
		b.SetBytes(total)
		for b.Loop() {
			runtime.GC()
			before := resident(b)
			c := d.NewCapture(CaptureOptions{})
			for range total / piece {
				if _, err := c.Write(tool.Stdout, block); err != nil {
					b.Fatal(err)
				}
			}
			finish(b, c)
			b.ReportMetric(float64(resident(b)-before)/(1<<20), "MiB-grown")
			c.Close()
		}
	})
	b.Run("floor/sha256", func(b *testing.B) {
		b.SetBytes(total)
		s := newSpool(nil, 0, 0, nil)
		for b.Loop() {
			for range total / piece {
				s.digest(block)
			}
		}
	})
	b.Run("floor/file", func(b *testing.B) {
		d := openDisk(b)
		b.SetBytes(total)
		for b.Loop() {
			f, err := d.newFile()
			if err != nil {
				b.Fatal(err)
			}
			for range total / piece {
				if _, err := f.Write(block); err != nil {
					b.Fatal(err)
				}
			}
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	})
}

// resident is the process's memory in bytes; 0 where the system does not tell.
func resident(tb testing.TB) int64 {
	tb.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		tb.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
