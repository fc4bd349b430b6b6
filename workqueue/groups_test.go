package workqueue_test

import (
	"fmt"
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

// byLetter makes the first letter of a key its group.
func byLetter(k string) string { return k[:1] }

func TestGroupsTakeTurnsWithinPriority(t *testing.T) {
	q := must(workqueue.New(workqueue.Config[string]{Group: byLetter, Aging: -1}))
	for _, k := range []string{"a1", "a2", "a3", "b1", "c1", "b2"} {
		q.Add(k)
	}
	q.AddWith("a0", prio(1))
	require.Equal(t, []string{"a0", "a1", "b1", "c1", "a2", "b2", "a3"}, takeAll(q))
	require.NoError(t, q.CheckInvariants())
}

func TestLargeGroupDoesNotDelayAnother(t *testing.T) {
	q := must(workqueue.New(workqueue.Config[string]{Group: byLetter}))
	for i := range 10_000 {
		q.Add(fmt.Sprint("a", i))
	}
	for i := range 5 {
		q.Add(fmt.Sprint("b", i))
	}
	first := finishAll(q)[:11]
	require.Equal(t, "a0 b0 a1 b1 a2 b2 a3 b3 a4 b4 a5", strings.Join(first, " "))
}

func TestGroupAtLimitDoesNotBlockOtherGroups(t *testing.T) {
	q := must(workqueue.New(workqueue.Config[string]{Group: byLetter, GroupLimit: 2, Aging: -1}))
	for _, k := range []string{"a1", "a2", "a3", "b1"} {
		q.AddWith(k, prio(int('c'-k[0])))
	}
	require.Equal(t, []string{"a1", "a2", "b1"}, takeAll(q))
	require.Equal(t, 1, q.Len())
	q.Add("a4")
	_, ok := tryGet(q)
	require.False(t, ok)
	q.Done("a2")
	require.Equal(t, []string{"a3"}, takeAll(q))
	q.Add("a1") // dirty, at the limit
	q.Done("a1")
	require.Equal(t, []string{"a1"}, takeAll(q), "of priority 2, before a4, which has 0")
	require.NoError(t, q.CheckInvariants())
}

// Each Done of a group at its limit unblocks one more worker, even if several Dones come before the first worker wakes up.
func TestEachFreedGroupSlotWakesItsOwnWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{Group: byLetter, GroupLimit: 3}))
		for i := range 9 {
			q.Add(fmt.Sprint("a", i))
		}
		first := takeAll(q)
		require.Len(t, first, 3)
		got := make(chan string, 9)
		for range 4 {
			go func() {
				k, _ := q.Get()
				got <- k
			}()
		}
		synctest.Wait()
		require.Empty(t, got)
		for _, k := range first {
			q.Done(k)
		}
		synctest.Wait()
		require.Len(t, got, 3)
		require.True(t, q.Cancel("a6"))
		q.Done(<-got)
		synctest.Wait()
		require.Len(t, got, 3, "the fourth worker got the last place")
		require.NoError(t, q.CheckInvariants())
		q.ShutDown()
	})
}

func TestShutDownHandsOutKeysWaitingForTheirGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{Group: byLetter, GroupLimit: 1}))
		for _, k := range []string{"a1", "a2", "a3"} {
			q.Add(k)
		}
		var order []string
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for k, shutdown := q.Get(); !shutdown; k, shutdown = q.Get() {
					mu.Lock()
					order = append(order, k)
					mu.Unlock()
					time.Sleep(time.Second)
					q.Done(k)
				}
			})
		}
		synctest.Wait()
		require.NoError(t, q.Drain(t.Context()))
		wg.Wait()
		require.Equal(t, []string{"a1", "a2", "a3"}, order)
		require.NoError(t, q.CheckInvariants())
	})
}

func TestCancelOfLastReadyKeyMakesQueueIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{}))
		q.Add("k")
		idle := make(chan error, 2)
		go func() { idle <- q.WaitIdle(t.Context()) }()
		synctest.Wait()
		go func() { idle <- q.Drain(t.Context()) }()
		synctest.Wait()
		require.Empty(t, idle)
		require.True(t, q.Cancel("k"))
		require.NoError(t, <-idle)
		require.NoError(t, <-idle)
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

func TestGroupLimitHoldsUnderLoad(t *testing.T) {
	const limit = 2
	q := must(workqueue.New(workqueue.Config[string]{Group: byLetter, GroupLimit: limit}))
	var working [3]atomic.Int32
	var done atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for k, shutdown := q.Get(); !shutdown; k, shutdown = q.Get() {
				assert.LessOrEqual(t, working[k[0]-'a'].Add(1), int32(limit))
				done.Add(1)
				working[k[0]-'a'].Add(-1)
				q.Done(k)
			}
		})
	}
	for i := range 3000 {
		q.AddWith(fmt.Sprintf("%c%d", 'a'+i%3, i), prio(i%5))
	}
	require.NoError(t, q.Drain(t.Context()))
	wg.Wait()
	require.EqualValues(t, 3000, done.Load())
	require.NoError(t, q.CheckInvariants())
}

func TestMemoryOfGroupsAndRaisedKeysIsReleased(t *testing.T) {
	for _, group := range []func(int) string{nil, func(k int) string { return fmt.Sprint(k) }} {
		q := must(workqueue.New(workqueue.Config[int]{Group: group}))
		for i := range 30_000 {
			q.AddWith(i, prio(i%3))
		}
		for i := range 10_000 { // each in its own group
			q.AddWith(3*i, prio(2))
		}
		require.GreaterOrEqual(t, q.Kept(), 30_000)
		for k, ok := tryGet(q); ok; k, ok = tryGet(q) {
			q.Done(k)
		}
		require.LessOrEqual(t, q.Kept(), 4096)
		require.NoError(t, q.CheckInvariants())
	}
}
