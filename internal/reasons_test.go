package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var reasonWord = regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`)

// TestEveryReasonIsInTheManual finds the reasons of statuses and outcomes in the
// source (constants named for one, fields called Reason, and arguments of the
// functions that make errors) and looks for each in docs/errors.md.
func TestEveryReasonIsInTheManual(t *testing.T) {
	manual, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.name(), "internal/") || strings.HasPrefix(p.name(), "internal/store") {
			continue
		}
		for _, file := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				for _, e := range reasonsIn(n) {
					if word := literal(e); reasonWord.MatchString(word) {
						found[word] = p.name() + "/" + file
					}
				}
				return true
			})
		}
	}
	if len(found) < 50 {
		t.Errorf("only %d reasons were found: the search is broken", len(found))
	}
	for _, word := range slices.Sorted(maps.Keys(found)) {
		if !strings.Contains(string(manual), "`"+word+"`") {
			t.Errorf("docs/errors.md does not say what to do about %s (%s)", word, found[word])
		}
	}
}

// reasonsIn gives the expressions in n that may be reasons.
func reasonsIn(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.ValueSpec:
		if len(n.Names) > 0 && regexp.MustCompile(`^(R|r)eason[A-Z]`).MatchString(n.Names[0].Name) {
			return n.Values
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Reason" || key.Name == "ReasonCode") {
			return []ast.Expr{n.Value}
		}
	case *ast.CompositeLit:
		if kind, ok := n.Type.(*ast.Ident); ok && kind.Name == "stop" {
			return n.Elts
		}
	case *ast.CallExpr:
		switch name(n.Fun) {
		case "BadArgument", "Fail", "invalid", "skipped", "refuse":
			return n.Args
		}
	}
	return nil
}

func name(fun ast.Expr) string {
	switch f := fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		s, _ := strconv.Unquote(l.Value)
		return s
	}
	return ""
}
