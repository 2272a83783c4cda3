package internal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/toold/toold/"

// imports says which packages of this module each one may import: imports only
// point down. An edge that is not here is a change of the design; make it on
// purpose (ARCHITECTURE.md), not to fix a build. "x/..." is x and what is below.
var imports = map[string][]string{
	"proto/toold/v1": nil,
	"client":         {"proto/toold/v1"},

	"internal/tool":               nil,
	"internal/schema":             {"internal/tool"},
	"internal/budget":             {"internal/tool"},
	"internal/policy/shell":       {"internal/tool"},
	"internal/policy":             {"internal/policy/shell", "internal/tool"},
	"internal/audit":              {"internal/tool"},
	"internal/session":            {"internal/audit", "internal/policy", "internal/tool"},
	"internal/artifact":           {"internal/budget", "internal/tool"},
	"internal/sandbox/supervisor": nil,
	"internal/sandbox":            {"internal/sandbox/supervisor", "internal/tool"},
	"internal/exec":               {"internal/artifact", "internal/audit", "internal/budget", "internal/policy", "internal/schema", "internal/session", "internal/tool"},
	"internal/server":             {"internal/artifact", "internal/audit", "internal/budget", "internal/exec", "internal/session", "internal/tool", "proto/toold/v1"},

	"internal/tools/file":     {"internal/schema", "internal/tool"},
	"internal/tools/command":  {"internal/sandbox", "internal/schema", "internal/tool"},
	"internal/tools/schedule": {"internal/schema", "internal/tool"},

	"internal/store/postgres":  {"internal/audit", "internal/session", "internal/tool"},
	"internal/store/sqlite":    {"internal/audit", "internal/session", "internal/tool"},
	"internal/store/storetest": {"internal/audit", "internal/session", "internal/tool"},
	"internal/pgtest":          nil,

	"cmd/toold":                      {"internal/..."},
	"cmd/toolctl":                    {"client", "cmd/toolctl/internal/...", "proto/toold/v1"},
	"cmd/toolctl/internal/batchfile": {"proto/toold/v1"},
	"cmd/toolctl/internal/term":      nil,
	"cmd/toolctl/internal/typed":     {"cmd/toolctl/internal/batchfile"},

	"bench": {"client", "internal/...", "proto/toold/v1"},
}

// outside says which packages may import a part of the world outside, by the
// beginning of its import path.
var outside = []struct {
	prefix string
	only   []string
	why    string
}{
	{"google.golang.org/grpc", []string{"internal/server", "cmd/...", "client", "proto/...", "bench"}, "gRPC stops at the edge"},
	{"google.golang.org/protobuf", []string{"internal/server", "cmd/...", "client", "proto/...", "bench"}, "protocol buffers stop at the edge"},
	{"google.golang.org/genproto", []string{"internal/server", "cmd/...", "client", "bench"}, "statuses are made at the edge"},
	{"buf.build/", []string{"internal/server", "proto/..."}, "field rules are the edge's"},
	{"github.com/jackc/pgx", []string{"internal/store/postgres", "internal/pgtest", "bench"}, "Postgres is one store's"},
	{"modernc.org/sqlite", []string{"internal/store/sqlite", "bench"}, "SQLite is one store's"},
	{"database/sql", []string{"internal/store/...", "internal/pgtest", "bench"}, "SQL is the stores'"},
	{"github.com/spf13/", []string{"cmd/..."}, "flags are read in cmd"},
	{"go.opentelemetry.io/otel/sdk", []string{"cmd/...", "bench"}, "the telemetry that is used is chosen in cmd"},
	{"github.com/prometheus/", []string{"cmd/...", "bench"}, "the telemetry that is used is chosen in cmd"},
	{"mvdan.cc/sh", []string{"internal/policy/shell"}, "one package reads command lines"},
	{"os/exec", []string{"internal/sandbox/...", "internal/pgtest", "cmd/toolctl", "bench"}, "processes are started in the sandbox"},
}

// pkg is what go list says of a package.
type pkg struct {
	ImportPath, Dir string
	GoFiles         []string
	Imports         []string
}

func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, module) }

func packages(t *testing.T) []pkg {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,GoFiles,Imports", module+"...")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// covers reports whether a list names a package.
func covers(list []string, name string) bool {
	return slices.ContainsFunc(list, func(l string) bool {
		above, all := strings.CutSuffix(l, "/...")
		return l == name || (all && (name == above || strings.HasPrefix(name, above+"/")))
	})
}

func TestImportsOnlyPointDown(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 { // tests only
			continue
		}
		seen[p.name()] = true
		allowed, known := imports[p.name()]
		if !known {
			t.Errorf("%s is not in the table of imports: say there what it may import", p.name())
			continue
		}
		for _, path := range p.Imports {
			if to, ours := strings.CutPrefix(path, module); ours && !covers(allowed, to) {
				t.Errorf("%s imports %s", p.name(), to)
			}
			for _, o := range outside {
				if strings.HasPrefix(path, o.prefix) && !covers(o.only, p.name()) {
					t.Errorf("%s imports %s: %s", p.name(), path, o.why)
				}
			}
		}
	}
	for name := range imports {
		if !seen[name] {
			t.Errorf("%s is in the table of imports, but not in the module", name)
		}
	}
}

func TestTheVocabularyNeedsTheStandardLibraryOnly(t *testing.T) {
	for _, p := range packages(t) {
		if p.name() != "internal/tool" {
			continue
		}
		for _, path := range p.Imports {
			if strings.Contains(strings.Split(path, "/")[0], ".") {
				t.Errorf("internal/tool imports %s", path)
			}
		}
	}
}

// TestActionsRunInOnePlace finds each mention of an action's Do: a selection of
// that name in a file that knows of tools, unless it is called with one argument
// as a sync.Once is.
func TestActionsRunInOnePlace(t *testing.T) {
	var places []string
	for _, p := range packages(t) {
		for _, file := range p.GoFiles {
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			knows := p.name() == "internal/tool" || slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool {
				return i.Path.Value == `"`+module+`internal/tool"`
			})
			if (!knows && p.name() != "internal/exec") || p.name() == "internal/policy/shell" { // whose loops have a Do, too
				continue
			}
			once := map[ast.Node]bool{}
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 1 {
					once[call.Fun] = true
				}
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Do" && !once[s] {
					places = append(places, p.name()+"/"+file)
				}
				return true
			})
		}
	}
	if len(places) != 1 || !strings.HasPrefix(places[0], "internal/exec/") {
		t.Errorf("actions are run in %v; want one place, in internal/exec", places)
	}
}
