package controller_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/stretchr/testify/require"
)

// A late Add, whose key has been handed out already, must not cancel the reconcile that it triggered. Nothing else
// would repeat that reconcile.
func TestAddDoesNotCancelItsOwnReconcile(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8)) // so that an Add is held up at times
	const keys = 64
	last := make([]atomic.Int64, keys)
	c, err := controller.New("superseded", func(ctx context.Context, key int) (controller.Result, error) {
		for range 10 {
			runtime.Gosched() // time for an Add that comes late
		}
		return controller.Result{}, ctx.Err()
	}, controller.Config[int]{
		Workers: 4, CancelSuperseded: true, Logger: quiet,
		Hooks: controller.Hooks[int]{Reconciled: func(r controller.Report[int]) { last[r.Key].Store(int64(r.Outcome)) }},
	})
	require.NoError(t, err)
	looptest.Start(t, c.Run)
	for round := range effort(150, 2000) {
		for key := range keys {
			c.Add(key)
		}
		require.NoError(t, c.WaitIdle(t.Context()))
		for key := range last {
			require.Equal(t, controller.Succeeded, controller.Outcome(last[key].Load()), "%d in round %d", key, round)
		}
	}
}
