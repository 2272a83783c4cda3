package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// serve is a floor's own process. It prints its address, serves, and ends with
// its standard input.
func serve(role string, args []string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	fmt.Println(l.Addr())
	switch role {
	case "serve-raw":
		return serveStream(ctx, l, args[0], func(context.Context) error { return nil }, func(context.Context) error { return nil })
	case "serve-audited":
		f, err := openAudited(ctx, args[1], args[2])
		if err != nil {
			return err
		}
		return serveStream(ctx, l, args[0], f.before, f.after)
	case "serve-mcp":
		return serveMCP(ctx, l, args[0])
	}
	return fmt.Errorf("unknown role")
}

// floor starts such a process and gives its address.
func (b *bench) floor(ctx context.Context, role string, args ...string) (addr string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{role}, args...)...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { stdin.Close(); _ = cmd.Wait() }
	addr, err = bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("%s did not start: %w", role, err)
	}
	return strings.TrimSpace(addr), stop, nil
}

// rawCodec passes bytes through: a floor does no work that it need not do.
type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
func (rawCodec) Name() string { return "raw" }

var _ encoding.CodecV2 = rawCodec{}

const floorMethod = "/bench.Floor/Execute"

// serveStream answers every request with the messages of a transcript: the first
// one after before, the last one after after.
func serveStream(ctx context.Context, l net.Listener, transcript string, before, after func(context.Context) error) error {
	messages, err := readTranscript(transcript)
	if err != nil {
		return err
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var req []byte
		if err := stream.RecvMsg(&req); err != nil {
			return err
		}
		if err := before(stream.Context()); err != nil {
			return err
		}
		for i := range messages {
			if i == len(messages)-1 {
				if err := after(stream.Context()); err != nil {
					return err
				}
			}
			if err := stream.SendMsg(&messages[i]); err != nil {
				return err
			}
		}
		return nil
	}))
	go func() { <-ctx.Done(); s.Stop() }()
	return s.Serve(l)
}

func writeTranscript(path string, messages [][]byte) error {
	var b strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&b, "%x\n", m)
	}
	return os.WriteFile(path, []byte(b.String()), 0o600)
}

func readTranscript(path string) ([][]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for _, line := range strings.Fields(string(b)) {
		m := make([]byte, len(line)/2)
		if _, err := fmt.Sscanf(line, "%x", &m); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// rawFloor measures plain gRPC streaming of the same bytes.
func (b *bench) rawFloor(ctx context.Context, clients int, transcript [][]byte) (result, error) {
	path := filepath.Join(b.dir, "transcript")
	if err := writeTranscript(path, transcript); err != nil {
		return result{}, err
	}
	addr, stop, err := b.floor(ctx, "serve-raw", path)
	if err != nil {
		return result{}, err
	}
	defer stop()
	return b.stream(ctx, clients, addr)
}

// auditedFloor measures the same with the rows of one batch copied in before and
// after.
func (b *bench) auditedFloor(ctx context.Context, clients int, dsn string, got result) (result, error) {
	path := filepath.Join(b.dir, "transcript")
	if err := writeTranscript(path, got.transcript); err != nil {
		return result{}, err
	}
	addr, stop, err := b.floor(ctx, "serve-audited", path, dsn, batchOf(got.transcript))
	if err != nil {
		return result{}, err
	}
	defer stop()
	return b.stream(ctx, clients, addr)
}

// stream drives a floor with as many clients and connections as toold gets.
func (b *bench) stream(ctx context.Context, clients int, addr string) (result, error) {
	conns := make([]*grpc.ClientConn, 4)
	for i := range conns {
		var err error
		if conns[i], err = grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}))); err != nil {
			return result{}, err
		}
		defer conns[i].Close()
	}
	request := make([]byte, 600)
	r, err := loop(ctx, clients, time.Second, b.duration, func(ctx context.Context, i int) error {
		s, err := conns[i%len(conns)].NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, floorMethod)
		if err != nil {
			return err
		}
		if err := s.SendMsg(&request); err != nil {
			return err
		}
		if err := s.CloseSend(); err != nil {
			return err
		}
		for {
			var m []byte
			if err := s.RecvMsg(&m); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
		}
	})
	r.perRound = 10
	return r, err
}
