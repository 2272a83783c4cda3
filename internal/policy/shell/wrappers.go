package shell

import (
	"slices"
	"strings"
)

// wrapper is a program that runs another one, given in its arguments.
type wrapper struct {
	spec    string // its own options and, of no effect, operands; see newModel
	skip    int    // operands before the command
	changes bool   // it leaves something behind, even around a reader
	kind    wrapperKind
	m       *model
}

type wrapperKind uint8

const (
	runsTail      wrapperKind = iota // the rest of its words is a command
	runsShell                        // it is a shell: -c code, a script, or standard input
	runsString                       // the rest of its words, joined, is shell code
	takesVars                        // NAME=value words may come before the command
	appendsInput                     // what it reads is appended to the command
	othersRights                     // it takes the rights of another user
	runsElsewhere                    // the command runs on another machine or in a container
	multicall                        // its first operand is the name of its own applet
)

const shellSpec = "+ -befhimnprtuvxlsBCEHTD -a! -k! -P! -c -o: -O: --norc --noprofile --login --posix --restricted --verbose --rcfile=run --init-file=run --version --help data"

// wrappers are the programs that run others, by name.
var wrappers = map[string]*wrapper{
	"sh": {spec: shellSpec, kind: runsShell}, "bash": {spec: shellSpec, kind: runsShell}, "dash": {spec: shellSpec, kind: runsShell},
	"zsh": {spec: shellSpec, kind: runsShell}, "ksh": {spec: shellSpec, kind: runsShell}, "ash": {spec: shellSpec, kind: runsShell}, "rbash": {spec: shellSpec, kind: runsShell}, "fish": {spec: shellSpec, kind: runsShell},

	"env":     {spec: "+ -i0v -u: -S: -C:dir -P: --ignore-environment --null --unset= --split-string= --chdir=dir --debug -", kind: takesVars},
	"nohup":   {spec: "+", changes: true},
	"timeout": {spec: "+ -v -k: -s: --foreground --preserve-status --verbose --kill-after= --signal=", skip: 1},
	"nice":    {spec: "+ -n: --adjustment= -0123456789"},
	"ionice":  {spec: "+ -t -c: -n: -p:change -P:change -u:change --class= --classdata= --ignore"},
	"chrt":    {spec: "+ -bfiorRdv -T: -P: -D: -p:change", skip: 1},
	"taskset": {spec: "+ -ac -p!", skip: 1},
	"numactl": {spec: "+ -ls -N: -m: -C: -i: -p:"},
	"stdbuf":  {spec: "+ -i: -o: -e: --input= --output= --error="},
	"setsid":  {spec: "+ -cfw --ctty --fork --wait"},
	"time":    {spec: "+ -pvqa -o:write -f: --output=write --format= --append --portability --verbose"},
	"setarch": {spec: "+ -RFILTXZBv", skip: 1},
	"linux64": {spec: "+ -RFILTXZBv"}, "linux32": {spec: "+ -RFILTXZBv"},
	"prlimit":  {spec: "+ --pid=change -p:change --nofile= --nproc= --cpu= --as= --fsize= --core="},
	"xargs":    {spec: "+ -0rtxpo -a:read -d: -E: -I: -i? -L: -l? -n: -P: -s: -R: -S: -e? --null --no-run-if-empty --verbose --exit --interactive --open-tty --arg-file=read --delimiter= --replace? --max-args= --max-lines= --max-procs= --max-chars=", kind: appendsInput},
	"parallel": {spec: "+ -0kqtuvX -j: -a:read -I: -n: -N: -S:host --jobs= --dry-run --keep-order --bar --will-cite --halt= --joblog=write", kind: appendsInput, changes: true},
	"watch":    {spec: "+ -bcdeghptwx -n: --interval= --differences? --no-title --errexit --exec --chgexit", kind: runsString},
	"flock":    {spec: "+ -senoxuFv -c:code -w: -E: --command=code --timeout= --shared --exclusive --nonblock --unlock --close --wait= --no-fork", skip: 1, changes: true},
	"script":   {spec: "+ -aefq -c:code -t? -O: -I: -B: -T: --command=code --quiet --append --return --flush", skip: 1, changes: true},
	"strace":   {spec: "+ -cCdfhikqrtTvVxyDFzZ -e: -o:write -p: -s: -a: -u: -E: -P: -O: -S: -I: -b: -X:", changes: true},
	"ltrace":   {spec: "+ -cCfhiLrStttTV -e: -o:write -p: -s: -a: -l: -n: -u: -x:", changes: true},
	"valgrind": {spec: "+ -qv --tool= --leak-check= --log-file=write --error-exitcode=", changes: true},
	"perf":     {spec: "+ -adgv -e: -o:write -p:", skip: 1, changes: true},
	"unbuffer": {spec: "+ -p"}, "chronic": {spec: "+ -ve"}, "catchsegv": {spec: "+", changes: true}, "faketime": {spec: "+ -fm", skip: 1}, "fakeroot": {spec: "+ -u -l: -s: -i: -b:", changes: true}, "fakechroot": {spec: "+", changes: true},
	"dbus-run-session": {spec: "+ --config-file= --dbus-daemon=run", changes: true}, "xvfb-run": {spec: "+ -a -n: -s: -e:write -l -p:", changes: true},
	"systemd-run": {spec: "+ -dGPqtSr -u: -p: -E: -M: --user --scope --unit= --pty --pipe --wait --collect --property= --setenv= --on-active= --on-calendar=", changes: true},
	"unshare":     {spec: "+ -imnpuUCTrfc -S: -G: -R: -w: -l: --mount --net --pid --user --map-root-user --fork --root= --wd= --mount-proc?", changes: true},
	"nsenter":     {spec: "+ -amuinpCUTFr -t: -S: -G: -w? --all --target= --mount? --net? --pid? --root?", changes: true, kind: runsElsewhere},
	"chroot":      {spec: "+ --userspec= --groups= --skip-chdir", skip: 1, changes: true},
	"proot":       {spec: "+ -0 -r: -b: -w: -q: -S: -R:", changes: true},
	"bwrap":       {spec: "+ --unshare-all --die-with-parent --new-session --clearenv --chdir= --proc= --dev= --tmpfs= --dir=", changes: true},
	"firejail":    {spec: "+ --quiet --net= --private --noprofile --profile=", changes: true},
	"busybox":     {spec: "+", kind: multicall}, "toybox": {spec: "+", kind: multicall},
	"caffeinate": {spec: "+ -disum -t: -w:"}, "entr": {spec: "+ -acdnprsxz", changes: true}, "direnv": {spec: "+", skip: 2, changes: true}, "dotenv": {spec: "+ -f:read", changes: true},

	"sudo": {spec: "+ -AbBEeHiKklNnPSsvV -C: -D:dir -g: -h: -p: -R: -r: -T: -t: -U: -u:", kind: othersRights}, "doas": {spec: "+ -Lns -C: -u:", kind: othersRights},
	"su": {spec: "+ -lmpfP -c:code -s: -g: -G: -w: --command=code --login -", kind: othersRights}, "pkexec": {spec: "+ --user= --disable-internal-agent --keep-cwd", kind: othersRights}, "run0": {spec: "+ -u: -g: -D:dir --user=", kind: othersRights},
	"runuser": {spec: "+ -lmpf -c:code -u: -g: -G: -s: --command=code", kind: othersRights}, "sudoedit": {spec: "+", kind: othersRights}, "gosu": {spec: "+", skip: 1, kind: othersRights}, "setpriv": {spec: "+ --reuid= --regid= --clear-groups --init-groups", kind: othersRights},

	"ssh": {spec: "+ -46AaCfGgKkMNnqsTtVvXxYy -B: -b: -c: -D: -E:write -e: -F:run -I:run -i: -J: -L: -l: -m: -O: -o: -p: -Q: -R: -S: -W: -w:", skip: 1, kind: runsElsewhere},
}

func init() {
	for _, w := range wrappers {
		w.m = newModel(w.spec)
	}
}

// wrapped judges what a wrapper runs.
func (sh *state) wrapped(w *wrapper, argv []value, in *value) value {
	args := argv[1:]
	for w.kind == runsShell && len(args) > 0 && strings.HasPrefix(args[0].text, "+") {
		args = args[1:]
		if strings.HasSuffix(strings.ToLower(argv[1].text), "o") && len(args) > 0 {
			args = args[1:]
		}
	}
	p := w.m.parse(args)
	if w.changes || p.foreign || (w.kind == runsShell && !readsAsBash(base(argv[0].text), p)) {
		sh.a.changes = true
	}
	inner := sh.fork()
	for _, g := range p.options {
		if g.role == asDir {
			inner.dirs = sh.physical(g.val)
			sh.stray(inner.dirs)
		}
	}
	for _, g := range p.options {
		inner.apply(g.role, g.val)
	}
	if p.foreign && w.kind != runsElsewhere {
		sh.guess(p.operands, in)
	}
	tail := p.operands[min(w.skip, len(p.operands)):]
	if w.skip > 0 && len(tail) > 0 && strings.HasPrefix(tail[0].text, "-") && w.kind == runsTail {
		more := w.m.parse(tail)
		for _, g := range more.options {
			inner.apply(g.role, g.val)
		}
		tail = more.operands
	}
	switch w.kind {
	case runsShell:
		return inner.shell(argv, p, in)
	case othersRights:
		sh.record(argv, "")
		sh.a.find("privilege", quote(joined(argv, " ").text))
	case runsElsewhere:
		sh.record(argv, "")
		return sh.elsewhere(base(argv[0].text), p, tail)
	case runsString:
		return inner.codeOf(joined(tail, " "))
	case takesVars:
		for len(tail) > 0 && (tail[0].is("-") || strings.Contains(tail[0].text, "=")) {
			if name, v, ok := strings.Cut(tail[0].text, "="); ok {
				inner.exports(name, literal(v))
			}
			tail = tail[1:]
		}
		if code, ok := p.last("-S", "--split-string"); ok {
			return inner.codeOf(joined(append([]value{code}, tail...), " "))
		}
		if len(tail) == 0 {
			sh.record(argv, "")
			sh.a.find("secret", "the whole environment")
		}
	case appendsInput:
		return inner.appended(p, tail, in)
	}
	if len(tail) == 0 {
		return unknown
	}
	return inner.run(tail, in)
}

// readsAsBash says whether a shell reads code as it is read here.
func readsAsBash(name string, p parsed) bool {
	for _, g := range p.options {
		if g.name == "-o" && !g.val.is("errexit", "nounset", "pipefail", "noglob", "noclobber", "xtrace", "verbose", "posix") {
			return false
		}
		if g.name == "-O" && !g.val.is(shellOptions...) {
			return false
		}
	}
	return slices.Contains([]string{"sh", "bash", "dash", "ash", "rbash"}, name)
}

// guess judges the operands of a wrapper whose options are not understood, from
// the first one that is a known program's name.
func (sh *state) guess(operands []value, in *value) {
	for i, v := range operands {
		if name := base(v.text); v.known() && (known(name) || wrappers[name] != nil) {
			sh.fork().run(operands[i:], in)
			return
		}
	}
}

// shell judges a shell that is started: its code is in an option, in a file, or
// comes from standard input.
func (sh *state) shell(argv []value, p parsed, in *value) value {
	ops := p.operands
	switch {
	case p.has("-c") && len(ops) > 0:
		if len(ops) > 1 {
			sh.zero = ops[1]
		}
		sh.args, sh.argsKnown = ops[min(2, len(ops)):], true
		return sh.codeOf(ops[0])
	case len(ops) > 0 && !p.has("-s") && !ops[0].is("/dev/stdin", "-"):
		if out, ok := sh.a.pipes[ops[0].text]; ok {
			return sh.codeOf(out)
		}
		sh.record(argv, "")
		sh.a.changes = true
		sh.touch(readsFile, ops[0])
		if !ops[0].known() {
			sh.a.find("unknown_code", show(ops[0]))
		}
		return unknown
	case p.has("--version", "--help"):
		return unknown
	}
	sh.record(argv, "")
	sh.a.changes = true
	if in == nil {
		return unknown
	}
	sh.args, sh.argsKnown = ops, true
	if strings.Contains(in.text, hole) {
		sh.fed()
	}
	return sh.codeOf(*in)
}

// fed notes that code comes from a pipe that may have begun elsewhere.
func (sh *state) fed() {
	if slices.ContainsFunc(sh.a.effects, isConnect) {
		sh.a.find("remote_code", "")
		return
	}
	sh.a.find("unknown_code", "")
}

// appended judges xargs and its kin: the command with its input as arguments.
func (sh *state) appended(p parsed, tail []value, in *value) value {
	if len(tail) == 0 {
		tail = []value{literal("echo")}
	}
	extra := []value{{text: hole, split: true}}
	if in != nil && (strings.ContainsAny(in.text, "'\"\\") || p.has("-d", "--delimiter", "-n", "--max-args", "-L", "-l", "--max-lines", "-E", "-e", "-s", "--max-chars")) {
		sh.a.changes = true // words may be cut, and runs made, in other ways than here
	}
	if in != nil && !p.has("-a", "--arg-file") {
		if in.glob {
			extra = []value{*in}
		} else if !strings.Contains(in.text, hole) {
			extra = nil
			for _, f := range strings.Fields(in.text) {
				extra = append(extra, literal(f))
			}
		} else if in.text[0] == '/' || in.text[0] == '.' {
			extra = []value{{text: in.text}}
		}
	}
	mark, replaces := p.last("-I", "--replace", "-i")
	if replaces || base(tail[0].text) == "parallel" {
		if mark.text == "" {
			mark.text = "{}"
		}
		with := joined(extra, " ")
		if in != nil && strings.Contains(strings.TrimSpace(in.text), "\n") {
			sh.a.changes = true // a run for each line
		}
		out := make([]value, len(tail))
		for i, v := range tail {
			out[i] = v
			if strings.Contains(v.text, mark.text) {
				out[i] = value{text: strings.ReplaceAll(v.text, mark.text, with.text), glob: with.glob}.capped()
			}
		}
		return sh.run(out, nil)
	}
	return sh.run(append(slices.Clone(tail), extra...), nil)
}

// elsewhere judges a command that another machine or a container runs: what
// would be refused here is asked for there.
func (sh *state) elsewhere(name string, p parsed, tail []value) value {
	sh.a.changes = true
	if name == "ssh" {
		host := value{text: hole}
		if len(p.operands) > 0 {
			host = p.operands[0]
		}
		sh.connect(literal("ssh://" + host.text))
		for _, g := range p.options {
			if g.name == "-o" {
				sh.sshOption(g.val)
			}
			if g.name == "-R" || g.name == "-D" || g.name == "-w" {
				sh.a.find("reverse_shell", quote(name+" "+g.name+" "+g.val.text))
			}
		}
	}
	sh.remote(joined(tail, " "))
	return unknown
}

// sshOption judges -o KEY=VALUE of ssh and its kin.
func (sh *state) sshOption(v value) {
	key, val, _ := strings.Cut(v.text, "=")
	switch strings.ToLower(strings.TrimSpace(key)) {
	case "proxycommand", "localcommand", "knownhostscommand", "match":
		sh.hidden(literal(val))
	}
}

// remote judges code in an analysis of its own, and keeps what weighs.
func (sh *state) remote(code value) {
	if strings.TrimSpace(code.text) == "" {
		return
	}
	other := newAnalyser(Options{Dir: "/", Workspace: "/workspace"})
	other.work, other.nest, other.depth = sh.a.work, sh.a.nest, sh.a.depth
	newState(other).codeOf(code)
	sh.a.work = other.work
	for _, f := range other.findings {
		if strings.HasSuffix(f.Code, ".privilege") {
			sh.a.find("privilege", show(code))
			continue
		}
		sh.a.find("remote_delete", show(code))
		return
	}
}
