package main

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/toold/toold/internal/tool"
)

// maxFile bounds what is parsed as a configuration, in bytes.
const maxFile = 256 << 10

// decode reads a file over what c holds: a key that is not there, or has no
// value, changes nothing. Errors name the line and quote no value of the file,
// which may hold a secret.
func decode(text []byte, c *Config) error {
	if len(text) > maxFile {
		return fmt.Errorf("a configuration of %d bytes is none; the limit is %d", len(text), maxFile)
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return plain(err)
	}
	var d decoder
	for i, doc := range file.Docs {
		if i > 0 && doc.Body != nil {
			d.bad(doc.Body, "a second document; give one")
			break
		}
		d.section(doc.Body, reflect.ValueOf(c).Elem(), "")
	}
	return errors.Join(d.wrong...)
}

// plain is an error of the YAML package without the piece of the file that it
// shows.
func plain(err error) error {
	return errors.New(strings.TrimSpace(yaml.FormatError(err, false, false)))
}

// decoder collects all that is wrong.
type decoder struct{ wrong []error }

func (d *decoder) bad(at ast.Node, format string, args ...any) {
	p := at.GetToken().Position
	d.wrong = append(d.wrong, fmt.Errorf("[%d:%d] %s", p.Line, p.Column, fmt.Sprintf(format, args...)))
}

// section fills a struct of the configuration; prefix is its path and a dot.
func (d *decoder) section(n ast.Node, into reflect.Value, prefix string) {
	if empty(n) {
		return
	}
	mapping, ok := n.(ast.MapNode)
	if !ok || n.Type() == ast.AliasType {
		d.bad(n, "%swant a mapping of keys to values", strings.TrimSuffix(prefix, ".")+": ")
		return
	}
	fields := make(map[string]reflect.Value, into.NumField())
	var names []string
	for i := range into.NumField() {
		name := into.Type().Field(i).Tag.Get("yaml")
		fields[name] = into.Field(i)
		names = append(names, name)
	}
	seen := make(map[string]bool)
	for it := mapping.MapRange(); it.Next(); {
		key, value := it.Key(), it.Value()
		name := key.GetToken().Value
		field, known := fields[name]
		switch {
		case !known:
			d.bad(key, "unknown field %q%s", prefix+name, didYouMean(name, names))
		case seen[name]:
			d.bad(key, "%s%s is given twice", prefix, name)
		case empty(value):
		case field.Kind() == reflect.Struct:
			d.section(value, field, prefix+name+".")
		default:
			if err := yaml.NodeToValue(value, field.Addr().Interface()); err != nil {
				d.bad(value, "%s%s: %s", prefix, name, want(field, err))
			}
		}
		seen[name] = true
	}
}

// empty reports whether a key has no value: nothing, null or a comment.
func empty(n ast.Node) bool {
	if n == nil {
		return true
	}
	switch n.Type() {
	case ast.NullType, ast.CommentType:
		return true
	}
	return false
}

// want says what a value should be; err is why it cannot be read.
func want(field reflect.Value, err error) string {
	switch field.Interface().(type) {
	case time.Duration:
		return "give a duration such as 5s, 20m or 24h"
	case Size:
		return "give a size: bytes, or a number with KiB, MiB or GiB"
	case int:
		return "give a whole number"
	case string:
		return "give one text, in quotes if it has signs of YAML's own"
	case []string:
		return "give a list such as [A, B]"
	case map[string]string:
		return "give a mapping such as {NAME: PATH}"
	}
	return plain(err).Error()
}

func didYouMean(name string, names []string) string {
	if near := tool.Nearest(name, names); len(near) > 0 {
		return fmt.Sprintf("; did you mean %q?", near[0])
	}
	return ""
}
