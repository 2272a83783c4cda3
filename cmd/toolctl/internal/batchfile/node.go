package batchfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

type kind string

const (
	null    kind = "nothing"
	boolean kind = "true or false"
	number  kind = "a number"
	text    kind = "a text"
	list    kind = "a list"
	object  kind = "a mapping"
)

// node is a value of either notation, with its line.
type node struct {
	line   int
	kind   kind
	scalar string // of text; for boolean and number as JSON writes them
	items  []*node
	fields []field
	raw    []byte // from JSON: the very bytes
}

type field struct {
	name  string
	line  int
	value *node
}

// json gives the value as JSON: as it stood, or made from YAML.
func (n *node) json() []byte {
	if n.raw != nil {
		return n.raw
	}
	var b bytes.Buffer
	n.write(&b)
	return b.Bytes()
}

func (n *node) write(b *bytes.Buffer) {
	switch n.kind {
	case null:
		b.WriteString("null")
	case text:
		writeText(b, n.scalar)
	case boolean, number:
		b.WriteString(n.scalar)
	case list:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.write(b)
		}
		b.WriteByte(']')
	case object:
		b.WriteByte('{')
		for i, f := range n.fields {
			if i > 0 {
				b.WriteByte(',')
			}
			writeText(b, f.name)
			b.WriteByte(':')
			f.value.write(b)
		}
		b.WriteByte('}')
	}
}

func writeText(b *bytes.Buffer, s string) {
	q, err := jsontext.AppendQuote(nil, s)
	if err != nil { // invalid UTF-8 was replaced
		q, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\ufffd"))
	}
	b.Write(q)
}

// maxDepth bounds nesting, maxNodes what aliases of YAML can blow a file up to.
const (
	maxDepth = 200
	maxNodes = 1 << 20
)

func parseJSON(src []byte) (*node, *Error) {
	d := jsontext.NewDecoder(bytes.NewReader(src))
	r := jsonReader{d: d, src: src}
	n, err := r.value(0)
	if err == nil {
		if _, rest := d.ReadToken(); errors.Is(rest, io.EOF) {
			return n, nil
		}
		return nil, fault(r.line(d.InputOffset()), "more text after the batch")
	}
	if own := (*Error)(nil); errors.As(err, &own) {
		return nil, own
	}
	at := d.InputOffset()
	if syntax := (*jsontext.SyntacticError)(nil); errors.As(err, &syntax) {
		at = syntax.ByteOffset
		err = syntax.Err
	}
	return nil, fault(r.line(at), "not JSON: %v", err)
}

type jsonReader struct {
	d     *jsontext.Decoder
	src   []byte
	at    int64 // lines are counted up to here
	lines int
}

// line of an offset; offsets mostly grow, so that counting goes on where it was.
func (r *jsonReader) line(offset int64) int {
	offset = min(offset, int64(len(r.src)))
	if offset < r.at {
		r.at, r.lines = 0, 0
	}
	r.lines += bytes.Count(r.src[r.at:offset], []byte("\n"))
	r.at = offset
	return r.lines + 1
}

func (r *jsonReader) value(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fault(r.line(r.d.InputOffset()), "nested deeper than %d", maxDepth)
	}
	tok, err := r.d.ReadToken()
	if err != nil {
		return nil, err
	}
	n := &node{line: r.line(r.d.InputOffset()), scalar: tok.String()}
	start := r.d.InputOffset() - 1 // of a list or mapping: one byte
	switch tok.Kind() {
	case 'n':
		n.kind = null
	case 't', 'f':
		n.kind = boolean
	case '"':
		n.kind = text
	case '0':
		n.kind = number
	case '[':
		n.kind = list
		for r.d.PeekKind() != ']' {
			item, err := r.value(depth + 1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
		_, err = r.d.ReadToken()
	case '{':
		n.kind = object
		for r.d.PeekKind() != '}' {
			key, err := r.d.ReadToken()
			if err != nil {
				return nil, err
			}
			f := field{name: key.String(), line: r.line(r.d.InputOffset())}
			if f.value, err = r.value(depth + 1); err != nil {
				return nil, err
			}
			n.fields = append(n.fields, f)
		}
		_, err = r.d.ReadToken()
		n.raw = r.src[start:r.d.InputOffset()]
	}
	return n, err
}

func parseYAML(src []byte) (*node, *Error) {
	d := yaml.NewDecoder(bytes.NewReader(src))
	var doc, more yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, fault(0, "empty")
	} else if err != nil {
		return nil, yamlFault(err)
	}
	if err := d.Decode(&more); err == nil {
		return nil, fault(more.Line, "a second document: one file is one batch")
	} else if !errors.Is(err, io.EOF) {
		return nil, yamlFault(err)
	}
	r := yamlReader{}
	return r.value(doc.Content[0], 0)
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

func yamlFault(err error) *Error {
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		return fault(0, "not YAML: %v", err)
	}
	line, _ := strconv.Atoi(m[1])
	return fault(line, "not YAML: %s", strings.TrimPrefix(err.Error(), m[0]))
}

type yamlReader struct{ nodes int }

func (r *yamlReader) value(y *yaml.Node, depth int) (*node, *Error) {
	if r.nodes++; r.nodes > maxNodes {
		return nil, fault(y.Line, "more than %d values, aliases included", maxNodes)
	}
	if depth > maxDepth {
		return nil, fault(y.Line, "nested deeper than %d", maxDepth)
	}
	n := &node{line: y.Line}
	switch y.Kind {
	case yaml.AliasNode:
		return r.value(y.Alias, depth+1)
	case yaml.SequenceNode:
		n.kind = list
		for _, item := range y.Content {
			v, err := r.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, v)
		}
		return n, nil
	case yaml.MappingNode:
		n.kind = object
		return n, r.fields(n, y, depth)
	}
	return n, n.fromScalar(y)
}

func (r *yamlReader) fields(n *node, y *yaml.Node, depth int) *Error {
	seen := map[string]int{}
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := y.Content[i]
		if key.Kind != yaml.ScalarNode {
			return fault(key.Line, "a key must be a plain text")
		}
		if key.ShortTag() == "!!merge" {
			return fault(key.Line, "merge keys (<<) are not supported: write the fields out")
		}
		if first, twice := seen[key.Value]; twice {
			return fault(key.Line, "%q is there twice, first in line %d", key.Value, first)
		}
		seen[key.Value] = key.Line
		v, err := r.value(y.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		n.fields = append(n.fields, field{name: key.Value, line: key.Line, value: v})
	}
	return nil
}

// fromScalar reads what YAML takes a plain word for. Dates stay text.
func (n *node) fromScalar(y *yaml.Node) *Error {
	n.kind, n.scalar = text, y.Value
	switch y.ShortTag() {
	case "!!null":
		n.kind = null
	case "!!bool":
		var b bool
		if err := y.Decode(&b); err != nil {
			return yamlFault(err)
		}
		n.kind, n.scalar = boolean, strconv.FormatBool(b)
	case "!!int", "!!float":
		n.kind = number
		if json.Valid([]byte(y.Value)) {
			return nil // also numbers that Go's types cannot hold
		}
		var v any
		if err := y.Decode(&v); err != nil {
			return yamlFault(err)
		}
		if f, ok := v.(float64); ok && (math.IsInf(f, 0) || math.IsNaN(f)) {
			return fault(y.Line, "%s is no JSON number", y.Value)
		}
		b, err := json.Marshal(v)
		if err != nil {
			return fault(y.Line, "%s is no JSON number", y.Value)
		}
		n.scalar = string(b)
	case "!!binary":
		return fault(y.Line, "!!binary is not supported")
	}
	return nil
}
