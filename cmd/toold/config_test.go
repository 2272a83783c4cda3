package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

func TestTheExampleIsTheDefault(t *testing.T) {
	var got Config
	if err := decode([]byte(example()), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(defaults(), got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-default +example):\n%s", diff)
	}
	if err := got.check(); err != nil {
		t.Error(err)
	}
}

func TestEveryKeyIsDocumented(t *testing.T) {
	walkConfig(reflectDefaults(), func(k configKey) {
		if k.name == "" || !strings.HasSuffix(k.doc, ".") {
			t.Errorf("%s: %q", k.path, k.doc)
		}
	})
}

func TestTheConfigurationPageIsTheStruct(t *testing.T) {
	const page = "../../docs/configuration.md"
	if *update {
		if err := os.WriteFile(page, []byte(configuration()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(configuration(), string(got)); diff != "" {
		t.Errorf("docs/configuration.md is stale; go test ./cmd/toold -update (-want +got):\n%s", diff)
	}
}

// loaded loads with the given flags, environment and file.
func loaded(t *testing.T, args []string, env map[string]string, file string) (Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("toold", pflag.ContinueOnError)
	addFlags(flags)
	if file != "" {
		path := filepath.Join(t.TempDir(), "toold.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	var environ []string
	for name, value := range env {
		environ = append(environ, name+"="+value)
	}
	return load(flags, environ)
}

func TestFlagsBeatEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	file := "listen: 127.0.0.1:1\nprofile: locked\nlogLevel: warn\nworkspaces: {default: /file}\nlimits: {callsPerBatch: 7, argumentsBytes: 2KiB}\ndrainTimeout: 90s\n"
	env := map[string]string{"TOOLD_LISTEN": "127.0.0.1:2", "TOOLD_PROFILE": "standard", "TOOLD_WORKSPACE": "/env,docs=/docs", "TOOLD_LOG_FORMAT": ""}
	got, err := loaded(t, []string{"--listen", "127.0.0.1:3"}, env, file)
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Listen, want.Profile, want.LogLevel = "127.0.0.1:3", "standard", "warn"
	want.Workspaces = map[string]string{"default": "/env", "docs": "/docs"}
	want.Limits.CallsPerBatch, want.Limits.ArgumentsBytes, want.DrainTimeout = 7, 2<<10, 90*time.Second
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got, err = loaded(t, []string{"--workspace", "/a", "--workspace", "b=/b"}, env, file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"default": "/a", "b": "/b"}, got.Workspaces); diff != "" {
		t.Errorf("workspaces of flags (-want +got):\n%s", diff)
	}
}

func TestABadConfigurationIsRefusedInWords(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		args []string
		env  map[string]string
		want string // in the error
	}{
		"an unknown key":         {file: "listen: 127.0.0.1:1\nlisten2: x\n", want: "[2:1] unknown field \"listen2\""},
		"an unknown inner key":   {file: "limits:\n  calls: 1\n", want: "[2:3]"},
		"a key given twice":      {file: "listen: a\nlisten: b\n", want: "[2:1]"},
		"a wrong type":           {file: "limits:\n  callsPerBatch: many\n", want: "[2:18]"},
		"no YAML":                {file: "listen: [\n", want: "["},
		"a word of number":       {file: "limits:\n  callsPerBatch: many\n", want: "limits.callsPerBatch: give a whole number"},
		"a size in words":        {file: "limits: {inlineBytes: lots}\n", want: "[1:23] limits.inlineBytes: give a size: bytes, or a number with KiB, MiB or GiB"},
		"a word of time":         {file: "drainTimeout: soon\n", want: "[1:15] drainTimeout: give a duration such as 5s"},
		"a bare number of time":  {file: "limits: {callTimeout: 5}\n", want: "limits.callTimeout: give a duration such as 5s, 20m or 24h"},
		"a list of names":        {file: "commands: {passEnv: HOME}\n", want: "commands.passEnv: give a list such as [A, B]"},
		"a list of folders":      {file: "workspaces: [/a]\n", want: "workspaces: give a mapping such as {NAME: PATH}"},
		"a section of one value": {file: "limits: 5\n", want: "limits: want a mapping"},
		"a list":                 {file: "- listen\n", want: "want a mapping"},
		"a misspelt key":         {file: "lisen: x\n", want: `[1:1] unknown field "lisen"; did you mean "listen"?`},
		"a misspelt inner key":   {file: "limits:\n  callTimeut:\n", want: `[2:3] unknown field "limits.callTimeut"; did you mean "callTimeout"?`},
		"two mistakes":           {file: "lisen: x\nheartbeat: 5\n", want: "[2:12] heartbeat"},
		"two documents":          {file: "listen: 127.0.0.1:1\n---\nprofile: ci\n", want: "second document"},
		"a misspelt variable":    {env: map[string]string{"TOOLD_PROFIL": "locked"}, want: `TOOLD_PROFIL, which means nothing to toold; did you mean "TOOLD_PROFILE"?`},
		"an unknown variable":    {env: map[string]string{"TOOLD_GRPC_MAX_CONNECTIONS": "1"}, want: "TOOLD_GRPC_MAX_CONNECTIONS, which means nothing to toold"},
		"a port alone":           {args: []string{"--listen", "7533"}, want: `"7533" is no host:port; give one such as 127.0.0.1:7533`},
		"a metrics port alone":   {args: []string{"--metrics-listen", "7534"}, want: `such as 127.0.0.1:7534, nor "off"`},
		"another database":       {env: map[string]string{"TOOLD_DATABASE_URL": "mysql://u:p@h/d"}, want: "databaseUrl: not a PostgreSQL connection string"},
		"other machines":         {args: []string{"--listen", "0.0.0.0:7433"}, want: "can be reached by other machines"},
		"every interface":        {args: []string{"--listen", ":7433"}, want: "can be reached by other machines"},
		"a name elsewhere":       {args: []string{"--listen", "example.com:7433"}, want: "can be reached by other machines"},
		"no port":                {args: []string{"--listen", "127.0.0.1"}, want: "no host:port"},
		"a profile":              {env: map[string]string{"TOOLD_PROFILE": "yolo"}, want: `profile: "yolo" is none of locked, standard, development, ci`},
		"a log level":            {args: []string{"--log-level", "loud"}, want: "logLevel"},
		"a workspace name":       {args: []string{"--workspace", "a b=/x"}, want: "workspaces"},
		"a workspace twice":      {args: []string{"--workspace", "/x", "--workspace", "/y"}, want: `workspace "default" is given twice`},
		"too little":             {file: "limits: {callsPerBatch: 0}\n", want: "limits.callsPerBatch: 0 is too little"},
		"too much":               {file: "limits: {callsPerBatch: 5000}\n", want: "at most 1024"},
		"a negative time":        {file: "drainTimeout: -1s\n", want: "drainTimeout: -1s is too little"},
		"two heartbeats a blink": {file: "heartbeat: 1s\n", want: "at least 5s"},
		"all at once":            {file: "logFormat: x\nreflection: y\n", want: "reflection"},
		"two secrets":            {env: map[string]string{"TOOLD_DATABASE_URL": "x", "TOOLD_DATABASE_URL_FILE": "y"}, want: "give one"},
		"no such file":           {env: map[string]string{"TOOLD_CONFIG": "/nowhere/toold.yaml"}, want: "/nowhere/toold.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loaded(t, test.args, test.env, test.file)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestAKeyWithoutAValueIsNotThere(t *testing.T) {
	for name, file := range map[string]string{
		"an empty file": "\n", "comments": "# nothing\n\n# at all\n", "a document": "---\n", "null": "null\n", "an empty mapping": "{}\n",
		"a section of comments": "limits:\n  # callsPerBatch: 3\ncommands:\n", "a key": "listen:\ndrainTimeout: ~\nworkspaces:\n",
		"an inner key": "limits:\n  callsPerBatch:\n  parallelReads: # 3\n",
	} {
		got, err := loaded(t, nil, nil, file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(defaults(), got); diff != "" {
			t.Errorf("%s (-default +got):\n%s", name, diff)
		}
	}
}

func TestVariablesOfOthersAreLeftAlone(t *testing.T) {
	for _, name := range []string{"TOOLD_ADDRESS", "TOOLD_SERVICE_HOST", "TOOLD_PORT", "TOOLD_PORT_7433_TCP_ADDR", "TOOLD_TEST_POSTGRES", "TOOLDX"} {
		if _, err := loaded(t, nil, map[string]string{name: "x"}, ""); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestErrorsDoNotQuoteSecrets(t *testing.T) {
	for _, file := range []string{
		"databaseUrl: postgres://u:hunter2@h/d\nnope: 1\n", "databaseUrl: mysql://u:hunter2@h/d\n",
		"databaseUrl: [hunter2]\n", "limits: {callTimeout: hunter2}\n", "databaseUrl: \"hunter2\n", "limits: hunter2\n",
	} {
		if _, err := loaded(t, nil, nil, file); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: got %v", file, err)
		}
	}
}

func TestTheDatabaseURLCanComeFromAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(path, []byte("postgres://h/d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := loaded(t, nil, map[string]string{"TOOLD_DATABASE_URL_FILE": path}, "")
	if err != nil || got.DatabaseURL != "postgres://h/d" {
		t.Errorf("%q, %v", got.DatabaseURL, err)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "17": 17, "2KiB": 2 << 10, "3 MiB": 3 << 20, "4GiB": 4 << 30} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "1KB", "9999999999GiB", "1.5MiB"} {
		if err := new(Size).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	for _, s := range []Size{0, 1, 1023, 1 << 10, 3 << 20, 1<<30 + 1} {
		var got Size
		if err := got.UnmarshalText([]byte(s.String())); err != nil || got != s {
			t.Errorf("%d is written %s and read %d, %v", s, s, got, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(example()))
	f.Add([]byte("limits: {captureBytes: 1GiB}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		c := defaults()
		if decode(text, &c) == nil {
			_ = c.check()
		}
	})
}
