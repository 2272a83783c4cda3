// Package client is the Go way to talk to toold. It holds the one thing that
// every caller needs and that is easy to get wrong: the loop that runs a batch,
// survives a lost stream, and never runs anything twice.
//
// A batch is durable and a stream is only a view of it. [Client.Execute] sends
// the batch once, and from then on only looks: when the stream breaks it
// attaches again after the last event that it saw, until the summary. Every
// other RPC is called through [Client.Conn] with the generated clients.
package client

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

// DefaultGiveUpAfter is how long a lost batch is looked for when
// [Client.GiveUpAfter] is zero.
const DefaultGiveUpAfter = 2 * time.Minute

// maxReceiveBytes bounds one message. Events are at most 1 MiB; GetBatch with
// many results is what needs more.
const maxReceiveBytes = 64 << 20

// Client is a connection to toold. It is safe for concurrent use; its exported
// fields are to be set before the first call.
type Client struct {
	// GiveUpAfter ends Execute and Attach when no event came for so long,
	// heartbeats included. Zero is DefaultGiveUpAfter.
	GiveUpAfter time.Duration
	// OnRetry, when set, is told why a stream is opened again and after how
	// long. It must not block.
	OnRetry func(cause error, wait time.Duration)
	// LeaveDraining ends Execute when the daemon is shutting down and can have
	// accepted nothing of the batch. Else Execute waits for the next daemon.
	LeaveDraining bool

	conn *grpc.ClientConn
	exec tooldv1.ExecutionServiceClient
}

// Dial prepares a connection; nothing is sent before the first call. The target
// is "host:port", "unix:///path/toold.sock", an absolute path of a socket, or
// any gRPC target. The connection is plain text unless opts bring credentials;
// opts come last and win.
func Dial(target string, opts ...grpc.DialOption) (*Client, error) {
	if filepath.IsAbs(target) {
		target = "unix://" + target
	}
	conn, err := grpc.NewClient(target, append(defaults(), opts...)...)
	if err != nil {
		return nil, fmt.Errorf("preparing a connection to %q: %w", target, err)
	}
	return &Client{conn: conn, exec: tooldv1.NewExecutionServiceClient(conn)}, nil
}

// Conn is the connection, for the generated clients.
func (c *Client) Conn() *grpc.ClientConn { return c.conn }

// Close ends the connection. Batches go on, each by its disconnect policy.
func (c *Client) Close() error { return c.conn.Close() }

func defaults() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(serviceConfig()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReceiveBytes)),
		// The server allows pings every 20 s; proxies drop what is quiet for long.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: time.Minute, Timeout: 10 * time.Second}),
		// A daemon that restarts is back within a second: look for it as often as
		// the loop does.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: minBackoff, Multiplier: 2, Jitter: 0.2, MaxDelay: maxBackoff},
			MinConnectTimeout: maxBackoff,
		}),
	}
}

// serviceConfig lets the channel retry what changes nothing. ExecuteBatch is not
// among it: without a request_id, a retry after a lost reply could run the batch
// a second time, and with one Execute does better.
func serviceConfig() string {
	reads := []string{
		name("ExecutionService", "AttachBatch"), name("ExecutionService", "GetBatch"),
		name("ExecutionService", "ListBatches"), name("ExecutionService", "ExplainBatch"),
		name("CatalogService", ""), name("ArtifactService", ""), name("AuditService", ""), name("AdminService", ""),
		name("SessionService", "GetSession"), name("SessionService", "ListSessions"),
	}
	return `{"methodConfig":[{"name":[` + strings.Join(reads, ",") + `],"waitForReady":true,"retryPolicy":{` +
		`"maxAttempts":3,"initialBackoff":"0.05s","maxBackoff":"5s","backoffMultiplier":2,` +
		`"retryableStatusCodes":["UNAVAILABLE"]}}]}`
}

func name(service, method string) string {
	if method == "" {
		return fmt.Sprintf(`{"service":"toold.v1.%s"}`, service)
	}
	return fmt.Sprintf(`{"service":"toold.v1.%s","method":"%s"}`, service, method)
}
