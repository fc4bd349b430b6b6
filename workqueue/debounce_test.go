package workqueue_test

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

const quiet, longest = time.Second, 5 * time.Second

func debounced() *workqueue.Queue[string] {
	return must(workqueue.New(workqueue.Config[string]{Debounce: quiet, DebounceLimit: longest, Logger: discard}))
}

// sleep lets time pass, and due timers fire.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestDebounceWaitsForQuietPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := debounced()
		for range 3 {
			q.Add("k")
			require.NoError(t, q.CheckInvariants())
			sleep(quiet - 1)
			require.Equal(t, workqueue.Stats{Delayed: 1}, q.Stats())
		}
		sleep(1)
		require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
		q.Add("k") // waits already
		require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
		require.NoError(t, q.CheckInvariants())
	})
}

func TestDebounceWaitsAtMostMaxWait(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{longest: longest, 0: 10 * quiet, quiet: quiet} {
		synctest.Test(t, func(t *testing.T) {
			q := must(workqueue.New(workqueue.Config[string]{Debounce: quiet, DebounceLimit: limit}))
			for range want / (quiet / 4) {
				q.Add("k")
				sleep(quiet/4 - 1)
				require.Equal(t, workqueue.Stats{Delayed: 1}, q.Stats())
				sleep(1)
			}
			require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
		})
	}
}

func TestDebounceDoesNotDelayBackoffOrWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := debounced()
		q.AddRateLimited("k")
		require.Equal(t, 5*time.Millisecond, dueAfter(t, q))
		q.AddAfter("k", time.Millisecond)
		require.Equal(t, time.Millisecond, dueAfter(t, q))
		q.AddWith("k", workqueue.AddOptions{At: time.Now().Add(time.Microsecond)})
		require.Equal(t, time.Microsecond, dueAfter(t, q))
	})
}

func TestWakeUpDuringDebounceReplacesDebouncedAdd(t *testing.T) {
	for name, schedule := range map[string]func(*workqueue.Queue[string]){
		"AddAfter":       func(q *workqueue.Queue[string]) { q.AddAfter("k", 5*time.Millisecond) },
		"AddRateLimited": func(q *workqueue.Queue[string]) { q.AddRateLimited("k") },
	} {
		for _, first := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := debounced()
					if first {
						schedule(q)
						q.Add("k")
					} else {
						q.Add("k")
						schedule(q)
					}
					require.Equal(t, 5*time.Millisecond, dueAfter(t, q))
					sleep(time.Hour - 1) // what has failed is remembered for an hour
					s := q.Stats()
					require.Zero(t, s.Ready+s.Delayed)
					require.NoError(t, q.CheckInvariants())
				})
			})
		}
	}
}

func TestWakeUpRemainsAfterEarlierDebounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := debounced()
		q.AddAfter("k", time.Minute)
		q.Add("k")
		require.Equal(t, quiet, dueAfter(t, q))
		require.Equal(t, time.Minute-quiet, dueAfter(t, q))
	})
}

func TestDebouncedAddWhileProcessingComesBackAfterQuietPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := debounced()
		q.Add("k")
		sleep(quiet)
		q.Get()
		q.Add("k")
		require.Equal(t, workqueue.Stats{InProcess: 1, Delayed: 1}, q.Stats())
		sleep(quiet - 1)
		require.Zero(t, q.Stats().Dirty)
		sleep(1)
		require.Equal(t, workqueue.Stats{InProcess: 1, Dirty: 1}, q.Stats())
		q.Add("k") // dirty already
		q.Done("k")
		require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())

		q.Get()
		q.Add("k")
		q.Done("k") // before it is quiet
		require.Equal(t, workqueue.Stats{Delayed: 1}, q.Stats())
		require.Equal(t, quiet, dueAfter(t, q))
		require.NoError(t, q.CheckInvariants())
	})
}

func TestShutDownAppliesDebouncedAddsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // the timer calls Added as well
		var added []string
		cfg := workqueue.Config[string]{Debounce: quiet, Logger: discard, MaxAttempts: 1}
		cfg.Hooks.Added = func(k string) { mu.Lock(); defer mu.Unlock(); added = append(added, k) }
		q := must(workqueue.New(cfg))
		q.AddAfter("busy", 1)
		q.AddRateLimited("parked")
		q.Get()
		for _, k := range []string{"e", "d", "busy", "parked", "c", "b", "a", "b", "e"} {
			q.Add(k)
			time.Sleep(time.Nanosecond)
		}
		q.AddAfter("c", 1)
		q.AddAfter("dropped", time.Hour)
		sleep(1)
		got := make(chan string, 9)
		go func() {
			for k, shutdown := q.Get(); !shutdown; k, shutdown = q.Get() {
				got <- k
				q.Done(k)
			}
			close(got)
		}()
		require.Equal(t, "c", <-got)
		synctest.Wait()
		require.Empty(t, got)
		q.ShutDown()
		for _, want := range []string{"d", "parked", "a", "b", "e"} {
			require.Equal(t, want, <-got)
		}
		_, open := <-got
		require.False(t, open)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{"busy", "c", "d", "busy", "parked", "a", "b", "e"}, added)
		require.Equal(t, workqueue.Stats{InProcess: 1, Dirty: 1}, q.Stats())
		q.Done("busy")
		require.Equal(t, []string{"busy"}, finishAll(q))
		require.NoError(t, q.CheckInvariants())
	})
}

func TestCancelDropsDebouncedAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := debounced()
		q.Add("k")
		require.True(t, q.Cancel("k"))
		require.Equal(t, workqueue.Stats{}, q.Stats())
		sleep(quiet / 2)
		q.Add("k") // starts over
		require.Equal(t, quiet, dueAfter(t, q))
	})
}

// In every state of a key, the quiet period ends at the announced time, in any order of calls.
func TestParkedKeyIsRevivedAfterDebounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{Debounce: quiet, MaxAttempts: 1}))
		q.AddRateLimited("k")
		q.Add("k")
		require.Equal(t, workqueue.Stats{Parked: 1, Delayed: 1}, q.Stats())
		require.Equal(t, quiet, dueAfter(t, q))
		q.AddRateLimited("k")
		q.Add("k")
		q.AddAfter("k", 0) // at once
		require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
		require.NoError(t, q.CheckInvariants())
	})
}

func TestDebounceDoesNotOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{Debounce: 1 << 62}))
		time.Sleep(1 << 61)
		q.Add("k")
		q.Add("k")
		require.NoError(t, q.CheckInvariants())
		require.Equal(t, time.Duration(1<<62), dueAfter(t, q))

		never := must(workqueue.New(workqueue.Config[string]{Debounce: quiet, DebounceLimit: math.MaxInt64}))
		sleep(1)
		never.Add("k")
		require.Equal(t, quiet, dueAfter(t, never))
	})
}

// An Add with its own delay is not debounced, even if the delay is zero.
func TestAddAfterZeroIsNotDebounced(t *testing.T) {
	for name, add := range map[string]func(q *workqueue.Queue[string]){
		"AddAfter":                func(q *workqueue.Queue[string]) { q.AddAfter("k", 0) },
		"AddAfter, negative":      func(q *workqueue.Queue[string]) { q.AddAfter("k", -1) },
		"AddWith After":           func(q *workqueue.Queue[string]) { q.AddWith("k", workqueue.AddOptions{After: -1}) },
		"AddWith At, now":         func(q *workqueue.Queue[string]) { q.AddWith("k", workqueue.AddOptions{At: time.Now()}) },
		"AddWith At, in the past": func(q *workqueue.Queue[string]) { q.AddWith("k", workqueue.AddOptions{At: time.Unix(1, 0)}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := debounced()
				add(q)
				require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
				tryGet(q)
				add(q)
				require.Equal(t, workqueue.Stats{InProcess: 1, Dirty: 1}, q.Stats())
				q.Done("k")
				tryGet(q)
				q.Done("k")
				q.Add("k")
				add(q)
				require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats(), "the Add waited only for that")
				require.NoError(t, q.CheckInvariants())
			})
		})
	}
}

func TestDebouncedKeyKeepsQueueBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := debounced()
		q.AddAfter("later", time.Hour)
		q.AddRateLimited("failed")
		require.NoError(t, q.WaitIdle(t.Context()), "those do not count")
		q.Add("k")
		begin := time.Now()
		idle := make(chan time.Duration, 2)
		for range 2 {
			go func() {
				_ = q.WaitIdle(t.Context())
				idle <- time.Since(begin)
			}()
		}
		sleep(quiet)
		require.Empty(t, idle)
		q.Cancel("failed")
		require.Equal(t, []string{"k"}, finishAll(q))
		require.Equal(t, quiet, <-idle)
		require.Equal(t, quiet, <-idle)

		q.Add("k")
		sleep(1)
		go func() { _ = q.WaitIdle(t.Context()); idle <- time.Since(begin) }()
		synctest.Wait()
		require.Empty(t, idle)
		require.True(t, q.Cancel("k"))
		require.Equal(t, quiet+1, <-idle)
		require.NoError(t, q.CheckInvariants())
		q.ShutDown()
	})
}
