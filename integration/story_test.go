package integration

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toold/toold/internal/pgtest"
)

// The stories are what people type and see. Beside testscript's own commands
// they have:
//
//	daemon [args]     start toold in the background and wait until it serves
//	sigterm           ask it to drain, and go on
//	ended             wait until it has ended well; its log is stderr
//	shutdown          both
//	kill-9            end it by SIGKILL
//	file PATH         wait until a file is there and not empty
//	log REGEXP        wait until the daemon's log matches
//	grab NAME REGEXP  set a variable to what the group matches in stdout or stderr
//	postgres          give toold an empty Postgres database instead of SQLite
//	sql QUERY         print a query's rows, from whichever store there is
//
// Everything lives in $WORK; the data folder is $DATA, the workspace is ws.
func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			data := filepath.Join(env.WorkDir, "data")
			for name, value := range map[string]string{
				"PATH": binaries + string(os.PathListSeparator) + env.Getenv("PATH"),
				"HOME": filepath.Join(env.WorkDir, "home"), "DATA": data, "TOOLD_DATA_DIR": data,
				"TOOLD_WORKSPACE": filepath.Join(env.WorkDir, "ws"), "TOOLD_LISTEN": "127.0.0.1:0", "TOOLD_METRICS_LISTEN": "off",
			} {
				env.Setenv(name, value)
			}
			s := &scene{t: env.T().(testing.TB), log: filepath.Join(env.WorkDir, "daemon.log")}
			env.Values[sceneKey{}] = s
			env.Defer(s.kill)
			return os.MkdirAll(filepath.Join(env.WorkDir, "ws"), 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"daemon": daemonCommand, "sigterm": sigtermCommand, "ended": endedCommand, "shutdown": shutdownCommand, "kill-9": killCommand,
			"file": fileCommand, "log": logCommand, "grab": grabCommand, "postgres": postgresCommand, "sql": sqlCommand,
		},
	})
}

// scene is what one story has going on in the background.
type scene struct {
	t    testing.TB
	log  string
	cmd  *exec.Cmd
	gone chan struct{}
	err  error
}

type sceneKey struct{}

func sceneOf(ts *testscript.TestScript) *scene { return ts.Value(sceneKey{}).(*scene) }

func (s *scene) running() bool { return s.cmd != nil && !closed(s.gone) }

func (s *scene) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill() // it may be gone already
		<-s.gone
	}
}

// until asks over and over, within patience.
func until(ts *testscript.TestScript, what string, done func() bool) {
	for end := time.Now().Add(patience); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("waited in vain for %s", what)
		}
	}
}

func plain(ts *testscript.TestScript, neg bool, args []string, count int, usage string) {
	if neg || count >= 0 && len(args) != count {
		ts.Fatalf("usage: %s", usage)
	}
}

func daemonCommand(ts *testscript.TestScript, neg bool, args []string) {
	plain(ts, neg, args, -1, "daemon [args]")
	s := sceneOf(ts)
	if s.running() {
		ts.Fatalf("the daemon runs already")
	}
	log, err := os.Create(s.log)
	ts.Check(err)
	defer log.Close()
	s.cmd = exec.Command(filepath.Join(binaries, "toold"), args...)
	s.cmd.Dir = ts.MkAbs(".")
	s.cmd.Stderr = log
	s.cmd.Env = os.Environ()
	for _, name := range []string{"HOME", "XDG_DATA_HOME", "TOOLD_DATA_DIR", "TOOLD_WORKSPACE", "TOOLD_LISTEN", "TOOLD_METRICS_LISTEN", "TOOLD_DATABASE_URL", "TOOLD_PROFILE"} {
		s.cmd.Env = append(s.cmd.Env, name+"="+ts.Getenv(name))
	}
	ts.Check(s.cmd.Start())
	s.gone = make(chan struct{})
	go func() {
		s.err = s.cmd.Wait()
		close(s.gone)
	}()
	until(ts, "the greeting", func() bool { return closed(s.gone) || strings.Contains(ts.ReadFile(s.log), "\nNext: ") })
	_, err = ts.Stderr().Write([]byte(ts.ReadFile(s.log)))
	ts.Check(err)
	if closed(s.gone) {
		ts.Fatalf("the daemon ended: %v", s.err)
	}
}

func sigtermCommand(ts *testscript.TestScript, neg bool, args []string) {
	plain(ts, neg, args, 0, "sigterm")
	ts.Check(sceneOf(ts).cmd.Process.Signal(syscall.SIGTERM))
}

func endedCommand(ts *testscript.TestScript, neg bool, args []string) {
	plain(ts, neg, args, 0, "ended")
	s := sceneOf(ts)
	until(ts, "the daemon's end", func() bool { return closed(s.gone) })
	_, err := ts.Stderr().Write([]byte(ts.ReadFile(s.log)))
	ts.Check(err)
	if s.err != nil {
		ts.Fatalf("the daemon ended badly: %v", s.err)
	}
}

func shutdownCommand(ts *testscript.TestScript, neg bool, args []string) {
	sigtermCommand(ts, neg, args)
	endedCommand(ts, neg, args)
}

func killCommand(ts *testscript.TestScript, neg bool, args []string) {
	plain(ts, neg, args, 0, "kill-9")
	sceneOf(ts).kill()
}

func fileCommand(ts *testscript.TestScript, neg bool, args []string) {
	plain(ts, neg, args, 1, "file PATH")
	until(ts, args[0], func() bool {
		info, err := os.Stat(ts.MkAbs(args[0]))
		return err == nil && info.Size() > 0
	})
}

func logCommand(ts *testscript.TestScript, neg bool, args []string) {
	plain(ts, neg, args, 1, "log REGEXP")
	want := regexp.MustCompile(args[0])
	until(ts, "a line of the log", func() bool { return want.MatchString(ts.ReadFile(sceneOf(ts).log)) })
}

func grabCommand(ts *testscript.TestScript, neg bool, args []string) {
	plain(ts, neg, args, 2, "grab NAME REGEXP")
	m := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout") + ts.ReadFile("stderr"))
	if len(m) != 2 {
		ts.Fatalf("no match for %#q", args[1])
	}
	ts.Setenv(args[0], m[1])
}

func postgresCommand(ts *testscript.TestScript, neg bool, args []string) {
	plain(ts, neg, args, 0, "postgres")
	ts.Setenv("TOOLD_DATABASE_URL", pgtest.DSN(sceneOf(ts).t))
}

func sqlCommand(ts *testscript.TestScript, neg bool, args []string) {
	plain(ts, neg, args, 1, "sql QUERY")
	driver, source := "pgx", ts.Getenv("TOOLD_DATABASE_URL")
	if source == "" {
		driver, source = "sqlite", "file:"+filepath.Join(ts.Getenv("DATA"), "toold.db")+"?_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(driver, source)
	ts.Check(err)
	defer db.Close()
	rows, err := db.Query(args[0])
	ts.Check(err)
	defer rows.Close()
	columns, err := rows.Columns()
	ts.Check(err)
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		ts.Check(rows.Scan(values...))
		fields := make([]string, len(values))
		for i, v := range values {
			fields[i] = fmt.Sprint(*v.(*any))
		}
		_, err := fmt.Fprintln(ts.Stdout(), strings.Join(fields, "|"))
		ts.Check(err)
	}
	ts.Check(rows.Err())
}
