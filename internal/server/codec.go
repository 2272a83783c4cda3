package server

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/tool"
	pb "github.com/toold/toold/proto/toold/v1"
)

// Codec is the executor's exec.Codec: events are stored and streamed as
// toold.v1.BatchEvent, requests as stored.go says. The zero value is ready.
type Codec struct{}

var _ exec.Codec = Codec{}

// leftOut is the field that a stored event has besides BatchEvent's own where
// bodies were left out: packed varints, 0 for the output, n for attachment n-1.
// It is never sent.
const leftOut protowire.Number = 2047

// seqField is BatchEvent.seq; the log appends it.
const seqField protowire.Number = 2

// Encode implements exec.Codec.
func (Codec) Encode(batch tool.BatchID, e exec.Event, limit int64) (wire, stored []byte) {
	e.Seq = 0
	event := eventToProto(batch, e)
	wire = marshal(event)
	result := event.GetResult()
	if result == nil || int64(len(wire)) <= limit {
		return wire, nil
	}
	var which []byte
	for i, o := range append([]*pb.ToolOutput{result.GetOutput()}, result.GetAttachments()...) {
		if leaveOut(o, limit) {
			which = protowire.AppendVarint(which, uint64(i))
		}
	}
	if len(which) == 0 {
		return wire, nil
	}
	stored = marshal(event)
	stored = protowire.AppendTag(stored, leftOut, protowire.BytesType)
	return wire, protowire.AppendBytes(stored, which)
}

// leaveOut takes the body out of an output whose artifact has the very same
// bytes, if it is longer than limit. Lossy text is not that, and the visible
// part of a truncated output is bounded by the budget.
func leaveOut(o *pb.ToolOutput, limit int64) bool {
	switch o := o.GetOutput().(type) {
	case *pb.ToolOutput_Text:
		t := o.Text
		if n := int64(len(t.GetText())); n > limit && !t.GetLossy() && t.GetArtifact().GetSizeBytes() == n {
			t.Text = ""
			return true
		}
	case *pb.ToolOutput_Binary:
		b := o.Binary
		if n := int64(len(b.GetData())); n > limit && b.GetArtifact().GetSizeBytes() == n {
			b.Data = nil
			return true
		}
	}
	return false
}

// Decode implements exec.Codec.
func (Codec) Decode(wire []byte) (exec.Event, error) {
	var event pb.BatchEvent
	if err := proto.Unmarshal(wire, &event); err != nil {
		return exec.Event{}, fmt.Errorf("decoding an event: %w", err)
	}
	return eventFromProto(&event)
}

// Restore implements exec.Codec. What Encode and the log made of an event comes
// back byte for byte.
func (Codec) Restore(ctx context.Context, stored []byte, body func(ctx context.Context, uri string) ([]byte, error)) ([]byte, error) {
	which, err := bodiesLeftOut(stored)
	if err != nil || len(which) == 0 {
		return stored, err
	}
	var event pb.BatchEvent
	if err := proto.Unmarshal(stored, &event); err != nil {
		return nil, fmt.Errorf("decoding a stored event: %w", err)
	}
	event.ProtoReflect().SetUnknown(nil)
	outputs := append([]*pb.ToolOutput{event.GetResult().GetOutput()}, event.GetResult().GetAttachments()...)
	for _, i := range which {
		if i >= uint64(len(outputs)) {
			return nil, fmt.Errorf("event %d of batch %s has no output %d to put back", event.GetSeq(), event.GetBatchId(), i)
		}
		if err := putBack(ctx, outputs[i], body); err != nil {
			return nil, fmt.Errorf("event %d of batch %s: %w", event.GetSeq(), event.GetBatchId(), err)
		}
	}
	seq := event.GetSeq()
	event.Seq = 0
	out := marshal(&event)
	out = protowire.AppendTag(out, seqField, protowire.VarintType)
	return protowire.AppendVarint(out, uint64(seq)), nil
}

func putBack(ctx context.Context, o *pb.ToolOutput, body func(ctx context.Context, uri string) ([]byte, error)) error {
	var ref *pb.ArtifactRef
	var set func([]byte)
	switch o := o.GetOutput().(type) {
	case *pb.ToolOutput_Text:
		ref, set = o.Text.GetArtifact(), func(b []byte) { o.Text.Text = string(b) }
	case *pb.ToolOutput_Binary:
		ref, set = o.Binary.GetArtifact(), func(b []byte) { o.Binary.Data = b }
	default:
		return fmt.Errorf("a %T never had its body left out", o)
	}
	b, err := body(ctx, ref.GetUri())
	if err != nil {
		return fmt.Errorf("reading back %s: %w", ref.GetUri(), err)
	}
	set(b)
	return nil
}

// bodiesLeftOut reads the leftOut field of a stored event, looking at its top
// level only.
func bodiesLeftOut(stored []byte) ([]uint64, error) {
	for len(stored) > 0 {
		number, kind, n := protowire.ConsumeTag(stored)
		if n < 0 {
			return nil, fmt.Errorf("reading a stored event: %w", protowire.ParseError(n))
		}
		stored = stored[n:]
		if number != leftOut {
			if n = protowire.ConsumeFieldValue(number, kind, stored); n < 0 {
				return nil, fmt.Errorf("reading a stored event: %w", protowire.ParseError(n))
			}
			stored = stored[n:]
			continue
		}
		packed, n := protowire.ConsumeBytes(stored)
		if n < 0 {
			return nil, fmt.Errorf("reading a stored event: %w", protowire.ParseError(n))
		}
		var which []uint64
		for len(packed) > 0 {
			i, n := protowire.ConsumeVarint(packed)
			if n < 0 {
				return nil, fmt.Errorf("reading a stored event: %w", protowire.ParseError(n))
			}
			which, packed = append(which, i), packed[n:]
		}
		return which, nil
	}
	return nil, nil
}
