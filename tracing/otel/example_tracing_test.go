package otel_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/setpoint-go/setpoint/controller"
	setpointotel "github.com/setpoint-go/setpoint/tracing/otel"
)

// A webhook adds a key twice before the key is reconciled. The span of the reconcile is in the trace of the first request, and has a
// link to both.
func ExampleHooks() {
	exporter := tracetest.NewInMemoryExporter() // yours sends the spans to a collector
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	tracing, err := setpointotel.New(setpointotel.Config{Provider: provider})
	if err != nil {
		panic(err)
	}
	reconcile := func(context.Context, string) (controller.Result, error) { return controller.Result{}, nil }
	c, err := controller.New("sites", reconcile, controller.Config[string]{Hooks: setpointotel.Hooks[string](tracing)})
	if err != nil {
		panic(err)
	}

	for range 2 {
		ctx, span := provider.Tracer("webhook").Start(context.Background(), "POST /hooks")
		c.AddWith("berlin", controller.AddOptions{Trace: tracing.Context(ctx)})
		span.End()
	}
	c.Step(context.Background(), "berlin")

	spans := exporter.GetSpans()
	first, last := spans[0], spans[len(spans)-1]
	fmt.Println(last.Name)
	fmt.Println("in the trace of the first request:", last.SpanContext.TraceID() == first.SpanContext.TraceID())
	fmt.Println("links:", len(last.Links))
	for _, a := range last.Attributes {
		if a.Key != "setpoint.reconcile" {
			fmt.Println(a.Key, "=", a.Value.String())
		}
	}
	// Output:
	// reconcile sites
	// in the trace of the first request: true
	// links: 2
	// setpoint.controller = sites
	// setpoint.key = berlin
	// setpoint.attempt = 1
	// setpoint.outcome = succeeded
}
