package server

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/tool"
	pb "github.com/toold/toold/proto/toold/v1"
)

const testBatch tool.BatchID = "0190a1b2-0000-7000-8000-000000000001"

// filled gives a value of which every exported field is set, so that a field
// that a conversion forgets is missed.
func filled[T any](t *testing.T) T {
	t.Helper()
	var out T
	n := 0
	fill(t, reflect.ValueOf(&out).Elem(), &n)
	return out
}

func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Date(2026, 11, 30, 12, 0, 0, *n*1000, time.UTC)
		return
	case *tool.Class:
		*x = tool.Write
		return
	case *tool.Outcome:
		*x = tool.TimedOut
		return
	case *tool.Output:
		*x = tool.Text{Text: fmt.Sprint("text ", *n), MediaType: "text/markdown"}
		return
	case *[]byte:
		*x = []byte(fmt.Sprint("bytes ", *n))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(float64(*n))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(t, v.Index(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"key": fmt.Sprint("value ", *n)}))
	default:
		t.Fatalf("fill: %s is not known", v.Type())
	}
}

// ledgerOnly are the fields of a decision that the wire does not have.
var ledgerOnly = cmpopts.IgnoreFields(audit.Decision{},
	"Tenant", "No", "Tool", "Principal", "OnBehalfOf", "Session", "SessionEpoch", "EvalMicros", "First")

func TestNumberedEventsSurviveTheCodec(t *testing.T) {
	decided := filled[exec.Decided](t)
	decided.Decision.Batch, decided.Decision.Call = testBatch, "call-1"
	decided.Decision.Verdict, decided.Decision.Stage = "ASK", "COMMAND"
	finished := filled[exec.Finished](t)
	summary := filled[exec.Summary](t)
	summary.State = "CANCELLED"
	output := func(o tool.Output) exec.Finished { return exec.Finished{Outcome: tool.Succeeded, Output: o} }
	for name, e := range map[string]exec.Event{
		"accepted":   {Index: -1, Body: filled[exec.Accepted](t)},
		"decided":    {Call: "call-1", Index: 0, Body: decided},
		"started":    {Call: "call-1", Index: 1, Body: filled[exec.Started](t)},
		"finished":   {Call: "call-1", Index: 2, Body: finished},
		"no output":  {Call: "call-1", Index: 2, Body: exec.Finished{Outcome: tool.Denied}},
		"summary":    {Index: -1, Body: summary},
		"text":       {Call: "c", Index: 3, Body: output(filled[tool.Text](t))},
		"structured": {Call: "c", Index: 3, Body: output(filled[tool.Structured](t))},
		"binary":     {Call: "c", Index: 3, Body: output(filled[tool.Binary](t))},
		"truncated":  {Call: "c", Index: 3, Body: output(filled[tool.Truncated](t))},
	} {
		t.Run(name, func(t *testing.T) {
			e.Time = time.Date(2026, 11, 30, 12, 0, 0, 123456000, time.UTC)
			wire, stored := Codec{}.Encode(testBatch, e, 1<<20)
			if stored != nil {
				t.Error("a small event is stored in another form than it is sent")
			}
			e.Seq = 7
			got, err := Codec{}.Decode(numbered(wire, e.Seq))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(e, got, ledgerOnly, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("after a round trip (-want +got):\n%s", diff)
			}
		})
	}
}

// numbered does what the log does.
func numbered(wire []byte, seq int64) []byte {
	out := protowire.AppendTag(append([]byte(nil), wire...), seqField, protowire.VarintType)
	return protowire.AppendVarint(out, uint64(seq))
}

func TestLiveEventsAreEncodedWhole(t *testing.T) {
	for _, test := range []struct {
		body exec.Body
		want *pb.BatchEvent
	}{
		{
			exec.Chunk{Channel: tool.Stderr, Offset: 7, Data: []byte("abc")},
			&pb.BatchEvent{Event: &pb.BatchEvent_Chunk{Chunk: &pb.OutputChunk{Channel: pb.OutputChannel_OUTPUT_CHANNEL_STDERR, Offset: 7, Data: []byte("abc")}}},
		},
		{
			exec.Gap{Channel: tool.Stdout, From: 1, To: 9, Artifact: &tool.ArtifactRef{URI: "toold://artifacts/x", Size: 3, SHA256: "ab", MediaType: "text/plain"}},
			&pb.BatchEvent{Event: &pb.BatchEvent_Gap{Gap: &pb.OutputGap{
				Channel: pb.OutputChannel_OUTPUT_CHANNEL_STDOUT, FromOffset: 1, ToOffset: 9,
				Artifact: &pb.ArtifactRef{Uri: "toold://artifacts/x", SizeBytes: 3, Sha256: "ab", MediaType: "text/plain"},
			}}},
		},
		{
			exec.Progress{Done: 1, Total: 2, Message: "half"},
			&pb.BatchEvent{Event: &pb.BatchEvent_Progress{Progress: &pb.Progress{Done: 1, Total: 2, Message: "half"}}},
		},
		{
			exec.Draining{After: time.Second},
			&pb.BatchEvent{Event: &pb.BatchEvent_Draining{Draining: &pb.Draining{ReattachAfter: duration(time.Second)}}},
		},
	} {
		wire, _ := Codec{}.Encode(testBatch, exec.Event{Call: "c", Index: 4, Body: test.body}, 0)
		var got pb.BatchEvent
		if err := proto.Unmarshal(wire, &got); err != nil {
			t.Fatal(err)
		}
		index := int32(4)
		test.want.BatchId, test.want.CallId, test.want.CallIndex = string(testBatch), "c", &index
		if diff := cmp.Diff(test.want, &got, protocmp.Transform()); diff != "" {
			t.Errorf("%T (-want +got):\n%s", test.body, diff)
		}
		if _, err := (Codec{}).Decode(wire); err == nil {
			t.Errorf("%T was decoded, though it is never numbered", test.body)
		}
	}
}

func TestBadStringsAreRepairedEverywhere(t *testing.T) {
	bad := "a\xffb"
	f := exec.Finished{
		Outcome: tool.Failed, Output: tool.Text{Text: bad, MediaType: bad}, Attachments: []tool.Output{tool.Structured{JSON: []byte(bad), Rendering: bad}},
		Hints: []tool.Hint{{Message: bad, Suggestion: bad, Code: bad}}, Metadata: map[string]string{bad: bad, "good": "good"},
		Error:   &tool.Error{Reason: bad, Message: bad, Violations: []tool.Violation{{Path: bad}}, Metadata: map[string]string{bad: "x"}},
		Changes: []tool.Change{{Path: bad, Diff: &tool.ArtifactRef{URI: bad}}},
	}
	wire, _ := Codec{}.Encode(testBatch, exec.Event{Call: tool.CallID(bad), Body: f}, 0)
	got, err := Codec{}.Decode(wire)
	if err != nil {
		t.Fatal(err)
	}
	good := "a\uFFFDb"
	want := exec.Event{Call: tool.CallID(good), Body: exec.Finished{
		Outcome: tool.Failed, Output: tool.Text{Text: good, MediaType: good}, Attachments: []tool.Output{tool.Structured{JSON: []byte(good), Rendering: good}},
		Hints: []tool.Hint{{Message: good, Suggestion: good, Code: good}}, Metadata: map[string]string{good: good, "good": "good"},
		Error:   &tool.Error{Reason: good, Message: good, Violations: []tool.Violation{{Path: good}}, Metadata: map[string]string{good: "x"}},
		Changes: []tool.Change{{Path: good, Diff: &tool.ArtifactRef{URI: good}}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLargeBodiesAreLeftOutAndPutBack(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 8<<10) // 128 KiB
	ref := func(id string) *tool.ArtifactRef {
		return &tool.ArtifactRef{URI: "toold://artifacts/" + id, Size: int64(len(big))}
	}
	bodies := map[string]string{"toold://artifacts/t": big, "toold://artifacts/b": big}
	read := func(_ context.Context, uri string) ([]byte, error) {
		b, ok := bodies[uri]
		if !ok {
			return nil, fmt.Errorf("nobody knows %s", uri)
		}
		return []byte(b), nil
	}
	for name, test := range map[string]struct {
		result  exec.Finished
		leftOut bool
	}{
		"text with its artifact":          {exec.Finished{Output: tool.Text{Text: big, Artifact: ref("t")}}, true},
		"binary among attachments":        {exec.Finished{Output: tool.Text{Text: "x"}, Attachments: []tool.Output{tool.Binary{Data: []byte(big), Artifact: ref("b")}}}, true},
		"text without an artifact":        {exec.Finished{Output: tool.Text{Text: big}}, false},
		"lossy text":                      {exec.Finished{Output: tool.Text{Text: big, Lossy: true, Artifact: ref("t")}}, false},
		"text whose artifact is not it":   {exec.Finished{Output: tool.Text{Text: big + "x", Artifact: ref("t")}}, false},
		"truncated":                       {exec.Finished{Output: tool.Truncated{Visible: big, Full: ref("t")}}, false},
		"a large message of small bodies": {exec.Finished{Output: tool.Text{Text: "x", Artifact: ref("t")}, Metadata: map[string]string{"m": big}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			wire, stored := Codec{}.Encode(testBatch, exec.Event{Call: "c", Body: test.result}, 64<<10)
			if (stored != nil) != test.leftOut {
				t.Fatalf("left out = %v, want %v", stored != nil, test.leftOut)
			}
			if !test.leftOut {
				return
			}
			if len(stored) > 1<<10 {
				t.Errorf("what is stored has %d bytes still", len(stored))
			}
			want := numbered(wire, 9)
			got, err := Codec{}.Restore(t.Context(), numbered(stored, 9), read)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error("what comes back is not byte for byte what was sent")
			}
			if _, err := (Codec{}).Decode(numbered(stored, 9)); err != nil {
				t.Errorf("the stored form cannot be decoded by itself: %v", err)
			}
		})
	}
	if same, err := (Codec{}).Restore(t.Context(), []byte{0xa, 1, 'x'}, nil); err != nil || string(same) != "\x0a\x01x" {
		t.Errorf("an event that is whole was changed: %q, %v", same, err)
	}
}

func FuzzRestore(f *testing.F) {
	wire, _ := Codec{}.Encode(testBatch, exec.Event{Call: "c", Body: exec.Finished{Output: tool.Text{Text: "abc"}}}, 0)
	f.Add(wire)
	f.Add(protowire.AppendBytes(protowire.AppendTag(wire, leftOut, protowire.BytesType), []byte{0, 1, 5}))
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, stored []byte) {
		body := func(context.Context, string) ([]byte, error) { return []byte("body"), nil }
		out, err := Codec{}.Restore(t.Context(), stored, body)
		if err != nil {
			return
		}
		if e, err := (Codec{}).Decode(out); err == nil && !utf8.ValidString(string(e.Call)) {
			t.Errorf("a call id that is no text came through: %q", e.Call)
		}
	})
}

func FuzzStoredRequest(f *testing.F) {
	f.Add(encodeRequest(tool.Caller{Tenant: "t", Groups: []string{"a", "b"}}, exec.Peer{Addr: "::1"}, &pb.ExecuteBatchRequest{Spec: &pb.BatchSpec{}}))
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, encoded []byte) {
		_, _, _ = Codec{}.Request(encoded)
	})
}

func BenchmarkEncode(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10} {
		e := exec.Event{Call: "call-1", Index: 1, Time: time.Now(), Body: exec.Finished{
			Outcome: tool.Succeeded, Output: tool.Text{Text: strings.Repeat("line of text\n", size/13)},
			Metadata: map[string]string{"path": "a.go", "totalLines": "10"},
		}}
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Codec{}.Encode(testBatch, e, 64<<10)
			}
		})
	}
}
