package shell

import (
	"path"
	"slices"
	"strings"

	"github.com/toold/toold/internal/tool"
)

// place says what kind of place a path is.
type place uint8

const (
	placeUnknown   place = iota // cannot be said
	placeInside                 // in the workspace
	placeContents               // all there is in the workspace's root
	placeWorkspace              // the workspace's root, or a folder that holds it
	placeGit                    // the repository itself: .git
	placeTemporary              // below /tmp
	placeHome                   // below a home directory
	placeHomeRoot               // a home directory, or the folder of all
	placeRoot                   // / and the roots of system trees
	placeSystem                 // below the root of a system tree
	placeDisk                   // a block device, or memory
	placeDevice                 // another device
	placeSink                   // /dev/null and the like: keeps nothing
	placeOutside                // anywhere else
)

// systemRoots are the trees that a machine cannot do without.
var systemRoots = strings.Fields("bin boot dev etc home lib lib32 lib64 libx32 media mnt opt private proc root run sbin srv sys usr var System Library Applications Users")

// sinks are devices that anything may write to.
var sinks = strings.Fields("/dev/null /dev/zero /dev/full /dev/stdout /dev/stderr /dev/stdin /dev/tty /dev/fd /dev/pts /dev/random /dev/urandom")

// disks are the beginnings of the names of block devices and memory below /dev.
var disks = strings.Fields("sd hd vd xvd nvme mmcblk mapper/ dm- md loop disk/ disk rdisk mem kmem port nvram ram zram nbd sr root bcache")

// accounts are the files that say who may do what.
var accounts = strings.Fields("/etc/passwd /etc/shadow /etc/group /etc/gshadow /etc/sudoers /etc/sudoers.d")

// base is a program's name without its folder.
func base(program string) string { return path.Base(program) }

// paths gives the absolute, clean paths that a value may name, one for each
// folder the shell may be in. Holes are kept; a path that may begin anywhere
// gives none.
func (sh *state) paths(v value) []string {
	out := sh.named(v)
	for i, p := range out {
		if p != "" {
			out[i] = sh.unalias(p)
		}
	}
	return out
}

// named gives the same paths as the system gets to see them.
func (sh *state) named(v value) []string {
	switch {
	case v.text == "":
		return []string{""}
	case strings.HasPrefix(v.text, hole):
		return nil
	case strings.HasPrefix(v.text, "/"):
		return []string{v.text}
	}
	var out []string
	for _, d := range sh.dirs {
		out = append(out, d+"/"+v.text)
	}
	return out
}

// unalias cleans a path and undoes the names that lead elsewhere: those below
// /proc/self, and links that the text itself made.
func (sh *state) unalias(p string) string {
	p = path.Clean(p)
	for range 4 {
		before := p
		if rest, ok := strings.CutPrefix(p, "/proc/"); ok {
			if _, rest, ok = strings.Cut(rest, "/"); ok && (rest == "root" || strings.HasPrefix(rest, "root/")) {
				p = path.Clean("/" + rest[4:])
			} else if ok && (rest == "cwd" || strings.HasPrefix(rest, "cwd/")) && len(sh.dirs) == 1 {
				p = path.Clean(sh.dirs[0] + "/" + rest[3:])
			}
		}
		for link, target := range sh.a.links {
			if p == link || strings.HasPrefix(p, link+"/") {
				p = path.Clean(target + p[len(link):])
				break
			}
		}
		if p == before {
			break
		}
	}
	return p
}

// below says that p is dir or inside it.
func below(p, dir string) bool {
	return dir != "" && (p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/"))
}

// pattern says that a path's last element is nothing but a pattern.
func pattern(elem string) bool {
	for elem != "" {
		if elem[0] == '[' {
			end := strings.IndexByte(elem, ']')
			if end < 0 {
				return false
			}
			elem = elem[end+1:]
			continue
		}
		if strings.IndexByte("*?.", elem[0]) < 0 {
			return false
		}
		elem = elem[1:]
	}
	return true
}

// placeOf says what a clean absolute path is. A pattern stands for the folder it
// looks into.
func (sh *state) placeOf(p string, glob bool) place {
	if dir, elem := path.Split(p); glob && strings.ContainsAny(elem, "*?[") {
		dir = path.Clean(dir)
		switch at := sh.placeOf(dir, false); {
		case dir == "/", pattern(elem) && (at == placeRoot || at == placeHomeRoot || at == placeGit):
			return at
		case pattern(elem) && at == placeWorkspace:
			return placeContents
		}
	}
	if i := strings.IndexByte(p, 0); i >= 0 {
		dir := path.Dir(p[:i] + "x")
		if at := sh.placeOf(dir, false); at != placeInside && at != placeWorkspace && at != placeTemporary {
			return placeUnknown
		}
		return placeInside
	}
	ws, home := sh.a.opt.Workspace, sh.a.opt.Home
	parts := strings.Split(strings.Trim(p, "/"), "/")
	switch {
	case p == "/", len(parts) == 1 && (slices.Contains(systemRoots, parts[0]) || slices.Contains(systemRoots, strings.TrimRight(parts[0], "*"))) && p != "/home":
		return placeRoot
	case p == "/home", p == "/Users", p == "/root", p == home, len(parts) == 2 && (parts[0] == "home" || parts[0] == "Users"):
		if p != ws {
			return placeHomeRoot
		}
		return placeWorkspace
	case below(ws, p):
		return placeWorkspace
	case path.Base(p) == ".git" && !below(p, "/tmp"):
		return placeGit
	case below(p, ws):
		return placeInside
	case below(p, "/tmp"), below(p, "/var/tmp"), below(p, "/dev/shm"):
		return placeTemporary
	case below(p, "/dev"):
		return device(p)
	case below(p, home), parts[0] == "home", parts[0] == "root", parts[0] == "Users":
		return placeHome
	case slices.Contains(systemRoots, parts[0]):
		return placeSystem
	}
	return placeOutside
}

func device(p string) place {
	for _, s := range sinks {
		if below(p, s) {
			return placeSink
		}
	}
	name := strings.TrimPrefix(p, "/dev/")
	for _, d := range disks {
		if strings.HasPrefix(name, d) {
			return placeDisk
		}
	}
	return placeDevice
}

// target is a clean absolute path as an effect's target.
func (a *analyser) target(p string) string {
	if strings.Contains(p, hole) {
		return "*"
	}
	if ws := a.opt.Workspace; below(p, ws) {
		return "ws:/" + strings.TrimPrefix(strings.TrimPrefix(p, strings.TrimSuffix(ws, "/")), "/")
	}
	return p
}

// use is what a command does to a path.
type use uint8

const (
	readsFile  use = iota + 1
	statsFile      // looks at names and metadata only
	statsLink      // looks at those of a link itself
	writesFile     // creates or changes
	deletesFile
	deletesTree
	opensTree // changes modes or owners of a whole tree
)

// touch judges one use of the places that a value may name.
func (sh *state) touch(u use, v value) {
	if u > statsLink && !sh.sink(v) {
		sh.a.changes = true
	}
	ps := sh.paths(v)
	if !sh.a.spend(8) || len(ps) == 0 {
		sh.touchUnknown(u, v)
		return
	}
	named := sh.named(v)
	for i, p := range ps {
		switch u {
		case readsFile, statsFile, statsLink:
			sh.read(u, p, v)
			at := named[i]
			if u == statsLink {
				at = at[:strings.LastIndexByte(at, '/')+1] // the way to it is followed
			}
			sh.visit(Read{Path: at, Glob: v.glob, Contents: u == readsFile})
		case writesFile:
			sh.write(p, v)
		default:
			sh.remove(u, p, v)
		}
	}
}

// sink says that nothing is kept of what is written to v.
func (sh *state) sink(v value) bool {
	if _, ok := sh.a.pipes[v.text]; ok {
		return true
	}
	return v.known() && !descriptor(path.Clean(v.text)) && strings.HasPrefix(v.text, "/") && sh.placeOf(path.Clean(v.text), false) == placeSink
}

// descriptor recognises the names of open files: to write to one is to open
// again whatever file it is, even if that was only opened to be read.
func descriptor(p string) bool {
	return p == "/dev/stdin" || (below(p, "/dev/fd") && p != "/dev/fd/1" && p != "/dev/fd/2")
}

func (sh *state) touchUnknown(u use, v value) {
	switch u {
	case readsFile:
		sh.a.changes = true // it may be anywhere, a secret included
		sh.a.effect(tool.VerbRead, "*")
	case statsFile, statsLink:
		sh.a.effect(tool.VerbRead, "*")
	case writesFile:
		sh.a.effect(tool.VerbWrite, "*")
	default:
		sh.a.effect(tool.VerbDelete, "*")
		sh.a.find("delete_unknown", show(v))
	}
}

func (sh *state) read(u use, p string, v value) {
	at := sh.placeOf(p, v.glob)
	sh.a.effect(tool.VerbRead, sh.a.target(p))
	if u != readsFile {
		return
	}
	if secrets.Match(p) {
		sh.a.find("secret", quote(p))
	}
	switch at {
	case placeInside, placeContents, placeWorkspace, placeGit, placeTemporary, placeSink:
		if strings.Contains(p, hole) || (at == placeWorkspace && p != sh.a.opt.Workspace) {
			sh.a.changes = true
		}
	default:
		if p != "" {
			sh.a.changes = true
		}
	}
}

func (sh *state) write(p string, v value) {
	at := sh.placeOf(p, v.glob)
	if at == placeSink {
		if descriptor(p) && !sh.sink(v) {
			sh.a.effect(tool.VerbWrite, "*")
		}
		return
	}
	sh.a.effect(tool.VerbWrite, sh.a.target(p))
	switch {
	case sh.socket(p):
	case at == placeDisk:
		sh.a.find("device_write", quote(p))
	case p == "/proc/sysrq-trigger":
		sh.a.find("kernel_trigger", quote(p))
	case slices.ContainsFunc(accounts, func(f string) bool { return below(p, f) }):
		sh.a.find("account_file", quote(p))
	case protected.Match(p):
		sh.a.find("protected_path", quote(p))
	case at == placeSystem, at == placeRoot, at == placeDevice, at == placeGit:
		sh.a.find("system_write", quote(p))
	case at == placeInside && strings.Contains(p, "/.git/"):
		sh.a.find("protected_path", quote(p))
	}
}

// socket judges a redirection to or from a name that bash makes a connection of.
func (sh *state) socket(p string) bool {
	if !strings.HasPrefix(p, "/dev/tcp/") && !strings.HasPrefix(p, "/dev/udp/") {
		return false
	}
	host, port, _ := strings.Cut(p[len("/dev/tcp/"):], "/")
	sh.connect(literal(host + ":" + port))
	sh.a.find("network_redirect", quote(p))
	return true
}

func (sh *state) remove(u use, p string, v value) {
	if all, ok := strings.CutSuffix(p, "/**"); ok && v.glob && u == deletesFile {
		u, p = deletesTree, all+"/*" // each file below
	}
	at := sh.placeOf(p, v.glob)
	if u != opensTree {
		sh.a.effect(tool.VerbDelete, sh.a.target(p))
	} else {
		sh.a.effect(tool.VerbWrite, sh.a.target(p))
	}
	tree, outside := "delete_root", "delete_outside"
	if u == opensTree {
		tree, outside = "open_root", "permissions"
	}
	switch at {
	case placeUnknown:
		sh.a.find("delete_unknown", show(v))
	case placeRoot, placeHomeRoot, placeGit, placeWorkspace:
		switch {
		case u == deletesFile:
			sh.a.find(outside, quote(p))
		case u == opensTree && (at == placeWorkspace || (at == placeRoot && p != "/")):
			if p != sh.a.opt.Workspace {
				sh.a.find(outside, quote(p))
			}
		case at == placeWorkspace && p != sh.a.opt.Workspace:
			sh.a.find(outside, quote(p))
		default:
			sh.a.find(tree, quote(p))
		}
	case placeContents:
		if u == deletesTree {
			sh.a.find("delete_workspace", show(v))
		}
	case placeDisk:
		sh.a.find("device_write", quote(p))
	case placeSystem, placeHome, placeOutside, placeDevice:
		sh.a.find(outside, quote(p))
	case placeInside:
		switch {
		case strings.Contains(p, hole) && u == deletesTree:
			sh.a.find("delete_unknown", show(v))
		case strings.Contains(p, "/.git/") && !strings.HasSuffix(p, ".lock"):
			sh.a.find("protected_path", quote(p))
		}
	}
}
