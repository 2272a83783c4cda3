package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"time"
)

// example is a configuration file with every key, its meaning and its default.
func example() string {
	var b strings.Builder
	b.WriteString("# Configuration of toold. Every key is optional; what is here is the default.\n")
	walkConfig(reflect.ValueOf(defaults()), func(k configKey) {
		indent := strings.Repeat("  ", strings.Count(k.path, "."))
		b.WriteByte('\n')
		for line := range strings.Lines(k.doc) {
			fmt.Fprintf(&b, "%s# %s\n", indent, strings.TrimSpace(line))
		}
		fmt.Fprintf(&b, "%s%s:%s\n", indent, k.name, prefixed(k.value))
	})
	return b.String()
}

func prefixed(value string) string {
	if value == "" {
		return ""
	}
	return " " + value
}

// configuration is docs/configuration.md.
func configuration() string {
	var b strings.Builder
	b.WriteString(`# Configuration

Everything has a default: ` + "`toold`" + ` alone is a complete command. A value comes from the
flag, else the environment, else the file named by ` + "`--config`" + ` or ` + "`TOOLD_CONFIG`" + `, else the
default. The file is YAML; a key that is not known, or given twice, is an error that names its line,
and one without a value is as if it were not there. A variable ` + "`TOOLD_…`" + ` that is not
known is an error too.

- ` + "`toold config example`" + ` prints a file with every key, its meaning and its default;
- ` + "`toold config check FILE`" + ` says whether a file is good and what it names is there; it
  starts nothing.

Durations are written ` + "`90s`, `20m`, `24h`" + `; sizes are bytes, or ` + "`256KiB`, `16MiB`, `4GiB`" + `.
This page is made from the source; change the comments in ` + "`cmd/toold/config.go`" + `.

| key | default | meaning |
|---|---|---|
`)
	walkConfig(reflect.ValueOf(defaults()), func(k configKey) {
		value := k.value
		if value != "" {
			value = "`" + value + "`"
		}
		doc := strings.ReplaceAll(strings.Join(strings.Fields(k.doc), " "), "|", "\\|")
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.path, value, doc)
	})
	return b.String()
}

// configKey is one key of the configuration.
type configKey struct {
	path  string // "limits.callsPerBatch"
	name  string // "callsPerBatch"
	doc   string // of the field in the source
	value string // the default as YAML; empty for a section
	kind  reflect.Type
}

// walkConfig visits every key in the order of the source.
func walkConfig(v reflect.Value, visit func(configKey)) {
	docs := fieldDocs()
	var walk func(v reflect.Value, prefix string)
	walk = func(v reflect.Value, prefix string) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name := f.Tag.Get("yaml")
			k := configKey{path: prefix + name, name: name, doc: docs[v.Type().Name()+"."+f.Name], kind: f.Type}
			if f.Type.Kind() == reflect.Struct {
				visit(k)
				walk(v.Field(i), k.path+".")
				continue
			}
			k.value = yamlValue(v.Field(i).Interface())
			visit(k)
		}
	}
	walk(v, "")
}

func yamlValue(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%q", v)
	case time.Duration:
		return short(v)
	case map[string]string:
		return "{}"
	case []string:
		return "[]"
	default:
		return fmt.Sprint(v)
	}
}

// short is a duration without the units that are zero: 24h, not 24h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// fieldDocs reads the doc comments of config.go: by "Type.Field".
func fieldDocs() map[string]string {
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", source, parser.ParseComments)
	if err != nil {
		panic(err) // the file that this program was compiled from
	}
	docs := make(map[string]string)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range s.Fields.List {
				for _, name := range f.Names {
					docs[spec.Name.Name+"."+name.Name] = strings.TrimSpace(f.Doc.Text())
				}
			}
		}
		return false
	})
	return docs
}
