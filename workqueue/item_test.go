package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

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

func TestTakeEndsWithContextOrShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		item, err := q.Take(ctx)
		require.ErrorIs(t, err, why)
		require.Zero(t, item)
		q.ShutDown()
		_, err = q.Take(t.Context())
		require.ErrorIs(t, err, workqueue.ErrShutDown)
	})
}

func TestItemHasPriorityAndReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.AddWith("k", workqueue.AddOptions{Priority: 2, Reason: "created"})
		sleep(time.Second)
		now := time.Now()
		q.AddWith("k", workqueue.AddOptions{Priority: 3, Reason: "changed"})
		item, _ := q.TryTake()
		require.Equal(t, "k", item.Key)
		require.Equal(t, 3, item.Priority)
		require.Equal(t, []workqueue.Reason{{Text: "created", At: now.Add(-time.Second)}, {Text: "changed", At: now}}, item.Reasons)
	})
}

func TestRunForgetsSuccessesAndRetriesOrParksFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{MaxAttempts: 3}))
		q.Add("good")
		q.Add("bad")
		q.Add("ugly")
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		ended := make(chan error, 1)
		go func() {
			ended <- q.Run(ctx, 2, func(ctx context.Context, item workqueue.Item[string]) error {
				assert.Equal(t, "value", ctx.Value(key{}))
				if item.Key == "bad" || item.Key == "ugly" && item.Attempt < 3 {
					return fmt.Errorf("attempt %d", item.Attempt)
				}
				return nil
			})
		}()
		sleep(time.Minute)
		require.Equal(t, workqueue.Stats{Parked: 1}, q.Stats(), "ugly has succeeded, and is forgotten")
		info := q.Snapshot()[0]
		require.Equal(t, "bad", info.Key)
		require.Equal(t, 3, info.Failures)
		var texts []string
		for _, r := range info.Reasons {
			texts = append(texts, r.Text)
		}
		require.Equal(t, []string{"attempt 1", "attempt 2", "attempt 3"}, texts)

		require.Empty(t, ended)
		cancel()
		require.NoError(t, <-ended)
		require.False(t, q.ShuttingDown())
	})
}

func TestRunReturnsAfterWorkReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.Add("k")
		ctx, cancel := context.WithCancel(t.Context())
		begin := time.Now()
		time.AfterFunc(time.Second, cancel)
		require.NoError(t, q.Run(ctx, 3, func(context.Context, workqueue.Item[string]) error {
			time.Sleep(time.Minute)
			return nil
		}))
		require.Equal(t, time.Minute, time.Since(begin))
		require.Equal(t, workqueue.Stats{}, q.Stats())
	})
}

func TestRunReturnsWhenQueueIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		ended := make(chan error, 1)
		done := 0
		for i := range 5 {
			q.Add(fmt.Sprint(i))
		}
		go func() {
			ended <- q.Run(t.Context(), 1, func(context.Context, workqueue.Item[string]) error {
				time.Sleep(time.Second)
				done++
				return errors.New("fails, and is not tried again after a shutdown")
			})
		}()
		synctest.Wait()
		require.NoError(t, q.Drain(t.Context()))
		require.NoError(t, <-ended)
		require.Equal(t, 5, done)
	})
}

func TestRunWithoutWorkersPanics(t *testing.T) {
	q := newQueue()
	for _, n := range []int{0, -1} {
		require.PanicsWithValue(t, "workqueue: Run: the number of workers is not positive", func() { _ = q.Run(t.Context(), n, nil) })
	}
}

func TestRunNeverHandsKeyToTwoWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, keys = 4, 3
		q := must(workqueue.New(workqueue.Config[int]{}))
		var busy [keys]atomic.Bool
		var working, most, done atomic.Int32
		for k := range keys {
			q.Add(k)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second-1)
		defer cancel()
		require.NoError(t, q.Run(ctx, workers, func(_ context.Context, item workqueue.Item[int]) error {
			assert.True(t, busy[item.Key].CompareAndSwap(false, true))
			most.Store(max(most.Load(), working.Add(1)))
			q.Add(item.Key) // comes back, after its Done
			time.Sleep(time.Second)
			working.Add(-1)
			busy[item.Key].Store(false)
			done.Add(1)
			return nil
		}))
		require.EqualValues(t, keys, most.Load())
		require.EqualValues(t, keys*100, done.Load())
	})
}

// A panic of work ends the program, like one of any other goroutine. The key is done first. The test runs itself in a
// child process.
func TestPanickingWorkMarksKeyDoneAndCrashes(t *testing.T) {
	if os.Getenv("WORKQUEUE_PANIC") != "" {
		cfg := workqueue.Config[string]{}
		cfg.Hooks.Done = func(k string, _ time.Duration) { fmt.Println("done", k) }
		q := must(workqueue.New(cfg))
		q.Add("k")
		_ = q.Run(t.Context(), 1, func(context.Context, workqueue.Item[string]) error { panic("of work") })
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestPanickingWorkMarksKeyDoneAndCrashes$", "-test.timeout=20s")
	cmd.Env = append(os.Environ(), "WORKQUEUE_PANIC=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "done k")
	require.Contains(t, string(out), "panic: of work")
}
