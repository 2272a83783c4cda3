package server

import (
	"context"
	"net"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/tool"
)

// Identify says who calls, from the transport: never from a field of a request.
// An error refuses the RPC.
type Identify func(ctx context.Context) (tool.Caller, error)

// Local is the identity of the embedded mode, where whoever reaches the daemon
// is the person who started it: loopback TCP and the Unix socket in the data
// folder are all that is served. The socket, which only that person's own
// processes can open, may also approve and administer.
//
// A web page cannot reach this as a page reaches other local servers: what is
// served is HTTP/2 with prior knowledge only, which browsers do not speak.
func Local(ctx context.Context) (tool.Caller, error) {
	c := tool.Caller{Tenant: "default", Principal: tool.Principal{ID: "local", Kind: tool.PrincipalHuman}}
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil && p.Addr.Network() == "unix" {
		c.Groups = []string{"admin", "approver"}
	}
	return c, nil
}

type callerKey struct{}

// authenticate puts the caller into the context.
func (s *Server) authenticate(ctx context.Context) (context.Context, error) {
	c, err := s.Identify(ctx)
	if err != nil {
		return nil, toStatus(ctx, s.log, refuse(err))
	}
	return context.WithValue(ctx, callerKey{}, c), nil
}

// callerOf is who calls. Every RPC went through authenticate.
func callerOf(ctx context.Context) tool.Caller {
	return ctx.Value(callerKey{}).(tool.Caller)
}

// peerOf is where a request came from.
func peerOf(ctx context.Context) exec.Peer {
	var out exec.Peer
	if p, ok := peer.FromContext(ctx); ok {
		if tcp, ok := p.Addr.(*net.TCPAddr); ok {
			out.Addr = tcp.AddrPort().Addr().Unmap().WithZone("").String()
		}
	}
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		if agent := md.Get("user-agent"); len(agent) > 0 {
			out.UserAgent = clip(agent[0], 256)
		}
	}
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		out.TraceID = span.TraceID().String()
	}
	return out
}
