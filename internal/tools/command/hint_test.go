package command

import (
	"context"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/toold/toold/internal/sandbox"
	"github.com/toold/toold/internal/tool"
)

func TestHintsNameTheCause(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    outcome
		want []string // "CODE: a part of message and suggestion"
	}{
		{name: "nothing known", o: outcome{text: "boom"}},
		{name: "known program", o: outcome{text: "bash: line 1: rg: command not found"}, want: []string{"COMMAND_NOT_FOUND: Install ripgrep"}},
		{name: "unknown program, sh", o: outcome{text: "sh: 1: frobnicate: not found\n"}, want: []string{"COMMAND_NOT_FOUND: frobnicate is not installed"}},
		{name: "npm", o: outcome{text: "npm error code ERESOLVE\nnpm error ERESOLVE unable to resolve dependency tree"}, want: []string{"NPM_PEER_CONFLICT: peer"}},
		{name: "go module", o: outcome{text: "main.go:3:8: no required module provides package example.com/a/b; to add it:"}, want: []string{"GO_MODULE_MISSING: go get example.com/a/b ("}},
		{name: "go sum", o: outcome{text: "missing go.sum entry for module providing package example.com/c (imported by x)"}, want: []string{"GO_MODULE_MISSING: go get example.com/c ("}},
		{name: "python", o: outcome{text: "Traceback …\nModuleNotFoundError: No module named 'yaml.nodes'\n"}, want: []string{"PYTHON_MODULE_MISSING: pip install yaml."}},
		{name: "port", o: outcome{text: "listen tcp :8080: bind: address already in use"}, want: []string{"PORT_IN_USE: ss -ltnp"}},
		{name: "disk", o: outcome{text: "write /tmp/x: no space\ncp: error writing 'a': No space left on device"}, want: []string{"DISK_FULL: df -h"}},
		{name: "killed for memory", o: outcome{exit: sandbox.Result{ExitCode: 137, Signal: "SIGKILL", OOMKilled: true}}, want: []string{"OUT_OF_MEMORY: make -j1"}},
		{name: "heap", o: outcome{text: "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory"}, want: []string{"OUT_OF_MEMORY: make -j1"}},
		{name: "timeout", o: outcome{exit: sandbox.Result{ExitCode: 143}, stopped: context.DeadlineExceeded}, want: []string{"TIMEOUT: timeoutSeconds"}},
		{name: "merge", o: outcome{text: "CONFLICT (content): Merge conflict in a.go\nAutomatic merge failed; fix conflicts"}, want: []string{"MERGE_CONFLICT: diff-filter=U"}},
		{name: "password", o: outcome{text: "fatal: could not read Username for 'https://host': terminal prompts disabled"}, want: []string{"NEEDS_TERMINAL: non-interactive"}},
		{name: "sudo", o: outcome{text: `sudo: The "no new privileges" flag is set, which prevents sudo from running as root.`}, want: []string{"NEEDS_TERMINAL: privileges"}},
		{name: "folder", o: outcome{dir: "web", text: "fatal: not a git repository (or any of the parent directories): .git"}, want: []string{"WRONG_DIRECTORY: (web)"}},
		{name: "go test", o: outcome{text: "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\nFAIL"}, want: []string{"TESTS_FAILED: TestA, TestA/b"}},
		{name: "pytest", o: outcome{text: "FAILED tests/test_x.py::test_y - assert 1 == 2"}, want: []string{"TESTS_FAILED: tests/test_x.py::test_y"}},
		{name: "permission", o: outcome{text: "bash: line 1: ./run.sh: Permission denied"}, want: []string{"PERMISSION_DENIED: bash run.sh"}},
		{name: "file", o: outcome{dir: ".", text: "cat: nothing.txt: No such file or directory"}, want: []string{"FILE_NOT_FOUND: nothing.txt does not exist"}},
		{
			name: "at most three, the most specific first",
			o:    outcome{text: "x: No such file or directory\nPermission denied\nNo space left on device\nbash: jq: command not found\nERESOLVE"},
			want: []string{"DISK_FULL: ", "COMMAND_NOT_FOUND: Install jq", "NPM_PEER_CONFLICT: "},
		},
	} {
		if tc.o.exit.ExitCode == 0 {
			tc.o.exit.ExitCode = 1
		}
		got := hints(tc.o)
		var codes, want []string
		for _, h := range got {
			codes = append(codes, h.Code)
		}
		for i, w := range tc.want {
			code, part, _ := strings.Cut(w, ": ")
			want = append(want, code)
			if i < len(got) && !strings.Contains(got[i].Message+" "+got[i].Suggestion, part) {
				t.Errorf("%s: %+v says nothing of %q", tc.name, got[i], part)
			}
		}
		if d := cmp.Diff(want, codes); d != "" {
			t.Errorf("%s: (-want +got)\n%s", tc.name, d)
		}
	}
	if got := hints(outcome{text: "bash: rg: command not found"}); got != nil {
		t.Errorf("advice on a success: %+v", got)
	}
}

func FuzzHints(f *testing.F) {
	f.Add("bash: rg: command not found", 127)
	f.Add(strings.Repeat("--- FAIL: "+strings.Repeat("é", 5000)+"\n", 9), 1)
	f.Add("a\xff: Permission denied\nEADDRINUSE :::80", 1)
	f.Fuzz(func(t *testing.T, text string, code int) {
		size := 0
		for _, h := range hints(outcome{text: text, exit: sandbox.Result{ExitCode: code, Stragglers: 1}}) {
			size += len(h.Message) + len(h.Suggestion) + len(h.Code)
			if !utf8.ValidString(h.Message + h.Suggestion) {
				t.Errorf("not UTF-8: %q", h)
			}
		}
		if size > tool.MaxHints {
			t.Errorf("%d bytes of hints", size)
		}
	})
}

func FuzzChannelKeepsTheEnd(f *testing.F) {
	f.Add([]byte("one\ntwo\n"), 3)
	f.Add(bytesOf(3*tailBytes), 1000)
	f.Add(bytesOf(5*tailBytes), 40_000)
	f.Add([]byte("\xff\xfe\n\xff"), 1)
	f.Fuzz(func(t *testing.T, all []byte, piece int) {
		var c channel
		for p := range slices.Chunk(all, max(piece, 1)) {
			c.write(p)
		}
		if c.bytes != int64(len(all)) || len(c.tail) > 2*tailBytes {
			t.Fatalf("%d bytes counted, %d kept, of %d", c.bytes, len(c.tail), len(all))
		}
		if want := all[max(0, len(all)-tailBytes):]; !strings.HasSuffix(string(c.tail), string(want)) {
			t.Error("the end was lost")
		}
		if last := c.last(); len(last.Text) > tool.MaxStderrTail || !utf8.ValidString(last.Text) {
			t.Errorf("tail of %d bytes, or not UTF-8", len(last.Text))
		}
	})
}

func bytesOf(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}
