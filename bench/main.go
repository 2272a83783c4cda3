// Command bench measures toold beside its floors, all in one run: raw gRPC
// streaming of the same bytes, raw gRPC with the same rows copied into the same
// tables before and after, and the official Go MCP SDK's server reading the same
// file. Servers are processes of their own; clients are in this one.
//
//	go run ./bench [-time 5s] [-clients 64] [-only sqlite,postgres] [-short]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "serve-") {
		if err := serve(os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, os.Args[1]+":", err)
			os.Exit(1)
		}
		return
	}
	var b bench
	flag.DurationVar(&b.duration, "time", 5*time.Second, "length of each measurement")
	flag.IntVar(&b.clients, "clients", 64, "clients of the throughput measurements")
	flag.StringVar(&b.stores, "only", "sqlite,postgres", "stores to measure")
	flag.BoolVar(&b.short, "short", false, "the 1 KiB batch only")
	flag.StringVar(&b.profiles, "profile", "", "folder for CPU profiles of the daemon under load")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := b.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	duration time.Duration
	clients  int
	stores   string
	short    bool
	profiles string
	dir      string // scratch folder: binaries, workspace, data
}

// sizes are the file sizes of the read batches, in KiB.
var sizes = []int{1, 16, 100}

func (b *bench) run(ctx context.Context) error {
	var err error
	if b.dir, err = os.MkdirTemp("", "toold-bench"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.dir) }()
	if err := b.prepare(ctx); err != nil {
		return err
	}
	fmt.Printf("%s %s/%s, %d CPUs; %d clients, %v each; server and clients share the machine\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), b.clients, b.duration)
	if b.short {
		sizes = sizes[:1]
	}
	if err := b.mcp(ctx); err != nil {
		return fmt.Errorf("MCP server: %w", err)
	}
	for _, store := range strings.Split(b.stores, ",") {
		if err := b.store(ctx, store); err != nil {
			return fmt.Errorf("%s: %w", store, err)
		}
	}
	return nil
}

// prepare builds the daemon and makes the files that are read: text of lines, as
// source code is.
func (b *bench) prepare(ctx context.Context) error {
	build := exec.CommandContext(ctx, "go", "build", "-tags", "grpcnotrace", "-o", b.binary(), "./cmd/toold")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building toold: %w", err)
	}
	if err := os.Mkdir(b.workspace(), 0o755); err != nil {
		return err
	}
	for _, kib := range sizes {
		line := "func (b *batch) settle(c *call) error { return b.log.append(c) } // line of text\n"
		text := strings.Repeat(line, kib<<10/len(line)+1)[:kib<<10]
		if err := os.WriteFile(filepath.Join(b.workspace(), fileOf(kib)), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) binary() string    { return filepath.Join(b.dir, "toold") }
func (b *bench) workspace() string { return filepath.Join(b.dir, "workspace") }
func fileOf(kib int) string        { return fmt.Sprintf("file%d.go", kib) }

// store measures toold on one store, with the floors that belong to it.
func (b *bench) store(ctx context.Context, store string) error {
	d, err := b.start(ctx, store)
	if err != nil {
		return err
	}
	defer d.stop()
	fmt.Printf("toold on %s: cold start to serving %v, idle resident memory %d MiB\n", store, d.coldStart.Round(time.Millisecond), d.rss()>>20)
	if err := d.flood(ctx); err != nil { // first: memory that a load has taken would hide it
		return err
	}
	if err := d.single(ctx); err != nil {
		return err
	}
	if err := d.parallel(ctx); err != nil {
		return err
	}
	for _, kib := range sizes {
		if err := b.batches(ctx, d, kib); err != nil {
			return err
		}
	}
	fmt.Println()
	return nil
}

// batches measures 10-read batches of one file size, then the floors.
func (b *bench) batches(ctx context.Context, d *daemon, kib int) error {
	got, err := d.load(ctx, kib)
	if err != nil {
		return err
	}
	raw, err := b.rawFloor(ctx, b.clients, got.transcript)
	if err != nil {
		return fmt.Errorf("raw gRPC floor: %w", err)
	}
	fmt.Printf("  10 reads of %3d KiB   %s\n    %s\n", kib, got.line(), got.cpu)
	fmt.Printf("    raw gRPC            %s   toold has %.0f %%\n", raw.line(), 100*got.perSecond()/raw.perSecond())
	if d.dsn == "" {
		return nil
	}
	audited, err := b.auditedFloor(ctx, b.clients, d.dsn, got)
	if err != nil {
		return fmt.Errorf("audited floor: %w", err)
	}
	fmt.Printf("    gRPC + same rows    %s   toold has %.0f %%\n", audited.line(), 100*got.perSecond()/audited.perSecond())
	return nil
}
