package workqueue_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/setpoint-go/setpoint/workqueue"
)

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

// dispatch takes keys with take until it fails, and works on each in a goroutine of its own.
func dispatch(q *workqueue.Queue[string], take func() error) (ended chan error) {
	ended = make(chan error, 1)
	go func() {
		for {
			if err := take(); err != nil {
				ended <- err
				return
			}
		}
	}()
	return ended
}

func TestDrainDoesNotHangWithDispatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		attempts := make(chan string, 9)
		ended := dispatch(q, func() error {
			key, err := next(q, context.Background())
			if err != nil {
				return err
			}
			go func() {
				attempts <- key
				time.Sleep(time.Minute)
				q.Done(key)
			}()
			return nil
		})
		q.Add("k")
		sleep(time.Second)
		q.Add("k")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, q.Drain(ctx))
		require.Len(t, attempts, 2)
		synctest.Wait()
		require.ErrorIs(t, <-ended, workqueue.ErrShutDown)
	})
}

func TestNoWorkerStopsWhileAKeyIsDirty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		for _, k := range []string{"done", "canceled"} {
			q.Add(k)
			tryGet(q)
			q.Add(k)
		}
		const waiters = 3
		ended := make(chan error, waiters)
		for range waiters {
			go func() {
				for {
					k, err := next(q, t.Context())
					if err != nil {
						ended <- err
						return
					}
					q.Done(k)
				}
			}()
		}
		synctest.Wait()
		q.ShutDown()
		synctest.Wait()
		require.NoError(t, q.CheckInvariants())
		require.Empty(t, ended)
		q.Done("done")
		synctest.Wait()
		require.NoError(t, q.CheckInvariants())
		require.Empty(t, ended, "the other one is still dirty")
		require.True(t, q.Cancel("canceled"))
		for range waiters {
			require.ErrorIs(t, <-ended, workqueue.ErrShutDown)
		}
		q.Done("canceled")
		require.Equal(t, workqueue.Stats{}, q.Stats())
	})
}

// As in client-go, whose tests require it.
func TestGetReturnsShutdownWhileKeyIsDirty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.Add("k")
		q.Get()
		q.Add("k")
		ended := make(chan bool, 1)
		go func() { _, shutdown := q.Get(); ended <- shutdown }()
		synctest.Wait()
		q.ShutDown()
		require.True(t, <-ended)
		_, shutdown := q.Get()
		require.True(t, shutdown)
		q.Done("k")
		k, shutdown := q.Get()
		require.False(t, shutdown)
		q.Done(k)
		_, shutdown = q.Get()
		require.True(t, shutdown)
	})
}

// Canceling the remaining keys releases the workers and the callers of Drain.
func TestCancelOfLastReadyKeyCompletesShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{Group: byLetter, GroupLimit: 1}))
		q.Add("a1")
		q.Add("a2")
		tryGet(q)
		ended, drained := make(chan bool, 2), make(chan error, 1)
		for range 2 {
			go func() {
				_, shutdown := q.Get()
				ended <- shutdown
			}()
		}
		go func() { drained <- q.Drain(t.Context()) }()
		synctest.Wait()
		require.Empty(t, ended)
		require.True(t, q.Cancel("a2"))
		require.True(t, <-ended)
		require.True(t, <-ended)
		require.Empty(t, drained, "a1 is in process")
		q.Done("a1")
		require.NoError(t, <-drained)
	})
}

// scripted is a context that ends in the middle of a call: within is called when the call asks for the channel of its end.
type scripted struct {
	context.Context
	within func()
	ended  chan struct{}
}

func newScripted(ctx context.Context, within func()) *scripted {
	return &scripted{ctx, within, make(chan struct{})}
}

func (c *scripted) Done() <-chan struct{} {
	select {
	case <-c.ended:
	default:
		close(c.ended)
		c.within()
	}
	return c.ended
}

func (c *scripted) Err() error {
	select {
	case <-c.ended:
		return context.Canceled
	default:
		return nil
	}
}

func TestIdleWinsOverContextEnd(t *testing.T) {
	for name, wait := range map[string]func(*workqueue.Queue[string], context.Context) error{
		"WaitIdle": (*workqueue.Queue[string]).WaitIdle,
		"Drain":    (*workqueue.Queue[string]).Drain,
	} {
		t.Run(name, func(t *testing.T) {
			for range 30 { // a select among several that are ready chooses at random
				q := newQueue()
				q.Add("k")
				q.Get()
				require.NoError(t, wait(q, newScripted(t.Context(), func() { q.Done("k") })))
				q.Add("k") // it was idle in the meantime, and no longer is
				q.Get()
				if name == "WaitIdle" {
					require.NoError(t, wait(q, newScripted(t.Context(), func() { q.Done("k"); q.Add("k") })))
				}
			}
		})
	}
}

// A caller that repeatedly waits for an idle queue with a timeout leaves nothing behind.
func TestEndedWaitIdleLeavesNoWaiterBehind(t *testing.T) {
	q := newQueue()
	q.Add("k")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = q.WaitIdle(ctx) }))
	q.Get()
	q.Done("k")
	require.NoError(t, q.WaitIdle(t.Context()))
}

// The bubble ends only when its goroutines have, and a running timer violates the invariants.
func TestDrainedQueueHasNoGoroutinesOrTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{
			Group: byLetter, GroupLimit: 1, Debounce: 1, MaxAttempts: 2, DispatchLimit: rate.NewLimiter(rate.Every(time.Second), 1),
		}))
		for _, k := range []string{"a1", "a2", "b1"} {
			q.Add(k)
			q.AddAfter(k, time.Hour)
			q.AddRateLimited(k)
			sleep(1)
		}
		require.Equal(t, []string{"a1"}, takeAll(q))
		drained := make(chan error)
		go func() { drained <- q.Drain(t.Context()) }()
		sleep(10 * time.Second)
		q.Done("a1")
		for range 2 {
			k, _ := q.Get()
			q.Done(k)
		}
		require.NoError(t, <-drained)
		require.NoError(t, q.CheckInvariants())
	})
}

func TestShutDownBetweenBatchesDropsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100_000
		var q *workqueue.Queue[int]
		q = must(workqueue.New(workqueue.Config[int]{Hooks: workqueue.Hooks[int]{Added: func(int, int) { q.ShutDown() }}}))
		for k := range n {
			q.AddAfter(k, time.Second)
		}
		sleep(time.Hour)
		require.Less(t, q.Len(), n)
		require.Zero(t, q.Stats().Delayed)
		require.NoError(t, q.CheckInvariants())
	})
}

func TestShutDownReleasesLockBetweenBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		q := must(workqueue.New(workqueue.Config[int]{}))
		for k := range n {
			q.AddAfter(k, time.Duration(n-k)*time.Second)
			q.AddAfter(k, time.Duration(k+1)*time.Second)
		}
		q.BeginShutDown()
		steps := 1
		for before := q.Stats().Delayed; q.EndSome(); steps++ {
			now := q.Stats().Delayed
			require.Positive(t, before-now)
			require.LessOrEqual(t, before-now, 256+1, "with the one that this test cancels")
			before = now
			q.Add(n + steps)
			q.Cancel(steps)
			if steps == 3 {
				sleep(time.Hour)
			}
		}
		require.GreaterOrEqual(t, steps, n/256)
		require.Equal(t, workqueue.Stats{}, q.Stats(), "no key was added or came due")
		require.NoError(t, q.CheckInvariants())
	})
}

func TestShutDownLosesNoDebouncedKeyToFastWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1_000
		var q *workqueue.Queue[int]
		cfg := workqueue.Config[int]{Debounce: time.Minute}
		batches := 0
		cfg.Hooks.Added = func(int, int) {
			if batches++; batches%300 == 0 { // once or twice between two batches: the workers take all that is ready
				synctest.Wait()
			}
		}
		q = must(workqueue.New(cfg))
		var want []int
		for k := range n {
			q.Add(k)
			if k%3 == 0 {
				q.AddAfter(k, time.Duration(1+k%7)*time.Second) // ends no quiet time, whatever comes first
			}
			want = append(want, k)
			sleep(1)
		}
		q.AddAfter(n, time.Second)
		ended := make(chan []int, 2)
		for _, take := range []func() (int, bool){
			func() (int, bool) { k, err := next(q, t.Context()); return k, err == nil },
			func() (int, bool) { k, shutdown := q.Get(); return k, !shutdown },
		} {
			go func() {
				var got []int
				for k, ok := take(); ok; k, ok = take() {
					got = append(got, k)
					q.Done(k)
				}
				ended <- got
			}()
		}
		synctest.Wait()
		require.NoError(t, q.Drain(t.Context()))
		got := append(<-ended, <-ended...)
		slices.Sort(got)
		require.Equal(t, want, got)
		require.NoError(t, q.CheckInvariants())
	})
}

func TestShutDownReadiesDebouncedKeysInDueOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[int]{Debounce: time.Minute}))
		var want []int
		for k := range 1_000 {
			q.Add(k)
			q.AddAfter(k, time.Duration(1+k*7%1000)*time.Second)
			want = append(want, k)
			sleep(1)
		}
		q.ShutDown()
		require.Equal(t, want, q.Ready())
		require.Equal(t, workqueue.Stats{Ready: 1_000}, q.Stats())
	})
}
