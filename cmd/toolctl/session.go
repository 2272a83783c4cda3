package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold/toold/client"
	"github.com/toold/toold/cmd/toolctl/internal/term"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

var sessionModes = map[string]tooldv1.SessionMode{
	"normal": tooldv1.SessionMode_SESSION_MODE_NORMAL,
	"plan":   tooldv1.SessionMode_SESSION_MODE_PLAN,
}

func (a *app) sessionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "session",
		Short: "Make, see and end sessions, and set plan mode",
		Args:  args(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.sessionCreateCommand(), a.sessionGetCommand(), a.sessionListCommand(), a.sessionModeCommand(), a.sessionCloseCommand())
	return c
}

// sessions is one exchange with the session service.
func (a *app) sessions(c *cobra.Command, exchange func(context.Context, tooldv1.SessionServiceClient) error) error {
	return a.ask(c.Context(), func(ctx context.Context, cl *client.Client) error {
		return exchange(ctx, tooldv1.NewSessionServiceClient(cl.Conn()))
	})
}

func (a *app) sessionCreateCommand() *cobra.Command {
	req := &tooldv1.CreateSessionRequest{}
	mode := "normal"
	var ttl time.Duration
	c := &cobra.Command{
		Use:   "create",
		Short: "Make a session and print its id",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if req.Mode, err = choose("mode", mode, sessionModes); err != nil {
				return err
			}
			if ttl > 0 {
				req.Ttl = durationpb.New(ttl)
			}
			if req.GetRequestId() == "" {
				req.RequestId = client.NewRequestID()
			}
			return a.sessions(c, func(ctx context.Context, s tooldv1.SessionServiceClient) error {
				resp, err := s.CreateSession(ctx, req)
				if err != nil {
					return err
				}
				if a.output == outputJSON {
					return a.printMessage(resp.GetSession())
				}
				a.print("%s", resp.GetSession().GetSessionId())
				return nil
			})
		},
	}
	fs := c.Flags()
	fs.StringVar(&req.WorkspaceId, "workspace", "", "workspace of its batches")
	fs.StringVar(&mode, "mode", mode, "normal or plan; in plan mode only reads are allowed")
	fs.DurationVar(&ttl, "ttl", 0, "life since the last use (0: 24h)")
	fs.StringToStringVar(&req.Labels, "label", nil, "label, KEY=VALUE")
	fs.StringVar(&req.RequestId, "request-id", "", "idempotency key: the same one again gives the same session")
	_ = c.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions(sortedKeys(sessionModes), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) sessionGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "get SESSION_ID",
		Short:             "Show a session",
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: a.completeSessions,
		RunE: func(c *cobra.Command, args []string) error {
			return a.sessions(c, func(ctx context.Context, s tooldv1.SessionServiceClient) error {
				resp, err := s.GetSession(ctx, &tooldv1.GetSessionRequest{SessionId: args[0]})
				if err != nil {
					return err
				}
				open, err := allSessions(ctx, s)
				if err != nil {
					return err
				}
				return a.showSession(resp.GetSession(), stateOf(resp.GetSession(), open.GetSessions(), time.Now()))
			})
		},
	}
}

// stateOf says whether a session still takes batches. The API tells it only by
// what it lists.
func stateOf(s *tooldv1.Session, open []*tooldv1.Session, now time.Time) string {
	switch {
	case slices.ContainsFunc(open, func(o *tooldv1.Session) bool { return o.GetSessionId() == s.GetSessionId() }):
		return stateOpen
	case s.GetExpireTime() != nil && !now.Before(s.GetExpireTime().AsTime()):
		return "EXPIRED"
	}
	return "CLOSED"
}

const stateOpen = "OPEN"

func (a *app) sessionListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List your open sessions, newest first",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.sessions(c, func(ctx context.Context, s tooldv1.SessionServiceClient) error {
				all, err := allSessions(ctx, s)
				if err != nil {
					return err
				}
				if a.output == outputJSON {
					return a.printMessage(all)
				}
				a.showSessions(all.GetSessions(), stateOpen)
				return nil
			})
		},
	}
}

func allSessions(ctx context.Context, s tooldv1.SessionServiceClient) (*tooldv1.ListSessionsResponse, error) {
	req := &tooldv1.ListSessionsRequest{PageSize: maxPage}
	all := &tooldv1.ListSessionsResponse{}
	for {
		page, err := s.ListSessions(ctx, req)
		if err != nil {
			return nil, err
		}
		all.Sessions = append(all.Sessions, page.GetSessions()...)
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}

func (a *app) sessionModeCommand() *cobra.Command {
	var epoch int64
	c := &cobra.Command{
		Use:   "mode SESSION_ID normal|plan",
		Short: "Turn plan mode on or off; calls that have not started are decided again",
		Args:  args(cobra.ExactArgs(2)),
		ValidArgsFunction: func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return sortedKeys(sessionModes), cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeSessions(c, args, prefix)
		},
		RunE: func(c *cobra.Command, args []string) error {
			mode, err := choose("mode", args[1], sessionModes)
			if err != nil {
				return err
			}
			return a.sessions(c, func(ctx context.Context, s tooldv1.SessionServiceClient) error {
				resp, err := s.SetSessionMode(ctx, &tooldv1.SetSessionModeRequest{SessionId: args[0], Mode: mode, ExpectedEpoch: epoch})
				if err != nil {
					return err
				}
				return a.showSession(resp.GetSession(), stateOpen)
			})
		},
	}
	c.Flags().Int64Var(&epoch, "expected-epoch", 0, "only when the session is still of this epoch (0: any)")
	return c
}

func (a *app) sessionCloseCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "close SESSION_ID",
		Short:             "End a session; unstarted calls of its batches are cancelled",
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: a.completeSessions,
		RunE: func(c *cobra.Command, args []string) error {
			return a.sessions(c, func(ctx context.Context, s tooldv1.SessionServiceClient) error {
				_, err := s.CloseSession(ctx, &tooldv1.CloseSessionRequest{SessionId: args[0]})
				return err
			})
		},
	}
}

func (a *app) showSession(s *tooldv1.Session, state string) error {
	if a.output == outputJSON {
		return a.printMessage(s)
	}
	a.showSessions([]*tooldv1.Session{s}, state)
	return nil
}

// showSessions shows sessions that are all in one state.
func (a *app) showSessions(all []*tooldv1.Session, state string) {
	if len(all) == 0 {
		a.say("no open sessions")
		return
	}
	t := term.Table{Columns: []term.Column{
		{Title: "SESSION"},
		{Title: "STATE"},
		{Title: "MODE"},
		{Title: "EPOCH", Drop: 4, Right: true},
		{Title: "WORKSPACE", Drop: 2},
		{Title: "OWNER", Drop: 3},
		{Title: "EXPIRES", Drop: 1},
	}}
	for _, s := range all {
		t.Rows = append(t.Rows, []term.Cell{
			{Text: s.GetSessionId()},
			{Text: state},
			{Text: word(s.GetMode())},
			{Text: itoa(s.GetEpoch())},
			{Text: s.GetWorkspaceId()},
			{Text: s.GetOwner().GetId()},
			{Text: clock(s.GetExpireTime())},
		})
	}
	a.table(t)
}
