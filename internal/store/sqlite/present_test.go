package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/store/storetest"
)

func TestAFileThatIsGoneTakesNothingMore(t *testing.T) {
	for _, suffix := range []string{"", "-wal"} {
		path := filepath.Join(t.TempDir(), "toold.db")
		l := storetest.OpenLog(t, open(t, path))
		if _, err := l.Intend(t.Context(), storetest.NewBatch(1).Accept()); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Intend(t.Context(), storetest.NewBatch(1).Accept()); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path + suffix); err != nil {
			t.Fatal(err)
		}
		_, err := l.Intend(t.Context(), storetest.NewBatch(1).Accept())
		if err == nil || !strings.Contains(err.Error(), "was removed or replaced") || !strings.Contains(err.Error(), audit.ErrUnavailable.Error()) {
			t.Errorf("after removing %q: %v", "toold.db"+suffix, err)
		}
	}
}
