package exec

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/toold/toold/internal/policy"
	"github.com/toold/toold/internal/tool"
)

// metrics are the executor's instruments. Attributes are bounded: tool names
// come from the registry, never from a request.
type metrics struct {
	acceptDuration metric.Float64Histogram
	runDuration    metric.Float64Histogram
	stageDuration  metric.Float64Histogram
	calls          metric.Int64Counter
	decisions      metric.Int64Counter
	running        metric.Int64UpDownCounter
	outputBytes    metric.Int64Counter
	truncated      metric.Int64Counter
	unknown        metric.Int64Counter

	sets sync.Map // joined pairs → metric.MeasurementOption
}

func newMetrics(m metric.Meter) (*metrics, error) {
	if m == nil {
		m = noop.NewMeterProvider().Meter("")
	}
	var all metrics
	var err error
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	histogram := func(name, about string) metric.Float64Histogram {
		h, e := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about),
			metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60, 600))
		keep(e)
		return h
	}
	counter := func(name, unit, about string) metric.Int64Counter {
		c, e := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
		keep(e)
		return c
	}
	all.acceptDuration = histogram("toold.batch.accept.duration", "Time from a batch's arrival until its acceptance was durable.")
	all.runDuration = histogram("gen_ai.execute_tool.duration", "Run time of tool calls.")
	all.stageDuration = histogram("toold.call.stage.duration", "Time that calls spent in a stage.")
	all.calls = counter("toold.calls", "{call}", "Calls that ended, by outcome.")
	all.decisions = counter("toold.decisions", "{decision}", "Policy decisions.")
	all.outputBytes = counter("toold.output.bytes", "By", "Bytes that tools put out.")
	all.truncated = counter("toold.output.truncated", "{call}", "Results that did not fit.")
	all.unknown = counter("toold.calls.unknown", "{call}", "Calls of which nobody knows what they did.")
	var e error
	all.running, e = m.Int64UpDownCounter("toold.calls.running", metric.WithUnit("{call}"), metric.WithDescription("Calls that run now."))
	keep(e)
	return &all, err
}

var ctxNone = context.Background()

func (m *metrics) accepted(took time.Duration) { m.acceptDuration.Record(ctxNone, took.Seconds()) }

// with gives the attribute set of pairs of names and values. There are few of
// them and making one costs more than counting: each is made once.
func (m *metrics) with(pairs ...string) metric.MeasurementOption {
	key := strings.Join(pairs, "\x00")
	if o, ok := m.sets.Load(key); ok {
		return o.(metric.MeasurementOption)
	}
	attrs := make([]attribute.KeyValue, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		attrs = append(attrs, attribute.String(pairs[i], pairs[i+1]))
	}
	o, _ := m.sets.LoadOrStore(key, metric.WithAttributeSet(attribute.NewSet(attrs...)))
	return o.(metric.MeasurementOption)
}

func (m *metrics) decided(d policy.Decision) {
	m.decisions.Add(ctxNone, 1, m.with("effect", d.Verdict.String(), "stage", d.Stage.String(), "reason_code", d.ReasonCode))
}

func (m *metrics) started(c tool.Class) {
	m.running.Add(ctxNone, 1, m.with("toold.side_effect", c.String()))
}

func (m *metrics) finishedRun(c tool.Class) {
	m.running.Add(ctxNone, -1, m.with("toold.side_effect", c.String()))
}

func (m *metrics) finished(c *call, f *Finished, facts outcomeFacts) {
	name := c.spec.Name
	if name == "" {
		name = "_unknown"
	}
	const toolName, class = "gen_ai.tool.name", "toold.side_effect"
	m.calls.Add(ctxNone, 1, m.with(toolName, name, "toold.outcome", f.Outcome.String(), class, c.class.String()))
	if f.Outcome == tool.Unknown {
		m.unknown.Add(ctxNone, 1, m.with(toolName, name))
	}
	if facts.attempt == 0 {
		return
	}
	reason := ""
	if f.Error != nil {
		reason = f.Error.Reason
	}
	m.runDuration.Record(ctxNone, facts.ran.Seconds(), m.with(toolName, name, "error.type", reason, class, c.class.String()))
	m.stageDuration.Record(ctxNone, facts.queued.Seconds(), m.with("stage", "queue"))
	m.outputBytes.Add(ctxNone, f.Usage.OutputBytes, m.with(toolName, name))
	if t, ok := f.Output.(tool.Truncated); ok {
		m.truncated.Add(ctxNone, 1, m.with(toolName, name, "reason", t.Reason.String()))
	}
}
