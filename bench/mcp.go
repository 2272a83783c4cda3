package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type readArgs struct {
	Path string `json:"path"`
}

// serveMCP is the official SDK's streamable HTTP server with one tool that reads
// a file of the folder.
func serveMCP(ctx context.Context, l net.Listener, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "read", Description: "reads a file"},
		func(_ context.Context, _ *mcp.CallToolRequest, a readArgs) (*mcp.CallToolResult, any, error) {
			b, err := root.ReadFile(a.Path)
			if err != nil {
				return nil, nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(b)}}}, nil, nil
		})
	h := &http.Server{Handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil), ReadHeaderTimeout: time.Minute}
	go func() { <-ctx.Done(); _ = h.Close() }()
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// mcp measures that server: calls a second at as many clients, and one call's
// latency.
func (b *bench) mcp(ctx context.Context) error {
	addr, stop, err := b.floor(ctx, "serve-mcp", b.workspace())
	if err != nil {
		return err
	}
	defer stop()
	transport := &http.Transport{MaxIdleConnsPerHost: b.clients, MaxConnsPerHost: b.clients}
	sessions := make([]*mcp.ClientSession, b.clients)
	for i := range sessions {
		c := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
		sessions[i], err = c.Connect(ctx, &mcp.StreamableClientTransport{
			Endpoint: "http://" + addr, DisableStandaloneSSE: true,
			HTTPClient: &http.Client{Transport: transport},
		}, nil)
		if err != nil {
			return fmt.Errorf("connecting: %w", err)
		}
		defer func() { _ = sessions[i].Close() }()
	}
	call := func(kib int) func(context.Context, int) error {
		return func(ctx context.Context, i int) error {
			r, err := sessions[i].CallTool(ctx, &mcp.CallToolParams{Name: "read", Arguments: readArgs{Path: filepath.Base(fileOf(kib))}})
			if err == nil && r.IsError {
				err = fmt.Errorf("the tool failed")
			}
			return err
		}
	}
	one, err := loop(ctx, 1, 500*time.Millisecond, b.duration, call(1))
	if err != nil {
		return err
	}
	fmt.Printf("MCP Go SDK server (no audit, no policy)\n  single read of 1 KiB  p50 %.2f ms  p99 %.2f ms\n", ms(one.quantile(.5)), ms(one.quantile(.99)))
	for _, kib := range sizes {
		r, err := loop(ctx, b.clients, time.Second, b.duration, call(kib))
		if err != nil {
			return err
		}
		fmt.Printf("  reads of %3d KiB      %7.0f calls/s  p50 %.2f ms  p99 %.2f ms\n", kib, r.perSecond(), ms(r.quantile(.5)), ms(r.quantile(.99)))
	}
	fmt.Println()
	return nil
}
