package leaderelect_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
)

func TestPermanentStoreErrorIsReturnedButOutageIsNot(t *testing.T) {
	for what, c := range map[string]struct {
		broken func(c call, at time.Duration) bool
		check  string // "" is nil
	}{
		"a missing table":            {func(call, time.Duration) bool { return true }, "the store has never answered, for "},
		"a read-only directory":      {func(c call, _ time.Duration) bool { return c.op != "get" }, "the store answers reads but no writes, for "},
		"it becomes read-only later": {func(c call, at time.Duration) bool { return c.op != "get" && at > 30*time.Second }, "reads but no writes"},
		"an outage":                  {func(_ call, at time.Duration) bool { return at > 30*time.Second }, ""},
	} {
		for how, change := range map[string]func(*leaderelect.Config){"polling": nil, "watching": watched} {
			t.Run(what+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					if how == "watching" && what == "a missing table" {
						w.cut("a", time.Hour) // the watch as well
					}
					w.plan = func(call call) (fault, time.Duration) {
						if c.broken(call, w.at(call.now)) {
							return lostRequest, 0
						}
						return none, 0
					}
					a := w.join(t, "a", change)
					require.NoError(t, a.Stats().LastError)
					a.start()
					after(lease)
					require.NoError(t, a.Check(0), "it may still arrive")
					after(2 * time.Minute)
					require.Error(t, a.Stats().LastError)
					if c.check == "" {
						require.NoError(t, a.Check(0))
					} else {
						require.ErrorContains(t, a.Check(0), c.check)
						require.ErrorIs(t, a.Check(0), a.Stats().LastError)
						require.NoError(t, a.Check(time.Hour))
					}
					w.heal()
					after(time.Minute)
					require.True(t, a.IsLeader())
					require.NoError(t, a.Check(0))
					require.NoError(t, a.Stats().LastError)
					require.NoError(t, a.stop())
					w.finish(t)
				})
			})
		}
	}
}

func TestCheckWithEndlessToleranceReportsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.join(t, "a", nil)
		a.start()
		after(time.Second)
		require.True(t, a.IsLeader())
		require.NoError(t, a.Check(math.MaxInt64))
		require.NoError(t, a.stop())
		w.finish(t)
	})
}

func TestFollowerIgnoresEarlierWriteErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.join(t, "a", nil), w.join(t, "b", nil)
		w.plan = from("b", "create", 1, lostRequest)
		b.start()
		after(time.Second)
		require.ErrorIs(t, b.Stats().LastError, errNetwork)
		a.start()
		after(time.Minute)
		require.True(t, a.IsLeader())
		assert.NoError(t, b.Stats().LastError)
		assert.NoError(t, b.Check(0))
		w.finish(t)
	})
}

func TestCanceledCallIsNoStoreFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.plan = on("a", "get", 1, stall, 0)
		a := w.join(t, "a", nil)
		a.start()
		after(time.Second)
		a.cancel(context.Canceled)
		<-a.done
		assert.NoError(t, a.Stats().LastError)
		w.finish(t)
	})
}

func TestConflictingClaimNeedsNoResolution(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.plan = on("a", "create", 1, falseConflict, 0)
		a := w.join(t, "a", nil)
		a.start()
		after(time.Second)
		require.Zero(t, w.led())
		require.NoError(t, a.Stats().LastError, "the store has answered")
		calls := w.calls
		require.NoError(t, a.stop())
		require.Equal(t, calls, w.calls, "there is nothing to release")
		w.finish(t)
	})
}
