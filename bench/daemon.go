package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/toold/toold/client"
	"github.com/toold/toold/internal/pgtest"
	pb "github.com/toold/toold/proto/toold/v1"
)

// daemon is a running toold.
type daemon struct {
	b         *bench
	cmd       *exec.Cmd
	conns     []*client.Client // one a few clients share, as real ones would
	dsn       string           // empty: SQLite
	postgres  *pgtest.Server
	coldStart time.Duration
}

// start runs the daemon on a fresh store and waits until it serves.
func (b *bench) start(ctx context.Context, store string) (*daemon, error) {
	d := &daemon{b: b}
	data := filepath.Join(b.dir, store)
	args := []string{
		"--profile", "ci", "--data-dir", data, "--listen", "127.0.0.1:0", "--metrics-listen", observeAddr,
		"--workspace", b.workspace(), "--log-level", "warn",
	}
	if store == "postgres" {
		var err error
		if d.postgres, err = pgtest.Start(ctx); err != nil {
			return nil, err
		}
		if err := d.postgres.CreateDatabase(ctx, "bench", "template0"); err != nil {
			return nil, err
		}
		d.dsn = d.postgres.DSN("bench")
		migrate := exec.CommandContext(ctx, b.binary(), "migrate", "--database-url", d.dsn, "--data-dir", data)
		if out, err := migrate.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("toold migrate: %w\n%s", err, out)
		}
		args = append(args, "--database-url", d.dsn)
	}
	d.cmd = exec.Command(b.binary(), args...)
	var log bytes.Buffer
	d.cmd.Stderr, d.cmd.Stdout = &log, io.Discard
	began := time.Now()
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	for range 4 {
		c, err := client.Dial("unix://" + filepath.Join(data, "toold.sock"))
		if err != nil {
			return nil, err
		}
		d.conns = append(d.conns, c)
	}
	ready, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		_, err := grpc_health_v1.NewHealthClient(d.conns[0].Conn()).Check(ready, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(false))
		if err == nil {
			break
		}
		if ready.Err() != nil {
			return nil, fmt.Errorf("toold did not serve: %w\n%s", err, log.String())
		}
		time.Sleep(2 * time.Millisecond)
	}
	d.coldStart = time.Since(began)
	return d, nil
}

func (d *daemon) storeName() string {
	if d.dsn != "" {
		return "postgres"
	}
	return "sqlite"
}

func (d *daemon) stop() {
	for _, c := range d.conns {
		_ = c.Close()
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	_ = d.cmd.Wait()
	if d.postgres != nil {
		_ = d.postgres.Stop()
	}
}

// rss is the daemon's resident memory in bytes.
func (d *daemon) rss() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", d.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// execute runs a batch to its summary and gives its events.
func (d *daemon) execute(ctx context.Context, i int, calls []*pb.ToolCall, each func(*pb.BatchEvent) error) (*pb.BatchSummary, error) {
	return d.conns[i%len(d.conns)].Execute(ctx, &pb.ExecuteBatchRequest{Spec: &pb.BatchSpec{}, Calls: calls}, each)
}

func succeeded(s *pb.BatchSummary) error {
	for _, c := range s.GetCalls() {
		if c.GetOutcome() != pb.ToolOutcome_TOOL_OUTCOME_SUCCEEDED {
			return fmt.Errorf("call %s ended %s", c.GetCallId(), c.GetOutcome())
		}
	}
	return nil
}

func reads(n, kib int) []*pb.ToolCall {
	calls := make([]*pb.ToolCall, n)
	for i := range calls {
		calls[i] = &pb.ToolCall{Tool: "read", ArgumentsJson: fmt.Sprintf(`{"path":%q}`, fileOf(kib))}
	}
	return calls
}

// observeAddr is where the measured daemon shows its metrics and profiles.
const observeAddr = "127.0.0.1:17434"

// profile fetches a CPU profile of the daemon while it is under load.
func (d *daemon) profile(ctx context.Context, name string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", observeAddr, max(1, int(d.b.duration.Seconds())))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("profiling: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	f, err := os.Create(filepath.Join(d.b.profiles, name))
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	return errors.Join(err, f.Close())
}

// load measures 10-read batches.
func (d *daemon) load(ctx context.Context, kib int) (result, error) {
	if d.b.profiles != "" {
		profiled := make(chan error, 1)
		go func() { profiled <- d.profile(ctx, fmt.Sprintf("%s-%dKiB.pprof", d.storeName(), kib)) }()
		defer func() {
			if err := <-profiled; err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
	}
	var kept atomic.Pointer[[][]byte]
	var rounds atomic.Int64
	before := d.cpu()
	r, err := loop(ctx, d.b.clients, time.Second, d.b.duration, func(ctx context.Context, i int) error {
		var transcript [][]byte
		keep := kept.Load() == nil
		s, err := d.execute(ctx, i, reads(10, kib), func(e *pb.BatchEvent) error {
			if !keep {
				return nil
			}
			m, err := proto.Marshal(&pb.ExecuteBatchResponse{Event: e})
			transcript = append(transcript, m)
			return err
		})
		if err != nil {
			return err
		}
		rounds.Add(1)
		if keep {
			kept.Store(&transcript)
		}
		return succeeded(s)
	})
	if err != nil {
		return r, err
	}
	r.perRound, r.transcript, r.cpu = 10, *kept.Load(), d.cpu().since(before, int(rounds.Load()))
	return r, nil
}

// single measures one read at a time by one client.
func (d *daemon) single(ctx context.Context) error {
	var transcript [][]byte
	r, err := loop(ctx, 1, 500*time.Millisecond, d.b.duration, func(ctx context.Context, i int) error {
		transcript = nil
		s, err := d.execute(ctx, i, reads(1, 1), func(e *pb.BatchEvent) error {
			m, err := proto.Marshal(&pb.ExecuteBatchResponse{Event: e})
			transcript = append(transcript, m)
			return err
		})
		if err != nil {
			return err
		}
		return succeeded(s)
	})
	if err != nil {
		return err
	}
	fmt.Printf("  single read of 1 KiB  p50 %.2f ms  p99 %.2f ms\n", ms(r.quantile(.5)), ms(r.quantile(.99)))
	raw, err := d.b.rawFloor(ctx, 1, transcript)
	if err != nil {
		return fmt.Errorf("raw gRPC floor: %w", err)
	}
	fmt.Printf("    raw gRPC            p50 %.2f ms\n", ms(raw.quantile(.5)))
	if d.dsn == "" {
		return nil
	}
	r.transcript = transcript
	audited, err := d.b.auditedFloor(ctx, 1, d.dsn, r)
	if err != nil {
		return fmt.Errorf("audited floor: %w", err)
	}
	fmt.Printf("    gRPC + same rows    p50 %.2f ms (two durable commits, one after the other)\n", ms(audited.quantile(.5)))
	return nil
}

// parallel measures a batch of ten calls that take 50 ms each.
func (d *daemon) parallel(ctx context.Context) error {
	calls := make([]*pb.ToolCall, 10)
	for i := range calls {
		calls[i] = &pb.ToolCall{Tool: "Sleep", ArgumentsJson: `{"seconds":0.05}`}
	}
	r, err := loop(ctx, 1, 200*time.Millisecond, 2*time.Second, func(ctx context.Context, i int) error {
		s, err := d.execute(ctx, i, calls, nil)
		if err != nil {
			return err
		}
		return succeeded(s)
	})
	if err == nil {
		fmt.Printf("  10 reads of 50 ms     p50 %.1f ms  p99 %.1f ms (floor 50)\n", ms(r.quantile(.5)), ms(r.quantile(.99)))
	}
	return err
}

// flood has a tool print 1 GB and watches the daemon's memory; the artifact must
// be what was printed.
func (d *daemon) flood(ctx context.Context) error {
	const size = 1_000_000_000
	before, peak := d.rss(), int64(0)
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				peak = max(peak, d.rss())
			case <-done:
				return
			}
		}
	}()
	began := time.Now()
	var artifact *pb.ArtifactRef
	s, err := d.execute(ctx, 0, []*pb.ToolCall{{Tool: "bash", ArgumentsJson: `{"command":"yes 0123456789abcdef | head -c 1000000000"}`}}, func(e *pb.BatchEvent) error {
		if r := e.GetResult(); r != nil {
			artifact = r.GetOutput().GetTruncated().GetFull()
		}
		return nil
	})
	took := time.Since(began)
	close(done)
	<-watched
	if err == nil {
		err = succeeded(s)
	}
	if err != nil {
		return err
	}
	h := sha256.New()
	line := []byte("0123456789abcdef\n")
	block := bytes.Repeat(line, 1000)
	for left := size; left > 0; left -= len(block) {
		h.Write(block[:min(left, len(block))])
	}
	verdict := "right"
	if hex.EncodeToString(h.Sum(nil)) != artifact.GetSha256() || artifact.GetSizeBytes() != size {
		verdict = "WRONG"
	}
	fmt.Printf("  1 GB of output        %.1f s (%.0f MB/s), resident memory +%d MiB, SHA-256 %s\n",
		took.Seconds(), size/1e6/took.Seconds(), (peak-before)>>20, verdict)
	return nil
}
