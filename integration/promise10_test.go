package integration

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/toold/toold/client"
	pb "github.com/toold/toold/proto/toold/v1"
)

// Commands print a gigabyte, with live output to a reader that hardly reads. The
// daemon's memory stays bounded, and the artifact has every byte.
func TestPromise10_MemoryStaysBounded(t *testing.T) {
	eachStore(t, func(t *testing.T, s *site) {
		d := s.start()
		c := s.client(t)
		run(t, c, batch(bash("warm", "yes | head -c 5000000"))) // buffers that are there to stay
		for _, flood := range []struct {
			name, pattern, command string
			megabytes              int
		}{
			{"lines", "toold prints\n", "yes toold prints | head -c %d", times(200, 1000)},
			{"one endless line", "x", `head -c %d /dev/zero | tr "\0" x`, times(40, 1000)},
			{"no text at all", "\x00\xff", `yes "$(printf "\\377")" | tr "\n" "\0" | tail -c +2 | head -c %d`, times(40, 1000)},
		} {
			size := int64(flood.megabytes) * 1_000_000
			before := memory(t, d, "VmRSS")
			req := batch(bash("flood", fmt.Sprintf(flood.command, size)))
			req.Spec.Stream = &pb.StreamOptions{OutputChunks: true}
			told := crawl(t, c, req)
			grown := memory(t, d, "VmHWM") - before
			if grown > 64<<20 {
				t.Errorf("%s: the daemon's memory grew by %d MiB", flood.name, grown>>20)
			}
			if got := told.outcomes()["flood"]; got != "SUCCEEDED" {
				t.Errorf("%s: ended %s: %v", flood.name, got, told.results["flood"].GetError())
			}
			full := artifactOf(told.results["flood"].GetOutput())
			if want := repeated(t, flood.pattern, size); full.GetSizeBytes() != size || full.GetSha256() != want {
				t.Errorf("%s: the artifact has %d bytes and SHA-256 %s; want %d and %s", flood.name, full.GetSizeBytes(), full.GetSha256(), size, want)
			}
			if got := streamed(t, c, full.GetUri()); got != full.GetSha256() {
				t.Errorf("%s: what can be read has SHA-256 %s, want %s", flood.name, got, full.GetSha256())
			}
			t.Logf("%s: %d MB, grew by %.1f MiB at the most", flood.name, flood.megabytes, float64(grown)/(1<<20))
		}
	})
}

func artifactOf(o *pb.ToolOutput) *pb.ArtifactRef {
	switch o := o.GetOutput().(type) {
	case *pb.ToolOutput_Truncated:
		return o.Truncated.GetFull()
	case *pb.ToolOutput_Binary:
		return o.Binary.GetArtifact()
	}
	return nil
}

// crawl runs a batch and takes a rest after each live event.
func crawl(t *testing.T, c *client.Client, req *pb.ExecuteBatchRequest) *story {
	t.Helper()
	told := &story{}
	_, err := c.Execute(within(t), req, func(ev *pb.BatchEvent) error {
		if ev.GetSeq() == 0 {
			time.Sleep(20 * time.Millisecond)
		}
		return told.add(ev)
	})
	if err != nil {
		t.Fatal(err)
	}
	return told
}

// memory is a line of the process's status, in bytes.
func memory(t *testing.T, d *daemon, field string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("the status has no %s:\n%s", field, text)
	}
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// repeated is the SHA-256 of size bytes of a pattern.
func repeated(t *testing.T, pattern string, size int64) string {
	t.Helper()
	block := make([]byte, 0, 1<<20)
	for len(block)+len(pattern) <= cap(block) {
		block = append(block, pattern...)
	}
	h := sha256.New()
	for size > 0 {
		n, _ := h.Write(block[:min(int64(len(block)), size)])
		size -= int64(n)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// streamed is the SHA-256 of an artifact, read through the API.
func streamed(t *testing.T, c *client.Client, uri string) string {
	t.Helper()
	stream, err := pb.NewArtifactServiceClient(c.Conn()).ReadArtifact(within(t), &pb.ReadArtifactRequest{Uri: uri, ChunkBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil))
		}
		if err != nil {
			t.Fatal(err)
		}
		h.Write(part.GetChunk().GetData())
	}
}
