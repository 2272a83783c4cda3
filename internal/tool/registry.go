package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// Registry holds the tools by name. It is filled at start and then only read.
type Registry struct {
	tools    map[string]Tool
	names    []string // sorted
	revision string
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// NewRegistry makes a registry of the given tools. A bad or repeated name, a
// missing schema or a missing time limit is an error: those are our own bugs.
func NewRegistry(tools ...Tool) (*Registry, error) {
	r := &Registry{tools: make(map[string]Tool, len(tools))}
	for _, t := range tools {
		s := t.Spec()
		switch {
		case !namePattern.MatchString(s.Name):
			return nil, fmt.Errorf("tool name %q: want %s", s.Name, namePattern)
		case r.tools[s.Name] != nil:
			return nil, fmt.Errorf("tool %s is registered twice", s.Name)
		case len(s.InputSchema) == 0:
			return nil, fmt.Errorf("tool %s has no input schema", s.Name)
		case s.DefaultTimeout <= 0 || s.MaxTimeout < s.DefaultTimeout:
			return nil, fmt.Errorf("tool %s: want 0 < DefaultTimeout <= MaxTimeout", s.Name)
		}
		r.tools[s.Name] = t
		r.names = append(r.names, s.Name)
	}
	sort.Strings(r.names)
	h := sha256.New()
	for _, s := range r.Specs() {
		_, _ = fmt.Fprintf(h, "%q %q %q %q %s\n", s.Name, s.Version, s.Description, s.UsageGuidance, s.InputSchema)
	}
	r.revision = hex.EncodeToString(h.Sum(nil))[:16]
	return r, nil
}

// Lookup finds a tool by its exact name.
func (r *Registry) Lookup(name string) (Tool, bool) {
	t, ok := r.tools[name]
	return t, ok
}

// Specs lists all tools by name.
func (r *Registry) Specs() []Spec {
	out := make([]Spec, 0, len(r.names))
	for _, n := range r.names {
		out = append(out, r.tools[n].Spec())
	}
	return out
}

// Revision is a digest of every definition, stable across runs of one build:
// 16 hex digits. A cached prompt made of another revision is stale.
func (r *Registry) Revision() string { return r.revision }

// Nearest gives up to three names close to an unknown one (edit distance of at
// most two or a third of its length, or one contains the other), closest first.
func (r *Registry) Nearest(name string) []string { return Nearest(name, r.names) }

// Nearest is the same among any names.
func Nearest(name string, names []string) []string {
	if len(name) > 128 {
		return nil
	}
	type near struct {
		name string
		d    int
	}
	var found []near
	low := strings.ToLower(name)
	for _, n := range names {
		d := distance(low, strings.ToLower(n))
		if len(low) >= 3 && (strings.Contains(low, strings.ToLower(n)) || strings.Contains(strings.ToLower(n), low)) {
			d = min(d, 1)
		}
		if d <= max(2, len(name)/3) {
			found = append(found, near{n, d})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return a.d - b.d })
	var out []string
	for _, f := range found[:min(3, len(found))] {
		out = append(out, f.name)
	}
	return out
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		prev := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			prev, row[j] = row[j], min(row[j]+1, row[j-1]+1, prev+cost)
		}
	}
	return row[len(b)]
}
