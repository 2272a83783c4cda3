package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold/toold/internal/policy/shell"
	"github.com/toold/toold/internal/tool"
)

// analysed judges command lines as the daemon does.
var analysed = Options{
	Analyse: func(text, dir, workspace string) Analysis {
		a := shell.Analyse(text, shell.Options{Dir: dir, Workspace: workspace})
		reads := make([]Read, len(a.Reads))
		for i, r := range a.Reads {
			reads[i] = Read(r)
		}
		return Analysis{Class: a.Class, Effects: a.Effects, Commands: a.Commands, Findings: a.Findings, Reads: reads}
	},
	Secret: shell.Secret,
}

// linked is a workspace beside a folder that calls must not reach.
//
//	outside/{passwd,id_rsa}  ws/{plain,.env}  ws/sub/deep/inner  ws/clean/a
//	ws/{key,key3} → ../outside/id_rsa   ws/dir → outside   ws/sub/up → ../dir
//	ws/in → sub/deep   ws/env → .env   ws/loop → loop   ws/gone → /nowhere/x
func linked(t *testing.T) (w *tool.Workspace, outside string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"outside/passwd", "outside/id_rsa", "ws/plain", "ws/.env", "ws/sub/deep/inner", "ws/sub/inner", "ws/clean/a", "ws/clean/b/c"} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"key": "../outside/id_rsa", "key3": root + "/outside/id_rsa", "dir": root + "/outside", "sub/up": "../dir",
		"in": "sub/deep", "env": ".env", "loop": "loop", "gone": "/nowhere/x", "a=b": "../outside/passwd",
	} {
		if err := os.Symlink(to, filepath.Join(root, "ws", link)); err != nil {
			t.Fatal(err)
		}
	}
	if w, err = tool.OpenWorkspace("default", filepath.Join(root, "ws")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w, filepath.Join(root, "outside")
}

func TestALinkThatLeavesTheWorkspaceIsNoRead(t *testing.T) {
	w, outside := linked(t)
	for _, tc := range []struct {
		to    string // where it leads, below outside
		lines []string
	}{
		{"/id_rsa", []string{
			`cat key`, `cat key3`, `cat ./key`, `cat sub/../key`, `cat "$PWD/key"`, `cat < key3`, `wc -l < key`, `cat *3`, `cat ke?`, `cat k[e]y`, `cat KEY* || cat k*`, `grep "" key3`, `grep -r "" key`, `grep -e "" key`, `grep -e "" -- key`,
			`head -c 30 key`, `echo "$(<key)"`, `read x < key; echo "$x"`, `for f in k*; do cat "$f"; done`, `cat {plain,key}`, `sed -n p key`, `sed -n -e p key`, `awk 1 key`, `diff plain key`, `cat plain | cat - key`,
			`ls; cd sub && cat ../key`, `xargs cat <<< key`, `cat <(cat key)`, `man ./key`, `jq -R . key`, `find . -exec cat {} +`, `find . | xargs cat`, `cat $(find .)`, `cat ./**/key`, `tail -n +1 -- key`, `cd in && cat ../../key`,
		}},
		{"/passwd", []string{`head -1 dir/passwd`, `cat */passwd`, `cat sub/up/passwd`, `cat */up/passwd`, `cd dir && cat passwd`, `cd sub; cd up; cat passwd`, `cat in/../up/passwd`, `cat dir/../outside/passwd`, `awk 1 ./a=b`, `for d in */; do cat "${d}passwd"; done`, `git diff --no-index plain dir/passwd`, `git grep --no-index x -- dir/passwd`}},
		{"", []string{`ls dir`, `cd dir && ls`, `cd dir; rg x`, `git -C dir status`, `env -C dir ls`, `grep -r x dir`, `grep -r x *`, `rg x dir`, `find dir -name x`, `ls *`, `tree dir/`, `du -s dir/.`}},
		{"", []string{`grep -R x .`, `grep -R x`, `grep -nR x sub`, `grep --dereference-recursive x .`, `find -L .`, `find . -follow -name x`, `ls -LR`, `ls -RL sub`, `rg -L x`, `rg --follow x .`, `fd -L x`, `tree -l`, `du -L`, `du -sL sub`, `diff -r sub clean`, `grep -R x in/..`}},
	} {
		for _, line := range tc.lines {
			a, err := prepared(t, analysed, w, map[string]any{"command": line})
			if err != nil {
				t.Fatal(err)
			}
			if want := (tool.Effect{Verb: tool.VerbRead, Target: outside + tc.to}); a.Class != tool.SystemChange || !slices.Contains(a.Effects, want) {
				t.Errorf("%s: %s %v; want SYSTEM_CHANGE that does %v", line, a.Class, a.Effects, want)
			}
			if !slices.Contains(a.Effects, tool.Effect{Verb: tool.VerbUnknown, Target: "*"}) {
				t.Errorf("%s: no unknown effect", line)
			}
		}
	}
}

func TestALinkThatCannotBeFollowedIsNoRead(t *testing.T) {
	w, _ := linked(t)
	if err := os.Mkdir(filepath.Join(w.Dir(), "many"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range maxMatches + 1 {
		if err := os.WriteFile(filepath.Join(w.Dir(), "many", fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tmp, err := os.MkdirTemp("/tmp", "reads") // TempDir may be elsewhere
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	if err := os.Symlink("/etc/passwd", filepath.Join(tmp, "link")); err != nil {
		t.Fatal(err)
	}
	for line, target := range map[string]string{
		`cat loop`:             "ws:/loop",
		`cat gone`:             "/nowhere/x",
		`cat many/*`:           "ws:/many/*",
		`cat ` + tmp + `/link`: "/etc/passwd",
		`cat ` + tmp + `/l*`:   tmp + "/l*",
	} {
		a, err := prepared(t, analysed, w, map[string]any{"command": line})
		if err != nil {
			t.Fatal(err)
		}
		if want := (tool.Effect{Verb: tool.VerbRead, Target: target}); a.Class != tool.SystemChange || !slices.Contains(a.Effects, want) {
			t.Errorf("%s: %s %v; want SYSTEM_CHANGE that does %v", line, a.Class, a.Effects, want)
		}
	}
}

func TestALinkInsideStaysARead(t *testing.T) {
	w, _ := linked(t)
	for line, targets := range map[string]string{
		`cat plain`:                        "ws:/plain",
		`cat in/inner`:                     "ws:/in/inner ws:/sub/deep/inner",
		`cat in/../inner`:                  "ws:/inner ws:/sub/inner",
		`cat i*/inner`:                     "ws:/i*/inner ws:/sub/deep/inner",
		`cat pl*`:                          "ws:/pl* ws:/plain",
		`cat "$PWD"/in/inner`:              "ws:/in/inner ws:/sub/deep/inner",
		`cd in && cat inner`:               "ws:/in/inner ws:/sub/deep ws:/sub/deep/inner",
		`cd in && cat ../inner`:            "ws:/inner ws:/sub/deep ws:/sub/inner",
		`cat missing`:                      "ws:/missing",
		`cat nothing*`:                     "ws:/nothing*",
		`grep -r x .`:                      "ws:/",
		`grep -R x clean`:                  "ws:/clean",
		`find -L clean`:                    "ws:/clean",
		`find . -name x`:                   "ws:/",
		`ls -la`:                           "",
		`rg x`:                             "",
		`readlink key`:                     "ws:/key",
		`stat -c %N dir`:                   "ws:/dir",
		`diff -r clean/b clean`:            "ws:/clean ws:/clean/b",
		`find clean -type f | xargs wc`:    "ws:/clean ws:/clean/**",
		`cat /dev/null clean/a`:            "/dev/null ws:/clean/a",
		`echo key; printf '%s' dir/passwd`: "",
	} {
		a, err := prepared(t, analysed, w, map[string]any{"command": line})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range a.Effects {
			if e.Verb == tool.VerbRead {
				got = append(got, e.Target)
			}
		}
		slices.Sort(got)
		if d := cmp.Diff(targets, strings.Join(got, " ")); a.Class != tool.ReadOnly || d != "" {
			t.Errorf("%s: %s (-want +got)\n%s", line, a.Class, d)
		}
	}
}

func TestASecretIsFoundWhateverItIsCalled(t *testing.T) {
	w, _ := linked(t)
	for line, want := range map[string]bool{
		`cat .env`: true, `cat .en?`: true, `cat .e*`: true, `cat env`: true, `cat key`: true, `touch x; cat key3`: true, `find . | xargs cat`: true,
		`ls -la .en?`: false, `ls -l env`: false, `cat plain`: false, `cat pl*`: false,
	} {
		a, err := prepared(t, analysed, w, map[string]any{"command": line})
		if err != nil {
			t.Fatal(err)
		}
		got := slices.ContainsFunc(a.Findings, func(f tool.Finding) bool { return f.Code == "command.dangerous.secret" })
		if got != want || (got && a.Class != tool.SystemChange) {
			t.Errorf("%s: a secret was found: %t, want %t (%s)", line, got, want, a.Class)
		}
	}
}

func TestALinkIsFollowedAgainBeforeTheCommandStarts(t *testing.T) {
	w, outside := linked(t)
	a, err := prepared(t, analysed, w, map[string]any{"command": "cat plain"})
	if err != nil || a.Class != tool.ReadOnly {
		t.Fatal(a.Class, err)
	}
	plain := filepath.Join(w.Dir(), "plain")
	if err := errors.Join(os.Remove(plain), os.Symlink(outside+"/id_rsa", plain)); err != nil {
		t.Fatal(err)
	}
	out := &recorder{}
	_, err = a.Do(t.Context(), out)
	if f := (*tool.Failure)(nil); !errors.As(err, &f) || f.Reason != tool.ReasonEffectChanged || out.out.Len() > 0 {
		t.Errorf("it ran: %v, %q", err, out.out.String())
	}
}

func BenchmarkLook(b *testing.B) {
	w, err := tool.OpenWorkspace("default", b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(w.Dir(), fmt.Sprintf("%d.go", i)), nil, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for _, line := range []string{"cat 1.go", "wc -l *.go", "grep -R x ."} {
		b.Run(line, func(b *testing.B) {
			found := analysed.Analyse(line, w.Dir(), w.Dir())
			for b.Loop() {
				look(analysed, w, found)
			}
		})
	}
}
