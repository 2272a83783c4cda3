package server

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold/toold/internal/budget"
	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/tool"
	pb "github.com/toold/toold/proto/toold/v1"
)

// freshFor is how long a client may keep a list of tools: they change only with
// the daemon.
const freshFor = time.Minute

// catalog is toold.v1.CatalogService. Every tool is hot: its schema is in every
// prompt.
type catalog struct {
	pb.UnimplementedCatalogServiceServer
	*Server
}

func (s catalog) ListTools(_ context.Context, in *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	revision := s.Registry.Revision()
	p, err := newPage(in, revision, 200, isName)
	if err != nil {
		return nil, err
	}
	out := &pb.ListToolsResponse{Revision: revision, FreshFor: durationpb.New(freshFor)}
	for _, spec := range s.Registry.Specs() {
		switch {
		case spec.Name <= p.after,
			in.GetTier() == pb.ToolTier_TOOL_TIER_COLD,
			in.GetCategory() != "" && in.GetCategory() != spec.Category:
			continue
		}
		if len(out.GetTools()) == p.size {
			out.NextPageToken = p.next(out.GetTools()[p.size-1].GetName())
			break
		}
		out.Tools = append(out.Tools, toolToProto(spec, in.GetView() == pb.ToolView_TOOL_VIEW_FULL))
	}
	return out, fits(out, "ask for smaller pages")
}

func (s catalog) GetTool(_ context.Context, in *pb.GetToolRequest) (*pb.GetToolResponse, error) {
	t, ok := s.Registry.Lookup(in.GetName())
	if !ok {
		nearest := strings.Join(s.Registry.Nearest(in.GetName()), ", ")
		message := "there is no tool of this name"
		if nearest != "" {
			message += "; the nearest names are " + nearest
		}
		return nil, &exec.Error{
			Kind: exec.KindNotFound, Reason: reasonToolNotFound, Message: message,
			Metadata: map[string]string{"resource": "tool", "name": in.GetName(), "nearest": nearest},
		}
	}
	spec := t.Spec()
	if v := in.GetVersion(); v != "" && v != spec.Version {
		return nil, &exec.Error{
			Kind: exec.KindNotFound, Reason: reasonVersionMismatch,
			Message:  "the tool has version " + spec.Version,
			Metadata: map[string]string{"resource": "tool", "name": in.GetName(), "version": spec.Version},
		}
	}
	return &pb.GetToolResponse{Tool: toolToProto(spec, true)}, nil
}

func toolToProto(s tool.Spec, full bool) *pb.Tool {
	out := &pb.Tool{
		Name:              s.Name,
		Version:           s.Version,
		Title:             s.Title,
		UsageGuidance:     s.UsageGuidance,
		SideEffect:        pb.SideEffect(s.Class.OrWidest()),
		Idempotency:       pb.Idempotency(s.Idempotency + 1),
		Tier:              pb.ToolTier_TOOL_TIER_HOT,
		Category:          s.Category,
		DefaultTimeout:    duration(s.DefaultTimeout),
		MaxTimeout:        duration(s.MaxTimeout),
		Scope:             pb.ResourceScope(s.Scope + 1),
		SensitivePointers: s.SensitivePointers,
		SchemaTokens:      int32(budget.Count(s.Name+"\n"+s.Description+"\n"+string(s.InputSchema), budget.Estimate)),
	}
	if full {
		out.Description, out.InputSchemaJson = s.Description, string(s.InputSchema)
	}
	return out
}
