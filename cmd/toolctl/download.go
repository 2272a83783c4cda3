package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

// download reads an artifact to its end over as many streams as it takes.
type download struct {
	client  tooldv1.ArtifactServiceClient
	req     *tooldv1.ReadArtifactRequest
	w       io.Writer
	written int64

	header *tooldv1.Artifact
	next   int64 // offset in the artifact of the byte to come; -1 = not known yet
	end    int64 // exclusive; 0 = that of the artifact
	sum    hash.Hash
}

// maxBreaks is how often in a row a stream may break without a byte.
const maxBreaks = 5

// run writes the wanted bytes and checks a whole artifact's SHA-256. Bytes are
// written once each, in order.
func (d *download) run(ctx context.Context) (*tooldv1.Artifact, error) {
	d.next, d.sum = -1, sha256.New()
	if r := d.req.GetBytes(); r.GetLength() > 0 {
		d.end = r.GetOffset() + r.GetLength()
	}
	whole := d.req.GetRange() == nil
	for breaks := 0; ; breaks++ {
		before := d.written
		err := d.stream(ctx)
		if d.written > before {
			breaks = 0
		}
		switch lost := status.Code(err) == codes.Unavailable; {
		case err == nil && whole:
			return d.header, d.check(d.header)
		case err == nil || lost && d.end > 0 && d.next >= d.end: // only the end was lost
			return d.header, nil
		case !lost || d.written == 0 || breaks >= maxBreaks:
			return nil, err
		case d.req.GetLines() != nil:
			// Lines are asked for by number; what comes after a break is known
			// by offset only.
			return nil, err
		}
		if err := d.resume(ctx, breaks); err != nil {
			return nil, err
		}
	}
}

// resume asks for the rest after a pause.
func (d *download) resume(ctx context.Context, breaks int) error {
	rest := &tooldv1.ByteRange{Offset: d.next}
	if d.end > 0 {
		rest.Length = d.end - d.next
	}
	d.req.Range = &tooldv1.ReadArtifactRequest_Bytes{Bytes: rest}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(100 * time.Millisecond << breaks):
		return nil
	}
}

func (d *download) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := d.client.ReadArtifact(ctx, d.req, grpc.WaitForReady(false))
	if err != nil {
		return err
	}
	for {
		part, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h := part.GetHeader(); h != nil {
			d.header = h
			if d.next < 0 && d.req.GetRange() == nil {
				d.next = 0
			}
		}
		if c := part.GetChunk(); c != nil {
			if err := d.take(c); err != nil {
				return err
			}
		}
	}
}

// take writes what is new of a chunk.
func (d *download) take(c *tooldv1.ArtifactChunk) error {
	data := c.GetData()
	if len(data) == 0 {
		return nil
	}
	if d.next < 0 {
		d.next = c.GetOffset()
	}
	switch seen := d.next - c.GetOffset(); {
	case seen < 0:
		return fmt.Errorf("toold skipped bytes %d to %d", d.next, c.GetOffset())
	case seen >= int64(len(data)):
		return nil
	default:
		data = data[seen:]
	}
	if _, err := d.w.Write(data); err != nil {
		return err
	}
	d.sum.Write(data)
	d.next += int64(len(data))
	d.written += int64(len(data))
	return nil
}

func (d *download) check(header *tooldv1.Artifact) error {
	want := header.GetRef().GetSha256()
	if got := hex.EncodeToString(d.sum.Sum(nil)); want != "" && got != want {
		return &exitError{exitService, fmt.Errorf("what was received is not the artifact: SHA-256 %s, want %s; it is not to be used", got, want)}
	}
	return nil
}
