package server

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// measures are the instruments of the streams; otelgrpc has those of the RPCs.
type measures struct {
	open, attached metric.Int64UpDownCounter
	slowConsumers  metric.Int64Counter
}

func newMeasures(m metric.Meter) (*measures, error) {
	open, err1 := m.Int64UpDownCounter("toold.streams.open", metric.WithUnit("{stream}"), metric.WithDescription("Streams of batches that are open."))
	attached, err2 := m.Int64UpDownCounter("toold.streams.attached", metric.WithUnit("{stream}"), metric.WithDescription("Open streams of batches that another stream began."))
	slow, err3 := m.Int64Counter("toold.stream.slow_consumers", metric.WithUnit("{stream}"), metric.WithDescription("Streams that were cut because nobody read them."))
	return &measures{open, attached, slow}, errors.Join(err1, err2, err3)
}

func (m *measures) opened(attached bool) { m.add(attached, 1) }
func (m *measures) closed(attached bool) { m.add(attached, -1) }

func (m *measures) add(attached bool, n int64) {
	m.open.Add(context.Background(), n)
	if attached {
		m.attached.Add(context.Background(), n)
	}
}

func (m *measures) slow() { m.slowConsumers.Add(context.Background(), 1) }
