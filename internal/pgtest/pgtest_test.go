package pgtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// kinds are the ways to run a server that this machine has: never none.
func kinds(t *testing.T) []string {
	t.Helper()
	var found []string
	if _, _, err := dockerClient(t.Context()); err == nil {
		found = append(found, "docker")
	}
	if _, err := findServer(); err == nil {
		found = append(found, "local")
	}
	if len(found) == 0 {
		t.Fatal("neither Docker nor server binaries: run 'make deps'")
	}
	return found
}

func query[T any](t *testing.T, dsn, sql string) []T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestACrashedServerComesBackWithItsDataAtTheSameAddress(t *testing.T) {
	for _, kind := range kinds(t) {
		t.Run(kind, func(t *testing.T) {
			t.Setenv("TOOLD_TEST_POSTGRES", kind)
			s, err := Start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Stop()
			dsn := s.DSN("postgres")
			if err := execute(t.Context(), dsn, "CREATE TABLE seen AS SELECT 7 AS n"); err != nil {
				t.Fatal(err)
			}
			if err := s.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := execute(t.Context(), dsn, "SELECT 1"); err == nil {
				t.Error("the killed server still answers")
			}
			if err := s.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]int32{7}, query[int32](t, dsn, "SELECT n FROM seen")); diff != "" {
				t.Errorf("after the restart (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheServerEndsWithItsOwner kills a process that has a server.
func TestTheServerEndsWithItsOwner(t *testing.T) {
	if os.Getenv("PGTEST_OWNER") != "" {
		s, err := Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("DSN " + s.DSN("postgres"))
		select {} // until killed
	}
	for _, kind := range kinds(t) {
		t.Run(kind, func(t *testing.T) {
			owner := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheServerEndsWithItsOwner$")
			owner.Env = append(os.Environ(), "PGTEST_OWNER=1", "TOOLD_TEST_POSTGRES="+kind)
			out, err := owner.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := owner.Start(); err != nil {
				t.Fatal(err)
			}
			var dsn string
			for lines := bufio.NewScanner(out); dsn == "" && lines.Scan(); {
				dsn, _ = strings.CutPrefix(lines.Text(), "DSN ")
			}
			if err := execute(t.Context(), dsn, "SELECT 1"); err != nil {
				t.Fatal(err)
			}
			if err := owner.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := owner.Wait(); err == nil {
				t.Error("the killed process ended by itself")
			}
			awaitGone(t, dsn)
		})
	}
}

// awaitGone returns when the server does not answer and its folder, where it is
// a local one, is removed.
func awaitGone(t *testing.T, dsn string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	dir := u.Query().Get("host")
	for t.Context().Err() == nil {
		err := execute(t.Context(), dsn, "SELECT 1")
		_, left := os.Stat(dir)
		if err != nil && (dir == "" || errors.Is(left, os.ErrNotExist)) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("the server outlived its owner")
}

func TestStopRemovesTheServerAndMayBeRepeated(t *testing.T) {
	for _, kind := range kinds(t) {
		t.Run(kind, func(t *testing.T) {
			t.Setenv("TOOLD_TEST_POSTGRES", kind)
			s, err := Start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := s.Stop(); err != nil {
					t.Fatal(err)
				}
			}
			awaitGone(t, s.DSN("postgres"))
		})
	}
}

func TestDurabilityIsOn(t *testing.T) {
	dsn := DSN(t)
	for _, setting := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		if diff := cmp.Diff([]string{"on"}, query[string](t, dsn, "SHOW "+setting)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", setting, diff)
		}
	}
}

func TestEachTestHasADatabaseOfItsOwn(t *testing.T) {
	a, b := DSN(t), DSN(t)
	if err := execute(t.Context(), a, "CREATE TABLE only_here ()"); err != nil {
		t.Fatal(err)
	}
	tables := "SELECT relname::text FROM pg_class WHERE relname = 'only_here'"
	if diff := cmp.Diff([]string{}, query[string](t, b, tables)); diff != "" {
		t.Errorf("the other database (-want +got):\n%s", diff)
	}
}

func TestATemplateIsMigratedOnceAndCopied(t *testing.T) {
	migrations := 0
	schema := Template{Migrate: func(ctx context.Context, dsn string) error {
		migrations++
		return execute(ctx, dsn, "CREATE TABLE copied AS SELECT 'yes' AS word")
	}}
	for range 3 {
		dsn := schema.DSN(t)
		if diff := cmp.Diff([]string{"yes"}, query[string](t, dsn, "SELECT word FROM copied")); diff != "" {
			t.Errorf("in a copy (-want +got):\n%s", diff)
		}
		if err := execute(t.Context(), dsn, "DROP TABLE copied"); err != nil {
			t.Fatal(err)
		}
	}
	if migrations != 1 {
		t.Errorf("migrated %d times, want once", migrations)
	}
}

func TestAForeignServerIsUsedButNeverKilled(t *testing.T) {
	owned, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TOOLD_TEST_POSTGRES", owned.DSN("postgres"))
	s, err := Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := query[int32](t, s.DSN("postgres"), "SELECT 1"); len(got) != 1 {
		t.Errorf("got %v", got)
	}
	if err := s.Kill(t.Context()); !errors.Is(err, errNotOurs) {
		t.Errorf("killing it: got %v, want %v", err, errNotOurs)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if got := query[int32](t, s.DSN("postgres"), "SELECT 1"); len(got) != 1 {
		t.Errorf("after Stop: got %v", got)
	}
}

func TestAWrongSettingSaysWhatIsWanted(t *testing.T) {
	t.Setenv("TOOLD_TEST_POSTGRES", "podman")
	_, err := Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "want docker, local or a URL") {
		t.Errorf("got %v", err)
	}
}

func BenchmarkTemplateCopy(b *testing.B) {
	schema := Template{Migrate: func(ctx context.Context, dsn string) error {
		return execute(ctx, dsn, "CREATE TABLE copied AS SELECT generate_series(1, 1000)")
	}}
	schema.DSN(b) // starts the server and migrates
	for b.Loop() {
		schema.DSN(b)
	}
}
