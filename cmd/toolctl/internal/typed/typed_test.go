package typed

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const schema = `{
	"type": "object",
	"properties": {
		"path":     {"type": "string", "description": "file"},
		"limit":    {"type": "integer", "default": 10},
		"ratio":    {"type": "number"},
		"deep":     {"type": "boolean"},
		"paths":    {"type": "array", "items": {"type": "string"}},
		"lines":    {"type": "array", "items": {"type": "integer"}},
		"env":      {"type": "object"},
		"either":   {"type": ["integer", "string"]},
		"maybe":    {"type": ["boolean", "null"]},
		"mode":     {"type": "string", "enum": ["a", "b"]},
		"anything": {}
	},
	"required": ["path"]
}`

func files(name string) ([]byte, error) {
	if name == "f" {
		return []byte("from a file\n"), nil
	}
	return nil, errors.New("no such file")
}

func TestWordsAreTypedByTheSchema(t *testing.T) {
	s, err := ParseSchema(schema)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ words, want string }{
		{"", `{}`},
		{"path=a=b", `{"path":"a=b"}`},
		{"path=", `{"path":""}`},
		{"path=7", `{"path":"7"}`},
		{"path=<&>", `{"path":"<&>"}`},
		{"path=@f", `{"path":"from a file\n"}`},
		{`path:="@f"`, `{"path":"@f"}`},
		{"limit=-3 path=x", `{"limit":-3,"path":"x"}`},
		{"limit=1e3", `{"limit":1e3}`},
		{"ratio=0.25 deep=true", `{"ratio":0.25,"deep":true}`},
		{"paths=a,b", `{"paths":["a,b"]}`},
		{"paths=a limit=1 paths=b paths=c", `{"paths":["a","b","c"],"limit":1}`},
		{`paths=["a","b"]`, `{"paths":["a","b"]}`},
		{"lines=1 lines=2", `{"lines":[1,2]}`},
		{`env={"A":"1"}`, `{"env":{"A":"1"}}`},
		{"either=5", `{"either":5}`},
		{"either=five", `{"either":"five"}`},
		{"maybe=null", `{"maybe":null}`},
		{"anything=1", `{"anything":"1"}`},
		{"anything:=1", `{"anything":1}`},
		{`anything:={"a":[1]}`, `{"anything":{"a":[1]}}`},
	} {
		got, err := s.Object(strings.Fields(tt.words), files)
		if err != nil {
			t.Errorf("%s: %v", tt.words, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.words, diff)
		}
	}
}

func TestBadWordsAreExplained(t *testing.T) {
	s, err := ParseSchema(schema)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ words, want string }{
		{"path", `"path": want key=value or key:=JSON`},
		{"=x", `"=x": want key=value or key:=JSON`},
		{"limit=ten", `limit: "ten" is not a whole number`},
		{"limit=1.5", `limit: "1.5" is not a whole number`},
		{"ratio=x", `ratio: "x" is not a number`},
		{"deep=yes", `deep: "yes" is not true or false`},
		{"lines=a", `lines: "a" is not a whole number`},
		{"env=A", `env: "A" is not a JSON object`},
		{"maybe=2", `maybe: "2" is not one of boolean, null`},
		{"limit:={", `limit: "{" is not JSON`},
		{"limit=1 limit=2", "limit: given twice"},
		{`paths=["a"] paths=b`, "paths: given twice"},
		{"path=@gone", "path: no such file"},
		{"pth=a", "pth: no such argument; did you mean path? There are path*, anything, deep"},
		{"somethingelse=1", "somethingelse: no such argument; there are path*"},
	} {
		_, err := s.Object(strings.Fields(tt.words), files)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s:\n got %v\nwant %s", tt.words, err, tt.want)
		}
	}
}

func FuzzObject(f *testing.F) {
	for _, w := range []string{"path=\xff", "limit=0x1", "lines:=[1]", "paths=[", "either=1e999", "env={} ", "a:=b=c"} {
		f.Add(w)
	}
	s, err := ParseSchema(schema)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, w string) {
		if got, err := s.Object([]string{w, w}, files); err == nil && !json.Valid([]byte(got)) {
			t.Errorf("%q gave %q", w, got)
		}
		if got, err := s.Object([]string{w}, files); err == nil && !json.Valid([]byte(got)) {
			t.Errorf("%q gave %q", w, got)
		}
	})
}
