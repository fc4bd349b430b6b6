package streak_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller/internal/streak"
)

func TestConsecutiveConflictsAreCounted(t *testing.T) {
	var b streak.Book[string]
	b.End("a")
	assert.Zero(t, b.Failed("a", true))
	for i := range 3 {
		n, since := b.Unfinished("a", true, false)
		assert.Equal(t, i+1, n)
		assert.Zero(t, since, "nothing is limited")
		require.NoError(t, b.CheckInvariants())
	}
	assert.Equal(t, 3, b.Conflicts("a"))
	assert.Zero(t, b.Conflicts("b"))
	b.Failed("a", true)
	assert.Equal(t, 3, b.Conflicts("a"), "a conflict that counts as a failure is still a conflict")
	b.Failed("a", false)
	assert.Zero(t, b.Conflicts("a"))
	assert.Zero(t, b.Len(), "there is nothing to remember")

	b.Unfinished("a", true, false)
	n, _ := b.Unfinished("a", false, false)
	assert.Zero(t, n)
	assert.Zero(t, b.Len())
	b.Unfinished("a", true, false)
	b.End("a")
	assert.Zero(t, b.Len())
	require.NoError(t, b.CheckInvariants())
}

func TestFirstUnfinishedReconcileIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b streak.Book[string]
		first := time.Now()
		for range 3 {
			_, since := b.Unfinished("a", false, true)
			assert.Equal(t, first, since)
			assert.Equal(t, first, b.Failed("a", false))
			time.Sleep(time.Second)
		}
		assert.Zero(t, b.Failed("b", false))
		b.End("a")
		_, since := b.Unfinished("a", false, true)
		assert.Equal(t, 3*time.Second, since.Sub(first))
	})
}

func TestProbeLastsUntilEventOrEnd(t *testing.T) {
	var b streak.Book[string]
	begin := func(parked bool) {
		t.Helper()
		require.True(t, b.BeginProbe("a"))
		assert.False(t, b.IsProbe("a"), "it may not be parked")
		assert.False(t, b.BeginProbe("a"), "one at a time")
		b.EndProbe("a", parked)
		assert.Equal(t, parked, b.IsProbe("a"))
		require.NoError(t, b.CheckInvariants())
	}
	b.ClearProbe("a")
	begin(false)
	assert.Zero(t, b.Len())
	begin(true)
	assert.False(t, b.IsProbe("b"))
	assert.False(t, b.BeginProbe("a"), "the attempt is left")
	b.EndProbe("a", false)
	assert.True(t, b.IsProbe("a"))
	b.Unfinished("a", true, false)
	assert.True(t, b.IsProbe("a"))
	b.ClearProbe("a")
	assert.False(t, b.IsProbe("a"))
	assert.Equal(t, 1, b.Conflicts("a"))
	begin(true)
	b.Parked("a", true)
	assert.True(t, b.IsProbe("a"))
	assert.Zero(t, b.Conflicts("a"))
	b.End("a")
	assert.Zero(t, b.Len())

	b.BeginProbe("a")
	b.ClearProbe("a") // an event revives the key just before it is taken out
	b.EndProbe("a", true)
	assert.Zero(t, b.Len())
	b.BeginProbe("a")
	b.End("a") // its last attempt ends, and parks it
	b.EndProbe("a", true)
	assert.True(t, b.IsProbe("a"))
}

func TestEventsCancelReconcileUpToLimit(t *testing.T) {
	f := streak.NewFlights[string]()
	assert.Nil(t, f.UnderWay("a"))
	var ended error
	begin := func() { ended = nil; f.Begin("a", func(cause error) { ended = cause }) }
	for range streak.MaxSuperseded {
		begin()
		require.Error(t, f.CheckInvariants(false))
		f.UnderWay("a")(context.Canceled)
		require.ErrorIs(t, ended, context.Canceled)
		f.End("a", true)
		require.NoError(t, f.CheckInvariants(false))
	}
	begin()
	assert.Nil(t, f.UnderWay("a"), "not canceled anymore")
	f.End("a", false)
	begin()
	f.UnderWay("a")(errors.New("x"))
	require.EqualError(t, ended, "x")
	f.End("a", false)
	assert.Nil(t, f.UnderWay("a"))
}

func TestBudgetLimitsAttemptsAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var unknown time.Time
		now := time.Now()
		ago := func(d time.Duration) time.Time { return now.Add(-d) }
		assert.False(t, streak.Budget{}.Spent(1000, ago(time.Hour), ago(time.Hour)), "zero is no limit")
		assert.False(t, streak.Budget{Attempts: 3}.Spent(2, unknown, ago(time.Hour)))
		assert.True(t, streak.Budget{Attempts: 3}.Spent(3, unknown, unknown))
		b := streak.Budget{Elapsed: time.Minute}
		assert.False(t, b.Spent(1, unknown, unknown), "the first failure is not the last one")
		for _, known := range [][2]time.Time{
			{ago(time.Minute), unknown}, {unknown, ago(time.Minute)}, {ago(time.Minute), now}, {now, ago(time.Minute)},
		} {
			assert.True(t, b.Spent(1, known[0], known[1]))
			assert.Zero(t, b.Left(known[0], known[1]))
		}
		assert.False(t, b.Spent(1, ago(time.Minute-1), unknown))
		assert.Equal(t, time.Nanosecond, b.Left(ago(time.Minute-1), now))
	})
}
