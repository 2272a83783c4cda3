package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toold/toold/internal/session"
	"github.com/toold/toold/internal/tool"
)

// openWorkspaces opens what is configured, else the current folder. The data
// folder and the policy are inside none of them: an agent could write there.
func openWorkspaces(c Config, data *dataDir) (_ *session.Workspaces, err error) {
	chosen := c.Workspaces
	if len(chosen) == 0 {
		here, err := implicitWorkspace(data.path)
		if err != nil {
			return nil, err
		}
		chosen = map[string]string{defaultWorkspace: here}
	}
	var all []*tool.Workspace
	defer func() {
		if err != nil {
			for _, w := range all {
				err = errors.Join(err, w.Close())
			}
		}
	}()
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(chosen)) {
		w, err := openWorkspace(name, chosen[name], c, data, all)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		all = append(all, w)
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return session.NewWorkspaces(all...)
}

// openWorkspace opens one that is apart from the data, the policy and the others.
func openWorkspace(name, path string, c Config, data *dataDir, others []*tool.Workspace) (_ *tool.Workspace, err error) {
	if path, err = absolute(path); err != nil {
		return nil, fmt.Errorf("workspace %s: %w", name, err)
	}
	w, err := tool.OpenWorkspace(name, path)
	if err != nil {
		return nil, fmt.Errorf("%w; give --workspace an existing folder", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	if holds(w.Dir(), data.path) {
		return nil, fmt.Errorf("workspace %s, %s, holds the data folder %s, which calls must not touch; choose another --data-dir or workspace", name, w.Dir(), data.path)
	}
	for _, other := range others {
		if same(w.Dir(), other.Dir()) {
			return nil, fmt.Errorf("workspaces %s and %s are both the folder %s; give it one name: a workspace has one writer at a time, and two names would have two", other.ID(), name, w.Dir())
		}
	}
	return w, outside(c.Policy, w)
}

// same reports whether two paths are one folder, mounted twice included.
func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// implicitWorkspace is the current folder, unless it is one that nobody wants to
// give away unasked.
func implicitWorkspace(data string) (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the current folder: %w; give --workspace PATH", err)
	}
	if here, err = filepath.EvalSymlinks(here); err != nil {
		return "", fmt.Errorf("finding the current folder: %w; give --workspace PATH", err)
	}
	home, err := os.UserHomeDir()
	if err == nil {
		if resolved, err := filepath.EvalSymlinks(home); err == nil {
			home = resolved
		}
	}
	why := ""
	switch {
	case here == "/":
		why = "the root of the file system"
	case here == home:
		why = "your home folder"
	case holds(here, home):
		why = "a folder that holds your home folder"
	case holds(here, data):
		why = "a folder that holds toold's own data"
	default:
		return here, nil
	}
	return "", fmt.Errorf("the current folder, %s, is %s, which calls should not touch unasked; say which folder they may: toold --workspace PATH", here, why)
}

// holds reports whether dir is path or above it. Both are absolute and resolved.
func holds(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// outside refuses a policy file that calls could write.
func outside(policy string, w *tool.Workspace) error {
	if policy == "" {
		return nil
	}
	path, err := absolute(policy)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return fmt.Errorf("finding the policy file: %w", err)
	}
	if holds(w.Dir(), path) {
		return fmt.Errorf("the policy file %s is inside workspace %s, where calls could change it; keep it elsewhere", path, w.ID())
	}
	return nil
}
