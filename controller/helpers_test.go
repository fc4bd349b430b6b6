package controller_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

var (
	errBoom = errors.New("boom")
	quiet   = slog.New(slog.DiscardHandler)
)

// effort returns how often a model runs: few times, or all if CONTROLLER_MODEL is full.
func effort(few, all int) int {
	if os.Getenv("CONTROLLER_MODEL") == "full" {
		return all
	}
	return few
}

// bubble runs a subtest in a bubble of its own.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// assertNoGoroutines fails the test if a goroutine of the library is left in its bubble.
func assertNoGoroutines(t *testing.T) {
	t.Helper()
	looptest.NoGoroutines(t, "controller", "informer", "leaderelect", "workqueue", "wait")
}

// newController returns a controller that reports to the log.
func newController(
	t testing.TB, cfg controller.Config[string], f func(context.Context, string) (controller.Result, error),
	inputs ...controller.Input[string],
) (*controller.Controller[string], *looptest.Log[controller.Report[string]]) {
	t.Helper()
	reports := &looptest.Log[controller.Report[string]]{}
	cfg.Hooks.Reconciled = reports.Add
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	c, err := controller.New("test", f, cfg, inputs...)
	require.NoError(t, err)
	return c, reports
}

// noop is a reconcile with nothing to do.
func noop(context.Context, string) (controller.Result, error) { return controller.Result{}, nil }

// keysOf returns the keys of the reports.
func keysOf(reports []controller.Report[string]) []string {
	var keys []string
	for _, r := range reports {
		keys = append(keys, r.Key)
	}
	return keys
}

// limiter gives every key the same delay, and counts.
type limiter struct {
	delay   time.Duration
	whens   atomic.Int64
	forgets atomic.Int64
}

func (l *limiter) When(string) time.Duration { l.whens.Add(1); return l.delay }
func (l *limiter) Forget(string)             { l.forgets.Add(1) }
func (l *limiter) NumRequeues(string) int    { return 0 }

// newLeases returns a LeaseStore that [cut] cuts off.
func newLeases() *memlease.Store { return memlease.New() }

// cut makes the calls of s fail, or ends that.
func cut(s *memlease.Store, off bool) {
	faults := memlease.Faults{}
	if off {
		faults.Before = func(context.Context, memlease.Call) error { return errBoom }
	}
	s.Inject(faults)
}

// election returns the configuration of an election in the store.
func election(s leaderelect.LeaseStore) *leaderelect.Config {
	return &leaderelect.Config{Store: s, Key: "lock", Identity: "me", Logger: quiet}
}

// lead runs work as the leader, for each term.
func lead(t *testing.T, s leaderelect.LeaseStore, work func(ctx context.Context) error) *looptest.Running {
	t.Helper()
	cfg := *election(s)
	cfg.OnStartedLeading = func(ctx context.Context, _ *leaderelect.Leadership) error { return work(ctx) }
	elector, err := leaderelect.New(cfg)
	require.NoError(t, err)
	return looptest.Start(t, elector.Run)
}

// assertNoWorkers fails the test if a goroutine of a controller is left in its bubble.
func assertNoWorkers(t *testing.T) {
	t.Helper()
	looptest.NoGoroutines(t, "controller", "workqueue")
}

// next reconciles the first key that is ready and need not wait for anything.
func next[K comparable](ctx context.Context, c *controller.Controller[K]) (report controller.Report[K], ok bool) {
	for _, key := range c.Ready() {
		if report, ok = c.Step(ctx, key); ok {
			break
		}
	}
	return report, ok
}

// attemptOf returns the number of the attempt that ctx belongs to.
func attemptOf(ctx context.Context) int {
	info, _ := controller.FromContext(ctx)
	return info.Attempt
}
