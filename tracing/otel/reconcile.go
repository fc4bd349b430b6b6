package otel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/wait"
)

// Hooks returns hooks with Trace set, for [controller.Config]. The other hooks are nil, and can be set. Hooks panics if t is nil.
func Hooks[K comparable](t *Tracing) controller.Hooks[K] {
	if t == nil {
		panic("otel: Hooks called with a nil Tracing")
	}
	return controller.Hooks[K]{
		Trace: func(ctx context.Context, _ K, causes []string) (context.Context, func(controller.Report[K])) {
			ctx, span := t.begin(ctx, causes)
			if span == nil {
				return ctx, nil
			}
			return ctx, func(r controller.Report[K]) { end(span, r.Outcome, r.Err, r.Retry) }
		},
	}
}

// begin begins the span of a reconcile. It returns nil if nothing is recorded. Many programs record few of their reconciles, so everything
// that only a recorded span needs comes after Start.
func (t *Tracing) begin(ctx context.Context, causes []string) (context.Context, trace.Span) {
	links := parse(causes)
	if len(links) == 0 && t.cfg.Fraction < 1 && t.cfg.Rand() >= t.cfg.Fraction {
		return trace.ContextWithSpan(ctx, t.dropped), nil
	}
	options := t.options
	parent, ok := trace.SpanContext{}, false
	if len(links) > 0 {
		options = append(options, trace.WithLinks(links...))
		parent, ok = follow(links[0].SpanContext)
	}
	if ok {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	} else if trace.SpanContextFromContext(ctx).IsValid() { // that of Run
		options = append(options, trace.WithNewRoot())
	}
	info, _ := controller.FromContext(ctx)
	ctx, span := t.tracer.Start(ctx, "reconcile "+clean(info.Controller), options...)
	if !span.IsRecording() {
		return ctx, nil
	}
	span.SetAttributes(attributes(info)...)
	return ctx, span
}

func attributes(info controller.Info) []attribute.KeyValue {
	list := []attribute.KeyValue{
		attribute.String("setpoint.controller", clean(info.Controller)),
		attribute.String("setpoint.key", clean(info.Key)),
		attribute.Int64("setpoint.reconcile", int64(info.Reconcile)),
		attribute.Int("setpoint.attempt", info.Attempt),
	}
	if len(info.Reasons) > 0 {
		texts := make([]string, len(info.Reasons))
		for i, r := range info.Reasons {
			texts[i] = clean(r.Text)
		}
		list = append(list, attribute.StringSlice("setpoint.reasons", texts))
	}
	return list
}

// end ends the span of a reconcile with its outcome.
func end(span trace.Span, outcome controller.Outcome, err error, retry time.Duration) {
	defer span.End()
	span.SetAttributes(attribute.String("setpoint.outcome", strings.ToLower(outcome.String())))
	switch outcome {
	case controller.Succeeded:
		if retry > 0 {
			span.AddEvent("setpoint.requeue", trace.WithAttributes(delay(retry)))
		}
		return
	case controller.Unfinished, controller.Superseded, controller.Canceled:
		span.AddEvent("setpoint.repeat", trace.WithAttributes(attribute.String("setpoint.reason", clean(err.Error()))))
	default:
		kind, stack := describe(outcome, err)
		message := clean(err.Error())
		exception := []attribute.KeyValue{attribute.String("exception.type", kind), attribute.String("exception.message", message)}
		if stack != "" {
			exception = append(exception, attribute.String("exception.stacktrace", clean(stack)))
		}
		span.AddEvent("exception", trace.WithAttributes(exception...))
		span.SetAttributes(attribute.String("error.type", kind))
		span.SetStatus(codes.Error, message)
	}
	if retry > 0 {
		span.AddEvent("setpoint.retry", trace.WithAttributes(delay(retry)))
	}
}

// clean returns text in UTF-8, because an exporter of OTLP drops a span with other text, and all spans that it sends with it.
func clean(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

func delay(d time.Duration) attribute.KeyValue {
	return attribute.Float64("setpoint.delay", d.Seconds())
}

// describe returns the kind of err, as one of a few words, and the stack of a panic. The innermost type says more than those
// that wrap it.
func describe(outcome controller.Outcome, err error) (kind, stack string) {
	if p := (*wait.PanicError)(nil); errors.As(err, &p) {
		return "panic", string(p.Stack)
	}
	if outcome == controller.TimedOut {
		return "timeout", ""
	}
	for {
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			if inner := e.Unwrap(); inner != nil {
				err = inner
				continue
			}
		case interface{ Unwrap() []error }:
			if all := e.Unwrap(); len(all) > 0 { // "%w: %w" has the cause last
				err = all[len(all)-1]
				continue
			}
		}
		return fmt.Sprintf("%T", err), ""
	}
}
