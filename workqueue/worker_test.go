package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/setpoint-go/setpoint/workqueue"
)

// Keys go to the workers in the order in which they came, unless a worker leaves by itself. The model is a slice of the workers that wait.
func TestLongestWaitingWorkerGetsTheKey(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 8))
			q := must(workqueue.New(workqueue.Config[int]{}))
			type result struct {
				worker int
				err    error
			}
			results := make(chan result, 300)
			var model []int
			cancels := map[int]context.CancelFunc{}
			key := 0
			for worker := range 300 {
				var want []result
				switch r.IntN(8) {
				case 0, 1, 2, 3:
					ctx, cancel := context.WithCancel(t.Context())
					cancels[worker] = cancel
					go func() { // ends with a key, its context, or the shutdown
						item, err := q.Take(ctx)
						if err == nil {
							item.Done()
						}
						results <- result{worker, err}
					}()
					model = append(model, worker)
				case 4, 5, 6:
					for range min(1+r.IntN(3), len(model)) { // several before the first worker looks
						key++
						q.Add(key)
						want, model = append(want, result{model[0], nil}), model[1:]
					}
				case 7:
					if len(model) > 0 {
						i := r.IntN(len(model))
						cancels[model[i]]()
						want = []result{{model[i], context.Canceled}}
						model = slices.Delete(model, i, i+1)
					}
				}
				synctest.Wait()
				require.Len(t, results, len(want))
				got := map[result]bool{}
				for range want {
					got[<-results] = true
				}
				for _, w := range want {
					require.True(t, got[w], "%v, want %v", got, want)
				}
			}
			q.ShutDown()
			for range model {
				require.ErrorIs(t, (<-results).err, workqueue.ErrShutDown)
			}
			for _, cancel := range cancels {
				cancel()
			}
		})
	}
}

func TestWaitingWorkerTakesNoMemory(t *testing.T) {
	q := newQueue()
	taken := make(chan struct{})
	go func() { // ends with the shutdown
		for item, err := q.Take(context.Background()); err == nil; item, err = q.Take(context.Background()) {
			item.Done()
			taken <- struct{}{}
		}
		close(taken)
	}()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		q.Add("k")
		<-taken
	}))
	q.ShutDown()
	<-taken
}

// A worker that is canceled at the moment of its signal must pass the signal on.
func TestCanceledWorkerPassesOnItsSignal(t *testing.T) {
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

// endsAfterACheck is a context that ends just after its end was asked for.
type endsAfterACheck struct {
	context.Context
	cancel context.CancelFunc
}

func (c endsAfterACheck) Err() error {
	err := c.Context.Err()
	c.cancel()
	return err
}

func TestTakeReturnsNoKeyAfterContextEnds(t *testing.T) {
	t.Run("before the call", func(t *testing.T) {
		for _, shutdown := range []bool{false, true} {
			q := newQueue()
			q.Add("k")
			if shutdown {
				q.ShutDown()
			}
			cause := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			_, err := next(q, ctx)
			require.Equal(t, cause, err)
			_, err = q.Take(ctx)
			require.Equal(t, cause, err)
			require.Equal(t, 1, q.Len())
		}
	})
	t.Run("before it looks for a key", func(t *testing.T) {
		q := newQueue()
		q.Add("k")
		ctx, cancel := context.WithCancel(t.Context())
		_, err := next(q, endsAfterACheck{ctx, cancel})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 1, q.Len())
	})
	t.Run("when it is woken", func(t *testing.T) {
		// With one processor the worker usually runs when this goroutine waits, and not before.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		late := 0 // how often the worker looked after ctx had ended
		for range 50 {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue()
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { _, err := next(q, ctx); ended <- err }()
				synctest.Wait()
				other := make(chan string, 1)
				go func() { k, _ := next(q, t.Context()); other <- k }()
				synctest.Wait()
				q.Add("k")
				cancel()
				err := <-ended
				if err == nil { // the scheduler let the worker look before
					q.ShutDown()
					assert.Empty(t, <-other, "the worker has the key")
					return
				}
				late++
				assert.ErrorIs(t, err, context.Canceled)
				assert.Equal(t, "k", <-other, "the signal is passed on")
				require.NoError(t, q.CheckInvariants())
			})
		}
		require.Positive(t, late)
	})
}

func TestOnlyTheFirstDoneOfAnItemCounts(t *testing.T) {
	var log []string
	cfg := workqueue.Config[string]{}
	cfg.Hooks.StrayDone = func(k string) { log = append(log, k) }
	q := must(workqueue.New(cfg))
	q.Add("k")
	first, ok := q.TryTake()
	require.True(t, ok)
	_, ok = q.TryTake()
	require.False(t, ok)
	q.Add("k")
	first.Done()
	first.Done()
	require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
	second, _ := q.TryTake()
	first.Done() // another worker has the key
	require.Equal(t, workqueue.Stats{InProcess: 1}, q.Stats())
	q.Add("k") // and neither is it when it is dirty
	first.Done()
	require.Equal(t, workqueue.Stats{InProcess: 1, Dirty: 1}, q.Stats())
	second.Done()
	require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
	q.Done("k")
	require.Equal(t, []string{"k"}, log, "a plain Done too many is reported")
	require.NoError(t, q.CheckInvariants())
}

// The entry of a key may have been reused for others meanwhile.
func TestLateDoneDoesNotAffectOtherKeys(t *testing.T) {
	q := newQueue()
	q.Add("a")
	late, _ := q.TryTake()
	late.Done()
	q.Add("b")
	q.TryTake()
	late.Done()
	require.Equal(t, workqueue.Stats{InProcess: 1}, q.Stats())
	q.Done("b")
	q.Add("a")
	q.TryTake()
	late.Done()
	require.Equal(t, workqueue.Stats{InProcess: 1}, q.Stats())
}

func TestOnlyOneConcurrentDoneCounts(t *testing.T) {
	q := newQueue()
	for range 200 {
		q.Add("k")
		item, err := q.Take(t.Context())
		require.NoError(t, err)
		q.Add("k")
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				item.Done()
				if next, ok := q.TryTake(); ok {
					item.Done()
					next.Done()
				}
			})
		}
		wg.Wait()
		finishAll(q)
		require.Equal(t, workqueue.Stats{}, q.Stats())
	}
}

func TestStrayDoneOfItemIsNotReported(t *testing.T) {
	stray := 0
	q := must(workqueue.New(workqueue.Config[string]{Hooks: workqueue.Hooks[string]{StrayDone: func(string) { stray++ }}}))
	q.Add("k")
	item, _ := q.TryTake()
	item.Done()
	item.Done()
	require.Zero(t, stray)
	q.Done("k")
	require.Equal(t, 1, stray)
}

func TestStrayDoneIsLoggedAndDoesNotDuplicateKey(t *testing.T) {
	var log strings.Builder
	q := must(workqueue.New(workqueue.Config[string]{Name: "apps", Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	q.Done("k")
	q.Add("k")
	q.Done("k")
	require.Equal(t, 1, q.Len())
	require.Equal(t, 2, strings.Count(log.String(), `msg="Done was called for a key that is not in process" queue=apps key=k`))
}

func limited(every time.Duration, burst int) *workqueue.Queue[string] {
	return must(workqueue.New(workqueue.Config[string]{DispatchLimit: rate.NewLimiter(rate.Every(every), burst)}))
}

func TestDispatchLimitIsGlobalAndExact(t *testing.T) {
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
				require.Equal(t, max(0, time.Duration(i-burst+1)*time.Second), <-took, "dispatch %d", i)
			}
			q.ShutDown()
		})
	}
}

// Tokens that went unused while no key was ready do not add to the burst.
func TestBurstOfDispatchesIsBounded(t *testing.T) {
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

func TestShutDownDispatchesRateLimitedKeys(t *testing.T) {
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

func TestLimiterWithoutBurstDispatchesNothing(t *testing.T) {
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

func TestSkippedKeyCostsNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := limited(time.Second, 1)
		for i := range 5 {
			q.Add(fmt.Sprint(i))
		}
		item, ok := q.TryTake()
		require.True(t, ok)
		taken := make(chan workqueue.Item[string], 1)
		go func() {
			next, _ := q.Take(t.Context())
			taken <- next
		}()
		synctest.Wait()
		require.Empty(t, taken)
		item.Skip()
		synctest.Wait()
		require.Len(t, taken, 1, "a waiting worker gets the token")
		second := <-taken
		require.Equal(t, "1", second.Key)
		item.Skip()
		_, ok = q.TryTake()
		require.False(t, ok, "it was returned once")
		second.Done()
		second.Skip()
		_, ok = q.TryTake()
		require.False(t, ok, "the work began")

		sleep(time.Second)
		item, ok = q.TryTake()
		require.True(t, ok)
		sleep(time.Hour)
		q.Add(item.Key)
		item.Skip()
		require.Equal(t, []string{"3"}, takeAll(q), "the limiter was full: a returned token adds nothing to the burst")
		require.Equal(t, []string{"4", "2"}, q.Ready(), "Skip is Done in all else")
	})
}

func TestGetItemDescribesTheKey(t *testing.T) {
	q := must(workqueue.New(workqueue.Config[string]{}))
	q.AddWith("k", workqueue.AddOptions{Priority: 7, Reason: "changed"})
	q.Add("k")
	item, shutdown := q.GetItem()
	require.False(t, shutdown)
	assert.Equal(t, "k", item.Key)
	assert.Equal(t, 7, item.Priority)
	assert.Equal(t, 1, item.Attempt)
	require.Len(t, item.Reasons, 1)
	q.Add("k")
	q.ShutDown()
	_, shutdown = q.GetItem()
	assert.True(t, shutdown, "as Get, even while a key is dirty")
	item.Done()
	item, shutdown = q.GetItem()
	assert.False(t, shutdown)
	item.Done()
	item, shutdown = q.GetItem()
	assert.True(t, shutdown)
	assert.Empty(t, item.Key)
}
