// Package typed makes a tool's arguments from words of a command line, with the
// types that the tool's input schema gives them.
//
//	path=main.go       by the schema: text, whole number, number, boolean, list, mapping
//	paths=a paths=b    a list: one element each time; or paths='["a","b"]'
//	limit:=10          JSON as it stands, whatever the schema says
//	content=@file      the value is what the file holds; @- is standard input
package typed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toold/toold/cmd/toolctl/internal/batchfile"
)

// Schema is the part of a tool's input schema that the command line needs.
type Schema struct {
	Properties map[string]Property
	Required   []string
}

// Property is one argument.
type Property struct {
	Types       []string // JSON Schema's names; empty = any
	Items       []string // types of a list's elements; empty = any
	Description string
	Default     string // JSON; empty = none
	Enum        []string
}

// ParseSchema reads a JSON Schema.
func ParseSchema(text string) (Schema, error) {
	var doc struct {
		Properties map[string]struct {
			Type        types                `json:"type"`
			Items       struct{ Type types } `json:"items"`
			Description string               `json:"description"`
			Default     json.RawMessage      `json:"default"`
			Enum        []json.RawMessage    `json:"enum"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return Schema{}, fmt.Errorf("reading the tool's input schema: %w", err)
	}
	s := Schema{Required: doc.Required, Properties: map[string]Property{}}
	for name, p := range doc.Properties {
		q := Property{Types: p.Type, Items: p.Items.Type, Description: p.Description, Default: string(p.Default)}
		for _, e := range p.Enum {
			q.Enum = append(q.Enum, word(e))
		}
		s.Properties[name] = q
	}
	return s, nil
}

// types is "type", a text or a list of texts; other forms are read as any.
type types []string

func (t *types) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = types{one}
		return nil
	}
	var many []string
	if json.Unmarshal(b, &many) == nil {
		*t = many
	}
	return nil
}

// word is a JSON value as it would stand on a command line.
func word(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}

// Names lists the arguments: the required ones as declared, then the others by
// name.
func (s Schema) Names() []string {
	names := slices.Clone(s.Required)
	var others []string
	for n := range s.Properties {
		if !slices.Contains(names, n) {
			others = append(others, n)
		}
	}
	slices.Sort(others)
	return append(names, others...)
}

// usage is Names with a star at the required ones.
func (s Schema) usage() string {
	names := s.Names()
	for i := range s.Required {
		names[i] += "*"
	}
	return strings.Join(names, ", ")
}

// Object makes the JSON object that words give, in their order. read gives the
// text of a file. Whether the whole is complete and within bounds is for the
// server to judge. Errors name the argument and the form that is wanted.
func (s Schema) Object(words []string, read func(name string) ([]byte, error)) (string, error) {
	o := object{values: map[string]json.RawMessage{}}
	for _, w := range words {
		name, value, literal, err := split(w)
		if err != nil {
			return "", err
		}
		p, ok := s.Properties[name]
		if !ok {
			return "", s.unknown(name)
		}
		if file, is := strings.CutPrefix(value, "@"); is && !literal {
			b, err := read(file)
			if err != nil {
				return "", fmt.Errorf("%s: %w", name, err)
			}
			value = string(b)
		}
		if err := o.set(name, p, value, literal); err != nil {
			return "", err
		}
	}
	return o.String(), nil
}

// split takes name=value and name:=JSON apart.
func split(w string) (name, value string, literal bool, err error) {
	name, value, ok := strings.Cut(w, "=")
	if !ok || name == "" || name == ":" {
		return "", "", false, fmt.Errorf("%q: want key=value or key:=JSON", w)
	}
	if n, is := strings.CutSuffix(name, ":"); is {
		return n, value, true, nil
	}
	return name, value, false, nil
}

func (s Schema) unknown(name string) error {
	if near := batchfile.Nearest(name, s.Names()); near != "" {
		return fmt.Errorf("%s: no such argument; did you mean %s? There are %s", name, near, s.usage())
	}
	if len(s.Properties) == 0 {
		return fmt.Errorf("%s: the tool takes no arguments", name)
	}
	return fmt.Errorf("%s: no such argument; there are %s", name, s.usage())
}

// object is a JSON object in the making.
type object struct {
	names  []string
	values map[string]json.RawMessage
	grows  map[string]bool // lists made element by element
}

func (o *object) set(name string, p Property, value string, literal bool) error {
	_, twice := o.values[name]
	element := !literal && slices.Contains(p.Types, "array") && !strings.HasPrefix(strings.TrimSpace(value), "[")
	switch {
	case twice && (!element || !o.grows[name]):
		return fmt.Errorf("%s: given twice", name)
	case element:
		v, err := convert(value, p.Items)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		o.append(name, v)
		return nil
	}
	var v json.RawMessage
	var err error
	if literal {
		v, err = fromJSON(value, "")
	} else {
		v, err = convert(value, p.Types)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	o.names = append(o.names, name)
	o.values[name] = v
	return nil
}

func (o *object) append(name string, v json.RawMessage) {
	if o.grows == nil {
		o.grows = map[string]bool{}
	}
	if !o.grows[name] {
		o.grows[name] = true
		o.names = append(o.names, name)
		o.values[name] = append(append(json.RawMessage("["), v...), ']')
		return
	}
	was := o.values[name]
	o.values[name] = append(append(append(was[:len(was)-1], ','), v...), ']')
}

// String gives the object as compact JSON.
func (o *object) String() string {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, n := range o.names {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(quote(n))
		b.WriteByte(':')
		b.Write(o.values[n])
	}
	b.WriteByte('}')
	return b.String()
}

// convert reads a word as the first of the types that it fits, narrow ones
// first; a type that is not declared is a text.
func convert(value string, types []string) (json.RawMessage, error) {
	for _, t := range []string{"null", "boolean", "integer", "number", "object", "array"} {
		if !slices.Contains(types, t) {
			continue
		}
		v, err := fromJSON(strings.TrimSpace(value), t)
		if err == nil {
			return v, nil
		}
		if !slices.Contains(types, "string") && len(types) == 1 {
			return nil, err
		}
	}
	if len(types) == 0 || slices.Contains(types, "string") {
		return quote(value), nil
	}
	return nil, fmt.Errorf("%s is not one of %s", show(value), strings.Join(types, ", "))
}

// wanted are the forms that JSON Schema's types have on a command line.
var wanted = map[string]string{
	"null": "null", "boolean": "true or false", "integer": "a whole number", "number": "a number",
	"object": `a JSON object such as '{"A":"1"}'`, "array": `a JSON list such as '["a","b"]'`, "": "JSON",
}

// fromJSON checks that text is one JSON value of a type; "" is any type.
func fromJSON(text, typ string) (json.RawMessage, error) {
	ok := json.Valid([]byte(text))
	if ok {
		switch typ {
		case "null":
			ok = text == "null"
		case "boolean":
			ok = text == "true" || text == "false"
		case "integer":
			f, err := strconv.ParseFloat(text, 64)
			ok = err == nil && f == float64(int64(f))
		case "number":
			_, err := strconv.ParseFloat(text, 64)
			ok = err == nil
		case "object":
			ok = strings.HasPrefix(text, "{")
		case "array":
			ok = strings.HasPrefix(text, "[")
		}
	}
	if !ok {
		return nil, fmt.Errorf("%s is not %s", show(text), wanted[typ])
	}
	return json.RawMessage(text), nil
}

func show(s string) string {
	if len(s) > 40 {
		s = strings.ToValidUTF8(s[:40], "") + "…"
	}
	return strconv.Quote(s)
}

// quote makes a JSON text of any bytes; invalid ones become U+FFFD.
func quote(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
