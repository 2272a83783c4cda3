package shell

import (
	"slices"
	"strings"
)

// finds judges find, whose expression is a language of its own.
func finds(sh *state, c *call) bool {
	starts, expr := findStarts(c.args)
	filtered, proven := false, true
	follows := slices.ContainsFunc(c.args[:len(c.args)-len(expr)], func(v value) bool { return v.is("-L") })
	for i := 0; i < len(expr); i++ {
		v := expr[i]
		name := v.text
		args := findArgs[name]
		switch {
		case !v.known(), v.text == "" || (v.text[0] != '-' && !v.is("(", ")", "!", ",")):
			proven = false
		case slices.Contains(findFilters, name):
			filtered = true
			i += args
		case name == "-exec", name == "-execdir", name == "-ok", name == "-okdir":
			end := i + 1
			for end < len(expr) && !expr[end].is(";") && (!expr[end].is("+") || !expr[end-1].is("{}")) {
				end++
			}
			sh.findExec(starts, expr[i+1:end], filtered)
			i = end
		case name == "-delete":
			for _, s := range starts {
				sh.deleteFound(s, filtered)
			}
		case name == "-follow":
			follows = true
		case name == "-files0-from":
			proven = false // the file names what is looked at
			i += args
		case name == "-fprint", name == "-fprint0", name == "-fls", name == "-fprintf":
			if i+1 < len(expr) {
				sh.touch(writesFile, expr[i+1])
			}
			i += args
			proven = false
		case args > 0 || slices.Contains(findFlags, name):
			i += args
		default:
			proven = false
		}
	}
	for _, s := range starts {
		proven = proven && !s.maybeOption()
		sh.touch(statsFile, s)
		if follows {
			sh.visitTree(s)
		}
	}
	return proven
}

var findFilters = strings.Fields("-name -iname -path -ipath -wholename -iwholename -regex -iregex -mtime -atime -ctime -mmin -amin -cmin -newer -anewer -cnewer -newermt -size -empty -user -group -uid -gid -perm -inum -links -samefile -lname -ilname -executable -readable -writable -nouser -nogroup -used -fstype")

var findFlags = strings.Fields("-print -print0 -ls -prune -quit -depth -d -xdev -mount -noleaf -daystart -true -false -not -a -and -o -or -empty -executable -readable -writable -nouser -nogroup -H -L -P ( ) ! , -ignore_readdir_race")

var findArgs = func() map[string]int {
	out := map[string]int{"-fprintf": 2}
	for _, n := range strings.Fields("-name -iname -path -ipath -wholename -iwholename -regex -iregex -mtime -atime -ctime -mmin -amin -cmin -newer -anewer -cnewer -newermt -size -user -group -uid -gid -perm -inum -links -samefile -lname -ilname -used -fstype -type -xtype -maxdepth -mindepth -printf -fprint -fprint0 -fls -regextype -files0-from") {
		out[n] = 1
	}
	return out
}()

func findStarts(args []value) (starts, expr []value) {
	i := 0
	for i < len(args) && args[i].is("-H", "-L", "-P", "--") {
		i++
	}
	first := i
	for i < len(args) && !strings.HasPrefix(args[i].text, "-") && !args[i].is("(", "!", ")", ",") {
		i++
	}
	if starts = args[first:i]; len(starts) == 0 {
		starts = []value{literal(".")}
	}
	return starts, args[i:]
}

// found is what find prints: everything below its starts, or some of it.
func (sh *state) found(args []value) value {
	starts, expr := findStarts(args)
	if len(starts) != 1 {
		return unknown
	}
	return foundBelow(starts[0], slices.ContainsFunc(expr, func(v value) bool { return slices.Contains(findFilters, v.text) }))
}

// foundBelow stands for the paths that find gives.
func foundBelow(start value, filtered bool) value {
	dir := strings.TrimSuffix(start.text, "/") + "/"
	if filtered {
		return value{text: dir + hole}
	}
	return value{text: dir + "**", glob: true}
}

func (sh *state) deleteFound(start value, filtered bool) {
	if filtered {
		sh.touch(deletesFile, foundBelow(start, true))
		return
	}
	sh.touch(deletesTree, start)
}

func (sh *state) findExec(starts, argv []value, filtered bool) {
	for _, s := range starts {
		found := foundBelow(s, filtered)
		out := make([]value, len(argv))
		for i, v := range argv {
			out[i] = v
			if strings.Contains(v.text, "{}") {
				out[i] = value{text: strings.ReplaceAll(v.text, "{}", found.text), glob: found.glob}.capped()
			}
		}
		sh.fork().run(out, nil)
	}
}
