package shell

import (
	"path"
	"slices"
	"strings"
)

// Read is a place that a text reads by its name.
type Read struct {
	// Path is absolute and neither cleaned nor resolved: what ".." means depends
	// on the links before it.
	Path string
	// Glob says that *, ? and [ in Path are patterns, and that ** is any number of
	// folders.
	Glob bool
	// Tree says that all below is read too, through the links that are met there.
	Tree bool
	// Contents says that what is in the file is read, not only names and metadata.
	Contents bool
}

// visit notes a read. Of names and metadata it notes only those in the workspace:
// elsewhere they are no secret.
func (sh *state) visit(r Read) {
	p := sh.unalias(r.Path)
	if r.Path == "" || strings.Contains(p, hole) || (!r.Contents && !below(p, sh.a.opt.Workspace)) || sh.placeOf(p, r.Glob) == placeSink {
		return
	}
	if p != path.Clean(r.Path) { // /proc/self/cwd and the like
		sh.a.changes = sh.a.changes || strings.Contains(r.Path+"/", "/../")
		r.Path = p
	}
	if slices.Contains(sh.a.reads, r) {
		return
	}
	if len(sh.a.reads) >= maxEffects || !sh.a.spend(1+len(sh.a.reads)/8) {
		sh.a.changes = true
		return
	}
	sh.a.reads = append(sh.a.reads, r)
}

// visitTree notes that everything below a place is read, links followed.
func (sh *state) visitTree(v value) {
	for _, p := range sh.named(v) {
		sh.visit(Read{Path: p, Glob: v.glob, Tree: true})
	}
}

// followers are the readers that follow the links that they meet below their
// operands, by the options that make them; none = always.
var followers = map[string][]string{
	"grep": {"-R", "--dereference-recursive"}, "egrep": {"-R"}, "fgrep": {"-R"},
	"rg": {"-L", "--follow"}, "fd": {"-L", "--follow"}, "fdfind": {"-L", "--follow"},
	"ls": {"-L", "--dereference"}, "tree": {"-l"}, "du": {"-L"},
	"diff": nil, "sdiff": nil, "gofmt": nil, "goimports": nil,
}

// followed notes what a command reads through links below its operands.
func (sh *state) followed(c *call) {
	options, ok := followers[c.name]
	if !ok || (options != nil && !c.p.has(options...)) {
		return
	}
	if len(c.p.operands) < len(models[c.name].operands) { // none, or only a pattern
		sh.visitTree(literal("."))
	}
	for _, v := range c.p.operands {
		sh.visitTree(v)
	}
}

// physical gives the folders that a program goes to when it is told to, as the
// system sees them: ".." after a name, or after a link that the shell went
// through, leads to where only the links can say.
func (sh *state) physical(v value) []string {
	rest := v.text
	for rest == ".." || strings.HasPrefix(rest, "../") {
		rest = strings.TrimPrefix(rest[2:], "/")
	}
	moved := len(sh.dirs) != 1 || sh.dirs[0] != sh.a.opt.Dir
	if strings.Contains("/"+rest+"/", "/../") || (moved && rest != v.text) {
		return nil
	}
	return sh.paths(v)
}
