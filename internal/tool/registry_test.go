package tool

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type named Spec

func (n named) Spec() Spec { return Spec(n) }

func (n named) Prepare(context.Context, Env, json.RawMessage) (Action, error) { return Action{}, nil }

func def(name string) named {
	return named{Name: name, InputSchema: json.RawMessage(`{}`), DefaultTimeout: time.Second, MaxTimeout: time.Second}
}

func TestRegistryRefusesOurOwnMistakes(t *testing.T) {
	with := func(change func(*named)) named {
		n := def("x")
		change(&n)
		return n
	}
	for _, tc := range []struct {
		tools []Tool
		fault string
	}{
		{[]Tool{def("read"), def("mcp.server_tool-1")}, ""},
		{[]Tool{def("")}, "name"},
		{[]Tool{def("a b")}, "name"},
		{[]Tool{def(strings.Repeat("x", 129))}, "name"},
		{[]Tool{def("x"), def("x")}, "twice"},
		{[]Tool{with(func(n *named) { n.InputSchema = nil })}, "schema"},
		{[]Tool{with(func(n *named) { n.DefaultTimeout = 0 })}, "Timeout"},
		{[]Tool{with(func(n *named) { n.MaxTimeout = time.Millisecond })}, "Timeout"},
	} {
		_, err := NewRegistry(tc.tools...)
		if (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("got %v, want %q", err, tc.fault)
		}
	}
}

func TestRegistryFindsAndSorts(t *testing.T) {
	r, err := NewRegistry(def("write"), def("read"), def("batch_read"))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Lookup("read"); !ok {
		t.Error("read was not found")
	}
	if _, ok := r.Lookup("Read"); ok {
		t.Error("names are matched without case")
	}
	var names []string
	for _, s := range r.Specs() {
		names = append(names, s.Name)
	}
	if d := cmp.Diff([]string{"batch_read", "read", "write"}, names); d != "" {
		t.Error(d)
	}
}

func TestRevisionChangesWithAnyDefinition(t *testing.T) {
	revision := func(tools ...Tool) string {
		r, err := NewRegistry(tools...)
		if err != nil {
			t.Fatal(err)
		}
		return r.Revision()
	}
	changed := def("a")
	changed.Description = "other"
	one := revision(def("a"), def("b"))
	if two := revision(def("b"), def("a")); one != two || len(one) != 16 {
		t.Errorf("revision depends on the order of registration: %s, %s", one, two)
	}
	if one == revision(changed, def("b")) {
		t.Error("revision does not see a description")
	}
}

func TestNearest(t *testing.T) {
	r, err := NewRegistry(def("read"), def("write"), def("batch_read"), def("grep"), def("Sleep"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		want []string
	}{
		{"raed", []string{"read"}},
		{"reed", []string{"read"}},
		{"read_file", []string{"read"}},
		{"batchread", []string{"batch_read", "read"}},
		{"sleep", []string{"Sleep"}},
		{"GREP", []string{"grep"}},
		{"kubernetes", nil},
		{"", nil},
		{strings.Repeat("read", 100), nil},
	} {
		if d := cmp.Diff(tc.want, r.Nearest(tc.name)); d != "" {
			t.Errorf("%q: (-want +got)\n%s", tc.name, d)
		}
	}
}

func TestClassAndOutcomeNamesRoundTrip(t *testing.T) {
	for _, c := range []Class{ReadOnly, Write, SystemChange} {
		if got, ok := ParseClass(c.String()); !ok || got != c {
			t.Errorf("%s parses as %v", c, got)
		}
	}
	for _, s := range []string{"", "read_only", "UNSPECIFIED", "NONE"} {
		if c, ok := ParseClass(s); ok || c != ClassUnspecified {
			t.Errorf("%q parses as %v", s, c)
		}
	}
	for o := Succeeded; o <= Unknown; o++ {
		if got := ParseOutcome(o.String()); got != o {
			t.Errorf("%s parses as %v", o, got)
		}
	}
	if got := ParseOutcome("DONE"); got != OutcomeUnspecified {
		t.Errorf("DONE parses as %v", got)
	}
	if got := Outcome(200).String(); got != "UNSPECIFIED" {
		t.Errorf("outcome 200 is %s", got)
	}
}

func TestWhatIsNotKnownIsTheWidest(t *testing.T) {
	for c, want := range map[Class]Class{ClassUnspecified: SystemChange, 99: SystemChange, ReadOnly: ReadOnly, Write: Write} {
		if got := c.OrWidest(); got != want {
			t.Errorf("%d: %v, want %v", c, got, want)
		}
		if c == ClassUnspecified && c.String() != "SYSTEM_CHANGE" {
			t.Error("an unspecified class is not shown as the widest")
		}
	}
}

func TestBadArgumentNamesTheField(t *testing.T) {
	e := BadArgument("/paths/2", "X", "is %s", "odd")
	if e.Error() != "paths/2: is odd" || e.Violations[0].Path != "/paths/2" {
		t.Errorf("got %q, %+v", e, e.Violations)
	}
	if e := BadArgument("", "X", "odd"); e.Error() != "odd" {
		t.Errorf("got %q", e)
	}
	if e := (&ArgumentError{Reason: "X"}); e.Error() != "X" {
		t.Errorf("got %q", e)
	}
}
