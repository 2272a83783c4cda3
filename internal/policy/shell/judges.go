package shell

import (
	"regexp"
	"slices"
	"strings"
)

// judges say what tables cannot. Each tells whether the command is proved to be
// a reader, as far as it looks; a model's word counts besides.
var judges map[string]func(sh *state, c *call) bool

func init() {
	judges = map[string]func(*state, *call) bool{
		"rm": removes, "mv": moves, "cp": copies, "install": copies, "ln": links, "rsync": mirrors,
		"chmod": changesMode, "chown": changesOwner, "chgrp": changesOwner, "dd": copiesBlocks, "dcfldd": copiesBlocks, "dc3dd": copiesBlocks,
		"find": finds, "sed": sedScript, "awk": awkScript, "gawk": awkScript, "mawk": awkScript, "nawk": awkScript,
		"tar": archives, "bsdtar": archives, "unzip": unpacks, "gzip": compresses, "zip": zips,
		"curl": fetches, "wget": fetches, "nc": rawNetwork, "ncat": rawNetwork, "netcat": rawNetwork, "socat": rawNetwork, "telnet": rawNetwork,
		"dig": asksNames, "nslookup": asksNames, "host": asksNames, "ping": asksNames,
		"scp": remoteCopies, "sftp": remoteCopies,
		"kill": kills, "pkill": killsByName, "killall": killsByName,
		"psql": queries, "mysql": queries, "mariadb": queries, "sqlite3": queries, "mongosh": queries, "mongo": queries, "clickhouse-client": queries, "cqlsh": queries, "duckdb": queries, "sqlcmd": queries,
		"docker": containers, "podman": containers, "kubectl": cluster, "oc": cluster,
		"git": git, "printenv": printsEnv,
		"vim": editor, "vi": editor, "nvim": editor, "view": editor, "ex": editor, "emacs": editor, "less": editor, "more": editor, "ed": editor,
		"date": tellsTime, "ps": listsProcesses, "jq": filters, "yq": filters,
		"ip": networkState, "mount": mounts, "sysctl": kernelState, "hostname": noOperand, "crontab": schedules, "split": always, "gh": hosted,
		"make": makes, "xxd": dumps, "man": manual, "info": manual,
	}
	for name := range interpreters {
		judges[name] = interprets
	}
}

func always(*state, *call) bool { return true }

func noOperand(_ *state, c *call) bool { return len(c.p.operands) == 0 }

func removes(sh *state, c *call) bool {
	u := deletesFile
	if c.p.has("-r", "-R", "--recursive") {
		u = deletesTree
	}
	for _, v := range c.p.operands {
		sh.touch(u, v)
	}
	return false
}

// moves judges mv: what is moved is gone from where it was.
func moves(sh *state, c *call) bool {
	from := c.p.operands
	if _, ok := c.p.last("-t", "--target-directory"); !ok && len(from) > 0 {
		sh.touch(writesFile, from[len(from)-1])
		from = from[:len(from)-1]
	}
	for _, v := range from {
		if v.glob {
			sh.touch(deletesFile, v)
		} else {
			sh.touch(deletesTree, v)
		}
	}
	return false
}

func copies(sh *state, c *call) bool {
	ops := c.p.operands
	if _, ok := c.p.last("-t", "--target-directory"); !ok && len(ops) > 0 {
		sh.touch(writesFile, ops[len(ops)-1])
		ops = ops[:len(ops)-1]
	}
	for _, v := range ops {
		sh.readAny(v)
	}
	return false
}

// links judges ln, and remembers what its links stand for.
func links(sh *state, c *call) bool {
	ops := c.p.operands
	if len(ops) < 2 {
		return false
	}
	to := ops[len(ops)-1]
	sh.touch(writesFile, to)
	if ops[0].known() && to.known() && len(ops) == 2 && len(sh.a.links) < 64 {
		for _, p := range sh.paths(to) {
			for _, t := range sh.paths(ops[0]) {
				if p != t {
					sh.a.links[p] = t
				}
			}
		}
	}
	return false
}

// worldMode recognises a mode that lets everyone write, or that takes rights.
var worldMode = regexp.MustCompile(`^(0?[0-7]{2}[2367]|[2-7][0-7]{3}|0[2-7][0-7]{3}|([ugo]*[ao][ugo]*)?[+=][rwxXst]*w.*|.*[+=][rwxX]*s.*|.*,([ugo]*[ao][ugo]*)?[+=][rwxX]*w.*)$`)

func changesMode(sh *state, c *call) bool {
	ops := c.p.operands
	if len(ops) == 0 {
		return false
	}
	if mode := ops[0]; worldMode.MatchString(mode.text) {
		sh.a.find("permissions", quote(joined(c.argv, " ").text))
	}
	sh.changesTree(c, ops[1:])
	return false
}

func changesOwner(sh *state, c *call) bool {
	ops := c.p.operands
	if len(ops) == 0 {
		return false
	}
	if owner, _, _ := strings.Cut(ops[0].text, ":"); owner == "root" || owner == "0" {
		sh.a.find("permissions", quote(joined(c.argv, " ").text))
	}
	sh.changesTree(c, ops[1:])
	return false
}

func (sh *state) changesTree(c *call, ops []value) {
	for _, v := range ops {
		if c.p.has("-R", "--recursive") {
			sh.touch(opensTree, v)
		} else {
			sh.touch(writesFile, v)
		}
	}
}

func copiesBlocks(sh *state, c *call) bool {
	endless, bounded, target := false, false, value{}
	for _, v := range c.args {
		key, val, _ := strings.Cut(v.text, "=")
		arg := value{text: val, glob: v.glob, split: v.split}
		switch key {
		case "if":
			endless = arg.is("/dev/zero", "/dev/urandom", "/dev/random")
			sh.readAny(arg)
		case "of":
			target = arg
			sh.touch(writesFile, arg)
		case "count", "limit":
			bounded = true
		}
	}
	if endless && !bounded && target.text != "" && !sh.sink(target) {
		sh.a.find("fill_disk", quote(joined(c.argv, " ").text))
	}
	return false
}

// archives judges tar, whose first word may be letters without a dash.
func archives(sh *state, c *call) bool {
	for _, g := range c.p.options {
		if action, ok := strings.CutPrefix(g.val.text, "exec="); ok && g.name == "--checkpoint-action" {
			sh.hidden(literal(action))
		}
	}
	list := c.p.has("-t", "--list")
	writes := c.p.has("-c", "-x", "-r", "-u", "--create", "--extract", "--get", "--append", "--update", "--delete")
	file, ok := c.p.last("-f", "--file")
	if len(c.args) > 0 && !strings.HasPrefix(c.args[0].text, "-") { // tar cf x.tar …
		letters := c.args[0].text
		list = list || strings.Contains(letters, "t")
		writes = writes || strings.ContainsAny(letters, "cxru")
		if len(c.args) > 1 && strings.Contains(letters, "f") {
			file, ok = c.args[1], true
		}
	}
	if ok && remotePath(file) {
		sh.connect(literal("ssh://" + file.text[:strings.IndexByte(file.text, ':')]))
	} else if ok {
		if writes && !strings.Contains(joined(c.args[:min(1, len(c.args))], "").text, "x") && !c.p.has("-x", "--extract", "--get") {
			sh.touch(writesFile, file)
		} else {
			sh.readAny(file)
		}
	}
	return list && !writes && (!ok || !remotePath(file))
}

// dumps judges xxd, some of whose options are words after one dash.
func dumps(_ *state, c *call) bool {
	return !slices.ContainsFunc(c.args, func(v value) bool { return strings.HasPrefix(v.text, "-ps") || strings.HasPrefix(v.text, "-post") })
}

func unpacks(sh *state, c *call) bool {
	if len(c.p.operands) > 0 {
		sh.readAny(c.p.operands[0])
	}
	return c.p.has("-l", "-t", "-v", "-p", "-Z") && !c.p.has("-d")
}

func compresses(_ *state, c *call) bool { return c.p.has("-l", "--list", "-t", "--test") }

func zips(sh *state, c *call) bool {
	for i, v := range c.args {
		if v.is("-TT") && i+1 < len(c.args) {
			sh.hidden(c.args[i+1])
		}
	}
	return false
}

func kills(sh *state, c *call) bool {
	for i, v := range c.args {
		switch {
		case v.is("-l", "-L", "-0") && i == 0:
			return v.text != "-0"
		case i == 0 && strings.HasPrefix(v.text, "-"), v.is("--"), i == 1 && c.args[0].is("-s", "-n"):
		case strings.Contains(v.text, hole), v.is("0", "1", "-1"):
			sh.a.find("kill", quote(joined(c.argv, " ").text))
		}
	}
	if len(c.args) == 1 && c.args[0].is("-1") {
		sh.a.find("kill", quote(joined(c.argv, " ").text))
	}
	return false
}

func killsByName(sh *state, c *call) bool {
	broad := hasOption(c.args, []string{"-u", "-U", "-G", "-g", "-t", "-v", "--user", "--uid", "--euid", "--inverse"})
	for _, v := range c.args {
		broad = broad || v.is(".", "", ".*", "bash", "sh", "sshd", "systemd", "init") || strings.Contains(v.text, hole)
	}
	if broad {
		sh.a.find("kill", quote(joined(c.argv, " ").text))
	}
	return false
}

// destructive finds statements that delete more than single rows. Quoted text is
// taken out first.
var (
	destructive = regexp.MustCompile(`(?i)\b(drop\s+(database|schema|table|user|role|view|index|keyspace|tablespace|collection|owned)|truncate\b|delete\s+from\s+[\w."]+\s*(;|$)|dropdatabase|\.drop\s*\(|deletemany\s*\(\s*\{\s*\}|flushall|shutdown\b|copy\s.*\bto\s+program|into\s+(out|dump)file)|\\!|^\s*\.(shell|system)\b`)
	sqlQuoted   = regexp.MustCompile(`'(?:[^']|'')*'`)
)

func queries(sh *state, c *call) bool {
	texts := slices.Clone(c.args)
	if c.in != nil {
		texts = append(texts, *c.in)
	}
	for _, v := range texts {
		text := v.text
		if !strings.HasPrefix(c.name, "mongo") {
			text = sqlQuoted.ReplaceAllString(text, "''")
		}
		if sh.a.weigh(v.text) && destructive.MatchString(text) {
			sh.a.find("database", quote(text))
		}
	}
	return false
}

// secretName recognises a variable that holds a secret.
var secretName = regexp.MustCompile(`(?i)(token|secret|passw|key|auth|cred|private)`)

func printsEnv(sh *state, c *call) bool {
	if len(c.args) == 0 {
		sh.a.find("secret", "the whole environment")
	}
	for _, v := range c.args {
		if secretName.MatchString(v.text) {
			sh.a.find("secret", quote(v.text))
		}
		if !v.known() {
			return false
		}
	}
	return true
}

// editor judges editors and pagers: commands may be given to them as options.
func editor(sh *state, c *call) bool {
	for _, v := range c.args {
		if i := strings.IndexByte(v.text, '!'); i >= 0 && (strings.HasPrefix(v.text, "+") || strings.HasPrefix(v.text, ":") || strings.HasPrefix(v.text, "!")) {
			sh.hidden(literal(v.text[i+1:]))
		}
	}
	return false
}

func networkState(sh *state, c *call) bool {
	ops := c.p.operands
	if len(ops) > 1 && ops[0].is("netns") && ops[1].is("exec") && len(ops) > 3 {
		sh.fork().run(ops[3:], c.in)
		return false
	}
	return len(ops) < 2 || ops[1].is("show", "list", "ls", "lst", "get", "sh")
}

func mounts(sh *state, c *call) bool {
	if len(c.args) == 0 || (len(c.args) == 1 && c.args[0].is("-l")) {
		return true
	}
	sh.a.find("disk", quote(joined(c.argv, " ").text))
	return false
}

// tellsTime judges date: an operand that is no format sets the clock.
func tellsTime(sh *state, c *call) bool {
	for _, v := range c.p.operands {
		if !strings.HasPrefix(v.text, "+") {
			sh.a.find("clock", quote(joined(c.argv, " ").text))
		}
	}
	return true
}

// listsProcesses judges ps: the letter e without a dash shows environments.
func listsProcesses(_ *state, c *call) bool {
	return !slices.ContainsFunc(c.args, func(v value) bool { return !strings.HasPrefix(v.text, "-") && strings.Contains(v.text, "e") })
}

// filters judges jq and yq, whose programs can print the environment and files.
func filters(sh *state, c *call) bool {
	if c.p.has("-f", "--from-file") {
		return false
	}
	if c.p.has("--slurpfile", "--rawfile") { // a name and a file
		for _, v := range c.p.operands {
			sh.readAny(v)
		}
	}
	return !slices.ContainsFunc(c.p.operands, func(v value) bool {
		return strings.Contains(strings.ToLower(v.text), "env") || containsAny(v.text, filesOfFilters)
	})
}

// filesOfFilters are the words by which such a program reads files.
var filesOfFilters = words("load import include")

// manual judges man and info: an operand with a slash in it is a file to show.
func manual(sh *state, c *call) bool {
	for _, v := range c.p.operands {
		if strings.Contains(v.text, "/") || !v.known() {
			sh.readAny(v)
		}
	}
	return true
}

func kernelState(sh *state, c *call) bool {
	for _, v := range c.args {
		if strings.Contains(v.text, "=") && !strings.HasPrefix(v.text, "-") {
			sh.a.find("kernel", quote(joined(c.argv, " ").text))
		}
		if !v.known() || strings.Contains(v.text, "=") || (strings.HasPrefix(v.text, "-") && !v.is("-a", "-n", "-e", "--all", "--values")) {
			return false
		}
	}
	return true
}

func schedules(sh *state, c *call) bool {
	if len(c.p.operands) > 0 {
		sh.a.find("schedule", quote(joined(c.argv, " ").text))
	}
	return true
}

// makes judges make: variables may name programs.
func makes(sh *state, c *call) bool {
	for _, v := range c.args {
		if name, val, ok := strings.Cut(v.text, "="); ok && name == "SHELL" {
			sh.hidden(literal(val))
		}
	}
	return false
}
