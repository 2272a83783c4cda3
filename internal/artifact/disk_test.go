package artifact

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/toold/toold/internal/tool"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("ARTIFACT_TEST_DIR"); dir != "" {
		writeForever(dir)
	}
	os.Exit(m.Run())
}

func openDisk(tb testing.TB) *Disk {
	tb.Helper()
	d, err := OpenDisk(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d
}

func hexSum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func readBlob(tb testing.TB, d *Disk, b Blob) []byte {
	tb.Helper()
	r, err := d.Open(b.SHA256)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	got := make([]byte, r.Size())
	if _, err := r.ReadAt(got, 0); err != nil && !errors.Is(err, io.EOF) {
		tb.Fatal(err)
	}
	return got
}

// files lists the regular files below dir that are not locks.
func files(tb testing.TB, dir string) []string {
	tb.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && e.Name() != "lock" {
			all = append(all, p)
		}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

func TestPutAndOpen(t *testing.T) {
	d := openDisk(t)
	for _, content := range [][]byte{nil, []byte("hello\x00\xff"), bytes.Repeat([]byte("x"), 1<<20)} {
		b, err := d.Put(t.Context(), content)
		if err != nil {
			t.Fatal(err)
		}
		if b.SHA256 != hexSum(content) || b.Size != int64(len(content)) {
			t.Errorf("%d bytes became %+v", len(content), b)
		}
		if got := readBlob(t, d, b); !bytes.Equal(got, content) {
			t.Errorf("put %d bytes, got %d", len(content), len(got))
		}
	}
	if left := files(t, d.tmp); len(left) > 0 {
		t.Errorf("left in tmp: %v", left)
	}
}

func TestContentIsStoredOnce(t *testing.T) {
	d := openDisk(t)
	content := []byte("the same")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := d.Put(context.Background(), content); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	stored := files(t, d.dir)
	if len(stored) != 1 {
		t.Fatalf("stored: %v", stored)
	}
	before, err := os.Stat(stored[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Put(t.Context(), content); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(stored[0]); err != nil || !os.SameFile(before, after) {
		t.Errorf("written again (%v)", err)
	}
	if before.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", before.Mode())
	}
}

func TestDamagedContentIsWrittenAgain(t *testing.T) {
	d := openDisk(t)
	b, err := d.Put(t.Context(), []byte("whole content"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.path(b.SHA256), 3); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Put(t.Context(), []byte("whole content")); err != nil {
		t.Fatal(err)
	}
	if got := readBlob(t, d, b); string(got) != "whole content" {
		t.Errorf("got %q", got)
	}
}

func TestOpenRefusesWhatIsNoName(t *testing.T) {
	d := openDisk(t)
	for _, sha := range []string{"", "..", "../../../../etc/passwd", strings.Repeat("A", 64), strings.Repeat("a", 63), strings.Repeat("a", 64) + "\n"} {
		if _, err := d.Open(sha); err == nil || errors.Is(err, ErrGone) {
			t.Errorf("%q: %v", sha, err)
		}
	}
	if _, err := d.Open(strings.Repeat("a", 64)); !errors.Is(err, ErrGone) {
		t.Errorf("a missing content: %v", err)
	}
}

func TestOpenWaitsForNoNamedPipe(t *testing.T) {
	d := openDisk(t)
	b, err := d.Put(t.Context(), []byte("content"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(d.path(b.SHA256)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(d.path(b.SHA256), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(b.SHA256); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v, want it refused", err)
	}
}

func TestPutFailsWhenDiskDoes(t *testing.T) {
	d := openDisk(t)
	if err := os.RemoveAll(d.tmp); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Put(t.Context(), []byte("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Put(ctx, []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestOthersFilesAreLeftAlone(t *testing.T) {
	d := openDisk(t)
	c := d.NewCapture(CaptureOptions{})
	defer c.Close()
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if _, err := c.Write(tool.Stdout, content); err != nil {
		t.Fatal(err)
	}
	other, err := OpenDisk(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Finish(); err != nil {
		t.Fatal(err)
	}
	k, err := c.Keep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := readBlob(t, d, k.Output); !bytes.Equal(got, content) {
		t.Error("another process's start lost a running capture")
	}
}

// writeForever stores one content after the other, in all ways at once, until
// the process is killed, and prints the name of each when it is durable.
func writeForever(dir string) {
	d, err := OpenDisk(dir)
	if err != nil {
		panic(err)
	}
	for i := 0; ; i++ {
		content := bytes.Repeat(fmt.Appendf(nil, "%d\n", i), 100_000)
		c := d.NewCapture(CaptureOptions{})
		if _, err := c.Write(tool.Stdout, content); err != nil {
			panic(err)
		}
		if _, err := c.Finish(); err != nil {
			panic(err)
		}
		k, err := c.Keep(context.Background())
		if err != nil {
			panic(err)
		}
		c.Close()
		b, err := d.Put(context.Background(), content[1:])
		if err != nil {
			panic(err)
		}
		fmt.Println(k.Output.SHA256)
		fmt.Println(b.SHA256)
	}
}

func TestCrashLeavesNoTornBlob(t *testing.T) {
	dir := t.TempDir()
	var named []string
	for kill := range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "ARTIFACT_TEST_DIR="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 3 + kill { // killed at another place each time
			if !lines.Scan() {
				t.Fatal("the writer ended by itself")
			}
			named = append(named, lines.Text())
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
	d, err := OpenDisk(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if left := files(t, filepath.Join(dir, "tmp")); len(left) > 0 {
		t.Errorf("left in tmp: %v", left)
	}
	for _, f := range files(t, filepath.Join(dir, "blobs")) {
		content, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if name := filepath.Base(filepath.Dir(f)) + filepath.Base(f); hexSum(content) != name {
			t.Errorf("%s holds %d other bytes", name, len(content))
		}
	}
	for _, sha := range named {
		r, err := d.Open(sha)
		if err != nil {
			t.Fatalf("%s was durable: %v", sha, err)
		}
		_ = r.Close()
	}
}
