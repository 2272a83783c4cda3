package main

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"

	"github.com/toold/toold/internal/audit"
)

// scope names the instruments of the daemon.
const scope = "github.com/toold/toold"

// newMeters makes what instruments are made of, and where they are read.
func newMeters() (*sdk.MeterProvider, *prometheus.Registry, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, nil, fmt.Errorf("making the metrics exporter: %w", err)
	}
	return sdk.NewMeterProvider(sdk.WithReader(reader), sdk.WithExemplarFilter(exemplar.AlwaysOffFilter)), registry, nil
}

// ledgerMetrics measures the writer of the audit log.
func ledgerMetrics(m metric.Meter) (audit.Metrics, error) {
	var (
		none = context.Background()
		made instruments
	)
	took := made.histogram(m, "toold.ledger.flush.duration", "s", "Time of a durable group commit.",
		.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5)
	rows := made.histogram(m, "toold.ledger.rows", "{row}", "Rows of a group commit.", 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
	failures := made.counter(m, "toold.ledger.failures", "{commit}", "Group commits that failed.")
	ambiguous := made.counter(m, "toold.ledger.ambiguous_commits", "{commit}", "Group commits whose fate had to be asked for.")
	available := made.gauge(m, "toold.ledger.available", "Whether the ledger can be written: 1 or 0.")
	return audit.Metrics{
		Flushed: func(d time.Duration, n int) {
			took.Record(none, d.Seconds())
			rows.Record(none, float64(n))
		},
		Failed:    func() { failures.Add(none, 1) },
		Ambiguous: func() { ambiguous.Add(none, 1) },
		Available: func(yes bool) {
			var v int64
			if yes {
				v = 1
			}
			available.Record(none, v)
		},
	}, made.err
}

// instruments keeps the first error of making several.
type instruments struct{ err error }

func (i *instruments) keep(err error) {
	if i.err == nil {
		i.err = err
	}
}

func (i *instruments) histogram(m metric.Meter, name, unit, about string, bounds ...float64) metric.Float64Histogram {
	h, err := m.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(about), metric.WithExplicitBucketBoundaries(bounds...))
	i.keep(err)
	return h
}

func (i *instruments) counter(m metric.Meter, name, unit, about string) metric.Int64Counter {
	c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
	i.keep(err)
	return c
}

func (i *instruments) gauge(m metric.Meter, name, about string) metric.Int64Gauge {
	g, err := m.Int64Gauge(name, metric.WithDescription(about))
	i.keep(err)
	return g
}
