package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

const firstDelay = 5 * time.Millisecond // of the default limiter

// The guarantee about outages: when an outage of length L ends, each key succeeds within L plus twice the first delay, however often it was
// added in the meantime. took is the duration of an attempt.
func TestEventsDuringOutageDoNotLengthenBackoff(t *testing.T) {
	workers := map[string]func(ctx context.Context, q *workqueue.Queue[string], try func() error){
		"Run": func(ctx context.Context, q *workqueue.Queue[string], try func() error) {
			_ = q.Run(ctx, 2, func(context.Context, workqueue.Item[string]) error { return try() })
		},
		"a loop of client-go": func(ctx context.Context, q *workqueue.Queue[string], try func() error) {
			defer context.AfterFunc(ctx, q.ShutDown)()
			for {
				key, shutdown := q.Get()
				if shutdown {
					return
				}
				if try() == nil {
					q.Forget(key)
				} else {
					q.AddRateLimited(key)
				}
				q.Done(key)
			}
		},
	}
	for name, work := range workers {
		for _, outage := range []time.Duration{20 * time.Millisecond, 3 * time.Second, 10 * time.Minute} {
			for _, events := range []int{0, 1, 20, 3000} {
				for _, took := range []time.Duration{0, time.Millisecond, outage / 7} {
					t.Run(fmt.Sprintf("%s/%v/%d events/%v", name, outage, events, took), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							ctx, cancel := context.WithCancel(t.Context())
							defer cancel()
							q := must(workqueue.New(workqueue.Config[string]{Logger: discard, MaxAttempts: 60}))
							end := time.Now().Add(outage)
							succeeded := make(chan time.Duration, 1)
							ended := make(chan struct{})
							go func() { // ends with ctx
								defer close(ended)
								work(ctx, q, func() error {
									begun := time.Now()
									sleep(took)
									if begun.Before(end) {
										return errors.New("down")
									}
									select {
									case succeeded <- time.Since(end):
									default:
									}
									return nil
								})
							}()
							q.Add("k")
							for range events { // the last one comes before the outage ends
								sleep(outage / time.Duration(events+1))
								q.Add("k")
							}
							limit := outage + 2*firstDelay + 2*took
							sleep(time.Until(end) + limit)
							require.NotEmpty(t, succeeded, "not within %v after the outage: %+v", limit, q.Snapshot())
							assert.LessOrEqual(t, <-succeeded, limit)
							cancel()
							<-ended
						})
					})
				}
			}
		}
	}
}

func TestDefaultBackoffDoublesUpToThousandSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		d := 5 * time.Millisecond
		for range 70 {
			q.AddRateLimited("k")
			require.Equal(t, d, dueAfter(t, q))
			d = min(2*d, 1000*time.Second)
		}
		q.Forget("k")
		q.AddRateLimited("k")
		require.Equal(t, 5*time.Millisecond, dueAfter(t, q))
	})
}

// customLimiter is a limiter that is not of the package, though it uses one: it counts for itself.
type customLimiter struct {
	*workqueue.ItemFastSlowRateLimiter[string]
}

func TestCustomLimiterSetsDelayAndIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := customLimiter{workqueue.NewItemFastSlowRateLimiter[string](time.Second, time.Minute, 1)}
		q := must(workqueue.New(workqueue.Config[string]{RateLimiter: l}))
		q.AddRateLimited("k")
		require.Equal(t, time.Second, dueAfter(t, q))
		q.AddRateLimited("k")
		require.Equal(t, time.Minute, dueAfter(t, q))
		require.Equal(t, 2, l.NumRequeues("k"))
		q.Forget("k")
		require.Zero(t, l.NumRequeues("k"))
		require.Equal(t, workqueue.Stats{}, q.Stats())

		at := must(workqueue.New(workqueue.Config[string]{RateLimiter: limiterOf[string](-1)}))
		at.AddRateLimited("k")
		require.Equal(t, workqueue.Stats{Ready: 1}, at.Stats(), "a limiter that wants no delay")
	})
}

// limiters are all that give the backoff of the default.
var limiters = map[string]func() workqueue.RateLimiter[string]{
	"nil":      func() workqueue.RateLimiter[string] { return nil },
	"explicit": workqueue.DefaultControllerRateLimiter[string],
	"composed": func() workqueue.RateLimiter[string] {
		return workqueue.NewWithMaxWaitRateLimiter(workqueue.NewMaxOfRateLimiter(
			workqueue.NewItemExponentialFailureRateLimiter[string](time.Millisecond, time.Hour), workqueue.DefaultControllerRateLimiter[string](),
		), 1000*time.Second)
	},
	"foreign": func() workqueue.RateLimiter[string] { return &countingLimiter[string]{delay: doubling} },
}

func TestQueueAndLimiterForgetFailureTogether(t *testing.T) {
	for name, limiter := range limiters {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := must(workqueue.New(workqueue.Config[string]{RateLimiter: limiter()}))
				for range 3 {
					for attempt := range 3 {
						q.AddRateLimited("k")
						require.Equal(t, 5*time.Millisecond<<attempt, dueAfter(t, q))
					}
					sleep(time.Hour)
					require.Zero(t, q.NumRequeues("k"))
				}
			})
		})
	}
}

func TestLimiterIsAskedOncePerDelayedFailure(t *testing.T) {
	f := &countingLimiter[string]{delay: doubling}
	q := must(workqueue.New(workqueue.Config[string]{RateLimiter: f, MaxAttempts: 3}))
	q.AddWith("k", workqueue.AddOptions{RateLimited: true, After: time.Second})
	require.Zero(t, f.whens)
	q.AddRateLimited("k")
	require.Equal(t, 1, f.whens)
	q.Park("k", "")
	require.Equal(t, []string{"k"}, q.Parked())
	asked := f.whens
	q.AddRateLimited("k")
	require.Equal(t, asked, f.whens, "a failure of a parked key needs no delay")
	q.ShutDown()
	q.AddRateLimited("other")
	require.Equal(t, asked, f.whens, "nor after a shutdown")
}

func TestQueueRemembersFailuresAsConfigured(t *testing.T) {
	for name, c := range map[string]struct {
		remember, until time.Duration
	}{
		"an hour by default": {0, time.Hour}, "a minute": {time.Minute, time.Minute}, "until Forget": {-1, 100 * 365 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := must(workqueue.New(workqueue.Config[string]{RememberFailures: c.remember, Logger: discard}))
				q.AddRateLimited("k")
				q.Cancel("k")
				time.Sleep(c.until - 1)
				synctest.Wait()
				require.Equal(t, 1, q.NumRequeues("k"))
				require.NoError(t, q.CheckInvariants())
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if c.remember < 0 {
					require.Equal(t, 1, q.NumRequeues("k"))
					q.Forget("k")
				}
				require.Equal(t, 0, q.NumRequeues("k"))
				require.Equal(t, workqueue.Stats{}, q.Stats())
				require.NoError(t, q.CheckInvariants())
			})
		})
	}
}

func TestMemoryOfFailuresNeverForgottenIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100_000
		q := must(workqueue.New(workqueue.Config[int]{RateLimiter: nil, Group: func(k int) string { return fmt.Sprint(k % 7) }}))
		for k := range n {
			q.AddRateLimited(k)
		}
		for range n {
			k, _ := q.Get()
			q.Done(k)
		}
		require.Equal(t, workqueue.Stats{Remembered: n}, q.Stats())
		sleep(time.Hour)
		require.Equal(t, workqueue.Stats{}, q.Stats(), "without any call")
		require.LessOrEqual(t, q.Kept(), 4096)
		require.NoError(t, q.CheckInvariants())
	})
}

func TestFailuresDoNotExpireAfterShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.AddRateLimited("a")
		q.Add("b")
		tryGet(q)
		q.AddRateLimited("b")
		q.ShutDown()
		require.Equal(t, workqueue.Stats{InProcess: 1, Remembered: 1}, q.Stats())
		q.Done("b")
		require.NoError(t, q.CheckInvariants(), "no timer runs")
		sleep(2 * time.Hour)
		require.Equal(t, workqueue.Stats{Remembered: 2}, q.Stats())
		q.Forget("a")
		require.Equal(t, workqueue.Stats{Remembered: 1}, q.Stats())
	})
}
