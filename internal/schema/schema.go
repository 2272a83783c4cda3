// Package schema makes the JSON Schema of a tool from the Go struct that its
// arguments are decoded into, and checks arguments against it before anything
// else looks at them.
package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	reflected "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/toold/toold/internal/tool"
)

// Schema is a compiled JSON Schema (2020-12) of one tool's arguments.
type Schema struct {
	text     json.RawMessage
	defaults json.RawMessage // {"property": default, …}
	compiled *jsonschema.Schema
}

// Of makes the schema of a struct: names from json tags, required unless
// omitempty, constraints from jsonschema tags (description, minimum, enum,
// default …), no additional properties. It panics on a struct that does not
// give a valid schema: that is our own bug.
func Of[Args any]() *Schema {
	r := reflected.Reflector{Anonymous: true, ExpandedStruct: true, DoNotReference: true}
	text, err := json.Marshal(r.Reflect(new(Args)))
	if err != nil {
		panic(fmt.Sprintf("schema of %T: %v", *new(Args), err))
	}
	s, err := Compile(text)
	if err != nil {
		panic(fmt.Sprintf("schema of %T: %v", *new(Args), err))
	}
	return s
}

// Compile reads a JSON Schema. Remote references are refused.
func Compile(text json.RawMessage) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("parsing schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	if err := c.AddResource("args.json", doc); err != nil {
		return nil, fmt.Errorf("reading schema: %w", err)
	}
	compiled, err := c.Compile("args.json")
	if err != nil {
		return nil, fmt.Errorf("compiling schema: %w", err)
	}
	defaults, err := topDefaults(text)
	if err != nil {
		return nil, err
	}
	return &Schema{text: text, defaults: defaults, compiled: compiled}, nil
}

type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: remote references are not followed", url)
}

// topDefaults collects the defaults of the top-level properties.
func topDefaults(text json.RawMessage) (json.RawMessage, error) {
	var s struct {
		Properties map[string]struct {
			Default json.RawMessage `json:"default"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("reading defaults: %w", err)
	}
	found := make(map[string]json.RawMessage)
	for name, p := range s.Properties {
		if p.Default != nil {
			found[name] = p.Default
		}
	}
	return json.Marshal(found)
}

// Text is the schema as JSON.
func (s *Schema) Text() json.RawMessage { return s.text }

// Validate checks args. An error is a *tool.ArgumentError that lists every
// violation with its JSON pointer, at most maxViolations.
func (s *Schema) Validate(args json.RawMessage) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return &tool.ArgumentError{Reason: tool.ReasonArgumentsNotJSON, Message: "arguments are not JSON: " + err.Error()}
	}
	err = s.compiled.Validate(v)
	if err == nil {
		return nil
	}
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return &tool.ArgumentError{Reason: tool.ReasonArgumentsSchema, Message: err.Error()}
	}
	var found []tool.Violation
	leaves(ve, &found)
	msgs := make([]string, 0, 3)
	for _, f := range found[:min(3, len(found))] {
		msgs = append(msgs, strings.TrimPrefix(f.Path+": "+f.Description, ": "))
	}
	return &tool.ArgumentError{Reason: tool.ReasonArgumentsSchema, Message: strings.Join(msgs, "; "), Violations: found}
}

// maxViolations bounds what one answer lists.
const maxViolations = 20

var english = message.NewPrinter(language.English)

func leaves(e *jsonschema.ValidationError, out *[]tool.Violation) {
	if len(*out) >= maxViolations {
		return
	}
	for _, c := range e.Causes {
		leaves(c, out)
	}
	if len(e.Causes) > 0 {
		return
	}
	at := pointer(e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, m := range k.Missing {
			*out = append(*out, tool.Violation{Path: at + "/" + escape(m), Description: "is required", Reason: "REQUIRED"})
		}
	case *kind.AdditionalProperties:
		for _, p := range k.Properties {
			*out = append(*out, tool.Violation{Path: at + "/" + escape(p), Description: "is not an argument of this tool", Reason: "UNKNOWN_ARGUMENT"})
		}
	default:
		*out = append(*out, tool.Violation{Path: at, Description: e.ErrorKind.LocalizedString(english), Reason: "SCHEMA"})
	}
}

func pointer(parts []string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteByte('/')
		b.WriteString(escape(p))
	}
	return b.String()
}

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

func escape(part string) string { return pointerEscape.Replace(part) }

// Decode validates args, then fills into with the schema's defaults and args
// over them.
func (s *Schema) Decode(args json.RawMessage, into any) error {
	if err := s.Validate(args); err != nil {
		return err
	}
	if err := json.Unmarshal(s.defaults, into); err != nil {
		return fmt.Errorf("applying defaults: %w", err)
	}
	err := json.Unmarshal(args, into)
	if err == nil {
		return nil
	}
	// 1.0, 1e3 and what no int64 holds are integers to a schema, not to Go.
	if mistyped := new(json.UnmarshalTypeError); errors.As(err, &mistyped) {
		at := "/" + strings.ReplaceAll(mistyped.Field, ".", "/")
		says := fmt.Sprintf("got %.40s; write a whole number without point or exponent, within 64 bits", mistyped.Value)
		return &tool.ArgumentError{
			Reason: tool.ReasonArgumentsSchema, Message: at + ": " + says,
			Violations: []tool.Violation{{Path: at, Description: says, Reason: "SCHEMA"}},
		}
	}
	return &tool.ArgumentError{Reason: tool.ReasonArgumentsSchema, Message: "arguments: " + err.Error()}
}

// Object checks that args is one JSON object in valid UTF-8 without repeated
// names, NUL characters or more than maxDepth levels, and gives it in canonical
// form (members sorted, no white space, numbers as written), which is what
// digests and audit rows are made of. An error is a *tool.ArgumentError.
func Object(args []byte) (json.RawMessage, error) {
	bad := func(format string, a ...any) error {
		return &tool.ArgumentError{Reason: tool.ReasonArgumentsNotJSON, Message: "arguments_json " + fmt.Sprintf(format, a...)}
	}
	if len(bytes.TrimLeft(args, " \t\r\n")) == 0 {
		return nil, bad(`is empty; send a JSON object, {} for no arguments`)
	}
	v := jsontext.Value(bytes.Clone(args))
	if v.Kind() != '{' {
		return nil, bad("is not a JSON object")
	}
	if err := v.Format(jsontext.ReorderRawObjects(true), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return nil, bad("is not a JSON object: %v", err)
	}
	if deep(v) {
		return nil, bad("is nested deeper than %d levels", maxDepth)
	}
	if bytes.Contains(v, []byte(`\u0000`)) && holdsNUL(v) {
		return nil, bad(`holds a NUL character (\u0000); no tool takes one`)
	}
	return json.RawMessage(v), nil
}

const maxDepth = 64

// deep reports whether v nests deeper than maxDepth.
func deep(v jsontext.Value) bool {
	d := jsontext.NewDecoder(bytes.NewReader(v))
	for {
		if _, err := d.ReadToken(); err != nil {
			return false
		}
		if d.StackDepth() > maxDepth {
			return true
		}
	}
}

// holdsNUL tells the escape \u0000 from the six characters after an escaped
// backslash.
func holdsNUL(v jsontext.Value) bool {
	d := jsontext.NewDecoder(bytes.NewReader(v))
	for {
		t, err := d.ReadToken()
		if err != nil {
			return false
		}
		if t.Kind() == '"' && strings.ContainsRune(t.String(), 0) {
			return true
		}
	}
}

// Define makes a tool of a spec and a function that takes decoded, valid
// arguments. The spec's InputSchema is made from Args.
func Define[Args any](spec tool.Spec, prepare func(context.Context, tool.Env, Args) (tool.Action, error)) tool.Tool {
	s := Of[Args]()
	spec.InputSchema = s.Text()
	return &defined[Args]{spec: spec, schema: s, prepare: prepare}
}

type defined[Args any] struct {
	spec    tool.Spec
	schema  *Schema
	prepare func(context.Context, tool.Env, Args) (tool.Action, error)
}

func (d *defined[Args]) Spec() tool.Spec { return d.spec }

func (d *defined[Args]) Prepare(ctx context.Context, env tool.Env, args json.RawMessage) (tool.Action, error) {
	var a Args
	if err := d.schema.Decode(args, &a); err != nil {
		return tool.Action{}, err
	}
	return d.prepare(ctx, env, a)
}
