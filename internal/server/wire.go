package server

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that Unmarshal falls back to
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/toold/toold/internal/exec"
)

// marshal encodes m deterministically. Strings that are not valid UTF-8, which
// no protobuf message can hold, are repaired in m first: their bytes come from
// tools, file names and models. Valid messages are looked at once only.
func marshal(m proto.Message) []byte {
	o := proto.MarshalOptions{Deterministic: true}
	out, err := o.Marshal(m)
	if err == nil {
		return out
	}
	repair(m.ProtoReflect())
	if out, err = o.Marshal(m); err != nil {
		panic(fmt.Sprintf("server: encoding a %s: %v", m.ProtoReflect().Descriptor().FullName(), err))
	}
	return out
}

// repair makes every string in m valid UTF-8; each run of bad bytes becomes one
// U+FFFD.
func repair(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			repairMap(f, v.Map())
		case f.IsList():
			list := v.List()
			for i := range list.Len() {
				if fixed, ok := repaired(f.Kind(), list.Get(i)); ok {
					list.Set(i, fixed)
				}
			}
		default:
			if fixed, ok := repaired(f.Kind(), v); ok {
				m.Set(f, fixed)
			}
		}
		return true
	})
}

func repairMap(f protoreflect.FieldDescriptor, m protoreflect.Map) {
	type entry struct {
		key   protoreflect.MapKey
		value protoreflect.Value
	}
	var bad []entry
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		fixed, ok := repaired(f.MapValue().Kind(), v)
		if !ok {
			fixed = v
		}
		if ok || (f.MapKey().Kind() == protoreflect.StringKind && !utf8.ValidString(k.String())) {
			bad = append(bad, entry{k, fixed})
		}
		return true
	})
	for _, e := range bad {
		m.Clear(e.key)
		if f.MapKey().Kind() == protoreflect.StringKind {
			e.key = protoreflect.ValueOfString(strings.ToValidUTF8(e.key.String(), "\uFFFD")).MapKey()
		}
		m.Set(e.key, e.value)
	}
}

// repaired gives the value to put in place of v; ok is false where v may stay.
func repaired(k protoreflect.Kind, v protoreflect.Value) (fixed protoreflect.Value, ok bool) {
	switch k {
	case protoreflect.StringKind:
		if s := v.String(); !utf8.ValidString(s) {
			return protoreflect.ValueOfString(strings.ToValidUTF8(s, "\uFFFD")), true
		}
	case protoreflect.MessageKind, protoreflect.GroupKind:
		repair(v.Message())
	}
	return protoreflect.Value{}, false
}

// frame is a streamed response that is already encoded: an ExecuteBatchResponse
// or AttachBatchResponse, whose only field is number 1, holding event.
type frame struct{ event []byte }

// wireCodec is gRPC's protobuf codec, except that it sends a frame as it is,
// without another copy of the event, repairs strings, and forgets fields that
// this version does not know (which is what keeps a newer client's secrets out
// of the store).
type wireCodec struct{ proto encoding.CodecV2 }

func newWireCodec() wireCodec { return wireCodec{encoding.GetCodecV2("proto")} }

func (wireCodec) Name() string { return "proto" }

func (c wireCodec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*frame); ok {
		head := make([]byte, 0, 8)
		head = protowire.AppendTag(head, 1, protowire.BytesType)
		head = protowire.AppendVarint(head, uint64(len(f.event)))
		return mem.BufferSlice{mem.SliceBuffer(head), mem.SliceBuffer(f.event)}, nil
	}
	out, err := c.proto.Marshal(v)
	if err != nil {
		if m, ok := v.(proto.Message); ok {
			return mem.BufferSlice{mem.SliceBuffer(marshal(m))}, nil
		}
	}
	return out, err
}

// Unmarshal never fails for a message: gRPC answers an error of its own with a
// bare status at once, and the client would not learn the reasons that the API
// promises. What cannot be decoded leaves a mark in m, which unreadable finds.
func (c wireCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return c.proto.Unmarshal(data, v)
	}
	if n := data.Len(); n > maxRequest {
		m.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, markTooLarge, protowire.VarintType), uint64(n)))
		return nil
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(buf.ReadOnlyData(), m); err != nil {
		proto.Reset(m)
		m.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, markMalformed, protowire.BytesType), err.Error()))
	}
	return nil
}

// The marks of a message that was not decoded. No other message has unknown
// fields, since they are discarded.
const (
	markTooLarge  protowire.Number = 1 // varint: its size
	markMalformed protowire.Number = 2 // string: what is wrong
)

// unreadable says why m could not be decoded; nil when it was.
func unreadable(m proto.Message) error {
	mark := m.ProtoReflect().GetUnknown()
	number, _, n := protowire.ConsumeTag(mark)
	if n < 0 {
		return nil
	}
	if number == markTooLarge {
		size, _ := protowire.ConsumeVarint(mark[n:])
		return &exec.Error{
			Kind: exec.KindExhausted, Reason: "REQUEST_TOO_LARGE",
			Message:  fmt.Sprintf("the request has %d bytes, and the limit is %d; split the batch", size, maxRequest),
			Metadata: map[string]string{"limit": fmt.Sprint(maxRequest), "value": fmt.Sprint(size)},
		}
	}
	why, _ := protowire.ConsumeString(mark[n:])
	return &exec.Error{Kind: exec.KindInvalid, Reason: reasonMalformed, Message: "the message cannot be decoded: " + why}
}
