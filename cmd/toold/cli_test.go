package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// run runs a command line, and gives what it prints and its exit status.
func run(t *testing.T, in io.Reader, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := newCommand(&out, &errs)
	cmd.SetIn(in)
	cmd.SetArgs(args)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		errs.WriteString("toold: " + err.Error() + "\n")
		code = status(err)
	}
	return out.String(), errs.String(), code
}

func TestAWrongCommandLineEndsWithTwo(t *testing.T) {
	for line, want := range map[string]string{
		"--nope":                "unknown flag: --nope; see toold --help",
		"serv":                  `unknown command "serv" for "toold"`,
		"versoin":               `did you mean "version"?; see toold --help`,
		"config exmaple":        `unknown command "exmaple" for "toold config"; did you mean "example"?`,
		"config check":          "accepts 1 arg(s), received 0; see toold config check --help",
		"version 2":             "see toold version --help",
		"migrate --profile ci":  "unknown flag: --profile",
		"sql --listen x SELECT": "unknown flag: --listen",
		"sql SELECT 1":          "accepts 1 arg(s), received 2",
		"sql":                   "give a statement, or - to read it from standard input",
	} {
		_, stderr, code := run(t, nil, strings.Fields(line)...)
		if code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %q", line, code, stderr)
		}
	}
	if _, _, code := run(t, nil, "config", "check", "/nowhere/toold.yaml"); code != 1 {
		t.Errorf("a file that is not there: status %d", code)
	}
}

func TestTheVersionIsSaidOnce(t *testing.T) {
	for _, args := range []string{"version", "--version"} {
		if stdout, _, code := run(t, nil, args); code != 0 || stdout != "toold "+fullVersion()+"\n" {
			t.Errorf("%s: %d, %q", args, code, stdout)
		}
	}
	const commit = "0cb546052409aaaaaaaa"
	for version, want := range map[string]string{
		"0cb5460": "0cb5460", "0cb5460-dirty": "0cb5460-dirty", "v1.2.0-3-g0cb5460": "v1.2.0-3-g0cb5460",
		"v1.2.0": "v1.2.0+0cb546052409", "unknown": "0cb546052409",
	} {
		if got := withCommit(version, commit); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}

func TestSQLHelpIsAboutSQL(t *testing.T) {
	_, stderr, _ := run(t, nil, "sql")
	for _, want := range []string{"Usage:", "Examples:", "audit_api.decisions", "--config", "--data-dir", "--database-url", "--csv"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("nothing says %s:\n%s", want, stderr)
		}
	}
	for _, not := range []string{"--listen", "--workspace", "--profile", "--log-level"} {
		if strings.Contains(stderr, not) {
			t.Errorf("%s says nothing here:\n%s", not, stderr)
		}
	}
}

func TestSQLAsksTheDatabaseOfTheDaemon(t *testing.T) {
	c := testConfig(t)
	if _, stderr, code := run(t, nil, "sql", "--data-dir", c.DataDir, "SELECT 1"); code != 1 || !strings.Contains(stderr, "there is no database at") {
		t.Errorf("no database: %d, %q", code, stderr)
	}
	started(t, c)
	stdout, stderr, code := run(t, strings.NewReader("-- how many?\nSELECT count(*) AS n FROM audit_api_decisions;\n"), "sql", "--csv", "--data-dir", c.DataDir, "-")
	if code != 0 || stdout != "n\n0\n" {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
	for _, statement := range []string{"DELETE FROM audit_outcomes", "PRAGMA query_only=0; DELETE FROM audit_outcomes", "ATTACH 'x.db' AS x"} {
		if _, stderr, code := run(t, nil, "sql", "--data-dir", c.DataDir, statement); code != 1 {
			t.Errorf("%s: %d, %q", statement, code, stderr)
		}
	}
}

func TestConfigCheckLooksForWhatIsNamed(t *testing.T) {
	dir := t.TempDir()
	ws := filepath.Join(dir, "ws")
	if err := os.Mkdir(ws, 0o700); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"policy.yaml": "profile: ci\n", "bad-policy.yaml": "profile: lax\n", "text": "x\n", "empty": "\n"}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		file string
		want []string // in the error; nil = good
	}{
		"nothing":                    {"# nothing is set\n", nil},
		"what is there":              {"workspaces: {a: DIR/ws}\npolicy: DIR/policy.yaml\ndatabaseUrl: postgres://h/d\ndataDir: DIR/data\n", nil},
		"key and value pair":         {"databaseUrl: host=h dbname=d\n", nil},
		"a database":                 {"databaseUrl: foo://x\n", []string{"databaseUrl: not a PostgreSQL"}},
		"a database's file":          {"databaseUrlFile: DIR/nope\n", []string{"databaseUrlFile"}},
		"an empty file":              {"databaseUrlFile: DIR/empty\n", []string{"is empty"}},
		"a shell":                    {"commands: {shell: /bin/nosh}\n", []string{"commands.shell: stat /bin/nosh: no such file"}},
		"a shell that is no program": {"commands: {shell: DIR/text}\n", []string{"is not a program"}},
		"a policy":                   {"policy: /nope\n", []string{"policy: ", "/nope"}},
		"a wrong policy":             {"policy: DIR/bad-policy.yaml\n", []string{`policy: profile "lax"`}},
		"a policy in a workspace":    {"policy: DIR/policy.yaml\nworkspaces: {a: DIR}\ndataDir: /elsewhere\n", []string{"is inside workspace a"}},
		"workspaces":                 {"workspaces: {a: /nope, b: DIR/text, c: DIR/ws}\n", []string{"/nope", "DIR/text"}},
		"one folder twice":           {"workspaces: {a: DIR/ws, b: DIR/ws/../ws}\n", []string{"workspaces a and b are both"}},
		"all at once":                {"databaseUrl: foo://x\ncommands: {shell: /bin/nosh}\npolicy: /nope\nworkspaces: {a: /nope}\nprofile: lax\n", []string{"databaseUrl", "commands.shell", "policy", "workspaces", "profile"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "toold.yaml")
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(test.file, "DIR", dir)), 0o600); err != nil {
				t.Fatal(err)
			}
			stdout, stderr, code := run(t, nil, "config", "check", path)
			if (code == 0) != (test.want == nil) || (code == 0) != strings.HasSuffix(stdout, "is good\n") {
				t.Errorf("status %d, %q, %q", code, stdout, stderr)
			}
			for _, want := range test.want {
				if want = strings.ReplaceAll(want, "DIR", dir); !strings.Contains(stderr, want) {
					t.Errorf("nothing says %q:\n%s", want, stderr)
				}
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		t.Error("the check made the data folder")
	}
}

// TestTheQuestionsOfTheAuditPageHaveAnswers asks a log that has something of each
// kind.
func TestTheQuestionsOfTheAuditPageHaveAnswers(t *testing.T) {
	page, err := os.ReadFile("../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	c := testConfig(t)
	started(t, c)
	conn := dial(t, "unix:"+filepath.Join(c.DataDir, "toold.sock"))
	for _, call := range [][2]string{
		{"write", `{"path":"README.md","content":"x"}`},
		{"read", `{"path":"README.md"}`},
		{"bash", `{"command":"echo x > made"}`},
		{"bash", `{"command":"rm -rf /"}`},
	} {
		outcome(t, conn, call[0], call[1])
	}
	empty := []string{"outcome = 'UNKNOWN'", "outcome IS NULL", "decided_at > started_at"}
	asked := 0
	for _, block := range strings.Split(string(page), "```sql\n")[1:] {
		statement, _, _ := strings.Cut(block, "```")
		stdout, stderr, code := run(t, nil, "sql", "--csv", "--data-dir", c.DataDir, statement)
		want := true
		for _, e := range empty {
			want = want && !strings.Contains(statement, e)
		}
		if got := strings.Count(stdout, "\n") > 1; code != 0 || got != want {
			t.Errorf("%s\nstatus %d, %q\n%s", statement, code, stderr, stdout)
		}
		asked++
	}
	if asked < 6 {
		t.Errorf("the page has %d questions", asked)
	}
}
