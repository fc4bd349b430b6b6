package workqueue_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/setpoint-go/setpoint/workqueue"
)

func limited(every time.Duration, burst int) *workqueue.Queue[string] {
	return must(workqueue.New(workqueue.Config[string]{DispatchLimit: rate.NewLimiter(rate.Every(every), burst)}))
}

func TestHandOutRateLimitIsGlobalAndExact(t *testing.T) {
	for _, workers := range []int{1, 5} {
		synctest.Test(t, func(t *testing.T) {
			const n, burst = 23, 3
			q := limited(time.Second, burst)
			for i := range n {
				q.Add(fmt.Sprint(i))
			}
			begin := time.Now()
			took := make(chan time.Duration, n)
			for range workers {
				go func() {
					for k, shutdown := q.Get(); !shutdown; k, shutdown = q.Get() {
						took <- time.Since(begin)
						q.Done(k)
					}
				}()
			}
			for i := range n {
				require.Equal(t, max(0, time.Duration(i-burst+1)*time.Second), <-took, "hand-out %d", i)
			}
			q.ShutDown()
		})
	}
}

// Tokens that went unused while no key was ready do not add to the burst.
func TestHandOutBurstIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := limited(time.Second, 2)
		for i := range 3 {
			q.Add(fmt.Sprint(i))
		}
		require.Len(t, takeAll(q), 2)
		require.True(t, q.Cancel("2")) // which waits for its token
		sleep(time.Hour)
		for i := range 9 {
			q.Add(fmt.Sprint("again ", i))
		}
		require.Len(t, takeAll(q), 2)
		sleep(time.Second - 1)
		require.Empty(t, takeAll(q))
		sleep(1)
		require.Len(t, takeAll(q), 1)
	})
}

func TestDelayedKeysReserveNoTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := limited(time.Second, 1)
		for i := range 1000 {
			q.AddRateLimited(fmt.Sprint(i))
		}
		for i := range 1000 {
			require.True(t, q.Cancel(fmt.Sprint(i)))
		}
		q.AddRateLimited("first failure")
		require.Equal(t, 5*time.Millisecond, dueAfter(t, q))
	})
}

func TestWorkerGivingUpAtRateLimitPassesTurnOn(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			q := limited(time.Second, 1)
			q.Add("a")
			q.Get()
			q.Add("b")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // when the limit allows one
			defer cancel()
			for _, ctx := range []context.Context{ctx, t.Context()} {
				go func() { _, _ = next(q, ctx) }()
				synctest.Wait()
			}
			sleep(time.Second - 1)
			require.Equal(t, 1, q.Len())
			sleep(1)
			require.Zero(t, q.Len(), "one of the two has it")
			q.ShutDown()
		})
	}
}

func TestNoWorkerIsLostAtRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := limited(time.Second, 1)
		q.Add("held")
		q.Get()
		got := make(chan time.Duration, 9)
		begin := time.Now()
		for range 3 {
			go func() {
				q.Get()
				got <- time.Since(begin)
			}()
		}
		synctest.Wait()
		sleep(time.Minute) // the tokens are all there again
		for _, k := range []string{"a", "b", "c"} {
			q.Add(k)
		}
		for i := range 3 {
			require.Equal(t, time.Minute+time.Duration(i)*time.Second, <-got)
		}
	})
}

func TestTryGetFailsWhenRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := limited(time.Second, 1)
		q.Add("a")
		q.Add("b")
		require.Equal(t, []string{"a"}, takeAll(q))
		_, ok := q.TryTake()
		require.False(t, ok)
		sleep(time.Second)
		item, ok := q.TryTake()
		require.True(t, ok)
		require.Equal(t, "b", item.Key)
	})
}

// If another worker takes the token first, the worker that was promised it waits for the next one, not forever.
func TestWorkerWaitsAgainAfterLosingToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := rate.NewLimiter(rate.Every(time.Second), 1)
		q := must(workqueue.New(workqueue.Config[string]{DispatchLimit: limiter}))
		q.Add("a")
		q.Get()
		q.Add("b")
		go func() {
			time.Sleep(time.Second)
			limiter.Allow() // another user of the limiter, at the same moment
		}()
		begin := time.Now()
		q.Get()
		require.Contains(t, []time.Duration{time.Second, 2 * time.Second}, time.Since(begin))
		limiter.Reserve() // another caller, which is first
		q.Add("c")
		before := time.Now()
		q.Get()
		require.GreaterOrEqual(t, time.Since(before), 2*time.Second)
	})
}

func TestShutDownHandsOutRateLimitedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := limited(time.Second, 1)
		for i := range 4 {
			q.Add(fmt.Sprint(i))
		}
		ended := make(chan error, 1)
		begin := time.Now()
		go func() {
			ended <- q.Run(t.Context(), 3, func(context.Context, workqueue.Item[string]) error { return nil })
		}()
		synctest.Wait()
		require.NoError(t, q.Drain(t.Context()))
		require.NoError(t, <-ended)
		require.Equal(t, 3*time.Second, time.Since(begin))
	})
}

func TestLimiterWithoutBurstHandsOutNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := limited(time.Second, 0)
		q.Add("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := next(q, ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, q.Len())
	})
}

func TestWorkersNoticeChangedLimiterWithinMinute(t *testing.T) {
	for name, limiter := range map[string]*rate.Limiter{
		"a limit of zero": rate.NewLimiter(0, 1), "a burst of nothing": rate.NewLimiter(1, 0),
		"once in a day": rate.NewLimiter(rate.Every(24*time.Hour), 1), "never": rate.NewLimiter(0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter.Allow()
				q := must(workqueue.New(workqueue.Config[string]{DispatchLimit: limiter}))
				q.Add("a")
				go func() {
					time.Sleep(12*time.Hour + time.Second)
					limiter.SetLimit(rate.Inf)
					limiter.SetBurst(1)
				}()
				begin := time.Now()
				q.Get()
				require.Equal(t, 12*time.Hour+time.Minute, time.Since(begin))
			})
		})
	}
}
