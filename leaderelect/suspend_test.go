package leaderelect_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
)

func TestErrCountsTimeSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.join(t, "a", nil)
		a.start()
		after(time.Second)
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
		w.finish(t)
	})
}

func TestRenewalAfterSuspendCountsFromSendTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
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
		w.finish(t)
	})
}

func BenchmarkErr(b *testing.B) {
	l := &leaderelect.Leadership{}
	b.ReportAllocs()
	for b.Loop() {
		_ = l.Err()
	}
}
