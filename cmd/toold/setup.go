package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/toold/toold/internal/budget"
	"github.com/toold/toold/internal/exec"
)

// newLogger makes the logger that the configuration, which was checked, asks for.
func newLogger(c Config, out io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel))
	// A duration is 20s in either form; as JSON it would be nanoseconds.
	words := func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.StringValue(short(a.Value.Duration()))
		}
		return a
	}
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: words}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(out, o))
	}
	return slog.New(slog.NewTextHandler(out, o))
}

// replica is this daemon's name in the ledger.
func (c Config) replica() string {
	if c.Replica != "" {
		return c.Replica
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		return host
	}
	return "toold"
}

func (c Config) limits() exec.Limits {
	l := c.Limits
	return exec.Limits{
		Calls:           l.CallsPerBatch,
		ArgumentsBytes:  int(l.ArgumentsBytes),
		RunningBatches:  l.RunningBatches,
		ParallelReads:   l.ParallelReads,
		ParallelCalls:   l.ParallelCalls,
		CallTimeout:     l.CallTimeout,
		BatchTimeout:    l.BatchTimeout,
		MaxBatchTimeout: l.MaxBatchTimeout,
		InlineBytes:     int64(l.InlineBytes),
		CaptureBytes:    int64(l.CaptureBytes),
		UnreadGrace:     l.UnreadGrace,
		Budget:          budget.DefaultCaps,
	}
}

// greet tells the person at the terminal what is there now and what to type.
func (d *daemon) greet(out io.Writer) {
	var b strings.Builder
	row := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s "+format+"\n", append([]any{what}, args...)...)
	}
	fmt.Fprintf(&b, "toold %s is serving\n", fullVersion())
	row("API", "%s and unix:%s", d.listeners[0].Addr(), d.data.join(socketName))
	if d.metrics != nil {
		row("metrics", "http://%s/metrics", d.metrics.Addr())
	}
	row("data", "%s (%s)", d.data.path, d.storeName)
	row("policy", "%s", d.policyName())
	for _, name := range d.workspaces.List() {
		if w, err := d.workspaces.Get(name); err == nil {
			row("workspace", "%s = %s", name, w.Dir())
		}
	}
	b.WriteString("Next: " + d.nextCommand() + "\n")
	_, _ = io.WriteString(out, b.String())
}

// nextCommand is something that works now, typed as it stands.
func (d *daemon) nextCommand() string {
	command := "toolctl exec "
	if d.config.DataDir != "" { // toolctl looks for the socket in the default one
		command += "--data-dir " + quoted(d.data.path) + " "
	}
	w, err := d.workspaces.Get("")
	if err != nil {
		name := d.workspaces.List()[0]
		command += "--workspace " + name + " "
		if w, err = d.workspaces.Get(name); err != nil {
			return "toolctl tools"
		}
	}
	if _, err := w.Root().Stat("README.md"); err == nil {
		return command + "read path=README.md"
	}
	return command + "tree path=."
}

// quoted is a text as one word of a shell.
func quoted(text string) string {
	if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@%") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
