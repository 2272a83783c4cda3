package file

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toold/toold/internal/tool"
)

// standardLibrary is the workspace of the search benchmarks: some ten thousand
// files that every machine with Go has.
func standardLibrary(b *testing.B) *bench {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Fatalf("no go command: %v", err)
	}
	w := newBench(b, nil)
	ws, err := tool.OpenWorkspace("go", filepath.Join(strings.TrimSpace(string(root)), "src"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = ws.Close() })
	w.env.Workspace = ws
	return w
}

func BenchmarkGrep(b *testing.B) {
	for _, tc := range []struct{ name, args string }{
		{"literal", args("pattern", "ErrUnexpectedEOF", "limit", 10000)},
		{"rare", args("pattern", "no such thing in here")},
		{"ignoreCase", args("pattern", "errunexpectedeof", "ignoreCase", true, "limit", 10000)},
		{"regexp", args("pattern", `func \(.*\) ReadFrom\(`, "limit", 10000)},
		{"alternatives", args("pattern", `ErrUnexpectedEOF|ErrShortWrite|ErrNoProgress`, "limit", 10000)},
		{"noLiteral", args("pattern", `[A-Z]{5}[0-9]{4}`, "limit", 10000)},
		{"files", args("pattern", "sync.Mutex", "mode", "files", "limit", 10000)},
	} {
		b.Run(tc.name, func(b *testing.B) {
			w := standardLibrary(b)
			b.ReportAllocs()
			for b.Loop() {
				w.must("grep", tc.args)
			}
		})
	}
}

func BenchmarkGlob(b *testing.B) {
	w := standardLibrary(b)
	b.ReportAllocs()
	for b.Loop() {
		w.must("glob", args("pattern", "**/*_test.go"))
	}
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 100 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			w := newBench(b, map[string]string{"a/b/c.txt": strings.Repeat(strings.Repeat("x", 63)+"\n", size/64)})
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				w.must("read", `{"path":"a/b/c.txt"}`)
			}
		})
	}
}

func BenchmarkReadLineOfAHugeFile(b *testing.B) {
	w := newBench(b, map[string]string{"huge.txt": strings.Repeat(strings.Repeat("x", 63)+"\n", 128<<20/64)})
	for b.Loop() {
		w.must("read", `{"path":"huge.txt","startLine":100000,"endLine":100000}`)
	}
}

func BenchmarkEdit(b *testing.B) {
	w := newBench(b, map[string]string{"a.txt": strings.Repeat("a line of text\n", 1000) + "here\n"})
	from, to := "here", "there!"
	for b.Loop() {
		w.must("edit", args("path", "a.txt", "originalText", from, "newText", to))
		from, to = to, from
		w.kept.bodies = nil
	}
}
