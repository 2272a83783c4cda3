// Package server is the gRPC edge: it authenticates, validates, converts, calls
// the executor and its neighbours, and maps their errors. Protocol buffers and
// gRPC end here.
package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"buf.build/go/protovalidate"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/toold/toold/internal/artifact"
	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/session"
	"github.com/toold/toold/internal/tool"
	pb "github.com/toold/toold/proto/toold/v1"
)

// Transport settings. Clients may ping every 20 s; streams are cut after half an
// hour (±10 %) with ten minutes' grace, so that load spreads over replicas: a
// client attaches again.
const (
	maxRequest     = 16 << 20
	hardLimit      = 2 * maxRequest // above it gRPC refuses in its own words
	maxStreams     = 1000
	pingAfter      = 30 * time.Second
	pingTimeout    = 10 * time.Second
	minPing        = 20 * time.Second
	connectionAge  = 30 * time.Minute
	connectionOver = 10 * time.Minute
	askLedgerEvery = time.Second
)

// Options are what a Server serves. Those without a default are required.
type Options struct {
	Executor   *exec.Executor
	Registry   *tool.Registry
	Sessions   *session.Sessions
	Workspaces *session.Workspaces
	Artifacts  *artifact.Disk
	Ledger     audit.Reader
	// Available says why the ledger cannot be written; nil when it can.
	Available func() error
	Identify  Identify
	Info      Info
	Replica   string
	// Reflection serves the API's description to whoever asks.
	Reflection bool
	// Heartbeat is how long a stream may be silent when its client has no wish;
	// 0 = 15 s.
	Heartbeat time.Duration
	// SendTimeout is how long a client may leave its stream unread; 0 = 30 s.
	SendTimeout    time.Duration
	Logger         *slog.Logger         // nil = none
	MeterProvider  metric.MeterProvider // nil = none
	TracerProvider trace.TracerProvider // nil = none
}

// Server is the gRPC server. Make one with New.
type Server struct {
	Options
	grpc        *grpc.Server
	health      *health.Server
	rules       protovalidate.Validator
	measures    *measures
	log         *slog.Logger
	heartbeat   time.Duration
	sendTimeout time.Duration
	streams     sync.WaitGroup // their sending goroutines
	stop        context.CancelFunc
	watching    sync.WaitGroup
}

// New makes a server that listens on nothing yet. It reports itself as not
// serving until Ready.
func New(o Options) (*Server, error) {
	rules, err := protovalidate.New()
	if err != nil {
		return nil, fmt.Errorf("reading the API's field rules: %w", err)
	}
	if o.MeterProvider == nil {
		o.MeterProvider = metricnoop.NewMeterProvider()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = tracenoop.NewTracerProvider()
	}
	measures, err := newMeasures(o.MeterProvider.Meter("github.com/toold/toold/internal/server"))
	if err != nil {
		return nil, fmt.Errorf("making the server's metrics: %w", err)
	}
	s := &Server{Options: o, measures: measures, health: health.NewServer(), rules: rules, log: o.Logger, heartbeat: o.Heartbeat, sendTimeout: o.SendTimeout}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.heartbeat == 0 {
		s.heartbeat = 15 * time.Second
	}
	if s.sendTimeout == 0 {
		s.sendTimeout = 30 * time.Second
	}
	s.grpc = grpc.NewServer(
		grpc.ForceServerCodecV2(newWireCodec()),
		grpc.StatsHandler(otelgrpc.NewServerHandler(
			otelgrpc.WithMeterProvider(o.MeterProvider), otelgrpc.WithTracerProvider(o.TracerProvider))),
		grpc.ChainUnaryInterceptor(s.unary()...),
		grpc.ChainStreamInterceptor(s.streaming()...),
		grpc.MaxRecvMsgSize(hardLimit),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: pingAfter, Timeout: pingTimeout, MaxConnectionAge: connectionAge, MaxConnectionAgeGrace: connectionOver,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
	)
	s.register()
	return s, nil
}

func (s *Server) register() {
	for _, r := range []struct {
		desc *grpc.ServiceDesc
		impl any
	}{
		{&pb.ExecutionService_ServiceDesc, execution{Server: s}},
		{&pb.ArtifactService_ServiceDesc, artifacts{Server: s}},
		{&pb.CatalogService_ServiceDesc, catalog{Server: s}},
		{&pb.SessionService_ServiceDesc, sessions{Server: s}},
		{&pb.AuditService_ServiceDesc, decisions{Server: s}},
		{&pb.AdminService_ServiceDesc, admin{Server: s}},
	} {
		s.grpc.RegisterService(r.desc, r.impl)
	}
	healthpb.RegisterHealthServer(s.grpc, s.health)
	s.setHealth(false)
	if s.Reflection {
		reflection.Register(s.grpc)
	}
}

// Ready begins to report the daemon as serving, for as long as the ledger can be
// written and the executor does not drain.
func (s *Server) Ready() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	serving := s.Serving()
	s.setHealth(serving)
	s.watching.Go(func() {
		tick := time.NewTicker(askLedgerEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if now := s.Serving(); now != serving {
				serving = now
				s.setHealth(now)
				s.log.Warn("serving state changed", "serving", now)
			}
		}
	})
}

// Serving reports whether a batch would be accepted now.
func (s *Server) Serving() bool { return s.Available() == nil && !s.Executor.IsDraining() }

func (s *Server) setHealth(serving bool) {
	state := healthpb.HealthCheckResponse_NOT_SERVING
	if serving {
		state = healthpb.HealthCheckResponse_SERVING
	}
	for _, service := range []string{"", pb.ExecutionService_ServiceDesc.ServiceName} {
		s.health.SetServingStatus(service, state)
	}
}

// Serve accepts connections on l, which it closes, until Shutdown. It may be
// called for several listeners.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); err != nil {
		return fmt.Errorf("serving on %s: %w", l.Addr(), err)
	}
	return nil
}

// Shutdown takes no new RPCs and waits for those under way; when ctx ends it
// cuts them. It returns after the last handler has. Drain the executor first:
// that is what ends the streams.
func (s *Server) Shutdown(ctx context.Context) {
	s.health.Shutdown()
	if s.stop != nil {
		s.stop()
	}
	s.watching.Wait()
	cut := context.AfterFunc(ctx, s.grpc.Stop)
	s.grpc.GracefulStop()
	cut()
	s.streams.Wait()
}
