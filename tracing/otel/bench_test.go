package otel_test

import (
	"context"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/setpoint-go/setpoint/controller"
	setpointotel "github.com/setpoint-go/setpoint/tracing/otel"
)

// The benchmark compares three reconciles: of a controller without the hook, with the hook of this package, and with a hook that does
// nothing but start and end a span, which is what the SDK costs. Each iteration runs all three, for a tenth of a second in turn, so that
// whatever else the machine does hits all. It reports the time of the first, and the additional time of the others.
//
//	go test -run=NONE -bench=Reconcile -benchtime=50x -count=10 ./tracing/otel

func BenchmarkReconcile(b *testing.B) {
	b.Run("left out by Fraction", func(b *testing.B) {
		compare(b, newProcess(b, setpointotel.Config{Fraction: -1}, sdk.WithSampler(sdk.NeverSample())))
	})
	b.Run("dropped by the SDK", func(b *testing.B) {
		compare(b, newProcess(b, setpointotel.Config{}, sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(0)))))
	})
	b.Run("recorded", func(b *testing.B) {
		provider := sdk.NewTracerProvider() // without an exporter
		compare(b, &process{provider: provider, Tracing: must(setpointotel.New(setpointotel.Config{Provider: provider}))})
	})
}

// bare returns hooks that start and end a span in the shortest way.
func bare(p *process) controller.Hooks[string] {
	tracer := p.provider.Tracer("bare")
	return controller.Hooks[string]{
		Trace: func(ctx context.Context, _ string, _ []string) (context.Context, func(controller.Report[string])) {
			ctx, span := tracer.Start(ctx, "reconcile sites")
			if !span.IsRecording() {
				return ctx, nil
			}
			return ctx, func(controller.Report[string]) { span.End() }
		},
	}
}

// cycleOf returns one cycle of a controller with hooks.
func cycleOf(hooks controller.Hooks[string]) func() {
	c := must(controller.New("sites", func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, nil
	}, controller.Config[string]{Logger: quiet, Hooks: hooks}))
	ctx := context.Background()
	return func() {
		c.Add("berlin")
		c.Step(ctx, "berlin")
	}
}

func compare(b *testing.B, p *process) {
	cycles := [3]func(){cycleOf(controller.Hooks[string]{}), cycleOf(bare(p)), cycleOf(setpointotel.Hooks[string](p.Tracing))}
	var n [3]int
	var took [3]time.Duration
	for b.Loop() {
		for i, cycle := range cycles {
			began := time.Now()
			for time.Since(began) < 100*time.Millisecond {
				for range 1000 {
					cycle()
				}
				n[i] += 1000
			}
			took[i] += time.Since(began)
		}
	}
	var each [3]float64
	for i := range each {
		each[i] = float64(took[i].Nanoseconds()) / float64(n[i])
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(each[0], "without-ns")
	b.ReportMetric(each[1]-each[0], "sdk-ns")
	b.ReportMetric(each[2]-each[0], "hook-ns")
}
