package workqueue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

// A wake-up and a backoff of a key are two deadlines.

func TestBackoffDoesNotCancelWakeUp(t *testing.T) {
	for name, attempt := range map[string]func(q *workqueue.Queue[string]){
		"an attempt before the backoff, and a Forget": func(q *workqueue.Queue[string]) {
			q.Add("k")
			q.Get()
			q.Forget("k")
			q.Done("k")
		},
		"the attempt of the backoff": func(q *workqueue.Queue[string]) {
			sleep(5 * time.Millisecond)
			q.Get()
			q.Forget("k")
			q.Done("k")
		},
		"a Forget alone": func(q *workqueue.Queue[string]) { q.Forget("k") },
	} {
		for _, wakeUpFirst := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := newQueue()
					begin := time.Now()
					if wakeUpFirst {
						q.AddAfter("k", 10*time.Second)
						q.AddRateLimited("k")
					} else {
						q.AddRateLimited("k")
						q.AddAfter("k", 10*time.Second)
					}
					attempt(q)
					require.NoError(t, q.CheckInvariants())
					require.Equal(t, workqueue.Stats{Delayed: 1}, q.Stats())
					sleep(10*time.Second - time.Since(begin) - 1)
					require.Equal(t, workqueue.Stats{Delayed: 1}, q.Stats())
					sleep(1)
					require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
				})
			})
		}
	}
}

func TestEarlierWakeUpEndsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.AddWith("k", workqueue.AddOptions{RateLimited: true, After: time.Minute})
		q.AddAfter("k", time.Second)
		require.Equal(t, time.Second, dueAfter(t, q))
		require.Zero(t, q.Stats().Delayed, "the awaited attempt has started")
		require.Equal(t, 1, q.NumRequeues("k"))
	})
}

func TestForgetEndsTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.AddRateLimited("k")
		q.Forget("k")
		require.Equal(t, workqueue.Stats{}, q.Stats())
		require.NoError(t, q.CheckInvariants())

		q.Add("k")
		q.Get()
		q.AddRateLimited("k")
		q.Forget("k")
		q.Done("k")
		require.Equal(t, workqueue.Stats{}, q.Stats())
		require.NoError(t, q.CheckInvariants())
	})
}

func TestReadyOrDirtyKeyHasNoBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.Add("ready")
		q.AddRateLimited("ready")
		require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
		q.Get()
		q.Add("ready")
		q.AddRateLimited("ready")
		require.Equal(t, workqueue.Stats{InProcess: 1, Dirty: 1}, q.Stats())
		require.Equal(t, 2, q.NumRequeues("ready"), "they are still failures")
		q.Done("ready")
		require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
	})
}

func TestRepeatedWakeUpKeepsPlaceAmongEqualTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		for _, k := range []string{"a", "b", "a"} {
			q.AddAfter(k, time.Second)
		}
		for _, k := range []string{"c", "d", "c"} {
			q.AddWith(k, workqueue.AddOptions{RateLimited: true, After: time.Second})
		}
		sleep(time.Second)
		require.Equal(t, []string{"a", "b", "c", "d"}, q.Ready())
		q.ShutDown()
	})
}

func TestTimerForAnotherKeyForgetsNoFailureEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.AddRateLimited("k")
		sleep(time.Minute)
		item, _ := q.TryTake()
		item.Done()
		q.AddAfter("other", time.Hour-1)
		sleep(time.Hour - 1)
		require.Equal(t, 1, q.NumRequeues("k"))
		sleep(1)
		require.Zero(t, q.NumRequeues("k"))
		q.ShutDown()
	})
}
