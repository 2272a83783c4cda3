package shell

import (
	"regexp"
	"strings"
)

// programKeys are the keys of git's configuration that name programs, or that
// lead to them.
var programKeys = regexp.MustCompile(`(?i)^(core\.(fsmonitor|pager|editor|sshcommand|askpass|hookspath|gitproxy|alternaterefscommand|attributesfile|worktree)|pager\..*|alias\..*|diff\.external|diff\..*\.(command|textconv)|(diff|merge)tool\..*|merge\..*\.driver|filter\..*\.(clean|smudge|process)|gpg\.(.*\.)?program|credential\.(.*\.)?helper|sequence\.editor|interactive\.difffilter|sendemail\..*|remote\..*|extensions\..*|uploadpack\.packobjectshook|submodule\..*\.update|browser\..*|web\.browser|man\..*\.cmd|trailer\..*|init\.templatedir|include(if\..*)?\.path|url\..*|protocol\..*|http\.proxy|safe\.directory)$`)

// quietValues switch such a key off.
var quietValues = []string{"", "cat", "false", "true", "less", "/dev/null", "never", "explicit", "vim", "vi", "nano"}

// gitGlobals judges what stands before git's subcommand, and gives the state in
// which that runs.
func (sh *state) gitGlobals(p parsed) *state {
	at := sh.fork()
	for _, g := range p.options {
		switch g.name {
		case "-C":
			if g.val.text != "" {
				at.dirs = at.physical(g.val)
				sh.stray(at.dirs)
			}
		case "-c":
			key, val, ok := strings.Cut(g.val.text, "=")
			if !ok {
				val = "true"
			}
			sh.gitSetting(key, val)
			sh.a.changes = sh.a.changes || !g.val.known()
		case "--config-env":
			sh.a.find("hidden_program", quote(g.val.text))
		case "--exec-path":
			if g.val.text != "" {
				sh.a.find("hidden_program", quote(g.val.text))
			}
		case "--git-dir", "--work-tree", "-p", "--paginate":
			sh.a.changes = true
		}
	}
	return at
}

// gitSetting judges a value that is given to a key of git's configuration.
func (sh *state) gitSetting(key, val string) {
	lower := strings.ToLower(key)
	if lower == "clean.requireforce" && strings.EqualFold(val, "false") {
		sh.a.find("discard_changes", quote(key+"="+val))
	}
	if !programKeys.MatchString(key) || literal(val).is(quietValues...) {
		return
	}
	code, isShell := strings.CutPrefix(val, "!")
	if strings.HasPrefix(lower, "alias.") && !isShell {
		sh.a.changes = true
		sh.fork().code("git " + val)
		return
	}
	sh.hidden(literal(code))
}

// git judges a subcommand with its arguments.
func git(sh *state, c *call) bool {
	p := c.p
	if models["git "+c.sub] == nil {
		p = looseGit.parse(c.args)
	}
	ops := p.operands
	first := value{}
	if len(ops) > 0 {
		first = ops[0]
	}
	text := quote(joined(c.argv, " ").text)
	for _, g := range p.options {
		if strings.HasPrefix(g.name, "--upload-pa") || strings.HasPrefix(g.name, "--receive-p") || (g.name == "-u" && (c.sub == "clone" || c.sub == "ls-remote")) {
			sh.hidden(g.val)
		}
	}
	switch c.sub {
	case "push":
		for _, v := range ops[min(1, len(ops)):] {
			if strings.HasPrefix(v.text, "+") || strings.HasPrefix(v.text, ":") {
				sh.a.find("force_push", text)
			}
		}
		sh.gitConnect(first)
	case "fetch", "pull", "clone", "ls-remote":
		if strings.HasPrefix(first.text, "ext::") {
			sh.hidden(literal(strings.TrimPrefix(first.text, "ext::")))
		}
		sh.gitConnect(first)
		if c.sub == "clone" && len(ops) > 1 {
			sh.touch(writesFile, ops[1])
		}
	case "branch":
		if p.has("-d", "--delete") && p.has("-f", "--force") {
			sh.a.find("delete_branch", text)
		}
		return len(ops) == 0 || p.has("-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
	case "tag":
		return len(ops) == 0 || p.has("-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
	case "checkout":
		for i, v := range c.args {
			if v.is(".", "./", ":/", "*") || (v.is("--") && i+1 < len(c.args)) {
				sh.a.find("discard_changes", text)
			}
		}
	case "restore":
		if !p.has("--staged", "-S") || p.has("--worktree", "-W") {
			sh.a.find("discard_changes", text)
		}
	case "clean":
		return p.has("-n", "--dry-run")
	case "update-ref":
		if p.has("-d") && first.is("HEAD") {
			sh.a.find("drop_head", text)
		}
	case "symbolic-ref":
		return len(ops) == 1 && first.known()
	case "config":
		return sh.gitConfig(p, ops)
	case "remote":
		return first.is("", "-v", "get-url") || (first.is("show") && hasOption(c.args, []string{"-n"}))
	case "stash", "worktree", "notes", "reflog":
		return first.is("list", "show", "exists") || (c.sub == "reflog" && (len(ops) == 0 || (first.known() && !first.is("expire", "delete", "drop", "write"))))
	case "submodule":
		sh.gitSubmodule(c, ops)
		return first.is("status", "summary")
	case "bisect":
		if len(c.args) > 1 && c.args[0].is("run") {
			sh.fork().run(c.args[1:], nil)
		}
		return false
	case "rebase":
		for i, v := range c.args {
			if v.is("-x", "--exec") && i+1 < len(c.args) {
				sh.fork().codeOf(c.args[i+1])
			} else if code, ok := strings.CutPrefix(v.text, "--exec="); ok {
				sh.fork().code(code)
			}
		}
	case "grep":
		if p.has("--no-index", "--untracked") {
			for _, v := range ops {
				sh.readAny(v)
			}
		}
	case "diff", "show", "log", "shortlog", "rev-list", "whatchanged":
		if p.has("--no-index") {
			for _, v := range ops {
				sh.readAny(v)
			}
		}
		return c.sub != "shortlog" || len(ops) > 0
	}
	return true
}

// looseGit tells options from operands for the subcommands without a line.
var looseGit = newModel("-m: -b: -B: -C: -o: -x: --upload-pack= --receive-pack= --exec= --message= --repo= --push-option= --depth= --branch= --origin= --source= -s: --staged --worktree --force --delete -u data")

func (sh *state) gitConfig(p parsed, ops []value) bool {
	if len(ops) > 0 && ops[0].is("get", "list") {
		return true
	}
	if p.has("-l", "--list", "--get", "--get-all", "--get-regexp") {
		return true
	}
	if len(ops) > 0 && ops[0].is("set") {
		ops = ops[1:]
	}
	if len(ops) == 1 {
		return ops[0].known() && strings.Contains(ops[0].text, ".")
	}
	if len(ops) > 1 {
		sh.gitSetting(ops[0].text, ops[1].text)
	}
	return false
}

func (sh *state) gitSubmodule(c *call, ops []value) {
	if len(ops) == 0 {
		return
	}
	switch ops[0].text {
	case "foreach":
		for i, v := range c.args {
			if v.is("foreach") {
				rest := c.args[i+1:]
				for len(rest) > 0 && strings.HasPrefix(rest[0].text, "-") {
					rest = rest[1:]
				}
				sh.fork().codeOf(joined(rest, " "))
				return
			}
		}
	case "update", "add":
		sh.gitConnect(value{text: hole})
	}
}

// gitConnect records the host of a URL, or any host for the name of a remote.
func (sh *state) gitConnect(v value) {
	if user, rest, ok := strings.Cut(v.text, "@"); ok && !strings.Contains(user, "/") {
		host, _, _ := strings.Cut(rest, ":")
		sh.connect(literal("ssh://" + host))
		return
	}
	if strings.Contains(v.text, "://") {
		sh.connect(v)
		return
	}
	sh.connect(value{text: hole})
}
