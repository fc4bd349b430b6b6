package otel_test

import (
	"context"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/setpoint-go/setpoint/controller"
	setpointotel "github.com/setpoint-go/setpoint/tracing/otel"
)

// The benchmark compares a reconcile that is traced with one of a controller without the hook. Each iteration runs both, for a tenth
// of a second in turn, so that whatever else the machine does hits both. It reports the time of each, and the difference.
//
//	go test -run=NONE -bench=Reconcile -benchtime=50x -count=10 ./tracing/otel

func BenchmarkReconcile(b *testing.B) {
	b.Run("left out by Fraction", func(b *testing.B) {
		compare(b, newProcess(b, setpointotel.Config{Fraction: -1}))
	})
	b.Run("dropped by the SDK", func(b *testing.B) {
		compare(b, newProcess(b, setpointotel.Config{}, sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(0)))))
	})
	b.Run("recorded", func(b *testing.B) {
		provider := sdk.NewTracerProvider() // without an exporter
		compare(b, &process{provider: provider, Tracing: must(setpointotel.New(setpointotel.Config{Provider: provider}))})
	})
}

func compare(b *testing.B, p *process) {
	newCycle := func(hooks controller.Hooks[string]) func() {
		c := must(controller.New("sites", func(context.Context, string) (controller.Result, error) {
			return controller.Result{}, nil
		}, controller.Config[string]{Logger: quiet, Hooks: hooks}))
		ctx := context.Background()
		return func() {
			c.Add("berlin")
			c.Step(ctx, "berlin")
		}
	}
	cycles := [2]func(){newCycle(controller.Hooks[string]{}), newCycle(setpointotel.Hooks[string](p.Tracing))}
	var n [2]int
	var took [2]time.Duration
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
	without, with := float64(took[0].Nanoseconds())/float64(n[0]), float64(took[1].Nanoseconds())/float64(n[1])
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(without, "without-ns")
	b.ReportMetric(with, "with-ns")
	b.ReportMetric(with-without, "difference-ns")
}
