package term_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller/internal/term"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

// lead calls work as a leader who loses the lease 10 s later.
func lead(t *testing.T, work func(ctx context.Context)) {
	store := memlease.New()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	elector, err := leaderelect.New(leaderelect.Config{
		Store: store, Key: "lock", Identity: "me", Logger: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error {
			defer cancel()
			work(ctx)
			return nil
		},
	})
	require.NoError(t, err)
	time.AfterFunc(10*time.Second, func() {
		store.Inject(memlease.Faults{Before: func(context.Context, memlease.Call) error { return errors.New("cut off") }})
	})
	require.NoError(t, elector.Run(ctx))
}

// Guarantees 1 and 2.
func TestWorkEndsWithLostLeadershipBeforeParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lead(t, func(ctx context.Context) {
			type valueKey struct{}
			work, stop := term.Context(context.WithValue(ctx, valueKey{}, "value"))
			defer stop(nil)
			child, cancel := context.WithTimeout(work, time.Hour)
			defer cancel()
			for _, stack := range looptest.Stacks(t) {
				assert.NotContains(t, stack, "created by context.(*cancelCtx).propagateCancel", "no goroutine propagates the end")
			}
			_, hasDeadline := work.Deadline()
			assert.False(t, hasDeadline)
			assert.Equal(t, "value", work.Value(valueKey{}))
			require.NoError(t, term.Err(work))
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(child), leaderelect.ErrLeaseExpired)
		})
	})
}

// Guarantee 1.
func TestWorkContinuesAfterParentEnds(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	work, stop := term.Context(parent)
	cancel()
	require.NoError(t, work.Err())
	require.NoError(t, term.Err(work), "it belongs to no leadership")
	why := errors.New("why")
	stop(why)
	assert.Equal(t, why, context.Cause(work))
}

// Guarantee 3.
func TestErrReportsEndedLeadershipInDetachedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lead(t, func(ctx context.Context) {
			require.NoError(t, term.Err(ctx))
			lasting := context.WithoutCancel(ctx)
			<-ctx.Done()
			assert.ErrorIs(t, term.Err(lasting), leaderelect.ErrLeaseExpired)
		})
	})
}

func TestReleaseWaitsForStopAndPreventsLaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var stopped atomic.Bool
		stop := func(cause error) {
			time.Sleep(time.Second)
			assert.ErrorIs(t, cause, context.DeadlineExceeded)
			stopped.Store(true)
		}
		release := term.StopWith(limit, stop)
		time.Sleep(1500 * time.Millisecond)
		release()
		assert.True(t, stopped.Load(), "release has waited for it")

		stopped.Store(false)
		limit, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		term.StopWith(limit, stop)()
		time.Sleep(time.Minute)
		assert.False(t, stopped.Load())
	})
}
