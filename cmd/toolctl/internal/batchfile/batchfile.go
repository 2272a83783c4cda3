// Package batchfile reads the files that toolctl runs: a batch in YAML or JSON.
//
//	calls:
//	  - id: readme              # optional; else the position
//	    tool: read
//	    arguments: {path: README.md}
//	schedule_mode: program_order
//	budget: {context_remaining_tokens: 8000}
//
// Beside calls stand the fields of BatchSpec, in each call the fields of
// ToolCall; snake_case and camelCase both. Enum values may be short and in lower
// case, durations as in Go (1m30s). What is not known is refused, with its line.
package batchfile

import (
	"bytes"
	"fmt"
	"strings"

	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

// MaxBytes is the size of the largest file that is read.
const MaxBytes = 16 << 20

// Error is what is wrong in a file, and where.
type Error struct {
	File   string
	Line   int // 1-based; 0 = not known
	Detail string
}

// Error gives "file:line: detail".
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Detail
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Detail)
}

// Parse reads one batch. Text that starts with "{" is JSON, and each call's
// arguments then go out byte for byte as they stand; all else is YAML. The name
// is for messages. Errors are *Error.
func Parse(name string, text []byte) (*tooldv1.ExecuteBatchRequest, error) {
	req, err := parse(text)
	if err != nil {
		err.File = name
		return nil, err
	}
	return req, nil
}

func parse(text []byte) (*tooldv1.ExecuteBatchRequest, *Error) {
	if len(text) > MaxBytes {
		return nil, fault(0, "larger than %d MiB", MaxBytes>>20)
	}
	var root *node
	var err *Error
	if bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
		root, err = parseJSON(text)
	} else {
		root, err = parseYAML(text)
	}
	if err != nil {
		return nil, err
	}
	if root.kind != object {
		return nil, fault(root.line, "a batch is a mapping with calls, not %s", root.kind)
	}
	return request(root)
}

func request(root *node) (*tooldv1.ExecuteBatchRequest, *Error) {
	req := &tooldv1.ExecuteBatchRequest{Spec: &tooldv1.BatchSpec{}}
	d := decoder{also: []string{"calls"}}
	for _, f := range root.fields {
		if f.name != "calls" {
			if err := d.field(req.GetSpec().ProtoReflect(), f, ""); err != nil {
				return nil, err
			}
			continue
		}
		if f.value.kind != list {
			return nil, fault(f.value.line, "calls: want a list, not %s", f.value.kind)
		}
		for i, n := range f.value.items {
			c, err := call(n, fmt.Sprintf("calls[%d]", i))
			if err != nil {
				return nil, err
			}
			req.Calls = append(req.Calls, c)
		}
	}
	if len(req.GetCalls()) == 0 {
		return nil, fault(root.line, "no calls: want calls: [{tool: …, arguments: {…}}, …]")
	}
	return req, nil
}

func call(n *node, path string) (*tooldv1.ToolCall, *Error) {
	if n.kind != object {
		return nil, fault(n.line, "%s: want {id, tool, arguments}, not %s", path, n.kind)
	}
	c := &tooldv1.ToolCall{}
	d := decoder{also: []string{"id", "arguments"}}
	for _, f := range n.fields {
		switch f.name {
		case "arguments":
			if f.value.kind != object && f.value.kind != null {
				return nil, fault(f.value.line, "%s.arguments: want a mapping, not %s", path, f.value.kind)
			}
			if f.value.kind == object {
				c.ArgumentsJson = string(f.value.json())
			}
			continue
		case "id":
			f.name = "call_id"
		}
		if err := d.field(c.ProtoReflect(), f, path+"."); err != nil {
			return nil, err
		}
	}
	if c.GetTool() == "" {
		return nil, fault(n.line, "%s: names no tool", path)
	}
	return c, nil
}

func fault(line int, format string, args ...any) *Error {
	return &Error{Line: line, Detail: strings.TrimSpace(fmt.Sprintf(format, args...))}
}
