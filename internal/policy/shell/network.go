package shell

import (
	"slices"
	"strings"
)

// mirrors judges rsync: with --delete the destination loses what the source lacks.
func mirrors(sh *state, c *call) bool {
	for _, name := range []string{"-e", "--rsh"} {
		if v, ok := c.p.last(name); ok && v.text != "ssh" && !strings.HasPrefix(v.text, "ssh -p") {
			sh.hidden(v)
		}
	}
	for i, v := range c.p.operands {
		switch {
		case remotePath(v):
			sh.connect(literal("ssh://" + v.text[:strings.IndexByte(v.text, ':')]))
			sh.sends(c.p.operands[:i])
		case i < len(c.p.operands)-1:
			sh.readAny(v)
		case strings.Contains(joined(c.argv, " ").text, " --del"):
			sh.touch(deletesTree, v)
		default:
			sh.touch(writesFile, v)
		}
	}
	return false
}

// remotePath recognises HOST:PATH.
func remotePath(v value) bool {
	i := strings.IndexByte(v.text, ':')
	return i > 0 && !strings.Contains(v.text[:i], "/")
}

// sends judges files that go to another machine.
func (sh *state) sends(files []value) {
	for _, v := range files {
		for _, p := range sh.paths(v) {
			if secrets.Match(p) {
				sh.a.find("exfiltrate", quote(p))
			}
		}
		sh.readAny(v)
	}
}

// fetches judges curl and wget: where they connect, and what they send.
func fetches(sh *state, c *call) bool {
	for _, v := range c.p.operands {
		sh.connect(v)
	}
	for _, g := range c.p.options {
		file, isFile := strings.CutPrefix(g.val.text, "@")
		switch g.name {
		case "--url":
			sh.connect(g.val)
		case "-F", "--form":
			if _, f, ok := strings.Cut(g.val.text, "=@"); ok {
				f, _, _ = strings.Cut(f, ";")
				sh.sends([]value{literal(f)})
			}
		case "-d", "--data", "--data-binary", "--data-urlencode", "--json":
			if isFile && file != "-" {
				sh.sends([]value{literal(file)})
			}
		case "-T", "--upload-file", "--post-file", "--body-file":
			if g.val.text != "-" && c.name == "curl" || g.name != "-T" {
				sh.sends([]value{g.val})
			}
		case "-K", "--config":
			sh.a.find("unknown_code", quote("options from "+g.val.text))
		case "-x", "--proxy":
			sh.connect(g.val)
		}
	}
	if c.in != nil && sh.a.seen["command.dangerous.secret"] {
		sh.a.find("exfiltrate", "")
	}
	return false
}

func rawNetwork(sh *state, c *call) bool {
	sh.connect(value{text: hole})
	for i, v := range c.args {
		upper := strings.ToUpper(v.text)
		if strings.Contains(upper, "EXEC:") || strings.Contains(upper, "SYSTEM:") || (c.name != "socat" && i+1 < len(c.args) && v.is("-e", "-c", "--exec", "--sh-exec")) {
			sh.a.find("reverse_shell", quote(joined(c.argv, " ").text))
		}
	}
	return false
}

// asksNames judges programs that send a name to a server: what is computed into
// the name leaves with it.
func asksNames(sh *state, c *call) bool {
	for _, v := range c.args {
		if strings.Contains(strings.Trim(v.text, hole), hole) || (strings.Contains(v.text, hole) && strings.Contains(v.text, ".")) {
			sh.a.find("exfiltrate", quote(joined(c.argv, " ").text))
		}
	}
	sh.connect(value{text: hole})
	return false
}

func remoteCopies(sh *state, c *call) bool {
	for _, g := range c.p.options {
		if g.name == "-o" {
			sh.sshOption(g.val)
		}
	}
	for i, v := range c.p.operands {
		if remotePath(v) {
			sh.connect(literal("ssh://" + v.text[:strings.IndexByte(v.text, ':')]))
			if i > 0 {
				sh.sends(c.p.operands[:i])
			}
		} else if i == len(c.p.operands)-1 {
			sh.touch(writesFile, v)
		}
	}
	return false
}

// containerRun are the options of docker run and exec that take an argument.
var containerRun = newModel(`+ -ditPq -a: -c: -e: -h: -l: -m: -p: -u: -v: -w: --rm --privileged --init --read-only --detach --tty --interactive
	--name= --volume= --mount= --env= --env-file= --network= --net= --publish= --user= --workdir= --entrypoint= --pid= --ipc= --uts= --userns= --cap-add= --cap-drop= --device=
	--security-opt= --memory= --cpus= --hostname= --label= --platform= --pull= --restart= --add-host= --dns= --gpus= --log-driver= --ulimit= --tmpfs= --shm-size= --index= --file= -f: data`)

func containers(sh *state, c *call) bool {
	args := c.args
	if c.sub == "compose" || c.sub == "container" {
		if len(args) == 0 {
			return false
		}
		c = &call{name: c.name, sub: args[0].text, argv: c.argv, args: args[1:], in: c.in}
	}
	if hasOption(c.argv[1:], []string{"-H", "--host", "--context"}) && !slices.Contains([]string{"ps", "images", "logs", "run", "exec", "history"}, c.argv[1].text) {
		sh.a.find("containers", quote(joined(c.argv, " ").text))
	}
	if c.sub != "run" && c.sub != "exec" && c.sub != "create" {
		return true
	}
	p := containerRun.parse(c.args)
	for _, g := range p.options {
		v := g.val.text
		host := g.name == "-v" || g.name == "--volume" || g.name == "--mount"
		if host && (strings.HasPrefix(v, "/:") || strings.Contains(v, "source=/,") || strings.Contains(v, "src=/,") || strings.Contains(v, "docker.sock") || strings.HasPrefix(v, "/etc:")) ||
			g.name == "--pid" && v == "host" || g.name == "--cap-add" && (v == "ALL" || v == "SYS_ADMIN") || g.name == "--device" {
			sh.a.find("containers", quote(joined(c.argv, " ").text))
		}
	}
	if len(p.operands) > 1 && c.sub == "exec" {
		sh.remote(joined(p.operands[1:], " "))
	}
	return false
}

func cluster(sh *state, c *call) bool {
	for i, v := range c.args {
		if v.is("--") && c.argv[1].is("exec", "debug", "run") {
			sh.remote(joined(c.args[i+1:], " "))
		}
	}
	return false
}

func hosted(sh *state, c *call) bool {
	if len(c.args) > 0 && c.args[0].is("api") && strings.Contains(strings.ToUpper(joined(c.args, " ").text), "DELETE") {
		sh.a.find("hosted_repository", quote(joined(c.argv, " ").text))
	}
	sh.connect(literal("https://api.github.com"))
	return false
}
