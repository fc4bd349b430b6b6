package manager_test

import (
	"context"
	"errors"
	"log/slog"
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

// reporting returns a controller that reports to the log.
func reporting(
	t *testing.T, cfg controller.Config[string], f func(context.Context, string) (controller.Result, error), inputs ...controller.Input[string],
) (*controller.Controller[string], *looptest.Log[controller.Report[string]]) {
	t.Helper()
	reports := &looptest.Log[controller.Report[string]]{}
	cfg.Hooks.Reconciled, cfg.Logger = reports.Add, quiet
	return must(controller.New("test", f, cfg, inputs...)), reports
}

// keysOf returns the keys of the reports.
func keysOf(reports []controller.Report[string]) []string {
	var keys []string
	for _, r := range reports {
		keys = append(keys, r.Key)
	}
	return keys
}

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

// slow is a reconcile that takes a second, unless its context ends.
func slow(ctx context.Context, _ string) (controller.Result, error) {
	select {
	case <-time.After(time.Second):
		return controller.Result{}, nil
	case <-ctx.Done():
		return controller.Result{}, context.Cause(ctx)
	}
}
