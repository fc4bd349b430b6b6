package shard_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
)

func TestStatsReportOwnedSlotsAndDeadline(t *testing.T) {
	inWorld(t, 16, func(t *testing.T, w *world) {
		a := w.join(t, "a", nil)
		assert.Equal(t, shard.Stats{Slots: 16}, a.Stats())
		after(100 * time.Millisecond)
		s := a.Stats()
		assert.Equal(t, []int{16, 16, 1}, []int{s.Slots, s.Owned, s.Members})
		assert.EqualValues(t, 16, s.Acquired)
		assert.InDelta(t, renew, time.Until(s.Deadline), float64(200*time.Millisecond))
		b := w.join(t, "b", nil)
		after(calm)
		s = a.Stats()
		assert.Equal(t, []int{16, 8, 2}, []int{s.Slots, s.Owned, s.Members})
		assert.Zero(t, s.Lost, "they were handed over")
		assert.EqualValues(t, 8, b.Stats().Acquired)
	})
}

func TestStatsReportEarliestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := memlease.New()
		s, err := shard.New(shard.Config{
			Lease: leaderelect.Config{Store: leases, Key: "k", Logger: slog.New(slog.DiscardHandler)}, Slots: 4,
			OnAcquired: func(context.Context, int) error { return nil },
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		after(time.Second)
		leases.Inject(memlease.Faults{Before: func(_ context.Context, c memlease.Call) error {
			if c.Key == "k/slot/2" {
				return errExpected
			}
			return nil
		}})
		after(8 * time.Second)
		assert.Less(t, time.Until(s.Stats().Deadline), 4*time.Second)
		assert.ErrorIs(t, s.Stats().LastError, errExpected)
		after(8 * time.Second)
		assert.Equal(t, 3, s.Stats().Owned)
		assert.EqualValues(t, 1, s.Stats().Lost)
		assert.Greater(t, time.Until(s.Stats().Deadline), 7*time.Second)
		cancel()
		require.NoError(t, <-done)
	})
}
