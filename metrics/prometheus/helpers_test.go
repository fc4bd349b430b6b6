package prometheus_test

import (
	"context"
	"fmt"
	"log/slog"
	"sort"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store"
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

// newStore returns the store of a kind.
func newStore(db *store.Memory, kind string) store.Store[site] {
	n := 0
	return must(store.Open(db, kind, store.Config[site]{NewUID: func() string { n++; return fmt.Sprint(kind, n) }}))
}

// noop reconciles nothing.
func noop[K comparable](context.Context, K) (controller.Result, error) {
	return controller.Result{}, nil
}

// newManager returns a manager of a controller without inputs.
func newManager(name string) (*manager.Manager, *controller.Controller[string]) {
	c := must(controller.New(name, noop[string], controller.Config[string]{Logger: quiet}))
	return must(manager.New(manager.Config{Logger: quiet}, c)), c
}

// start calls run in a goroutine, and returns a function that ends it and waits.
func start(t *testing.T, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// lines returns what a scrape of g finds: a line for each series, "name{label="value"} 1". That of a histogram has its count, its
// sum in seconds, and the buckets that are not empty, by their upper bound.
func lines(t *testing.T, g prometheus.Gatherer) []string {
	t.Helper()
	all, err := g.Gather()
	require.NoError(t, err)
	var lines []string
	for _, f := range all {
		for _, m := range f.GetMetric() {
			lines = append(lines, f.GetName()+labels(m)+" "+value(m))
		}
	}
	sort.Strings(lines)
	return lines
}

func labels(m *dto.Metric) string {
	var pairs []string
	for _, l := range m.GetLabel() {
		if l.GetValue() != "" {
			pairs = append(pairs, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
		}
	}
	return "{" + strings.Join(pairs, ",") + "}"
}

func value(m *dto.Metric) string {
	switch {
	case m.Counter != nil:
		return fmt.Sprint(m.Counter.GetValue())
	case m.Gauge != nil:
		return fmt.Sprint(m.Gauge.GetValue())
	}
	h := m.GetHistogram()
	var text strings.Builder
	fmt.Fprintf(&text, "count %d sum %g", h.GetSampleCount(), h.GetSampleSum())
	before := uint64(0)
	for _, b := range h.GetBucket() {
		if n := b.GetCumulativeCount(); n > before {
			fmt.Fprintf(&text, " le %g: %d", b.GetUpperBound(), n-before)
			before = n
		}
	}
	return text.String()
}

// only returns those lines that begin with one of the prefixes.
func only(lines []string, prefixes ...string) (some []string) {
	for _, line := range lines {
		for _, p := range prefixes {
			if strings.HasPrefix(line, p) {
				some = append(some, line)
			}
		}
	}
	return some
}
