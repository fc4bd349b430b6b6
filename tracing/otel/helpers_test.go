package otel_test

import (
	"context"
	"log/slog"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	setpointotel "github.com/setpoint-go/setpoint/tracing/otel"
)

var quiet = slog.New(slog.DiscardHandler)

// must returns v, or panics.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// site is what the stores of the tests hold.
type site struct{ Servers int }

// process is a program with an SDK of its own, as far as it takes part in a trace.
type process struct {
	*setpointotel.Tracing
	provider *sdk.TracerProvider
	exported *tracetest.InMemoryExporter
}

func newProcess(t testing.TB, cfg setpointotel.Config, options ...sdk.TracerProviderOption) *process {
	p := &process{exported: tracetest.NewInMemoryExporter()}
	p.provider = sdk.NewTracerProvider(append(options, sdk.WithSyncer(p.exported))...)
	t.Cleanup(func() {
		if err := p.provider.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	cfg.Provider = p.provider
	p.Tracing = must(setpointotel.New(cfg))
	return p
}

// sites returns a handle of the process of the kind site in db.
func (p *process) sites(db *store.Memory) store.Store[site] {
	return must(store.Open(db, "site", store.Config[site]{Trace: p.Context}))
}

// under calls f under a span.
func (p *process) under(name string, f func(ctx context.Context)) {
	ctx, span := p.provider.Tracer("test").Start(context.Background(), name)
	defer span.End()
	f(ctx)
}

// spans returns the spans that have ended since the last call, in the order in which they ended.
func (p *process) spans() tracetest.SpanStubs {
	defer p.exported.Reset()
	return p.exported.GetSpans()
}

// running runs an informer of sites, and a controller of what it mirrors, until the test ends.
func (p *process) running(
	t *testing.T, sites store.Store[site], reconcile func(context.Context, string) (controller.Result, error), cfg controller.Config[string],
) *controller.Controller[string] {
	seen := must(informer.New(sites, store.Key, informer.Config{Name: "sites", Logger: quiet}))
	cfg.Logger, cfg.Hooks = quiet, setpointotel.Hooks[string](p.Tracing)
	c := must(controller.New("sites", reconcile, cfg, controller.For(seen)))
	start(t, seen.Run)
	start(t, c.Run)
	return c
}

// start calls run in a goroutine until the test ends.
func start(t *testing.T, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
