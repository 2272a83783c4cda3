package schema

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold/toold/internal/tool"
)

type args struct {
	Path  string   `json:"path" jsonschema:"minLength=1,description=Where."`
	Limit int      `json:"limit,omitempty" jsonschema:"minimum=1,maximum=10,default=5,description=How many."`
	Mode  string   `json:"mode,omitempty" jsonschema:"enum=a,enum=b,default=a"`
	Names []string `json:"names,omitempty" jsonschema:"maxItems=2"`
}

func TestDecodeAppliesDefaultsAndNamesEveryFault(t *testing.T) {
	s := Of[args]()
	for _, tc := range []struct {
		in    string
		want  args
		fault string // "pointer reason", "" = none
	}{
		{in: `{"path":"x"}`, want: args{Path: "x", Limit: 5, Mode: "a"}},
		{in: `{"path":"x","limit":7,"mode":"b"}`, want: args{Path: "x", Limit: 7, Mode: "b"}},
		{in: `{}`, fault: "/path REQUIRED"},
		{in: `{"path":"x","PATH":"y"}`, fault: "/PATH UNKNOWN_ARGUMENT"},
		{in: `{"path":"x","limit":"7"}`, fault: "/limit SCHEMA"},
		{in: `{"path":"x","limit":0}`, fault: "/limit SCHEMA"},
		{in: `{"path":"x","limit":7.0}`, fault: "/limit SCHEMA"},
		{in: `{"path":"x","limit":1e0}`, fault: "/limit SCHEMA"},
		{in: `{"path":"x","mode":"c"}`, fault: "/mode SCHEMA"},
		{in: `{"path":"x","names":["a","b","c"]}`, fault: "/names SCHEMA"},
		{in: `{"path":"x","names":["a",1]}`, fault: "/names/1 SCHEMA"},
		{in: `{"path":null}`, fault: "/path SCHEMA"},
	} {
		var got args
		err := s.Decode(json.RawMessage(tc.in), &got)
		var ae *tool.ArgumentError
		switch {
		case tc.fault == "" && err != nil:
			t.Errorf("%s: %v", tc.in, err)
		case tc.fault == "":
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("%s: (-want +got)\n%s", tc.in, d)
			}
		case !errors.As(err, &ae) || len(ae.Violations) == 0:
			t.Errorf("%s: got %v, want a violation", tc.in, err)
		default:
			if got := ae.Violations[0].Path + " " + ae.Violations[0].Reason; got != tc.fault {
				t.Errorf("%s: got %q, want %q", tc.in, got, tc.fault)
			}
		}
	}
}

func TestObjectIsCanonicalAndRefusesWhatIsAmbiguous(t *testing.T) {
	for _, tc := range []struct{ in, want, fault string }{
		{in: ` {"b": 1, "a": [1.0, 9007199254740993]} `, want: `{"a":[1.0,9007199254740993],"b":1}`},
		{in: `{"a":"\\u0000"}`, want: `{"a":"\\u0000"}`},
		{in: ``, fault: "empty"},
		{in: `[]`, fault: "not a JSON object"},
		{in: `{"a":1}{"b":2}`, fault: "not a JSON object"},
		{in: `{"a":1,"a":2}`, fault: "duplicate"},
		{in: "{\"a\":\"\xff\"}", fault: "UTF-8"},
		{in: `{"a":"\u0000"}`, fault: "NUL"},
		{in: `{"a":"\ud800"}`, fault: "surrogate"},
		{in: `{"a":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, fault: "deeper"},
	} {
		got, err := Object([]byte(tc.in))
		switch {
		case tc.fault != "" && (err == nil || !strings.Contains(err.Error(), tc.fault)):
			t.Errorf("%.40q: got %v, want %q", tc.in, err, tc.fault)
		case tc.fault == "" && string(got) != tc.want:
			t.Errorf("%q: got %s (%v), want %s", tc.in, got, err, tc.want)
		}
	}
}

func FuzzObject(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":[1,2,{"b":null}]}`, `{"a":"\ud83d\ude00"}`, `{"a":1e400}`, "\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		once, err := Object(in)
		if err != nil {
			return
		}
		twice, err := Object(once)
		if err != nil || string(once) != string(twice) {
			t.Fatalf("canonical form of %q is not stable: %s, then %s (%v)", in, once, twice, err)
		}
		if !json.Valid(once) {
			t.Fatalf("%q gave invalid JSON %q", in, once)
		}
	})
}

func TestDefineChecksBeforePrepare(t *testing.T) {
	called := false
	tl := Define(tool.Spec{Name: "x"}, func(context.Context, tool.Env, args) (tool.Action, error) {
		called = true
		return tool.Action{}, nil
	})
	if _, err := tl.Prepare(t.Context(), tool.Env{}, json.RawMessage(`{"path":3}`)); err == nil || called {
		t.Errorf("prepare was called with bad arguments (err %v)", err)
	}
	if _, err := tl.Prepare(t.Context(), tool.Env{}, json.RawMessage(`{"path":"p"}`)); err != nil || !called {
		t.Errorf("prepare was not called with good arguments: %v", err)
	}
}

func BenchmarkDecode(b *testing.B) {
	s := Of[args]()
	in := json.RawMessage(`{"path":"internal/exec/plan.go","limit":7}`)
	b.ReportAllocs()
	for b.Loop() {
		var a args
		if err := s.Decode(in, &a); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkObject(b *testing.B) {
	in := []byte(`{"path":"internal/exec/plan.go","limit":7}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Object(in); err != nil {
			b.Fatal(err)
		}
	}
}
