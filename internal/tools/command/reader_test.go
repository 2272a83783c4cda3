package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/toold/toold/internal/tool"
)

// TestAReaderRunsNothingThatFilesName has a folder that looks like a repository,
// made of files that any tool may write, whose settings name a program.
func TestAReaderRunsNothingThatFilesName(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("git is not installed; make deps installs it")
	}
	w := workspace(t)
	for name, text := range map[string]string{
		"HEAD":         "ref: refs/heads/main\n",
		"config":       "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = \"touch ran; false\"\n",
		"objects/keep": "", "refs/keep": "",
	} {
		file := filepath.Join(w.Dir(), "fake", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for class, ran := range map[tool.Class]bool{tool.ReadOnly: false, tool.SystemChange: true} {
		a, err := prepared(t, Options{Analyse: func(string, string, string) Analysis { return Analysis{Class: class} }}, w,
			map[string]any{"command": "git -C fake status"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Do(t.Context(), &recorder{}); err != nil {
			t.Fatal(err)
		}
		mark := filepath.Join(w.Dir(), "fake", "ran")
		if _, err := os.Stat(mark); (err == nil) != ran {
			t.Errorf("%s: the program that the settings name ran: %t, want %t", class, err == nil, ran)
		}
		_ = os.Remove(mark)
	}
}
