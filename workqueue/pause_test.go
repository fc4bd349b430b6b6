package workqueue_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/setpoint-go/setpoint/workqueue"
)

var _ workqueue.Pausable = (*workqueue.Queue[string])(nil)

func TestPausedQueueHoldsKeysBackUntilResume(t *testing.T) {
	for name, take := range map[string]func(q *workqueue.Queue[string]) string{
		"Get": func(q *workqueue.Queue[string]) string {
			key, _ := q.Get()
			return key
		},
		"Take": func(q *workqueue.Queue[string]) string {
			item, _ := q.Take(context.Background())
			return item.Key
		},
	} {
		for _, before := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := must(workqueue.New(workqueue.Config[string]{Timestamps: true}))
					q.Add("in process")
					item, _ := q.TryTake()
					if !before {
						q.Pause()
					}
					var got []string
					var mu sync.Mutex
					for range 3 {
						go func() { // ends with a key
							key := take(q)
							mu.Lock()
							defer mu.Unlock()
							got = append(got, key)
						}()
					}
					synctest.Wait()
					q.Pause()
					q.Pause()
					q.Add("added")
					q.AddAfter("delayed", time.Hour)
					q.Add("in process")
					item.Done()
					sleep(time.Hour)
					_, ok := q.TryTake()
					require.False(t, ok)
					_, ok = q.TryTakeKey("added")
					require.False(t, ok)
					require.Empty(t, got)
					require.Equal(t, workqueue.Stats{Ready: 3, Paused: true}, q.Stats())
					require.Equal(t, time.Hour, q.OldestReady())
					require.Equal(t, 3, q.Len())
					require.Empty(t, q.Ready())
					require.NoError(t, q.CheckInvariants())

					q.Resume()
					synctest.Wait()
					assert.ElementsMatch(t, []string{"added", "in process", "delayed"}, got)
					assert.EqualValues(t, 2*time.Hour, q.Totals().Waited.Sum, "a pause counts as waiting")
					require.NoError(t, q.CheckInvariants())
				})
			})
		}
	}
}

// The order of the pause, the shutdown, and the waits does not matter.
func TestShutDownOfPausedQueueLeavesReadyKeys(t *testing.T) {
	pause, end := (*workqueue.Queue[string]).Pause, (*workqueue.Queue[string]).ShutDown
	for name, steps := range map[string][2]func(*workqueue.Queue[string]){"pause first": {pause, end}, "shutdown first": {end, pause}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := must(workqueue.New(workqueue.Config[string]{GroupLimit: 1, Group: func(string) string { return "" }}))
				q.Add("dirty")
				item, _ := q.TryTake()
				q.Add("dirty")
				q.Add("ready") // the limit of its group holds it back
				var workers, drains sync.WaitGroup
				for range 2 {
					workers.Go(func() { q.Get() })
					workers.Go(func() {
						_, err := q.Take(context.Background())
						assert.Equal(t, workqueue.ErrShutDown, err)
					})
					workers.Go(func() {
						assert.NoError(t, q.Run(context.Background(), 1, func(context.Context, workqueue.Item[string]) error {
							t.Error("work has begun")
							return nil
						}))
					})
				}
				synctest.Wait()
				steps[0](q)
				synctest.Wait()
				steps[1](q)
				workers.Wait()
				for range 2 {
					drains.Go(func() { assert.NoError(t, q.Drain(context.Background())) })
				}
				synctest.Wait()
				require.NoError(t, q.CheckInvariants())
				item.Done()
				drains.Wait()
				require.NoError(t, q.WaitIdle(context.Background()))
				assert.Equal(t, workqueue.Stats{Ready: 2, Paused: true}, q.Stats())
				require.NoError(t, q.CheckInvariants())

				q.Resume()
				assert.Equal(t, []string{"ready"}, q.Ready())
				item, err := q.Take(context.Background())
				require.NoError(t, err)
				item.Done()
				q.ShutDown()
				item, err = q.Take(context.Background())
				require.NoError(t, err)
				assert.Equal(t, "dirty", item.Key)
				item.Done()
				_, shutdown := q.Get()
				assert.True(t, shutdown)
			})
		})
	}
}

func TestPausedQueueTakesNoTokenOfItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[int]{DispatchLimit: rate.NewLimiter(1, 1)}))
		q.Pause()
		var workers sync.WaitGroup
		for range 3 {
			workers.Go(func() { q.Get() })
		}
		synctest.Wait()
		for i := range 3 {
			q.Add(i)
		}
		sleep(time.Minute)
		require.Equal(t, 3, q.Len())
		start := time.Now()
		q.Resume()
		workers.Wait()
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
}
