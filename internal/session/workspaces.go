package session

import (
	"fmt"
	"maps"
	"slices"

	"github.com/toold/toold/internal/tool"
)

// DefaultWorkspace is the name of the workspace that calls get when they name
// none.
const DefaultWorkspace = "default"

// Workspaces are the folders of the deployment by name. They do not change while
// the daemon runs.
type Workspaces struct {
	byName   map[string]*tool.Workspace
	standard string
}

// NewWorkspaces takes workspaces by their ids. The default one is the one that is
// named so, or the only one.
func NewWorkspaces(all ...*tool.Workspace) (*Workspaces, error) {
	w := &Workspaces{byName: make(map[string]*tool.Workspace, len(all))}
	for _, ws := range all {
		if w.byName[ws.ID()] != nil {
			return nil, fmt.Errorf("workspace %s is given twice", ws.ID())
		}
		w.byName[ws.ID()] = ws
	}
	switch {
	case w.byName[DefaultWorkspace] != nil:
		w.standard = DefaultWorkspace
	case len(all) == 1:
		w.standard = all[0].ID()
	}
	return w, nil
}

// Get finds a workspace; an empty name is the default one.
func (w *Workspaces) Get(name string) (*tool.Workspace, error) {
	if name == "" {
		name = w.standard
	}
	if ws := w.byName[name]; ws != nil {
		return ws, nil
	}
	if name == "" {
		return nil, fmt.Errorf("no workspace is named %s: name one", DefaultWorkspace)
	}
	return nil, fmt.Errorf("no workspace %q", name)
}

// Default is the name of the default workspace, empty if there is none.
func (w *Workspaces) Default() string { return w.standard }

// List gives all names, sorted.
func (w *Workspaces) List() []string { return slices.Sorted(maps.Keys(w.byName)) }

// Close releases all folders.
func (w *Workspaces) Close() error {
	var first error
	for _, ws := range w.byName {
		if err := ws.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
