package integration

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toold/toold/client"
	pb "github.com/toold/toold/proto/toold/v1"
)

// What did not fit is read back whole by its URI: text, what a command printed
// (not valid UTF-8), and structured output; by ranges of bytes and lines too, by
// the tools that take a URI, and after a crash.
func TestPromise7_TheWholeOfATruncatedOutputCanBeReadBack(t *testing.T) {
	eachStore(t, func(t *testing.T, s *site) {
		text, noise := manyLines(30_000), noise(3<<20)
		s.put("text", text)
		s.put("noise", noise)
		if err := os.Mkdir(filepath.Join(s.workspace, "many"), 0o755); err != nil {
			t.Fatal(err)
		}
		for i := range 900 {
			s.put(fmt.Sprintf("many/a-file-with-a-rather-long-name-%04d.txt", i), nil)
		}
		d := s.start()
		c := s.client(t)
		req := batch(read("text", "text"), bash("cat", "cat text"), bash("noise", "cat noise"),
			call("structured", "glob", map[string]any{"pattern": "many/*"}))
		req.Spec.Budget = &pb.OutputBudget{ContextRemainingTokens: 4000}
		told := run(t, c, req)
		wholes := map[string][]byte{}
		check := func() {
			for id, want := range map[string][]byte{"text": nil, "cat": text, "noise": noise, "structured": nil} {
				cut := told.results[id].GetOutput().GetTruncated()
				if cut == nil {
					t.Fatalf("%s: the output is not truncated: %.300v", id, told.results[id])
				}
				whole := checkWhole(t, c, id, cut)
				if want != nil && !bytes.Equal(whole, want) {
					t.Errorf("%s: the whole is not what was printed", id)
				}
				if before, again := wholes[id]; again && !bytes.Equal(before, whole) {
					t.Errorf("%s: the whole is another one after a crash", id)
				}
				wholes[id] = whole
				checkRanges(t, c, cut.GetFull().GetUri(), whole)
			}
		}
		check()
		checkNumbered(t, wholes["text"], text)
		if paths := 0; json.Valid(wholes["structured"]) {
			paths = bytes.Count(wholes["structured"], []byte("a-file-with-a-rather-long-name-"))
			if paths != 900 {
				t.Errorf("structured: the whole has %d of 900 paths", paths)
			}
		} else {
			t.Errorf("structured: the whole is no JSON: %.200q", wholes["structured"])
		}
		checkReadTool(t, c, told.results["cat"].GetOutput().GetTruncated().GetFull().GetUri(), text)
		d.kill()
		s.start()
		check()
		checkReadTool(t, c, told.results["cat"].GetOutput().GetTruncated().GetFull().GetUri(), text)
	})
}

// manyLines is text with characters of one to four bytes.
func manyLines(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "line %d: naïve café, 漢字, 🙂 %s\n", i+1, strings.Repeat("x", i%60))
	}
	return b.Bytes()
}

// noise is bytes that are no text, with line breaks here and there.
func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// checkWhole reads an output back whole and holds it against its reference and
// against what was kept of it.
func checkWhole(t *testing.T, c *client.Client, id string, cut *pb.Truncated) []byte {
	t.Helper()
	whole := readArtifact(t, c, &pb.ReadArtifactRequest{Uri: cut.GetFull().GetUri()})
	sum := sha256.Sum256(whole)
	switch {
	case hex.EncodeToString(sum[:]) != cut.GetFull().GetSha256():
		t.Errorf("%s: the whole has SHA-256 %x, and the reference says %s", id, sum, cut.GetFull().GetSha256())
	case int64(len(whole)) != cut.GetFull().GetSizeBytes() || int64(len(whole)) != cut.GetOriginalBytes():
		t.Errorf("%s: the whole has %d bytes; the reference says %d, the result %d", id, len(whole), cut.GetFull().GetSizeBytes(), cut.GetOriginalBytes())
	}
	kept, at := int64(0), int64(0)
	for _, r := range cut.GetKept() {
		if r.GetOffset() < at || r.GetOffset()+r.GetLength() > int64(len(whole)) {
			t.Errorf("%s: the kept ranges %v are not ascending, or beyond the end", id, cut.GetKept())
			return whole
		}
		at = r.GetOffset() + r.GetLength()
		kept += r.GetLength()
		if part := strings.ToValidUTF8(string(whole[r.GetOffset():at]), "\uFFFD"); id != "noise" && !strings.Contains(cut.GetVisible(), part) {
			t.Errorf("%s: the kept range %v is not in what is visible", id, r)
		}
	}
	if kept != cut.GetKeptBytes() {
		t.Errorf("%s: the kept ranges hold %d bytes, and the result says %d", id, kept, cut.GetKeptBytes())
	}
	return whole
}

// readArtifact reads a range; the chunks must follow one another.
func readArtifact(t *testing.T, c *client.Client, req *pb.ReadArtifactRequest) []byte {
	t.Helper()
	stream, err := pb.NewArtifactServiceClient(c.Conn()).ReadArtifact(within(t), req)
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	at := int64(-1)
	for n := 0; ; n++ {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%v: %v", req, err)
		}
		if (part.GetHeader() != nil) != (n == 0) {
			t.Fatalf("%v: part %d is %v; want a header first, and no other", req, n, part)
		}
		if chunk := part.GetChunk(); chunk != nil {
			if at >= 0 && chunk.GetOffset() != at {
				t.Fatalf("%v: a chunk at %d, want %d", req, chunk.GetOffset(), at)
			}
			at = chunk.GetOffset() + int64(len(chunk.GetData()))
			out = append(out, chunk.GetData()...)
		}
	}
}

func checkRanges(t *testing.T, c *client.Client, uri string, whole []byte) {
	t.Helper()
	size := int64(len(whole))
	for range times(8, 200) {
		from := rand.Int64N(size)
		length := 1 + rand.Int64N(min(size-from, 200_000))
		offset := from
		if rand.IntN(3) == 0 {
			offset = from - size // from the end
		}
		got := readArtifact(t, c, &pb.ReadArtifactRequest{
			Uri: uri, ChunkBytes: int32(rand.IntN(1 << 20)),
			Range: &pb.ReadArtifactRequest_Bytes{Bytes: &pb.ByteRange{Offset: offset, Length: length}},
		})
		if !bytes.Equal(got, whole[from:from+length]) {
			t.Errorf("bytes %d to %d are not those of the whole", from, from+length)
		}
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	for range times(8, 200) {
		first := rand.IntN(len(lines))
		count := 1 + rand.IntN(min(len(lines)-first, 500))
		got := readArtifact(t, c, &pb.ReadArtifactRequest{
			Uri: uri, Range: &pb.ReadArtifactRequest_Lines{Lines: &pb.LineRange{First: int64(first + 1), Count: int64(count)}},
		})
		if !bytes.Equal(got, bytes.Join(lines[first:first+count], nil)) {
			t.Errorf("lines %d to %d are not those of the whole", first+1, first+count)
		}
	}
	stream, err := pb.NewArtifactServiceClient(c.Conn()).ReadArtifact(within(t), &pb.ReadArtifactRequest{
		Uri: uri, Range: &pb.ReadArtifactRequest_Bytes{Bytes: &pb.ByteRange{Offset: size + 1}},
	})
	for err == nil {
		_, err = stream.Recv()
	}
	if got, _ := refusal(err); got != "OutOfRange/RANGE_BEYOND_END" {
		t.Errorf("reading past the end: %s, want OutOfRange/RANGE_BEYOND_END", got)
	}
}

// checkNumbered holds what read gave, numbered lines, against the file.
func checkNumbered(t *testing.T, numbered, file []byte) {
	t.Helper()
	want := bytes.Split(file, []byte("\n"))
	n := 0
	for line := range bytes.Lines(numbered) {
		number, text, ok := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte("\t"))
		if !ok {
			continue // what read says besides
		}
		n++
		if string(bytes.TrimSpace(number)) != fmt.Sprint(n) || !bytes.Equal(text, want[n-1]) {
			t.Fatalf("line %d of the whole is %q, want %q", n, line, want[n-1])
		}
	}
	if n != 2000 {
		t.Errorf("the whole has %d lines, want the 2000 that read gives", n)
	}
}

// checkReadTool reads a kept output as the model would.
func checkReadTool(t *testing.T, c *client.Client, uri string, text []byte) {
	t.Helper()
	lines := strings.Split(string(text), "\n")
	last := len(lines) - 1 // the text ends with a line break
	told := run(t, c, batch(
		call("tail", "read", map[string]any{"path": uri, "startLine": last - 2, "endLine": last}),
		call("grep", "grep", map[string]any{"path": uri, "pattern": fmt.Sprintf("^line %d:", last/2)}),
	))
	got := told.results["tail"].GetOutput().GetText().GetText()
	if want := strings.Join(lines[last-3:], "\n"); got != want {
		t.Errorf("read of the URI gives %q, want %q", got, want)
	}
	if got := told.results["grep"].GetOutput().GetText().GetText(); !strings.Contains(got, lines[last/2-1]) {
		t.Errorf("grep of the URI does not give line %q: %v", lines[last/2-1], told.results["grep"])
	}
}
