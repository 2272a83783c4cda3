package server

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/tool"
	pb "github.com/toold/toold/proto/toold/v1"
)

// The fields of a stored request: a small protobuf message of this package's
// own, so that neither side of the API has to carry it. Numbers are never given
// anew. There is no secret in it: credentials end at the transport.
const (
	storedRequest    protowire.Number = 1 // toold.v1.ExecuteBatchRequest
	storedPrincipal  protowire.Number = 2 // toold.v1.Principal
	storedTenant     protowire.Number = 3
	storedGroup      protowire.Number = 4 // repeated
	storedOnBehalfOf protowire.Number = 5
	storedPeerAddr   protowire.Number = 6
	storedUserAgent  protowire.Number = 7
	storedTraceID    protowire.Number = 8
)

// encodeRequest makes what Codec.Request reads back.
func encodeRequest(caller tool.Caller, peer exec.Peer, request *pb.ExecuteBatchRequest) []byte {
	var out []byte
	put := func(n protowire.Number, b []byte) {
		if len(b) > 0 {
			out = protowire.AppendTag(out, n, protowire.BytesType)
			out = protowire.AppendBytes(out, b)
		}
	}
	put(storedRequest, marshal(request))
	put(storedPrincipal, marshal(principalToProto(caller.Principal)))
	put(storedTenant, []byte(caller.Tenant))
	for _, g := range caller.Groups {
		put(storedGroup, []byte(g))
	}
	put(storedOnBehalfOf, []byte(caller.OnBehalfOf))
	put(storedPeerAddr, []byte(peer.Addr))
	put(storedUserAgent, []byte(peer.UserAgent))
	put(storedTraceID, []byte(peer.TraceID))
	return out
}

// decodeRequest is the inverse of encodeRequest.
func decodeRequest(encoded []byte) (caller tool.Caller, peer exec.Peer, request *pb.ExecuteBatchRequest, err error) {
	request = new(pb.ExecuteBatchRequest)
	for rest := encoded; len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return caller, peer, nil, fmt.Errorf("decoding a stored request: %w", protowire.ParseError(n))
		}
		size := protowire.ConsumeFieldValue(number, kind, rest[n:])
		if size < 0 {
			return caller, peer, nil, fmt.Errorf("decoding a stored request: %w", protowire.ParseError(size))
		}
		field := rest[n : n+size]
		rest = rest[n+size:]
		value, n := protowire.ConsumeBytes(field)
		if kind != protowire.BytesType || n < 0 {
			continue // a newer daemon's
		}
		switch number {
		case storedRequest:
			err = proto.Unmarshal(value, request)
		case storedPrincipal:
			var principal pb.Principal
			err = proto.Unmarshal(value, &principal)
			caller.Principal = principalFromProto(&principal)
		case storedTenant:
			caller.Tenant = string(value)
		case storedGroup:
			caller.Groups = append(caller.Groups, string(value))
		case storedOnBehalfOf:
			caller.OnBehalfOf = string(value)
		case storedPeerAddr:
			peer.Addr = string(value)
		case storedUserAgent:
			peer.UserAgent = string(value)
		case storedTraceID:
			peer.TraceID = string(value)
		}
		if err != nil {
			return caller, peer, nil, fmt.Errorf("decoding field %d of a stored request: %w", number, err)
		}
	}
	return caller, peer, request, nil
}

// Request implements exec.Codec. Digest is that of the content, Encoded is what
// was given.
func (Codec) Request(encoded []byte) (tool.Caller, exec.Request, error) {
	caller, peer, request, err := decodeRequest(encoded)
	if err != nil {
		return tool.Caller{}, exec.Request{}, err
	}
	r, err := requestFromProto(request.GetSpec(), request.GetCalls())
	if err != nil {
		return tool.Caller{}, exec.Request{}, fmt.Errorf("decoding a stored request: %w", err)
	}
	r.Peer, r.Digest, r.Encoded = peer, digest(r), encoded
	return caller, r, nil
}
