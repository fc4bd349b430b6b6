package workqueue_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/setpoint-go/setpoint/workqueue"
)

// Mistakes that queues of this kind have made, and that no other test is named after.

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

func TestAddWhileProcessingQueuesOnceAfterDone(t *testing.T) {
	q := newQueue()
	q.Add("k")
	q.Get()
	for range 3 {
		q.Add("k")
		require.Zero(t, q.Len())
	}
	q.Add("other")
	q.Done("k")
	require.Equal(t, []string{"other", "k"}, finishAll(q), "at the end of the queue")
}

func TestWakeUpsDueTogetherFireOnceInOrder(t *testing.T) {
	for _, p := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue()
			q.AddWith("first", prio(p))
			finishAll(q)
			var want []string
			for i := range 50 {
				k := i * 17 % 50
				q.AddAfter(fmt.Sprint(k), time.Duration(k/2+1)*time.Millisecond)
				q.AddAfter(fmt.Sprint(k), time.Duration(k/2+2)*time.Millisecond)
			}
			for i := range 25 { // of two that are due at the same time, the one that was set first
				a, b := 2*i, 2*i+1
				if b*3%50 < a*3%50 { // 17*3 = 1 mod 50
					a, b = b, a
				}
				want = append(want, fmt.Sprint(a), fmt.Sprint(b))
			}
			time.Sleep(time.Second) // the timer comes late, if at all
			synctest.Wait()
			require.Equal(t, want, finishAll(q))
			require.Equal(t, workqueue.Stats{}, q.Stats())
		})
	}
}

func TestDirtyKeyIsHandedOutBeforeShutdown(t *testing.T) {
	q := newQueue()
	q.Add("k")
	q.Get()
	q.Add("k")
	q.ShutDown()
	q.Done("k")
	k, shutdown := q.Get()
	require.False(t, shutdown)
	require.Equal(t, "k", k)
	q.Done("k")
	_, shutdown = q.Get()
	require.True(t, shutdown)
}

func TestDoneKeyIsNotKeptAlive(t *testing.T) {
	type big struct{ _ [1 << 16]byte }
	type queue = *workqueue.Queue[*big]
	for name, use := range map[string]func(q queue, k *big){
		"raised":   func(q queue, k *big) { q.AddWith(new(big), prio(1)); q.AddWith(k, prio(-1)); q.AddWith(k, prio(1)) },
		"canceled": func(q queue, k *big) { q.Add(k); q.AddAfter(k, time.Hour); q.Cancel(k) },
		"dropped":  func(q queue, k *big) { q.AddRateLimited(k); q.AddRateLimited(k); q.DropParked(k) },
		"forgotten": func(q queue, k *big) {
			q.AddRateLimited(k)
			q.Cancel(k)
			q.Forget(k)
		},
		"shut down": func(q queue, k *big) { q.AddAfter(k, time.Hour); q.ShutDown() },
	} {
		t.Run(name, func(t *testing.T) {
			q := must(workqueue.New(workqueue.Config[*big]{MaxAttempts: 2, Timestamps: true, Group: func(*big) string { return "g" }}))
			freed := make(chan struct{}, 1)
			k := new(big)
			runtime.AddCleanup(k, func(int) { freed <- struct{}{} }, 0)
			use(q, k)
			for k, ok := tryGet(q); ok; k, ok = tryGet(q) {
				q.Done(k)
			}
			k = nil
			runtime.GC()
			runtime.GC()
			select {
			case <-freed:
			case <-time.After(10 * time.Second):
				t.Fatal("still alive")
			}
			runtime.KeepAlive(q)
		})
	}
}

// Each method that takes a key rejects one that is not equal to itself, before it takes the lock.
func TestEveryMethodRejectsKeyUnequalToItself(t *testing.T) {
	q := must(workqueue.New(workqueue.Config[any]{RateLimiter: nil, Debounce: 1, MaxAttempts: 1}))
	for _, key := range []any{math.NaN(), []int{1}, struct{ v any }{map[string]int{}}} {
		for name, call := range map[string]func(){
			"Add":            func() { q.Add(key) },
			"AddAfter":       func() { q.AddAfter(key, time.Hour) },
			"AddRateLimited": func() { q.AddRateLimited(key) },
			"AddWith":        func() { q.AddWith(key, workqueue.AddOptions{}) },
			"Done":           func() { q.Done(key) },
			"Cancel":         func() { q.Cancel(key) },
			"Forget":         func() { q.Forget(key) },
			"NumRequeues":    func() { q.NumRequeues(key) },
			"DropParked":     func() { q.DropParked(key) },
			"TryTakeKey":     func() { q.TryTakeKey(key) },
			"Info":           func() { q.Info(key) },
		} {
			require.Panics(t, call, "%s of %v", name, key)
			require.Equal(t, workqueue.Stats{}, q.Stats())
		}
	}
	require.Empty(t, q.Snapshot())
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
