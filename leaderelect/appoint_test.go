package leaderelect_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/store"
)

func TestAppointLeadsUntilDeposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		work, depose := leaderelect.Appoint(ctx, "shop", 7)
		l, ok := leaderelect.FromContext(work)
		require.True(t, ok)
		require.Equal(t, "shop", l.Key())
		require.Equal(t, uint64(7), l.Term())
		fence, ok := store.FenceFrom(work)
		require.True(t, ok)
		require.Equal(t, store.Fence{Lease: "shop", Term: 7}, fence)

		time.Sleep(365 * 24 * time.Hour)
		require.NoError(t, l.Err())
		require.NoError(t, work.Err())
		require.Greater(t, time.Until(l.Deadline()), 98*365*24*time.Hour)

		cancel()
		require.Error(t, work.Err())
		require.NoError(t, l.Context().Err(), "it drains")
		require.NoError(t, l.Err())

		depose(leaderelect.ErrLeaseTaken)
		depose(errors.New("too late"))
		require.ErrorIs(t, l.Err(), leaderelect.ErrLeaseTaken)
		require.ErrorIs(t, context.Cause(l.Context()), leaderelect.ErrLeaseTaken)
	})
}

func TestDeposedLeadersContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work, depose := leaderelect.Appoint(t.Context(), "shop", 7)
		depose(leaderelect.ErrLeaseExpired)
		require.ErrorIs(t, context.Cause(work), leaderelect.ErrLeaseExpired)
	})
}

func TestLeaderDeposedWithoutReasonDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work, depose := leaderelect.Appoint(t.Context(), "shop", 7)
		depose(nil)
		l, ok := leaderelect.FromContext(work)
		require.True(t, ok)
		require.ErrorIs(t, l.Err(), leaderelect.ErrTermEnded)
		require.ErrorIs(t, context.Cause(work), leaderelect.ErrTermEnded)
	})
}
