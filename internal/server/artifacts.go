package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"

	"google.golang.org/grpc"

	"github.com/toold/toold/internal/artifact"
	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/tool"
	pb "github.com/toold/toold/proto/toold/v1"
)

const defaultChunkBytes = 64 << 10

// artifacts is toold.v1.ArtifactService.
type artifacts struct {
	pb.UnimplementedArtifactServiceServer
	*Server
}

// found is an artifact of the caller's tenant: stored, or still being written.
type found struct {
	row  audit.ArtifactEvent // of a stored one
	live *artifact.Live      // nil for a stored one; to be closed
	uri  string
}

// find looks an artifact up; what is another tenant's is not there.
func (s artifacts) find(ctx context.Context, uri string) (found, error) {
	id, ok := artifact.ParseURI(uri)
	if !ok || !isID(id) {
		return found{}, &exec.Error{
			Kind: exec.KindInvalid, Reason: reasonMalformed, Field: "uri", Message: "want " + artifact.URI("ID") + ", as results give it",
		}
	}
	tenant := callerOf(ctx).Tenant
	if l, ok := s.Artifacts.Live(id); ok {
		if l.Tenant() == tenant {
			return found{live: l, uri: uri}, nil
		}
		_ = l.Close()
		return found{}, gone(uri)
	}
	row, err := s.Ledger.Artifact(ctx, tenant, id)
	if errors.Is(err, audit.ErrNotFound) {
		return found{}, gone(uri)
	}
	return found{row: row, uri: uri}, err
}

func (f found) close() {
	if f.live != nil {
		_ = f.live.Close()
	}
}

func (f found) toProto() *pb.Artifact {
	if f.live != nil {
		return &pb.Artifact{
			Ref: &pb.ArtifactRef{Uri: f.uri, SizeBytes: f.live.Size(), MediaType: f.live.MediaType()}, Live: true,
		}
	}
	return rowToProto(f.row)
}

func rowToProto(row audit.ArtifactEvent) *pb.Artifact {
	return &pb.Artifact{
		Ref: &pb.ArtifactRef{
			Uri: artifact.URI(row.Artifact), SizeBytes: row.Size, Sha256: hexDigest(row.SHA256), MediaType: row.MediaType,
		},
		BatchId:    string(row.Batch),
		CallId:     string(row.Call),
		Name:       row.Name,
		CreateTime: timestamp(row.At),
	}
}

func gone(uri string) error {
	return &exec.Error{
		Kind: exec.KindNotFound, Reason: reasonArtifactGone, Message: "there is no such artifact, or no longer",
		Metadata: map[string]string{"resource": "artifact", "name": uri},
	}
}

func (s artifacts) GetArtifact(ctx context.Context, in *pb.GetArtifactRequest) (*pb.GetArtifactResponse, error) {
	f, err := s.find(ctx, in.GetUri())
	if err != nil {
		return nil, err
	}
	defer f.close()
	return &pb.GetArtifactResponse{Artifact: f.toProto()}, nil
}

func (s artifacts) ListArtifacts(ctx context.Context, in *pb.ListArtifactsRequest) (*pb.ListArtifactsResponse, error) {
	p, err := newPage(in, "", 50, isID)
	if err != nil {
		return nil, err
	}
	if !isID(in.GetBatchId()) {
		return &pb.ListArtifactsResponse{}, nil
	}
	rows, err := s.Ledger.Artifacts(ctx, callerOf(ctx).Tenant, tool.BatchID(in.GetBatchId()), tool.CallID(in.GetCallId()), p.after, p.size+1)
	if err != nil {
		return nil, err
	}
	var out pb.ListArtifactsResponse
	for i, row := range rows {
		if i == p.size {
			out.NextPageToken = p.next(rows[i-1].Artifact)
			break
		}
		out.Artifacts = append(out.Artifacts, rowToProto(row))
	}
	return &out, nil
}

func (s artifacts) ReadArtifact(in *pb.ReadArtifactRequest, stream grpc.ServerStreamingServer[pb.ReadArtifactResponse]) error {
	ctx := stream.Context()
	f, err := s.find(ctx, in.GetUri())
	if err != nil {
		return err
	}
	defer f.close()
	out := &chunkWriter{stream: stream, header: f.toProto(), buf: make([]byte, chunkBytes(in))}
	if f.live != nil {
		return s.readLive(ctx, in, f.live, out)
	}
	body, err := s.Artifacts.Open(hex.EncodeToString(f.row.SHA256[:]))
	if errors.Is(err, artifact.ErrGone) {
		return gone(f.uri)
	}
	if err != nil {
		return fmt.Errorf("opening %s: %w", f.uri, err)
	}
	defer func() { _ = body.Close() }()
	if body.Size() != f.row.Size {
		return corrupt(f.uri)
	}
	section, err := section(ctx, in, body)
	if err != nil {
		return err
	}
	// The bytes are hashed as they are sent: only of the whole can it be told
	// whether they are those that were stored.
	sum := sha256.New()
	if err := out.copy(io.TeeReader(section, sum), offsetOf(section)); err != nil {
		return err
	}
	if section.Size() == f.row.Size && audit.Digest(sum.Sum(nil)) != f.row.SHA256 {
		return corrupt(f.uri)
	}
	return nil
}

func corrupt(uri string) error {
	return &exec.Error{
		Kind: exec.KindDataLoss, Reason: reasonArtifactCorrupt,
		Message:  "the stored bytes are not those that were written; do not use what was received, and tell the operator",
		Metadata: map[string]string{"uri": uri},
	}
}

func chunkBytes(in *pb.ReadArtifactRequest) int {
	if n := in.GetChunkBytes(); n > 0 {
		return int(n)
	}
	return defaultChunkBytes
}

// section is the wanted part of a content.
func section(ctx context.Context, in *pb.ReadArtifactRequest, body artifact.Reader) (*io.SectionReader, error) {
	var out *io.SectionReader
	var err error
	switch r := in.GetRange().(type) {
	case *pb.ReadArtifactRequest_Lines:
		out, err = artifact.ReadLines(ctx, body, r.Lines.GetFirst(), r.Lines.GetCount())
	default:
		out, err = artifact.ReadRange(body, in.GetBytes().GetOffset(), in.GetBytes().GetLength())
	}
	if errors.Is(err, artifact.ErrRange) {
		return nil, &exec.Error{
			Kind: exec.KindRange, Reason: reasonRangeBeyondEnd, Message: err.Error(),
			Metadata: map[string]string{"size_bytes": fmt.Sprint(body.Size())},
		}
	}
	return out, err
}

func offsetOf(s *io.SectionReader) int64 {
	_, offset, _ := s.Outer()
	return offset
}

// readLive sends the wanted part of what there is so far; with follow, of what
// there will be.
func (s artifacts) readLive(ctx context.Context, in *pb.ReadArtifactRequest, live *artifact.Live, out *chunkWriter) error {
	_, byLines := in.GetRange().(*pb.ReadArtifactRequest_Lines)
	if in.GetFollow() && byLines { // where lines end is known at the end
		if _, err := s.await(ctx, live, math.MaxInt64, out); err != nil {
			return err
		}
	}
	part, err := section(ctx, in, live)
	if err != nil {
		return err
	}
	at := offsetOf(part)
	if !in.GetFollow() || byLines {
		return out.copy(part, at)
	}
	end := int64(math.MaxInt64)
	if n := in.GetBytes().GetLength(); n > 0 && n < end-at {
		end = at + n
	}
	for at < end {
		size, err := s.await(ctx, live, at, out)
		if err != nil {
			return err
		}
		if size <= at {
			break
		}
		size = min(size, end)
		if err := out.copy(io.NewSectionReader(live, at, size-at), at); err != nil {
			return err
		}
		at = size
	}
	return out.open()
}

// await returns when there are more than off bytes, or no more will come. While
// there is no news the client gets empty chunks.
func (s artifacts) await(ctx context.Context, live *artifact.Live, off int64, out *chunkWriter) (int64, error) {
	for {
		quiet, cancel := context.WithTimeout(ctx, s.heartbeat)
		size, _, err := live.Wait(quiet, off)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return size, err
		}
		if err := out.send(min(off, size), nil); err != nil {
			return 0, err
		}
	}
}

// chunkWriter sends bytes as chunks, after the header.
type chunkWriter struct {
	stream grpc.ServerStreamingServer[pb.ReadArtifactResponse]
	header *pb.Artifact // nil once it is sent
	buf    []byte
}

// open sends the header, once.
func (w *chunkWriter) open() error {
	if w.header == nil {
		return nil
	}
	header := &pb.ReadArtifactResponse{Part: &pb.ReadArtifactResponse_Header{Header: w.header}}
	w.header = nil
	return w.stream.Send(header)
}

// send may use data again: it is encoded when Send returns.
func (w *chunkWriter) send(offset int64, data []byte) error {
	if err := w.open(); err != nil {
		return err
	}
	return w.stream.Send(&pb.ReadArtifactResponse{Part: &pb.ReadArtifactResponse_Chunk{
		Chunk: &pb.ArtifactChunk{Offset: offset, Data: data},
	}})
}

func (w *chunkWriter) copy(from io.Reader, offset int64) error {
	if err := w.open(); err != nil {
		return err
	}
	for {
		n, err := io.ReadFull(from, w.buf)
		if n > 0 {
			if err := w.send(offset, w.buf[:n]); err != nil {
				return err
			}
			offset += int64(n)
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading an artifact: %w", err)
		}
	}
}
