package server

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
	pb "github.com/toold/toold/proto/toold/v1"
)

// decisions is toold.v1.AuditService.
type decisions struct {
	pb.UnimplementedAuditServiceServer
	*Server
}

func (s decisions) ListDecisions(ctx context.Context, in *pb.ListDecisionsRequest) (*pb.ListDecisionsResponse, error) {
	p, err := newPage(in, "", 50, isID)
	if err != nil {
		return nil, err
	}
	rows, err := s.Ledger.Decisions(ctx, audit.DecisionFilter{
		Tenant:    callerOf(ctx).Tenant,
		PolicyID:  in.GetPolicyId(),
		Tool:      in.GetTool(),
		Principal: in.GetPrincipal(),
		Verdict:   word(pb.Verdict_name, "VERDICT_", in.GetVerdict()),
		From:      timeFromProto(in.GetFrom()),
		Until:     timeFromProto(in.GetUntil()),
		OlderThan: p.after,
		Limit:     p.size + 1,
	})
	if err != nil {
		return nil, err
	}
	var out pb.ListDecisionsResponse
	room := maxReply
	for i, row := range rows {
		record := recordToProto(row)
		room -= proto.Size(record) + 16
		if i == p.size || (room < 0 && i > 0) {
			out.NextPageToken = p.next(rows[i-1].ID)
			break
		}
		out.Decisions = append(out.Decisions, record)
	}
	return &out, nil
}

func recordToProto(d audit.Decision) *pb.DecisionRecord {
	var effects []tool.Effect
	if d.First != nil {
		effects = d.First.Effects
	}
	return &pb.DecisionRecord{
		Decision:   decisionToProto(d, effects),
		BatchId:    string(d.Batch),
		CallId:     string(d.Call),
		Tool:       d.Tool,
		Principal:  &pb.Principal{Id: d.Principal},
		OnBehalfOf: d.OnBehalfOf,
	}
}
