package otel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of the instrumentation.
const scope = "github.com/setpoint-go/setpoint/tracing/otel"

// maxChain is the maximum number of reconciles in one trace, each caused by the previous one.
const maxChain = 16

// chainKey is the key in a tracestate under which such a trace counts its reconciles.
const chainKey = "setpoint"

// Config is the configuration of a [Tracing]. The zero value is ready for use.
type Config struct {
	// Provider makes the tracer. Defaults to the global provider of go.opentelemetry.io/otel.
	Provider trace.TracerProvider

	// Fraction is the fraction of the reconciles without a sampled cause that begin a trace. The sampler of Provider then decides
	// about each. The others are not sampled, and neither are spans that they begin, if the sampler respects the parent as that of the
	// SDK does by default. A reconcile with a sampled cause is always passed to Provider. Defaults to 1. A negative number means that no
	// reconcile begins a trace.
	Fraction float64

	// Rand returns random numbers in [0, 1) for Fraction. It must be safe for concurrent use. Defaults to rand.Float64.
	Rand func() float64
}

// withDefaults returns c with defaults for the zero values.
func (c Config) withDefaults() Config {
	if c.Provider == nil {
		c.Provider = otel.GetTracerProvider()
	}
	if c.Fraction == 0 {
		c.Fraction = 1
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	return c
}

func (c Config) validate() error {
	if !(c.Fraction <= 1) { // also true for NaN
		return fmt.Errorf("Config.Fraction is %v, must be at most 1", c.Fraction)
	}
	return nil
}

// Tracing makes spans of reconciles. Use New to make one. All methods are safe for concurrent use.
type Tracing struct {
	cfg     Config
	tracer  trace.Tracer
	dropped trace.Span              // the span of all reconciles that Fraction leaves out
	options []trace.SpanStartOption // of each span; has no spare capacity, so append copies it
}

// New returns a Tracing. It returns an error if a field of cfg is out of bounds.
func New(cfg Config) (*Tracing, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("otel: new: %w", err)
	}
	t := &Tracing{cfg: cfg.withDefaults(), options: []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer)}}
	t.tracer = t.cfg.Provider.Tracer(scope)
	var id trace.SpanContextConfig // valid, so that samplers respect it, and random for those that decide by the trace ID
	for i := range id.TraceID {
		id.TraceID[i] = byte(rand.Uint32())
	}
	id.TraceID[0], id.SpanID[0] = 1, 1
	t.dropped = trace.SpanFromContext(trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(id)))
	return t, nil
}

// Context returns the trace context of ctx in W3C form, for store.Config.Trace and controller.AddOptions.Trace: the header traceparent and,
// if there is one, a space and the header tracestate. It returns "" if ctx has no span, or one that is not sampled.
func (t *Tracing) Context(ctx context.Context) string {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() || !span.IsSampled() {
		return ""
	}
	var h headers
	propagation.TraceContext{}.Inject(ctx, &h)
	if h.state == "" {
		return h.parent
	}
	return h.parent + " " + h.state
}

// headers are the two headers of W3C trace context.
type headers struct{ parent, state string }

// Get implements [propagation.TextMapCarrier].
func (h *headers) Get(key string) string {
	switch key {
	case "traceparent":
		return h.parent
	case "tracestate":
		return h.state
	}
	return ""
}

// Set implements [propagation.TextMapCarrier].
func (h *headers) Set(key, value string) {
	switch key {
	case "traceparent":
		h.parent = value
	case "tracestate":
		h.state = value
	}
}

// Keys implements [propagation.TextMapCarrier].
func (h *headers) Keys() []string { return []string{"traceparent", "tracestate"} }

// parse returns the sampled span contexts of causes, each as a link.
func parse(causes []string) []trace.Link {
	var links []trace.Link
	for _, cause := range causes {
		var h headers
		h.parent, h.state, _ = strings.Cut(cause, " ")
		ctx := propagation.TraceContext{}.Extract(context.Background(), &h)
		if span := trace.SpanContextFromContext(ctx); span.IsSampled() {
			links = append(links, trace.Link{SpanContext: span})
		}
	}
	return links
}

// follow returns the span context under which a reconcile caused by parent begins. It returns false if the chain is too long.
func follow(parent trace.SpanContext) (trace.SpanContext, bool) {
	n, _ := strconv.Atoi(parent.TraceState().Get(chainKey)) // 0 if it is missing, or has another meaning
	if n >= maxChain {
		return parent, false
	}
	state, err := parent.TraceState().Insert(chainKey, strconv.Itoa(max(n, 0)+1))
	if err != nil {
		return parent, false // it cannot be counted
	}
	return parent.WithTraceState(state), true
}
