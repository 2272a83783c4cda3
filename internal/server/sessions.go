package server

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/session"
	"github.com/toold/toold/internal/tool"
	pb "github.com/toold/toold/proto/toold/v1"
)

// sessions is toold.v1.SessionService.
type sessions struct {
	pb.UnimplementedSessionServiceServer
	*Server
}

func (s sessions) CreateSession(ctx context.Context, in *pb.CreateSessionRequest) (*pb.CreateSessionResponse, error) {
	if err := s.knowsWorkspace(in.GetWorkspaceId()); err != nil {
		return nil, err
	}
	made, err := s.Sessions.Create(ctx, callerOf(ctx), session.Request{
		ID: in.GetRequestId(), Workspace: in.GetWorkspaceId(), Mode: modeFromProto(in.GetMode()), Labels: in.GetLabels(),
		TTL: durationFromProto(in.GetTtl()),
	})
	if err != nil {
		return nil, sessionError(err, "")
	}
	return &pb.CreateSessionResponse{Session: sessionToProto(made)}, nil
}

// GetSession gives closed sessions too.
func (s sessions) GetSession(ctx context.Context, in *pb.GetSessionRequest) (*pb.GetSessionResponse, error) {
	found, err := s.get(ctx, in.GetSessionId())
	if err != nil && !errors.Is(err, session.ErrClosed) {
		return nil, sessionError(err, in.GetSessionId())
	}
	return &pb.GetSessionResponse{Session: sessionToProto(found)}, nil
}

func (s sessions) get(ctx context.Context, id string) (session.Session, error) {
	if !isID(id) {
		return session.Session{}, session.ErrNotFound
	}
	return s.Sessions.Get(ctx, callerOf(ctx), tool.SessionID(id))
}

func (s sessions) ListSessions(ctx context.Context, in *pb.ListSessionsRequest) (*pb.ListSessionsResponse, error) {
	p, err := newPage(in, "", 50, isID)
	if err != nil {
		return nil, err
	}
	var out pb.ListSessionsResponse
	now := time.Now()
	for after := tool.SessionID(p.after); ; {
		found, err := s.Sessions.List(ctx, callerOf(ctx), after, p.size+1)
		if err != nil {
			return nil, sessionError(err, "")
		}
		for _, f := range found {
			if after = f.ID; !f.ClosedAt.IsZero() || !now.Before(f.ExpiresAt) {
				continue
			}
			if len(out.GetSessions()) == p.size {
				out.NextPageToken = p.next(out.GetSessions()[p.size-1].GetSessionId())
				return &out, nil
			}
			out.Sessions = append(out.Sessions, sessionToProto(f))
		}
		if len(found) <= p.size {
			return &out, nil
		}
	}
}

func (s sessions) SetSessionMode(ctx context.Context, in *pb.SetSessionModeRequest) (*pb.SetSessionModeResponse, error) {
	before, err := s.get(ctx, in.GetSessionId())
	if err != nil {
		return nil, sessionError(err, in.GetSessionId())
	}
	after, err := s.Sessions.SetMode(ctx, callerOf(ctx), before.ID, modeFromProto(in.GetMode()), in.GetExpectedEpoch(), "")
	if errors.Is(err, session.ErrConflict) {
		return nil, epochChanged(after.Epoch)
	}
	if err != nil {
		return nil, sessionError(err, in.GetSessionId())
	}
	return &pb.SetSessionModeResponse{Session: sessionToProto(after)}, nil
}

func (s sessions) CloseSession(ctx context.Context, in *pb.CloseSessionRequest) (*pb.CloseSessionResponse, error) {
	before, err := s.get(ctx, in.GetSessionId())
	switch {
	case errors.Is(err, session.ErrClosed):
		return &pb.CloseSessionResponse{}, nil
	case err != nil:
		return nil, sessionError(err, in.GetSessionId())
	}
	if _, err := s.Sessions.Close(ctx, callerOf(ctx), before.ID, ""); err != nil {
		return nil, sessionError(err, in.GetSessionId())
	}
	s.Executor.CancelSession(before.ID)
	return &pb.CloseSessionResponse{}, nil
}

func epochChanged(now int64) error {
	return &exec.Error{
		Kind: kindAborted, Reason: reasonEpochChanged, Message: "the session has changed meanwhile; get it and decide anew",
		Metadata: map[string]string{"epoch": strconv.FormatInt(now, 10)},
	}
}

func modeFromProto(m pb.SessionMode) session.Mode {
	if m == pb.SessionMode_SESSION_MODE_PLAN {
		return session.Plan
	}
	return session.Normal
}

func sessionToProto(f session.Session) *pb.Session {
	mode := pb.SessionMode_SESSION_MODE_NORMAL
	if f.Mode == session.Plan {
		mode = pb.SessionMode_SESSION_MODE_PLAN
	}
	return &pb.Session{
		SessionId: string(f.ID), Mode: mode, Epoch: f.Epoch, WorkspaceId: f.Workspace, Owner: &pb.Principal{Id: f.Owner},
		Labels: f.Labels, CreateTime: timestamp(f.CreatedAt), ExpireTime: timestamp(f.ExpiresAt),
	}
}

// sessionError gives what went wrong with a session the reasons of the proto.
func sessionError(err error, id string) error {
	switch {
	case errors.Is(err, session.ErrNotFound):
		return &exec.Error{
			Kind: exec.KindNotFound, Reason: "SESSION_NOT_FOUND", Message: "no session " + strconv.Quote(id) + " of yours is known; make a new one",
			Metadata: map[string]string{"resource": "session", "name": id},
		}
	case errors.Is(err, session.ErrClosed):
		return &exec.Error{Kind: exec.KindPrecondition, Reason: "SESSION_CLOSED", Message: "the session is closed; make a new one"}
	case errors.Is(err, session.ErrRequestReused):
		return &exec.Error{
			Kind: exec.KindExists, Reason: "REQUEST_ID_REUSED", Field: "request_id",
			Message: "this request id made a session with other content; use a new one for a new session",
		}
	}
	return err
}
