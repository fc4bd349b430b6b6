package leaderelect_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
)

func TestErrCountsTimeSuspended(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.leader(t, nil)
		l := w.term(t, 1).leadership
		left := time.Until(l.Deadline())
		l.Suspend(left - time.Millisecond)
		require.NoError(t, l.Err())
		assert.InDelta(t, time.Millisecond, time.Until(l.Deadline()), float64(time.Millisecond))
		l.Suspend(time.Millisecond)
		require.ErrorIs(t, l.Err(), leaderelect.ErrLeaseExpired, "no timer has fired")
		require.NoError(t, l.Context().Err())
		assert.False(t, a.IsLeader())

		after(retry)
		require.ErrorIs(t, context.Cause(l.Context()), leaderelect.ErrLeaseExpired, "the next renewal was not made")
		assert.False(t, w.term(t, 1).returned.IsZero())
	})
}

func TestRenewalAfterSuspendCountsFromSendTime(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.plan = on("a", "update", 1, slowReply, 3*time.Second)
		a := w.join(t, "a", patient)
		a.start()
		after(retry + time.Second)
		l := w.term(t, 1).leadership
		l.Suspend(4 * time.Second)
		require.NoError(t, l.Err())
		after(3 * time.Second) // the reply
		require.NoError(t, l.Err())
		assert.InDelta(t, 0, w.at(l.Deadline())-(latency+retry+3*time.Second+latency+renew), float64(time.Millisecond))
	})
}

func BenchmarkErr(b *testing.B) {
	l := &leaderelect.Leadership{}
	b.ReportAllocs()
	for b.Loop() {
		_ = l.Err()
	}
}

func TestSuspendedLeaderDoesNothingOnResume(t *testing.T) {
	for what, change := range map[string]func(*leaderelect.Config){"polling": nil, "watching": watched} {
		subWorld(t, what, func(t *testing.T, w *world) {
			w.acts = true
			a, b := w.pair(t, change)
			after(5 * time.Second)
			l := w.term(t, 1).leadership
			w.pause("a", 22*time.Second)
			after(21 * time.Second)
			require.True(t, b.IsLeader())
			require.ErrorIs(t, l.Err(), leaderelect.ErrLeaseExpired, "Err is right, even without timers")
			require.False(t, a.IsLeader())
			after(time.Second)
			require.Error(t, l.Context().Err())
			assert.False(t, w.term(t, 1).returned.IsZero(), "it has stopped when it resumes")
			after(time.Minute)
			assert.True(t, b.IsLeader())
			assert.Equal(t, 2, w.led())
		})
	}
}
