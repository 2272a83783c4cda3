package batchfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// decoder sets the fields of messages from nodes. also are the names that a
// message takes beside its fields, for suggestions.
type decoder struct{ also []string }

// field sets one field of m; prefix is the path of m, ending in a dot.
func (d decoder) field(m protoreflect.Message, f field, prefix string) *Error {
	fd := find(m.Descriptor(), f.name)
	if fd == nil {
		return fault(f.line, "%s%s: unknown field%s", prefix, f.name, d.suggest(m.Descriptor(), f.name))
	}
	path := prefix + f.name
	switch {
	case f.value.kind == null:
		return nil
	case m.Has(fd):
		return fault(f.line, "%s: given twice", path)
	case fd.IsMap():
		return mapping(m.Mutable(fd).Map(), fd, f.value, path)
	case fd.IsList():
		return fault(f.line, "%s: cannot be set from a file", path)
	}
	v, err := d.value(m, fd, f.value, path)
	if err == nil {
		m.Set(fd, v)
	}
	return err
}

func find(md protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if fd := md.Fields().ByName(protoreflect.Name(name)); fd != nil {
		return fd
	}
	return md.Fields().ByJSONName(name)
}

func (d decoder) value(m protoreflect.Message, fd protoreflect.FieldDescriptor, n *node, path string) (protoreflect.Value, *Error) {
	var zero protoreflect.Value
	switch fd.Kind() {
	case protoreflect.StringKind:
		if n.kind != text && n.kind != number {
			return zero, fault(n.line, "%s: want a text, not %s", path, n.kind)
		}
		return protoreflect.ValueOfString(n.scalar), nil
	case protoreflect.BoolKind:
		if n.kind != boolean {
			return zero, fault(n.line, "%s: want true or false, not %s", path, n.kind)
		}
		return protoreflect.ValueOfBool(n.scalar == "true"), nil
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		bits := 64
		if fd.Kind() == protoreflect.Int32Kind {
			bits = 32
		}
		i, err := strconv.ParseInt(n.scalar, 10, bits)
		if err != nil || n.kind != number && n.kind != text {
			return zero, fault(n.line, "%s: want a whole number of %d bits", path, bits)
		}
		if bits == 32 {
			return protoreflect.ValueOfInt32(int32(i)), nil
		}
		return protoreflect.ValueOfInt64(i), nil
	case protoreflect.EnumKind:
		return enum(fd.Enum(), n, path)
	case protoreflect.MessageKind:
		v := m.NewField(fd)
		return v, d.message(v.Message(), n, path)
	}
	return zero, fault(n.line, "%s: cannot be set from a file", path)
}

func (d decoder) message(m protoreflect.Message, n *node, path string) *Error {
	switch known := m.Interface().(type) {
	case *durationpb.Duration:
		t, err := time.ParseDuration(n.scalar)
		if n.kind != text || err != nil {
			return fault(n.line, "%s: want a duration such as 90s or 5m", path)
		}
		proto.Merge(known, durationpb.New(t))
		return nil
	case *timestamppb.Timestamp:
		t, err := time.Parse(time.RFC3339Nano, n.scalar)
		if n.kind != text || err != nil {
			return fault(n.line, "%s: want a time such as 2026-01-31T12:00:00Z", path)
		}
		proto.Merge(known, timestamppb.New(t))
		return nil
	}
	if n.kind != object {
		return fault(n.line, "%s: want a mapping, not %s", path, n.kind)
	}
	for _, f := range n.fields {
		if err := (decoder{}).field(m, f, path+"."); err != nil {
			return err
		}
	}
	return nil
}

// enum takes PROGRAM_ORDER, program_order and SCHEDULE_MODE_PROGRAM_ORDER.
func enum(ed protoreflect.EnumDescriptor, n *node, path string) (protoreflect.Value, *Error) {
	var short []string
	prefix := strings.TrimSuffix(string(ed.Values().Get(0).Name()), "UNSPECIFIED")
	given := strings.ToUpper(strings.ReplaceAll(n.scalar, "-", "_"))
	for i := range ed.Values().Len() {
		v := ed.Values().Get(i)
		name := strings.TrimPrefix(string(v.Name()), prefix)
		if n.kind == text && (given == name || given == string(v.Name())) {
			return protoreflect.ValueOfEnum(v.Number()), nil
		}
		if i > 0 {
			short = append(short, strings.ToLower(name))
		}
	}
	return protoreflect.Value{}, fault(n.line, "%s: want one of %s", path, strings.Join(short, ", "))
}

// mapping fills a map of texts, the only kind that the messages have.
func mapping(m protoreflect.Map, fd protoreflect.FieldDescriptor, n *node, path string) *Error {
	if n.kind != object || fd.MapValue().Kind() != protoreflect.StringKind {
		return fault(n.line, "%s: want a mapping of texts, not %s", path, n.kind)
	}
	for _, f := range n.fields {
		if f.value.kind == list || f.value.kind == object || f.value.kind == null {
			return fault(f.value.line, "%s.%s: want a text, not %s", path, f.name, f.value.kind)
		}
		m.Set(protoreflect.ValueOfString(f.name).MapKey(), protoreflect.ValueOfString(f.value.scalar))
	}
	return nil
}

// suggest names the nearest field, or all when none is near.
func (d decoder) suggest(md protoreflect.MessageDescriptor, name string) string {
	names := slices.Clone(d.also)
	for i := range md.Fields().Len() {
		names = append(names, string(md.Fields().Get(i).Name()))
	}
	if near := Nearest(name, names); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return "; there are " + strings.Join(names, ", ")
}

// Nearest gives the name that differs least from a misspelt one; "" when none is
// near, which is more than a third of its letters.
func Nearest(name string, names []string) string {
	best, least := "", max(1, len(name)/3)+1
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < least {
			best, least = n, d
		}
	}
	return best
}

// distance is Levenshtein's, over bytes.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
