package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// swapper exchanges, until it is stopped, a file for a link to the outside and
// a folder for a link to an outer folder with the same names in it.
func swapper(t *testing.T, dir, outside string) (stop func()) {
	t.Helper()
	if err := errors.Join(
		os.Symlink(filepath.Join(outside, "f"), filepath.Join(dir, "f.link")),
		os.Symlink(outside, filepath.Join(dir, "d.link")),
	); err != nil {
		t.Fatal(err)
	}
	var stopped atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stopped.Load() {
			for _, name := range []string{"f", "d"} {
				p := filepath.Join(dir, name)
				// Somebody may have made the name anew while it was away.
				if os.Rename(p, p+".kept") != nil {
					continue
				}
				_ = os.Rename(p+".link", p)
				_ = os.Rename(p, p+".link")
				_ = os.RemoveAll(p)
				_ = os.Rename(p+".kept", p)
			}
		}
	}()
	return func() {
		stopped.Store(true)
		<-done
	}
}

// While names are exchanged for links to the outside, calls succeed or fail,
// and nothing outside is ever read or written.
func TestASwapNeverLeadsOutside(t *testing.T) {
	b := newBench(t, map[string]string{"f": "inside\n", "d/f": "inside\n"})
	outside := t.TempDir()
	for _, name := range []string{"f", "g"} {
		if err := os.WriteFile(filepath.Join(outside, name), []byte("secret\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stop := swapper(t, b.dir, outside)
	for i := range 400 {
		for _, p := range []string{"f", "d/f"} {
			for _, call := range [][2]string{
				{"read", args("path", p)},
				{"write", args("path", p, "content", fmt.Sprintf("inside %d\n", i))},
				{"edit", args("path", p, "originalText", "s", "newText", "S")},
				{"grep", args("pattern", "secret|inside")},
				{"glob", args("pattern", "**/g")},
				{"tree", `{}`},
			} {
				r, err := b.call(call[0], call[1])
				got := text(r)
				if err == nil && (strings.Contains(got, "secret") || strings.Contains(got, "d/g") || strings.Contains(got, "── g")) {
					t.Fatalf("%s %s saw the outside: %s", call[0], call[1], got)
				}
			}
		}
	}
	stop()
	for _, body := range b.kept.bodies {
		if strings.Contains(body, "secret") {
			t.Fatalf("kept from outside: %s", body)
		}
	}
	for _, name := range []string{"f", "g"} {
		got, err := os.ReadFile(filepath.Join(outside, name))
		if err != nil || string(got) != "secret\n" {
			t.Errorf("%s outside is now %q (%v)", name, got, err)
		}
	}
	if names := listing(t, outside); names != "f g" {
		t.Errorf("outside there is now %s", names)
	}
}

// Many at once, as from several servers that share no lock of ours: each edit
// is in the file, or its call says that it is not.
func TestParallelEditsAreThereOrSaidToConflict(t *testing.T) {
	const n = 50
	var content strings.Builder
	for i := range n {
		fmt.Fprintf(&content, "line <%d>\n", i)
	}
	b := newBench(t, map[string]string{"f": content.String()})
	var wg sync.WaitGroup
	failed := make([]error, n)
	for i := range n {
		wg.Go(func() {
			_, failed[i] = b.call("edit", args("path", "f", "originalText", fmt.Sprintf("<%d>", i), "newText", fmt.Sprintf("[%d]", i)))
		})
	}
	wg.Wait()
	got := b.content("f")
	landed := 0
	for i := range n {
		there := strings.Contains(got, fmt.Sprintf("[%d]", i))
		switch {
		case failed[i] == nil && !there:
			t.Errorf("edit %d succeeded and is lost", i)
		case failed[i] != nil && reason(failed[i]) != "FAILED/CONFLICT":
			t.Errorf("edit %d: %v", i, failed[i])
		case failed[i] != nil && there:
			t.Errorf("edit %d is there and was said to conflict", i)
		}
		if there {
			landed++
		}
	}
	if landed == 0 || strings.Count(got, "\n") != n {
		t.Errorf("%d edits landed in\n%s", landed, got)
	}
	if names := listing(t, b.dir); names != "f" {
		t.Errorf("left behind: %s", names)
	}
}
