package leaderelect_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

func TestHolderReturnsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := memlease.New()
		_, err := leaderelect.Holder(t.Context(), leases, "lease")
		require.ErrorIs(t, err, leaderelect.ErrNotFound)

		e, err := leaderelect.New(leaderelect.Config{
			Store: leases, Key: "lease", Identity: "me", Metadata: map[string]string{"address": "here"},
			Logger: slog.New(slog.DiscardHandler),
			OnStartedLeading: func(context.Context, *leaderelect.Leadership) error {
				leader, err := leaderelect.Holder(t.Context(), leases, "lease")
				require.NoError(t, err)
				require.Equal(t, "me", leader.Identity)
				require.EqualValues(t, 1, leader.Term)
				require.Equal(t, map[string]string{"address": "here"}, leader.Metadata)
				return nil
			},
		})
		require.NoError(t, err)
		require.NoError(t, e.RunOnce(t.Context()))
		_, err = leaderelect.Holder(t.Context(), leases, "lease")
		require.ErrorIs(t, err, leaderelect.ErrNotFound, "the lease was released")
		leases.Put(leaderelect.Entry{Key: "lease", Value: []byte("{"), Term: 7})
		_, unreadable := leaderelect.Holder(t.Context(), leases, "lease")
		require.Error(t, unreadable)
		require.NotErrorIs(t, unreadable, leaderelect.ErrNotFound, "it is unknown whether it is held")
		require.EqualError(t, err, fmt.Sprintf("leaderelect: read the holder of %q: the lease is free: %v", "lease", leaderelect.ErrNotFound))
	})
}
