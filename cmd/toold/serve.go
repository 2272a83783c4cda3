package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"

	"github.com/toold/toold/internal/artifact"
	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/exec"
	"github.com/toold/toold/internal/policy"
	"github.com/toold/toold/internal/sandbox"
	"github.com/toold/toold/internal/server"
	"github.com/toold/toold/internal/session"
	"github.com/toold/toold/internal/tool"
)

// idleTime is more than draining takes when nothing runs.
const idleTime = 50 * time.Millisecond

// What shutting down may take after the running calls have ended.
const (
	streamsTime = 5 * time.Second
	ledgerTime  = 10 * time.Second
	hardTime    = 40 * time.Second // all of it, tools that do not stop included
)

// daemon is what runs, in the order in which it was opened. close goes through
// it backwards.
type daemon struct {
	config     Config
	log        *slog.Logger
	data       *dataDir
	meter      metric.MeterProvider
	store      store
	storeName  string
	ledger     *audit.Log
	artifacts  *artifact.Disk
	workspaces *session.Workspaces
	policy     *policy.Policy
	executor   *exec.Executor
	server     *server.Server
	web        *http.Server
	listeners  []net.Listener // TCP, then the Unix socket
	metrics    net.Listener   // nil when off
	serving    sync.WaitGroup
	failed     chan error // a listener's end; room for each
	closers    []func() error
}

// gcPercent is how much the heap grows between collections where GOGC does not
// say. What lives is a few megabytes: collecting at each doubling of that costs
// a fifth of the processor under load.
const gcPercent = 400

// serve runs the daemon until ctx ends, and then takes it down in order.
func serve(ctx context.Context, c Config, out io.Writer) (err error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	d := &daemon{config: c, log: newLogger(c, out), failed: make(chan error, 3)}
	defer func() { err = errors.Join(err, d.close()) }()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	d.onClose(func() error {
		signal.Stop(signals)
		close(signals)
		return nil
	})
	go secondSignal(signals, d.log, os.Exit)
	for _, step := range []func(context.Context) error{
		d.openData, d.openLedger, d.openTools, d.openServer, d.listen, d.recover,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	d.start(out)
	select {
	case <-ctx.Done():
	case err = <-d.failed:
	}
	return errors.Join(err, d.drain())
}

// secondSignal has the process end at the second signal, and say so. The first
// one, which drains, is also another's.
func secondSignal(signals <-chan os.Signal, log *slog.Logger, exit func(status int)) {
	for range 2 {
		if _, ok := <-signals; !ok {
			return
		}
	}
	log.Warn("stopped at once by a second signal: what ran is closed at the next start, as UNKNOWN where it could have changed something")
	exit(1)
}

// onClose has close called in its turn.
func (d *daemon) onClose(f func() error) { d.closers = append(d.closers, f) }

func (d *daemon) close() error {
	var all error
	for i := len(d.closers) - 1; i >= 0; i-- {
		all = errors.Join(all, d.closers[i]())
	}
	return all
}

func (d *daemon) openData(context.Context) (err error) {
	if d.data, err = chosenDataDir(d.config); err != nil {
		return err
	}
	d.onClose(d.data.Close)
	if d.workspaces, err = openWorkspaces(d.config, d.data); err != nil {
		return err
	}
	d.onClose(d.workspaces.Close)
	if d.policy, err = openPolicy(d.config); err != nil {
		return err
	}
	if err := checkShell(d.config.Commands.Shell); err != nil {
		d.log.Warn("commands cannot run; name a bash as commands.shell", "error", err)
	}
	d.artifacts, err = artifact.OpenDisk(d.data.join(artifactsName))
	if err == nil {
		d.onClose(d.artifacts.Close)
	}
	return err
}

func chosenDataDir(c Config) (*dataDir, error) {
	path, err := c.dataPath()
	if err != nil {
		return nil, err
	}
	return openDataDir(path)
}

// dataPath is the data folder's absolute path.
func (c Config) dataPath() (string, error) {
	if c.DataDir == "" {
		return defaultDataDir(os.LookupEnv)
	}
	return absolute(c.DataDir)
}

func (d *daemon) openLedger(ctx context.Context) (err error) {
	meters, registry, err := newMeters()
	if err != nil {
		return err
	}
	d.meter = meters
	d.onClose(func() error { return meters.Shutdown(context.Background()) })
	if d.store, d.storeName, err = openStore(ctx, d.config, d.data); err != nil {
		return err
	}
	d.onClose(d.store.Close)
	measured, err := ledgerMetrics(meters.Meter(scope))
	if err != nil {
		return err
	}
	d.ledger, err = audit.Open(ctx, audit.Options{
		Store: d.store, Replica: d.config.replica(), Now: time.Now, NewID: newID, RequestRetention: d.config.Retention.Requests,
		Logger: d.log, Metrics: measured,
		Orphaned: func(id tool.BatchID) { d.executor.Orphaned(id) },
	})
	if err != nil {
		return err
	}
	d.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), ledgerTime)
		defer cancel()
		return d.ledger.Close(ctx)
	})
	d.web = observe(registry, d.ready)
	return nil
}

// ready says why batches are not taken now; nil when they are.
func (d *daemon) ready() error {
	if d.server == nil || !d.server.Serving() {
		return errors.New("not serving: starting, draining, or the ledger cannot be written")
	}
	return nil
}

func (d *daemon) openTools(context.Context) error {
	key, err := d.data.maskKey()
	if err != nil {
		return err
	}
	registry, err := tool.NewRegistry(builtin(d.config, newContents(d.artifacts, d.ledger.Reader()))...)
	if err != nil {
		return err
	}
	d.executor, err = exec.New(exec.Options{
		Registry: registry, Policy: d.policy, Log: d.ledger, Sessions: d.sessions(), Workspaces: d.workspaces, Artifacts: d.artifacts,
		Codec: server.Codec{}, Limits: d.config.limits(), Replica: d.config.replica(), Meter: d.meter.Meter(scope), Logger: d.log,
		MaskKey: key, Isolation: sandbox.Isolation() != "none",
	})
	return err
}

// recover goes on with what an earlier daemon left: last, so that nothing runs
// for a daemon that cannot serve.
func (d *daemon) recover(ctx context.Context) error { return d.executor.Recover(ctx) }

func (d *daemon) sessions() *session.Sessions {
	return &session.Sessions{Store: d.store, Log: d.ledger, Now: time.Now, NewID: newID}
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

func (d *daemon) openServer(context.Context) (err error) {
	c := d.config
	d.server, err = server.New(server.Options{
		Executor: d.executor, Registry: d.executor.Registry, Sessions: d.sessions(), Workspaces: d.workspaces, Artifacts: d.artifacts,
		Ledger: d.ledger.Reader(), Available: d.ledger.Available, Identify: server.Local, Replica: c.replica(),
		Info: server.Info{
			Version: fullVersion(), Isolation: sandbox.Isolation(), Store: d.storeName, PolicyVersion: d.policy.Version, Profile: d.policy.Profile(),
			EventRetention: c.Retention.Events, RequestRetention: c.Retention.Requests,
		},
		Reflection: c.Reflection == "on" || (c.Reflection == "auto" && c.DatabaseURL == ""),
		Heartbeat:  c.Heartbeat, SendTimeout: c.SendTimeout, Logger: d.log, MeterProvider: d.meter,
	})
	return err
}

func (d *daemon) listen(ctx context.Context) error {
	socket := d.data.join(socketName)
	// The lock on the folder says that whoever made it is gone.
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing an old socket: %w", err)
	}
	for _, at := range []struct{ network, address, flag string }{
		{"tcp", d.config.Listen, "--listen 127.0.0.1:PORT"},
		{"unix", socket, "--data-dir PATH"},
	} {
		l, err := listen(ctx, at.network, at.address, at.flag)
		if err != nil {
			return err
		}
		d.onClose(func() error { return ignoreClosed(l.Close()) })
		d.listeners = append(d.listeners, l)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return fmt.Errorf("closing the socket to others: %w", err)
	}
	if d.config.MetricsListen == "off" {
		return nil
	}
	l, err := listen(ctx, "tcp", d.config.MetricsListen, "--metrics-listen 127.0.0.1:PORT, or off")
	if err != nil {
		return err
	}
	d.metrics = l
	d.onClose(func() error { return ignoreClosed(l.Close()) })
	d.serving.Go(func() {
		if err := d.web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.failed <- fmt.Errorf("serving metrics: %w", err)
		}
	})
	return nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func listen(ctx context.Context, network, address, flag string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, network, address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use, perhaps by another toold; end that, or give %s", address, flag)
	}
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	return l, nil
}

// start serves, and tells the person at the terminal what and where.
func (d *daemon) start(out io.Writer) {
	for _, l := range d.listeners {
		d.serving.Go(func() {
			if err := d.server.Serve(l); err != nil {
				d.failed <- err
			}
		})
	}
	background, cancel := context.WithCancel(context.Background())
	var maintaining sync.WaitGroup
	maintaining.Go(func() { maintain(background, d.store, d.log) })
	d.onClose(func() error {
		cancel()
		maintaining.Wait()
		return nil
	})
	d.server.Ready()
	d.greet(out)
}

// drain ends what runs, in reverse order: no new batches, streams told, calls
// finished or stopped; then the listeners. close does the rest.
func (d *daemon) drain() error {
	// What hangs in the system (a dead network file system) must not keep the
	// process for ever: its calls are found open by the next start.
	hard := time.AfterFunc(d.config.DrainTimeout+hardTime, func() {
		d.log.Error("stopping did not end in time: exiting; open calls are looked after at the next start")
		os.Exit(1)
	})
	defer hard.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), d.config.DrainTimeout)
	defer cancel()
	drained := make(chan error, 1)
	go func() { drained <- d.executor.Drain(ctx) }()
	var err error
	select {
	case err = <-drained:
	case <-time.After(idleTime):
		d.log.Info("draining: running calls may finish; a second signal ends at once", "for", d.config.DrainTimeout)
		select {
		case err = <-drained:
		case <-ctx.Done():
			d.log.Warn("the time to drain is up: what still runs is stopped: reads run again at the next start, the others end INTERRUPTED", "after", d.config.DrainTimeout)
			err = <-drained
		}
	}
	if err != nil {
		err = fmt.Errorf("draining: %w", err)
	}
	last, cancelLast := context.WithTimeout(context.Background(), streamsTime)
	defer cancelLast()
	d.server.Shutdown(last)
	err = errors.Join(err, d.web.Shutdown(last))
	d.serving.Wait()
	if err == nil {
		d.log.Info("stopped")
	}
	return err
}
