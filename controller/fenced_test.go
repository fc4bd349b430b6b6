package controller_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/redislease"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fenced is an error of a third-party store.
type fenced bool

func (fenced) Error() string  { return "fenced" }
func (f fenced) Fenced() bool { return bool(f) }

func TestFencedWriteIsNotRetriedBySameRun(t *testing.T) {
	for name, refused := range map[string]error{
		"store":      &store.Error{Op: "update", Kind: "sites", Key: "a", Err: store.ErrFenced},
		"sqllease":   sqllease.ErrFenced,
		"redislease": redislease.ErrFenced,
		"fence":      fence.ErrStale,
		"others":     fenced(true),
	} {
		bubble(t, name, func(t *testing.T) {
			var out looptest.Text
			c, reports := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 1}, Logger: looptest.Logger(&out)},
				func(context.Context, string) (controller.Result, error) {
					return controller.Result{}, fmt.Errorf("write: %w", refused)
				})
			r := looptest.Start(t, c.Run)
			c.Add("a")
			time.Sleep(48 * time.Hour)
			all := reports.Take()
			require.Len(t, all, 1, "this leader was replaced")
			assert.Equal(t, controller.Canceled, all[0].Outcome)
			assert.Zero(t, all[0].Retry)
			require.ErrorIs(t, all[0].Err, refused)
			assert.Contains(t, out.String(), `level=WARN msg="reconcile fenced, left to the next run"`)
			require.NoError(t, c.WaitIdle(t.Context()))
			c.Add("a")
			synctest.Wait()
			assert.Len(t, reports.Take(), 1, "an event triggers another check")
			assert.Empty(t, c.Parked())
			require.NoError(t, r.Stop())

			looptest.Start(t, c.Run)
			synctest.Wait()
			all = reports.Take()
			require.Len(t, all, 1, "the next run does it at once")
			assert.Equal(t, 1, all[0].Attempt, "it has not failed")
			c.CheckInvariants(t)
		})
	}
}

func TestFencedStepIsLeftToNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
			return controller.Result{}, store.ErrFenced
		})
		c.Add("a")
		_, ok := next(t.Context(), c)
		assert.True(t, ok)
		_, ok = next(t.Context(), c)
		assert.False(t, ok)
		reports.Take()
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Len(t, reports.Take(), 1, "a run does it at once")
	})
}

func TestErrorNotFencedIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
			return controller.Result{}, fenced(false)
		})
		c.Add("a")
		next(t.Context(), c)
		assert.Equal(t, controller.Failed, reports.Take()[0].Outcome)
	})
}
