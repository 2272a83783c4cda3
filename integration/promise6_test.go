package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/toold/toold/proto/toold/v1"
)

// A batch's streams are cut at random bytes, while it runs and afterwards, and
// attached again: every reader gets every event once, in order, byte for byte.
func TestPromise6_ALostStreamLosesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, s *site) {
		for i, size := range []int{10, 5_000, 90_000} {
			s.put(fmt.Sprintf("file%d", i), []byte(strings.Repeat("some text, ", size/11)+"\n"))
		}
		s.start()
		req := batch()
		for i := range 24 {
			req.Calls = append(req.Calls, bash(fmt.Sprintf("read-%d", i), fmt.Sprintf("cat file%d", i%3)), call(fmt.Sprintf("wait-%d", i), "Sleep", map[string]any{"seconds": 0.03}))
		}
		req.Spec.MaxParallelReads = 1
		req.Spec.Budget = &pb.OutputBudget{MaxBytesPerCall: 100_000, MaxBytesPerBatch: 8_000_000} // results come whole

		// While it runs, through the client's own loop.
		proxy := newCutter(t, s.socket(), func() int { return 2_000 + rand.IntN(150_000) })
		lived := run(t, dial(t, proxy.address()), req)
		whole := wires(t, s.client(t).Conn(), req.GetSpec().GetRequestId())
		lived.checkSame(t, attach(t, s.client(t), req.GetSpec().GetRequestId()))

		// Afterwards, byte by byte.
		total := 0
		for _, w := range whole {
			total += len(w)
		}
		cuts, replays := proxy.cuts(), 0
		for want := times(60, 3000); cuts < want; replays++ {
			cuts += replay(t, s, req.GetSpec().GetRequestId(), whole, total)
		}
		t.Logf("%d events of %d bytes, %d cuts, of them %d while it ran; %d replays", len(whole), total, cuts, proxy.cuts(), replays)
	})
}

// replay follows a batch over streams that are cut, from the first event to the
// summary, and gives the number of cuts.
func replay(t *testing.T, s *site, requestID string, whole [][]byte, total int) int {
	t.Helper()
	var got [][]byte
	proxy := newCutter(t, s.socket(), func() int { return rand.IntN(total/2 + 4_000) })
	defer proxy.close()
	for attempts := 0; len(got) < len(whole); attempts++ {
		if attempts > 1000 {
			t.Fatalf("no end after %d streams: %d of %d events", attempts, len(got), len(whole))
		}
		conn := dial(t, proxy.address()).Conn()
		err := follow(within(t), conn, requestID, int64(len(got)), func(wire []byte, ev *pb.BatchEvent) error {
			if want := int64(len(got) + 1); ev.GetSeq() != want {
				return fmt.Errorf("%w: %d came instead of %d", errGapped, ev.GetSeq(), want)
			}
			if !bytes.Equal(wire, whole[len(got)]) {
				return fmt.Errorf("event %d has other bytes than before", ev.GetSeq())
			}
			got = append(got, wire)
			return nil
		})
		var own *handlerError
		if errors.As(err, &own) {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	return proxy.cuts()
}

// wires are the replies of an uncut attach that bring numbered events, as bytes.
func wires(t *testing.T, conn *grpc.ClientConn, requestID string) (all [][]byte) {
	t.Helper()
	err := follow(within(t), conn, requestID, 0, func(wire []byte, _ *pb.BatchEvent) error {
		all = append(all, wire)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

type handlerError struct{ error }

// follow attaches once, and hands over the numbered events with the bytes of the
// replies that they came in.
func follow(ctx context.Context, conn *grpc.ClientConn, requestID string, after int64, each func([]byte, *pb.BatchEvent) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, pb.ExecutionService_AttachBatch_FullMethodName, grpc.ForceCodec(rawReplies{}))
	if err != nil {
		return err
	}
	req := &pb.AttachBatchRequest{Batch: &pb.AttachBatchRequest_RequestId{RequestId: requestID}, AfterSeq: after}
	if err := errors.Join(stream.SendMsg(req), stream.CloseSend()); err != nil {
		return err
	}
	for {
		var wire []byte
		if err := stream.RecvMsg(&wire); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var reply pb.AttachBatchResponse
		if err := proto.Unmarshal(wire, &reply); err != nil {
			return err
		}
		if reply.GetEvent().GetSeq() == 0 {
			continue
		}
		if err := each(wire, reply.GetEvent()); err != nil {
			return &handlerError{err}
		}
	}
}

// rawReplies is a codec that leaves replies as they are.
type rawReplies struct{}

func (rawReplies) Name() string                  { return "proto" }
func (rawReplies) Marshal(v any) ([]byte, error) { return proto.Marshal(v.(proto.Message)) }
func (rawReplies) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(data)
	return nil
}

// cutter is a proxy that ends each connection after some bytes of the server's.
type cutter struct {
	listener net.Listener
	backend  string     // a Unix socket
	after    func() int // bytes
	serving  sync.WaitGroup
	mu       sync.Mutex
	open     map[net.Conn]bool
	cut      int
	closed   bool
}

func newCutter(t *testing.T, backend string, after func() int) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutter{listener: l, backend: backend, after: after, open: map[net.Conn]bool{}}
	p.serving.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *cutter) address() string { return p.listener.Addr().String() }

func (p *cutter) cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

func (p *cutter) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.serving.Wait()
}

func (p *cutter) accept() {
	for {
		front, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.serving.Go(func() { p.serve(front) })
	}
}

func (p *cutter) serve(front net.Conn) {
	back, err := net.Dial("unix", p.backend)
	if err != nil {
		_ = front.Close()
		return
	}
	p.mu.Lock()
	p.open[front], p.open[back] = true, true
	if p.closed {
		_ = front.Close()
	}
	p.mu.Unlock()
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(back, front)
		_ = back.Close()
		close(done)
	}()
	_, err = io.CopyN(front, back, int64(p.after()))
	if rand.IntN(2) == 0 { // half of the cuts are resets
		_ = front.(*net.TCPConn).SetLinger(0)
	}
	_, _ = front.Close(), back.Close()
	<-done
	p.mu.Lock()
	delete(p.open, front)
	delete(p.open, back)
	if err == nil { // else one of the two ends had ended it
		p.cut++
	}
	p.mu.Unlock()
}
