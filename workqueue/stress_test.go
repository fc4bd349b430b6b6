package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/setpoint-go/setpoint/workqueue"
)

// Producers add numbers of a key, workers note the highest number that had been added before they got
// the key. No two workers have the same key, and at the end each key was looked at after its last Add.
func TestNoKeyIsLostOrDispatchedTwiceUnderLoad(t *testing.T) {
	threes := func(k int) string { return fmt.Sprint(k % 3) }
	for name, cfg := range map[string]workqueue.Config[int]{
		"plain":    {},
		"ordered":  {Group: threes, GroupLimit: 2, Aging: time.Microsecond, Timestamps: true},
		"strict":   {Group: threes, GroupLimit: 1, Aging: -1, MaxAttempts: 2},
		"debounce": {Group: threes, GroupLimit: 2, Debounce: time.Microsecond, MaxAttempts: 2},
		"limit":    {DispatchLimit: rate.NewLimiter(1e6, 1), Debounce: 20 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) { stress(t, cfg, name != "plain") })
	}
}

func stress(t *testing.T, cfg workqueue.Config[int], priorities bool) {
	const keys, producers, workers, adds = 10, 4, 8, 3000
	var depth atomic.Int64
	cfg.RateLimiter = workqueue.NewItemFastSlowRateLimiter[int](0, time.Microsecond, 1)
	if cfg.Timestamps {
		cfg.Hooks.Added = func(int, int) { depth.Add(1) }
		cfg.Hooks.Dispatched = func(int, int, time.Duration) { depth.Add(-1) }
	}
	q := must(workqueue.New(cfg))
	add := q.Add
	if priorities {
		add = func(k int) { q.AddWith(k, workqueue.AddOptions{Priority: rand.IntN(5)}) }
	}
	var added, seen [keys]atomic.Int64
	var busy [keys]atomic.Bool
	var produce, work sync.WaitGroup
	for p := range producers {
		produce.Go(func() {
			for i := range adds {
				k := (i*7 + p) % keys
				added[k].Add(1)
				switch i % 3 {
				case 0:
					add(k)
				case 1:
					q.AddAfter(k, time.Microsecond)
					add(k)
				case 2:
					q.AddRateLimited(k)
					add(k)
				}
			}
		})
	}
	for w := range workers {
		work.Go(func() {
			for {
				var k int
				var shutdown bool
				if w%2 == 0 {
					k, shutdown = q.Get()
				} else {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(w)*10*time.Microsecond)
					var err error
					k, err = next(q, ctx)
					cancel()
					if errors.Is(err, context.DeadlineExceeded) {
						continue
					}
					shutdown = err != nil
				}
				if shutdown {
					return
				}
				assert.True(t, busy[k].CompareAndSwap(false, true), "two workers have one key")
				seen[k].Store(added[k].Load())
				busy[k].Store(false)
				q.Forget(k)
				q.Done(k)
			}
		})
	}
	produce.Wait()
	assert.NoError(t, q.CheckInvariants())
	require.NoError(t, q.Drain(t.Context()))
	work.Wait()
	for k := range keys {
		assert.Equal(t, added[k].Load(), seen[k].Load(), "key %d", k)
	}
	require.NoError(t, q.CheckInvariants())
	// The timer may not have called the hook of the last key yet.
	require.Eventually(t, func() bool { return depth.Load() == 0 }, time.Minute, time.Millisecond)
	require.Equal(t, workqueue.Stats{}, q.Stats())
}
