package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/toold/toold/internal/sandbox"
	"github.com/toold/toold/internal/tool"
)

// outcome is what hints are made of.
type outcome struct {
	exit    sandbox.Result
	stopped error  // why it was stopped from outside, if it was
	dir     string // where it ran, relative to the workspace
	text    string // the end of what it wrote
	took    time.Duration
}

// maxAdvice bounds the advice on one failure: the first that fit are the most
// specific.
const maxAdvice = 3

// hints gives advice on a command that failed or was stopped, and says what was
// ended behind a command that left processes.
func hints(o outcome) []tool.Hint {
	var list []tool.Hint
	if n := o.exit.Stragglers; n > 0 {
		list = append(list, tool.Hint{
			Level: tool.Info, Code: "BACKGROUND_PROCESSES_ENDED",
			Message:    fmt.Sprintf("%d process(es) were still running when the shell ended, and were ended", n),
			Suggestion: "Let the command wait for what it starts, or do what needs them in the same call.",
		})
	}
	if o.exit.ExitCode == 0 && o.stopped == nil {
		return list
	}
	most := len(list) + maxAdvice
	for _, a := range table {
		m := a.when(o)
		if m == nil {
			continue
		}
		h := tool.Hint{Level: tool.Warning, Code: a.code}
		h.Message, h.Suggestion = a.say(o, clip(m))
		if list = append(list, h); len(list) == most {
			break
		}
	}
	return bounded(list)
}

// clip bounds what is quoted of the output.
func clip(match []string) []string {
	for i, m := range match {
		match[i] = strings.ToValidUTF8(m[:min(len(m), 120)], "")
	}
	return match
}

// bounded drops the last hints while all together pass tool.MaxHints.
func bounded(list []tool.Hint) []tool.Hint {
	size := 0
	for i, h := range list {
		if size += len(h.Message) + len(h.Suggestion) + len(h.Code); size > tool.MaxHints {
			return list[:i]
		}
	}
	return list
}

// advice knows one way to fail. when gives what it recognised, nil for nothing;
// say makes a message and a suggestion of it.
type advice struct {
	code string
	when func(outcome) []string
	say  func(o outcome, m []string) (message, suggestion string)
}

// shows recognises a failure by what the command wrote.
func shows(pattern string) func(outcome) []string {
	re := regexp.MustCompile(pattern)
	return func(o outcome) []string { return re.FindStringSubmatch(o.text) }
}

func always(message, suggestion string) func(outcome, []string) (string, string) {
	return func(outcome, []string) (string, string) { return message, suggestion }
}

var table = []advice{
	{
		"TIMEOUT", func(o outcome) []string { return given(errors.Is(o.stopped, context.DeadlineExceeded)) },
		func(o outcome, _ []string) (string, string) {
			return fmt.Sprintf("the command was stopped after %.1f s; the output so far is kept", o.took.Seconds()),
				"Raise timeoutSeconds, or do less in one call. A command that waits for input never ends: there is nobody to answer."
		},
	},
	{"OUT_OF_MEMORY", memory, always(
		"memory ran out, or a limit on it was met",
		"Do it in smaller parts, with fewer parallel jobs (make -j1, GOMAXPROCS=1, jest --maxWorkers=1), or have the memory limit raised.")},
	{"DISK_FULL", shows(`No space left on device|ENOSPC|Disk quota exceeded`), always(
		"the disk or a quota is full",
		"Find what takes the room (df -h . && du -xh --max-depth=2 . | sort -h | tail) and remove build output or caches.")},
	{
		"COMMAND_NOT_FOUND", shows(`(?m)(?:^|: )([\w.+-]+): (?:command )?not found$`),
		func(_ outcome, m []string) (string, string) {
			if p, ok := packages[m[1]]; ok {
				return m[1] + " is not installed", "Install " + p + ", or use a program that is there."
			}
			return m[1] + " is not installed, or not on the PATH", "Check the spelling; a project's own programs are run by path (./" + m[1] + ", node_modules/.bin/" + m[1] + ")."
		},
	},
	{"NPM_PEER_CONFLICT", shows(`ERESOLVE`), always(
		"npm found packages whose peer dependencies contradict each other",
		"Read which two disagree and align their versions in package.json; npm install --legacy-peer-deps goes round it.")},
	{
		"GO_MODULE_MISSING", shows(`no required module provides package ([^\s;:]+)|missing go\.sum entry for module providing package (\S+)`),
		func(_ outcome, m []string) (string, string) {
			return "go.mod does not provide " + m[1] + m[2], "Run: go get " + m[1] + m[2] + " (or go mod tidy). For a package of this module, check the import path."
		},
	},
	{
		"PYTHON_MODULE_MISSING", shows(`(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)`),
		func(_ outcome, m []string) (string, string) {
			name, _, _ := strings.Cut(m[1], ".")
			return "Python finds no module " + m[1], "Use the project's environment (.venv/bin/python, uv run, poetry run), or install it: python3 -m pip install " + name + ". For the project's own module, run from its root."
		},
	},
	{"PORT_IN_USE", shows(`(?i)(?:EADDRINUSE|address already in use)[^\n]*?(?::(\d{2,5}))?\b`), always(
		"another process listens on the port",
		"Use another port, or find the process: ss -ltnp. Nothing that an earlier call started is still alive.")},
	{"MERGE_CONFLICT", shows(`CONFLICT \([^)]*\): [^\n]*|Automatic merge failed|needs merge|unmerged (?:paths|files)`), always(
		"there are merge conflicts",
		"List them with git diff --name-only --diff-filter=U, edit each between <<<<<<< and >>>>>>>, git add them, then continue; or give up with --abort.")},
	{"NEEDS_TERMINAL", shows(`(?i)terminal prompts disabled|could not read (?:Username|Password)|a terminal is required|no tty present|not a tty|Inappropriate ioctl for device|EOFError: EOF when reading a line|no new privileges`), always(
		"the program wants a terminal, a password or more privileges; here is neither",
		"Use its non-interactive options (--yes, --batch, -m MESSAGE), give the answer by stdin, or use credentials that are configured for this server.")},
	{
		"WRONG_DIRECTORY", shows(`not a git repository|go\.mod file not found|ENOENT[^\n]*package\.json|no makefile found|there is no POM in this directory|could not find .?Cargo\.toml`),
		func(o outcome, _ []string) (string, string) {
			return "there is no project in the folder where the command ran (" + o.dir + ")", "Set workdir to the project's folder; tree or glob finds it."
		},
	},
	{"TESTS_FAILED", tests, func(_ outcome, m []string) (string, string) {
		return "tests failed: " + strings.Join(m, ", "), "Run one of them alone while working on it; the whole output can be read back if it was cut."
	}},
	{
		"PERMISSION_DENIED", shows(`(?m)([^\s:'"]+)['"]?: (?:Permission denied|Operation not permitted)|EACCES|permission denied|Permission denied`),
		func(_ outcome, m []string) (string, string) {
			what := "a file"
			if m[1] != "" {
				what = m[1]
			}
			return "no permission for " + what, "A script needs chmod +x, or run it by its interpreter (bash " + filepath.Base(what) + "). Files outside the workspace may be off limits."
		},
	},
	{
		"FILE_NOT_FOUND", shows(`(?m)([^\s:'"]+)['"]?: No such file or directory`),
		func(o outcome, m []string) (string, string) {
			return m[1] + " does not exist, seen from " + o.dir, "Paths are relative to workdir; each call starts there again, whatever an earlier one changed to."
		},
	},
}

// given is a match without text.
func given(ok bool) []string {
	if ok {
		return []string{""}
	}
	return nil
}

var lowMemory = shows(`Cannot allocate memory|JavaScript heap out of memory|java\.lang\.OutOfMemoryError|(?m)^MemoryError|std::bad_alloc|fatal error: runtime: out of memory`)

func memory(o outcome) []string {
	if o.exit.OOMKilled {
		return []string{""}
	}
	return lowMemory(o)
}

// failedTest is how go test, pytest, cargo test, JUnit under Maven and jest name
// a test that failed.
var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^FAILED (\S+::\S+)|^test (\S+) \.\.\. FAILED|^\[ERROR\] +(\w+[.:#]\w+)|^\s+● (.+)$`)

// maxTests is how many failed tests are named.
const maxTests = 5

func tests(o outcome) (names []string) {
	for _, m := range failedTest.FindAllStringSubmatch(o.text, maxTests) {
		names = append(names, strings.Join(m[1:], ""))
	}
	return names
}

// packages names what to install (Debian and Ubuntu) for programs whose package
// is called otherwise, or which models reach for.
var packages = map[string]string{
	"ack": "ack", "ag": "silversearcher-ag", "bc": "bc", "cargo": "rustup (Rust's own installer)", "cc": "build-essential",
	"cmake": "cmake", "curl": "curl", "dig": "bind9-dnsutils", "docker": "docker.io", "fd": "fd-find (its program is fdfind)",
	"file": "file", "g++": "build-essential", "gcc": "build-essential", "gh": "gh", "git": "git", "go": "golang-go (or Go's own archive)",
	"gradle": "gradle (or use ./gradlew)", "ifconfig": "net-tools (or use ip)", "ip": "iproute2", "java": "default-jdk", "javac": "default-jdk",
	"jq": "jq", "lsof": "lsof", "make": "make", "mvn": "maven (or use ./mvnw)", "netstat": "net-tools (or use ss)", "node": "nodejs",
	"npm": "npm", "npx": "npm", "nslookup": "bind9-dnsutils", "pip": "python3-pip (or use python3 -m pip)", "pip3": "python3-pip",
	"pkill": "procps", "pgrep": "procps", "pnpm": "corepack enable pnpm", "protoc": "protobuf-compiler", "ps": "procps", "psql": "postgresql-client",
	"pytest": "pytest with python3 -m pip", "python": "python-is-python3 (or use python3)", "python3": "python3", "rg": "ripgrep", "rsync": "rsync",
	"rustc": "rustup (Rust's own installer)", "shellcheck": "shellcheck", "sqlite3": "sqlite3", "ss": "iproute2", "ssh": "openssh-client",
	"tree": "tree", "unzip": "unzip", "uv": "uv with python3 -m pip", "wget": "wget", "xxd": "xxd", "yarn": "corepack enable yarn", "yq": "yq", "zip": "zip",
}
