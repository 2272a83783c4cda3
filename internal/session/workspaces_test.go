package session_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold/toold/internal/session"
	"github.com/toold/toold/internal/tool"
)

func TestWorkspaces(t *testing.T) {
	for _, c := range []struct {
		name, standard string
		ids            []string
		bad            bool
	}{
		{"none", "", nil, false},
		{"the only one", "a", []string{"a"}, false},
		{"the one that is named so", "default", []string{"b", "default", "a"}, false},
		{"several, and none is the default", "", []string{"b", "a"}, false},
		{"one twice", "", []string{"a", "a"}, true},
	} {
		var open []*tool.Workspace
		for _, id := range c.ids {
			w, err := tool.OpenWorkspace(id, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, w)
		}
		all, err := session.NewWorkspaces(open...)
		if c.bad {
			if err == nil {
				t.Errorf("%s: no error", c.name)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if all.Default() != c.standard {
			t.Errorf("%s: the default is %q, want %q", c.name, all.Default(), c.standard)
		}
		w, err := all.Get("")
		if got := err == nil && w.ID() == c.standard; got != (c.standard != "") {
			t.Errorf("%s: the workspace of a call that names none: %v", c.name, err)
		}
		if _, err := all.Get("nowhere"); err == nil {
			t.Errorf("%s: there is no such workspace", c.name)
		}
		for _, id := range all.List() {
			if w, err := all.Get(id); err != nil || w.ID() != id {
				t.Errorf("%s: %s: %v", c.name, id, err)
			}
		}
		if c.name == "several, and none is the default" {
			if diff := cmp.Diff([]string{"a", "b"}, all.List()); diff != "" {
				t.Error(diff)
			}
		}
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	}
}
