package policy

import (
	"errors"
	"reflect"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/toold/toold/internal/tool"
)

// known says which keys there are where err met one that there is not.
func (f File) known(err error) string {
	var unknown *yaml.UnknownFieldError
	if !errors.As(err, &unknown) {
		return ""
	}
	file, err := parser.ParseBytes(f.Data, 0)
	if err != nil {
		return ""
	}
	at := unknown.Token.Position
	finder := keyFinder{line: at.Line, column: at.Column}
	for _, doc := range file.Docs {
		ast.Walk(&finder, doc)
	}
	i := strings.LastIndexByte(finder.path, '.')
	if i < 0 {
		return ""
	}
	keys := keysAt(finder.path[:i])
	return meant(unknown.Token.Value, keys) + "; known here: " + strings.Join(keys, ", ")
}

// keyFinder finds the path of the key at a place.
type keyFinder struct {
	line, column int
	path         string
}

// Visit implements ast.Visitor.
func (k *keyFinder) Visit(n ast.Node) ast.Visitor {
	if v, ok := n.(*ast.MappingValueNode); ok {
		if at := v.Key.GetToken().Position; at.Line == k.line && at.Column == k.column {
			k.path = v.GetPath()
		}
	}
	return k
}

var listIndex = regexp.MustCompile(`\[\d+\]`)

// keysAt gives the keys that a document has at a path, such as "$.rules[0].match".
func keysAt(path string) (keys []string) {
	t := reflect.TypeFor[document]()
	for part := range strings.SplitSeq(listIndex.ReplaceAllString(path, ""), ".") {
		for i := range t.NumField() {
			if t.Field(i).Tag.Get("yaml") == part {
				if t = t.Field(i).Type; t.Kind() == reflect.Slice {
					t = t.Elem()
				}
				break
			}
		}
	}
	for i := range t.NumField() {
		keys = append(keys, t.Field(i).Tag.Get("yaml"))
	}
	return keys
}

// meant is the name that was probably meant, as the end of a sentence.
func meant(name string, names []string) string {
	if near := tool.Nearest(name, names); len(near) > 0 {
		return "; did you mean " + near[0] + "?"
	}
	return ""
}
