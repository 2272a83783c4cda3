package server

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/toold/toold/proto/toold/v1"
)

// Info is what GetServerInfo tells beside the executor's own limits.
type Info struct {
	Version          string
	Isolation        string // "none", or what confines commands
	Store            string // "sqlite" or "postgres"
	Profile          string // of the policy
	PolicyVersion    func() string
	LedgerWarnings   []string
	EventRetention   time.Duration
	RequestRetention time.Duration
}

// admin is toold.v1.AdminService.
type admin struct {
	pb.UnimplementedAdminServiceServer
	*Server
}

func (s admin) GetServerInfo(context.Context, *pb.GetServerInfoRequest) (*pb.GetServerInfoResponse, error) {
	l := s.Executor.Limits
	return &pb.GetServerInfoResponse{
		Version:         s.Info.Version,
		PolicyVersion:   s.Info.PolicyVersion(),
		CatalogRevision: s.Registry.Revision(),
		Isolation:       s.Info.Isolation,
		Store:           s.Info.Store,
		LedgerWarnings:  s.Info.LedgerWarnings,
		Profile:         s.Info.Profile,
		Workspaces:      s.Workspaces.List(),
		Limits: &pb.Limits{
			MaxCallsPerBatch:     int32(l.Calls),
			MaxRequestBytes:      maxRequest,
			MaxInlineBytes:       int32(l.InlineBytes),
			MaxCallTimeout:       durationpb.New(l.CallTimeout),
			EventRetention:       durationpb.New(s.Info.EventRetention),
			MaxArgumentsBytes:    int32(l.ArgumentsBytes),
			MaxRunningBatches:    int32(l.RunningBatches),
			MaxBatchTimeout:      durationpb.New(l.MaxBatchTimeout),
			MaxBytesPerCall:      l.Budget.BytesPerCall,
			MaxBytesPerBatch:     l.Budget.BytesPerBatch,
			MaxTokensPerCall:     int64(l.Budget.TokensPerCall),
			DefaultParallelReads: int32(l.ParallelReads),
			ArtifactCaptureBytes: l.CaptureBytes,
			RequestIdRetention:   durationpb.New(s.Info.RequestRetention),
		},
	}, nil
}
