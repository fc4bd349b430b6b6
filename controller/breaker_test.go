package controller_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

func newBreaker(t *testing.T, cfg controller.BreakerConfig) *controller.Breaker {
	t.Helper()
	cfg.Logger = quiet
	b, err := controller.NewBreaker(cfg)
	require.NoError(t, err)
	return b
}

// pass enters b, which has to let it through, and leaves it.
func pass(t *testing.T, b *controller.Breaker, o controller.Outcome, err error) {
	t.Helper()
	ticket, wait := b.Enter()
	require.Zero(t, wait)
	b.Leave(ticket, o, err)
}

// refuses returns the time for which b refuses, 0 if it lets a reconcile through.
func refuses(b *controller.Breaker) time.Duration {
	_, wait := b.Enter()
	return wait
}

func isOpen(b *controller.Breaker) bool {
	_, open := b.OpenUntil()
	return open
}

func TestABreakerOpensAfterFailuresInARowAndTriesWithOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, controller.BreakerConfig{Failures: 3, OpenFor: time.Minute})
		fail := func() { pass(t, b, controller.Failed, errBoom) }
		for range 5 {
			fail()
			fail()
			pass(t, b, controller.Succeeded, nil) // not in a row
		}
		for _, o := range []controller.Outcome{controller.Skipped, controller.Canceled, controller.GivenUp, controller.Superseded} {
			fail()
			pass(t, b, o, errBoom)
			pass(t, b, controller.Requeued, nil)
		}
		pass(t, b, controller.TimedOut, errBoom)
		pass(t, b, controller.Parked, errBoom)
		assert.False(t, isOpen(b))
		pass(t, b, controller.Panicked, errBoom)
		until, open := b.OpenUntil()
		assert.True(t, open)
		assert.Equal(t, time.Minute, time.Until(until))
		assert.Equal(t, time.Minute, refuses(b))
		time.Sleep(time.Minute - time.Nanosecond)
		assert.Equal(t, time.Nanosecond, refuses(b))
		time.Sleep(time.Nanosecond)

		trial, wait := b.Enter()
		assert.Zero(t, wait, "one tries")
		assert.Equal(t, time.Second, refuses(b), "the others wait")
		b.Leave(trial, controller.Failed, errBoom)
		assert.Equal(t, time.Minute, refuses(b), "one failure is enough")
		time.Sleep(time.Minute)
		pass(t, b, controller.Canceled, errBoom) // it has not told
		assert.True(t, isOpen(b))
		pass(t, b, controller.Succeeded, nil) // another one tries
		assert.False(t, isOpen(b))
		fail()
		fail()
		assert.False(t, isOpen(b), "the count began anew")
		fail()
		assert.True(t, isOpen(b))
	})
}

func TestABreakerIsTrippedByHandAndCountsWhatItIsToldTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, controller.BreakerConfig{Failures: 1, Counts: func(err error) bool { return err == errBoom }})
		pass(t, b, controller.Failed, context.Canceled)
		early, wait := b.Enter()
		assert.Zero(t, wait)
		b.Trip(time.Minute)
		b.Trip(time.Second)
		assert.Equal(t, time.Minute, refuses(b))
		b.Leave(early, controller.Succeeded, nil)
		assert.Equal(t, time.Minute, refuses(b), "it began before")
		time.Sleep(time.Minute)
		trial, wait := b.Enter()
		assert.Zero(t, wait)
		b.Trip(time.Minute)
		b.Leave(trial, controller.Succeeded, nil)
		assert.Equal(t, time.Minute, refuses(b), "so did this one")
		time.Sleep(time.Minute)
		pass(t, b, controller.Succeeded, nil)
		pass(t, b, controller.Failed, errBoom)
		assert.Equal(t, 10*time.Second, refuses(b), "the default")
	})
	_, err := controller.NewBreaker(controller.BreakerConfig{Failures: -1})
	require.EqualError(t, err, "controller: new breaker: BreakerConfig.Failures is -1, must not be negative")
	_, err = controller.NewBreaker(controller.BreakerConfig{OpenFor: -1})
	require.EqualError(t, err, "controller: new breaker: BreakerConfig.OpenFor is -1ns, must not be negative")
}

func TestControllersThatShareABreakerSpareWhatHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logText
		b, err := controller.NewBreaker(controller.BreakerConfig{Name: "api", Failures: 3, OpenFor: time.Minute, Logger: textLogger(&out)})
		require.NoError(t, err)
		var up atomic.Bool
		var calls atomic.Int64
		call := func(context.Context, string) (controller.Result, error) {
			if calls.Add(1); up.Load() {
				return controller.Result{}, nil
			}
			return controller.Result{}, errBoom
		}
		cfg := controller.Config[string]{Gate: b, RateLimiter: &limiter{delay: time.Second}}
		c1, reports := newController(t, cfg, call)
		c2, others := newController(t, cfg, call)
		start(t, c1.Run)
		r2 := start(t, c2.Run)
		c1.Add("a")
		time.Sleep(10 * time.Second)
		assert.EqualValues(t, 3, calls.Load())
		c2.Add("b")
		c2.Add("c")
		synctest.Wait()
		assert.EqualValues(t, 3, calls.Load(), "the other controller is told, too")
		assert.Equal(t, 0, c2.Stats().Queue.InProcess, "and no worker waits")
		assert.Equal(t, 2, c2.Stats().Queue.Delayed)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.LessOrEqual(t, calls.Load(), int64(5), "one call for each minute")
		require.NoError(t, r2.stop(), "what does not pass holds up no drain")
		assert.Equal(t, 2, c2.Stats().Queue.Ready)

		up.Store(true)
		start(t, c2.Run)
		time.Sleep(2 * time.Minute)
		all := reports.take()
		assert.Equal(t, controller.Succeeded, all[len(all)-1].Outcome)
		assert.Contains(t, keysOf(others.take()), "c")
		assert.Zero(t, c1.Stats().Queue)
		assert.Zero(t, c2.Stats().Queue)
		assert.Contains(t, out.String(), `level=WARN msg="circuit breaker opened" breaker=api until=`)
		assert.Contains(t, out.String(), `level=INFO msg="circuit breaker closed" breaker=api`)
		c1.CheckInvariants(t)
		c2.CheckInvariants(t)
	})
}

func TestControllersThatShareALimitTakeNoMoreThanThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := rate.NewLimiter(10, 1)
		var at log[time.Duration]
		began := time.Now()
		call := func(context.Context, string) (controller.Result, error) {
			at.add(time.Since(began))
			return controller.Result{}, nil
		}
		cfg := controller.Config[string]{HandOut: limit, Workers: 4}
		c1, _ := newController(t, cfg, call)
		c2, _ := newController(t, cfg, call)
		start(t, c1.Run)
		start(t, c2.Run)
		for _, key := range []string{"a", "b", "c", "d"} {
			c1.Add(key)
			c2.Add(key)
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		var want []time.Duration
		for i := range 8 {
			want = append(want, time.Duration(i)*100*time.Millisecond)
		}
		assert.Equal(t, want, at.take())
	})
}

func TestATripForNoTimeChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, controller.BreakerConfig{})
		for _, d := range []time.Duration{0, -1 * time.Second, math.MinInt64} {
			b.Trip(d)
			_, open := b.OpenUntil()
			assert.False(t, open)
			assert.Zero(t, refuses(b))
			assert.Zero(t, refuses(b), "and not one at a time")
		}
		b.Trip(time.Nanosecond)
		assert.Equal(t, time.Nanosecond, refuses(b))
		b.Trip(math.MaxInt64)
		assert.Greater(t, refuses(b), 100*365*24*time.Hour)
	})
}

func TestWhoComesWhileABreakerTriesAsksAgainAfterASecondAtMost(t *testing.T) {
	for _, c := range []struct{ openFor, again time.Duration }{
		{time.Minute, time.Second}, {time.Second, time.Second}, {100 * time.Millisecond, 100 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, controller.BreakerConfig{Failures: 1, OpenFor: c.openFor})
			pass(t, b, controller.Failed, errBoom)
			time.Sleep(c.openFor)
			assert.Zero(t, refuses(b))
			assert.Equal(t, c.again, refuses(b))
		})
	}
}
