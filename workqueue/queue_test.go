package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

var (
	_ workqueue.RateLimitingInterface[string] = (*workqueue.Queue[string])(nil)
	_ workqueue.RateLimiter[string]           = (*workqueue.ItemFastSlowRateLimiter[string])(nil)
)

func newQueue() *workqueue.Queue[string] {
	return must(workqueue.New(workqueue.Config[string]{Logger: discard}))
}

func TestGetWaitsForAnAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		got := make(chan string, 1)
		go func() {
			k, _ := q.Get()
			got <- k
		}()
		synctest.Wait()
		require.Empty(t, got)
		q.Add("k")
		synctest.Wait()
		require.Equal(t, "k", <-got)
	})
}

func TestEachAddWakesItsOwnWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		var got atomic.Int32
		for range 3 {
			go func() {
				if _, shutdown := q.Get(); !shutdown {
					got.Add(1)
				}
			}()
		}
		synctest.Wait()
		q.Add("a")
		q.Add("b")
		synctest.Wait()
		require.EqualValues(t, 2, got.Load())
		q.ShutDown()
	})
}

// A worker that is canceled at the moment of its wake-up must pass the wake-up on.
func TestCanceledWorkerPassesOnItsWakeUp(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue()
			ctx, cancel := context.WithCancel(t.Context())
			got := make(chan string, 2)
			worker := func(ctx context.Context) {
				k, err := next(q, ctx)
				if err == nil {
					got <- k
				}
			}
			go worker(ctx)
			synctest.Wait()
			go worker(t.Context())
			synctest.Wait()
			cancel()   // the first worker is on its way out,
			q.Add("k") // but still first in the list, most times
			synctest.Wait()
			require.Len(t, got, 1)
			q.ShutDown()
		})
	}
}

func TestDoneOfDirtyKeyWakesAnotherWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.Add("k")
		q.Get()
		q.Add("k")
		got := make(chan string, 1)
		go func() {
			k, _ := q.Get()
			got <- k
		}()
		synctest.Wait()
		require.Empty(t, got)
		q.Done("k")
		require.Equal(t, "k", <-got)
	})
}

func TestTakeReturnsContextCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		_, err := next(q, ctx)
		require.ErrorIs(t, err, why)
		q.Add("k")
		_, err = next(q, ctx)
		require.ErrorIs(t, err, why, "an ended context takes no key")
		require.Equal(t, 1, q.Len())
		k, err := next(q, t.Context())
		require.NoError(t, err)
		require.Equal(t, "k", k)
		q.ShutDown()
		_, err = next(q, t.Context())
		require.ErrorIs(t, err, workqueue.ErrShutDown)
		require.NoError(t, q.CheckInvariants())
	})
}

func TestShutDownStopsAllWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				if i%2 == 0 {
					_, shutdown := q.Get()
					assert.True(t, shutdown)
				} else {
					_, err := next(q, t.Context())
					assert.ErrorIs(t, err, workqueue.ErrShutDown)
				}
			})
		}
		synctest.Wait()
		q.ShutDown()
		q.ShutDown()
		wg.Wait()
		require.True(t, q.ShuttingDown())
	})
}

func TestEveryDrainWaitsForReadyInProcessAndDirtyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.Add("a")
		q.Add("b")
		k, _ := q.Get()
		q.Add(k) // dirty
		q.AddAfter("later", time.Hour)
		drained := make(chan error, 3)
		for range 2 {
			go func() { drained <- q.Drain(t.Context()) }()
		}
		go func() { q.ShutDownWithDrain(); drained <- nil }()
		synctest.Wait()
		for _, want := range []string{"b", "a"} {
			require.Empty(t, drained)
			if want == "b" {
				q.Done("a")
			}
			k, shutdown := q.Get()
			require.Equal(t, want, k)
			require.False(t, shutdown)
			require.Empty(t, drained)
			synctest.Wait()
			if want == "b" {
				q.Done("b")
			}
			synctest.Wait()
		}
		require.Empty(t, drained)
		q.Done("a")
		for range 3 {
			require.NoError(t, <-drained)
		}
		_, shutdown := q.Get()
		require.True(t, shutdown)
		require.Equal(t, workqueue.Stats{}, q.Stats(), "the wake-up is dropped")
		require.NoError(t, q.Drain(t.Context()), "of a drained queue")
	})
}

func TestDrainEndsWithContextAndReportsRemainingKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{Name: "apps"}))
		q.Add("a")
		q.Add("b")
		q.Get()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := q.Drain(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, "workqueue: drain apps: 1 keys ready, 1 in process: context deadline exceeded")
	})
}

func TestLaterShutDownReleasesDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.Add("a")
		q.Get()
		q.ShutDown() // an earlier one does not
		drained := make(chan error, 1)
		go func() { drained <- q.Drain(t.Context()) }()
		synctest.Wait()
		require.Empty(t, drained)
		q.ShutDown()
		require.ErrorIs(t, <-drained, workqueue.ErrShutDown)
	})
}

func TestWaitIdleWaitsForReadyAndInProcessKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.AddAfter("later", time.Hour)
		require.NoError(t, q.WaitIdle(t.Context()))
		q.Add("a")
		idle := make(chan error, 2)
		for range 2 {
			go func() { idle <- q.WaitIdle(t.Context()) }()
		}
		synctest.Wait()
		require.Empty(t, idle)
		q.Get()
		synctest.Wait()
		require.Empty(t, idle)
		q.Done("a")
		require.NoError(t, <-idle)
		require.NoError(t, <-idle)

		q.Add("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, q.WaitIdle(ctx), context.DeadlineExceeded)
		q.ShutDown()
	})
}

func TestStrayDoneIsLoggedAndDoesNotDuplicateKey(t *testing.T) {
	var log strings.Builder
	q := must(workqueue.New(workqueue.Config[string]{Name: "apps", Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	q.Done("k")
	q.Add("k")
	q.Done("k")
	require.Equal(t, 1, q.Len())
	require.Equal(t, 2, strings.Count(log.String(), `msg="workqueue: Done of a key that is not in process" queue=apps key=k`))
}

func TestRejectedKeyLeavesQueueUnchanged(t *testing.T) {
	q := must(workqueue.New(workqueue.Config[float64]{}))
	require.PanicsWithValue(t, "workqueue: the key is not equal to itself", func() { q.Add(math.NaN()) })
	require.PanicsWithValue(t, "workqueue: the key is not equal to itself", func() { q.AddAfter(math.NaN(), time.Hour) })
	require.PanicsWithValue(t, "workqueue: the key is not equal to itself", func() { q.AddRateLimited(math.NaN()) })
	require.Equal(t, workqueue.Stats{}, q.Stats())

	anys := must(workqueue.New(workqueue.Config[any]{}))
	require.Panics(t, func() { anys.Add([]int{1}) })
	require.Panics(t, func() { anys.Done([]int{1}) })
	anys.Add("the lock is free")
	require.Equal(t, 1, anys.Len())
}

func TestWakeUpsFireOnTimeAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		for _, ms := range []int{50, 10, 40, 20, 30, 10} {
			q.AddAfter(fmt.Sprint(ms), time.Duration(ms)*time.Millisecond)
		}
		begin := time.Now()
		for _, ms := range []int{10, 20, 30, 40, 50} {
			k, err := next(q, t.Context())
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(ms), k)
			require.Equal(t, time.Duration(ms)*time.Millisecond, time.Since(begin))
		}
		require.Zero(t, q.Stats().Delayed)
	})
}

// Removing wake-ups from the middle of the heap keeps the heap ordered.
func TestDroppedWakeUpsDoNotAffectOthers(t *testing.T) {
	l := &randomLimiter{rand.New(rand.NewPCG(1, 2))}
	q := must(workqueue.New(workqueue.Config[int]{RateLimiter: l}))
	for range 300 {
		q.AddRateLimited(l.r.IntN(1000))
	}
	for k := range 1000 {
		q.Add(k)
		tryGet(q)
		q.Forget(k)
		q.Done(k)
		require.NoError(t, q.CheckInvariants())
	}
	require.Equal(t, workqueue.Stats{}, q.Stats())
}

type randomLimiter struct{ r *rand.Rand }

func (l randomLimiter) When(int) time.Duration {
	return time.Hour + time.Duration(l.r.IntN(1000))*time.Second
}
func (randomLimiter) Forget(int)          {}
func (randomLimiter) NumRequeues(int) int { return 0 }

func TestEarlierAttemptCancelsBackoffButNotWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.AddAfter("scheduled", time.Minute)
		q.Add("scheduled")
		q.AddRateLimited("retry")
		q.Add("retry")
		for range 2 {
			k, _ := q.Get()
			q.Done(k)
		}
		require.Equal(t, workqueue.Stats{Delayed: 1, Remembered: 1}, q.Stats(), "the failure of retry is remembered")
		begin := time.Now()
		k, _ := q.Get()
		require.Equal(t, "scheduled", k)
		require.Equal(t, time.Minute, time.Since(begin))
	})
}

func TestDelayPastTheEndOfTimeNeverFires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		time.Sleep(time.Hour)
		q.AddAfter("k", math.MaxInt64)
		time.Sleep(24 * 365 * time.Hour)
		require.Equal(t, workqueue.Stats{Delayed: 1}, q.Stats())
		q.AddAfter("k", time.Second)
		begin := time.Now()
		q.Get()
		require.Equal(t, time.Second, time.Since(begin))
	})
}

func TestBurstMemoryIsReleased(t *testing.T) {
	q := must(workqueue.New(workqueue.Config[int]{}))
	const n = 50_000
	for i := range n {
		q.Add(i)
		q.AddAfter(i, time.Hour)
	}
	require.GreaterOrEqual(t, q.Kept(), n)
	for range n {
		k, _ := q.Get()
		q.Done(k)
	}
	require.Equal(t, n, q.Stats().Delayed)
	q.ShutDown()
	require.LessOrEqual(t, q.Kept(), 4096+128, "and free entries of a used chunk")
	require.NoError(t, q.CheckInvariants())
}

func TestHandedOutKeyIsNotKeptAlive(t *testing.T) {
	type big struct{ _ [1 << 20]byte }
	q := must(workqueue.New(workqueue.Config[*big]{}))
	freed := make(chan struct{}, 2)
	for _, add := range []func(*big){q.Add, func(b *big) { q.AddAfter(b, time.Nanosecond) }} {
		b := new(big)
		runtime.AddCleanup(b, func(int) { freed <- struct{}{} }, 0)
		add(b)
		k, _ := q.Get()
		q.Done(k)
	}
	for range 2 {
		runtime.GC()
		runtime.GC()
		select {
		case <-freed:
		case <-time.After(10 * time.Second):
			t.Fatal("still alive")
		}
	}
	runtime.KeepAlive(q)
}
