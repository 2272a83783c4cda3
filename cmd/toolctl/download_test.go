package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

func TestADownloadWritesEachByteOnce(t *testing.T) {
	var b strings.Builder
	d := &download{w: &b, next: 0}
	d.sum = sha256.New()
	for _, c := range []*tooldv1.ArtifactChunk{{Data: []byte("abc")}, {Offset: 1, Data: []byte("bcde")}, {Offset: 2}, {Offset: 0, Data: []byte("ab")}, {Offset: 5, Data: []byte("f")}} {
		if err := d.take(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.take(&tooldv1.ArtifactChunk{Offset: 9, Data: []byte("z")}); err == nil {
		t.Error("a hole was not noticed")
	}
	if b.String() != "abcdef" || d.written != 6 {
		t.Errorf("wrote %q", b.String())
	}
	if err := d.check(&tooldv1.Artifact{Ref: &tooldv1.ArtifactRef{Sha256: "00"}}); exitCode(err) != exitService {
		t.Errorf("a wrong digest gave %v", err)
	}
}

// shelf serves one artifact. Each stream breaks after as many bytes as breaks
// says, in chunks of three; the last, and those after it, do not.
type shelf struct {
	tooldv1.ArtifactServiceClient
	content string
	breaks  []int
	code    codes.Code
	asked   []string
}

func (s *shelf) ReadArtifact(_ context.Context, req *tooldv1.ReadArtifactRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[tooldv1.ReadArtifactResponse], error) {
	from, to := int64(0), int64(len(s.content))
	asked := "all"
	if r := req.GetBytes(); r != nil {
		asked = fmt.Sprintf("%d+%d", r.GetOffset(), r.GetLength())
		if from = r.GetOffset(); from < 0 {
			from += to
		}
		if r.GetLength() > 0 {
			to = min(to, from+r.GetLength())
		}
	}
	s.asked = append(s.asked, asked)
	sum := sha256.Sum256([]byte(s.content))
	stream := &reading{parts: []*tooldv1.ReadArtifactResponse{{Part: &tooldv1.ReadArtifactResponse_Header{Header: &tooldv1.Artifact{
		Name: "output", Ref: &tooldv1.ArtifactRef{SizeBytes: int64(len(s.content)), Sha256: hex.EncodeToString(sum[:])},
	}}}}, end: io.EOF}
	if len(s.breaks) > 0 {
		to, s.breaks = min(to, from+int64(s.breaks[0])), s.breaks[1:]
		stream.end = status.Error(s.code, "the stream broke")
	}
	for at := from; at < to; at += 3 {
		stream.parts = append(stream.parts, &tooldv1.ReadArtifactResponse{Part: &tooldv1.ReadArtifactResponse_Chunk{Chunk: &tooldv1.ArtifactChunk{
			Offset: at, Data: []byte(s.content[at:min(to, at+3)]),
		}}})
	}
	return stream, nil
}

// reading is one stream: its parts, then its end.
type reading struct {
	grpc.ClientStream
	parts []*tooldv1.ReadArtifactResponse
	end   error
}

func (r *reading) Recv() (*tooldv1.ReadArtifactResponse, error) {
	if len(r.parts) == 0 {
		return nil, r.end
	}
	part := r.parts[0]
	r.parts = r.parts[1:]
	return part, nil
}

func TestADownloadGoesOnWhereItsStreamBroke(t *testing.T) {
	const content = "0123456789abcdef"
	bytes := func(offset, length int64) *tooldv1.ReadArtifactRequest {
		return &tooldv1.ReadArtifactRequest{Range: &tooldv1.ReadArtifactRequest_Bytes{Bytes: &tooldv1.ByteRange{Offset: offset, Length: length}}}
	}
	lines := &tooldv1.ReadArtifactRequest{Range: &tooldv1.ReadArtifactRequest_Lines{Lines: &tooldv1.LineRange{First: 1}}}
	for _, tt := range []struct {
		name   string
		req    *tooldv1.ReadArtifactRequest
		breaks []int
		code   codes.Code
		want   string
		asked  []string
		fails  codes.Code
	}{
		{name: "at once", req: &tooldv1.ReadArtifactRequest{}, want: content, asked: []string{"all"}},
		{name: "twice", req: &tooldv1.ReadArtifactRequest{}, breaks: []int{7, 4}, want: content, asked: []string{"all", "7+0", "11+0"}},
		{name: "after the last byte", req: &tooldv1.ReadArtifactRequest{}, breaks: []int{16}, want: content, asked: []string{"all", "16+0"}},
		{name: "within a range", req: bytes(2, 10), breaks: []int{5}, want: content[2:12], asked: []string{"2+10", "7+5"}},
		{name: "after a range's last byte", req: bytes(2, 10), breaks: []int{10}, want: content[2:12], asked: []string{"2+10"}},
		{name: "counted from the end", req: bytes(-6, 0), breaks: []int{4}, want: content[10:], asked: []string{"-6+0", "14+0"}},
		{name: "nothing came yet: the caller's to repeat", req: &tooldv1.ReadArtifactRequest{}, breaks: []int{0}, asked: []string{"all"}, fails: codes.Unavailable},
		{name: "no byte for long", req: &tooldv1.ReadArtifactRequest{}, breaks: []int{3, 0, 0, 0, 0, 0, 0}, want: content[:3], asked: []string{"all", "3+0", "3+0", "3+0", "3+0", "3+0"}, fails: codes.Unavailable},
		{name: "a fault that stays", req: &tooldv1.ReadArtifactRequest{}, breaks: []int{3}, code: codes.DataLoss, want: content[:3], asked: []string{"all"}, fails: codes.DataLoss},
		{name: "lines have no offset", req: lines, breaks: []int{3}, want: content[:3], asked: []string{"all"}, fails: codes.Unavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tt.code == codes.OK {
					tt.code = codes.Unavailable
				}
				s := &shelf{content: content, breaks: tt.breaks, code: tt.code}
				var b strings.Builder
				_, err := (&download{client: s, req: tt.req, w: &b}).run(t.Context())
				if status.Code(err) != tt.fails {
					t.Errorf("got %v, want code %v", err, tt.fails)
				}
				if diff := cmp.Diff(tt.want, b.String()); diff != "" {
					t.Errorf("bytes (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.asked, s.asked); diff != "" {
					t.Errorf("asked for (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestADownloadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &shelf{content: "0123", breaks: []int{2}, code: codes.Unavailable}
	if _, err := (&download{client: s, req: &tooldv1.ReadArtifactRequest{}, w: io.Discard}).run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
