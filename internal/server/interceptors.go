package server

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/toold/toold/internal/exec"
	pb "github.com/toold/toold/proto/toold/v1"
)

// The interceptors, outermost first: one log line an RPC, panics, errors to
// statuses, who calls, field rules.
func (s *Server) unary() []grpc.UnaryServerInterceptor {
	return []grpc.UnaryServerInterceptor{
		logging.UnaryServerInterceptor(rpcLog(s.log), rpcLogOptions()...),
		recovery.UnaryServerInterceptor(recovery.WithRecoveryHandlerContext(s.recover)),
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			out, err := next(ctx, req)
			return out, toStatus(ctx, s.log, err)
		},
		auth.UnaryServerInterceptor(s.authenticate),
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := s.validate(req); err != nil {
				return nil, err
			}
			return next(ctx, req)
		},
	}
}

func (s *Server) streaming() []grpc.StreamServerInterceptor {
	return []grpc.StreamServerInterceptor{
		logging.StreamServerInterceptor(rpcLog(s.log), rpcLogOptions()...),
		recovery.StreamServerInterceptor(recovery.WithRecoveryHandlerContext(s.recover)),
		func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			return toStatus(stream.Context(), s.log, next(srv, stream))
		},
		auth.StreamServerInterceptor(s.authenticate),
		func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			return next(srv, validating{stream, s})
		},
	}
}

func (s *Server) recover(ctx context.Context, p any) error { return recovered(ctx, s.log, p) }

// validating is a stream whose messages from the client keep the field rules.
type validating struct {
	grpc.ServerStream
	s *Server
}

func (v validating) RecvMsg(m any) error {
	if err := v.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return v.s.validate(m)
}

// validate checks that a request could be read and keeps the proto's field
// rules. For the RPCs that run something the answer says that nothing ran.
func (s *Server) validate(m any) error {
	message, ok := m.(proto.Message)
	if !ok {
		return fmt.Errorf("a request is a %T, not a message", m)
	}
	err := unreadable(message)
	batch, runs := m.(interface{ GetSpec() *pb.BatchSpec })
	switch {
	case err != nil:
	case runs && batch.GetSpec() == nil:
		err = &exec.Error{Kind: exec.KindInvalid, Reason: "BATCH_MALFORMED", Field: "spec", Message: "spec is missing; it may be empty"}
	default:
		err = s.rules.Validate(message)
	}
	if runs {
		return refuse(err)
	}
	return err
}

// rpcLog gives one line an RPC: who, what, how long, which status; never what
// was in it.
func rpcLog(log *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(ctx context.Context, level logging.Level, _ string, fields ...any) {
		log.Log(ctx, slog.Level(level), "rpc", fields...)
	})
}

func rpcLogOptions() []logging.Option {
	return []logging.Option{
		logging.WithLogOnEvents(logging.FinishCall),
		logging.WithLevels(func(codes.Code) logging.Level { return logging.LevelDebug }),
		logging.WithDisableLoggingFields(logging.ComponentFieldKey),
	}
}
