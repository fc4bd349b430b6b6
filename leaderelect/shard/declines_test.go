package shard_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/wait"
)

func TestSlotItsOwnerCannotAcquireGoesToAnother(t *testing.T) {
	eachMode(t, 16, func(t *testing.T, w *world, mode func(*shard.Config)) {
		a, tries := w.join(t, "a", mode), 0
		w.settle(t, 4*retry, a)
		b := w.join(t, "b", func(cfg *shard.Config) {
			if mode != nil {
				mode(cfg)
			}
			acquired := cfg.OnAcquired
			cfg.OnAcquired = func(ctx context.Context, slot int) error {
				w.mu.Lock()
				tries++
				w.mu.Unlock()
				return acquired(ctx, slot)
			}
		})
		w.mu.Lock()
		b.fails = make(map[int]bool)
		for slot := range 16 {
			b.fails[slot] = true
		}
		w.mu.Unlock()
		after(8 * retry)
		for range 4 { // it may try again, but not for long
			w.cover(t, 4*retry, 16, a, b)
			after(time.Minute)
		}
		w.mu.Lock()
		assert.LessOrEqual(t, tries, 16*6, "of each slot, with backoff")
		w.mu.Unlock()

		w.mu.Lock()
		b.fails = nil
		w.mu.Unlock()
		w.settle(t, 80*retry, a, b)
	})
}

func TestSlotWithUnwritableRecordGoesToAnotherReplica(t *testing.T) {
	eachMode(t, 4, func(t *testing.T, w *world, mode func(*shard.Config)) {
		a := w.join(t, "a", mode)
		b := w.join(t, "b", mode)
		w.mu.Lock()
		a.unwritable = map[string]bool{"shards/slot/0": true, "shards/slot/1": true, "shards/slot/2": true, "shards/slot/3": true}
		w.mu.Unlock()
		w.cover(t, 4*lease, 4, a, b)
		require.Len(t, b.Owned(), 4)
	})
}

func TestUnacquirableSlotIsTriedWithBackoff(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		a, b := w.join(t, "a", nil), w.join(t, "b", nil)
		w.mu.Lock()
		a.fails, b.fails = map[int]bool{1: true}, map[int]bool{1: true}
		w.mu.Unlock()
		after(20 * time.Minute)
		w.mu.Lock()
		assert.Less(t, w.acquired, 36, "of two replicas, in 20 minutes")
		assert.Greater(t, w.acquired, 16, "and none has given up")
		b.fails = nil
		w.mu.Unlock()
		w.settle(t, 80*retry, a, b)
	})
}

func TestReplicaWithoutMembershipTakesNoSlotThatNobodyCanOwn(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		few := func(cfg *shard.Config) { cfg.Members = 1 }
		a := w.join(t, "a", few)
		w.mu.Lock()
		a.fails = map[int]bool{1: true}
		w.mu.Unlock()
		after(time.Second)
		b := w.join(t, "b", few)
		for range 60 {
			after(time.Second)
			require.Empty(t, b.Owned(), "there is no free number")
		}
	})
}

func TestFailureAfterLeaseCountsAsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int32
		w := newWorld(t, 2)
		w.join(t, "a", func(cfg *shard.Config) {
			cfg.OnAcquired = func(ctx context.Context, slot int) error {
				if slot == 0 {
					return nil
				}
				tries.Add(1)
				_ = wait.Sleep(ctx, lease+1)
				return errExpected
			}
			cfg.OnRevoked = nil
		})
		after(20 * time.Minute)
		assert.Greater(t, tries.Load(), int32(33), "in 20 minutes: 15s of work, and 8s for others")
	})
}

func TestAcquiredSlotForgetsEarlierFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int32
		var fails atomic.Bool
		w := newWorld(t, 2)
		a := w.join(t, "a", func(cfg *shard.Config) {
			cfg.OnAcquired = func(_ context.Context, slot int) error {
				if slot == 0 {
					return nil
				}
				tries.Add(1)
				if fails.Load() {
					return errExpected
				}
				return nil
			}
			cfg.OnRevoked = nil
		})
		fails.Store(true)
		after(10 * time.Minute)
		assert.Len(t, a.Owned(), 1)
		fails.Store(false)
		after(80 * retry)
		assert.Len(t, a.Owned(), 2)

		a.cut(lease)
		after(renew)
		assert.Empty(t, a.Owned())
		fails.Store(true)
		before := tries.Load()
		after(lease + time.Minute)
		assert.Greater(t, tries.Load(), before+2, "after 8s, 16s, and 32s")
	})
}

func TestEndlessSlotWorkFailsCheckUnlessDrainMayTakeForever(t *testing.T) {
	for limit, fails := range map[time.Duration]bool{-1: true, math.MaxInt64: false} {
		inWorld(t, 2, func(t *testing.T, w *world) {
			a := w.join(t, "a", func(cfg *shard.Config) { cfg.Lease.DrainTimeout = limit })
			after(time.Second)
			var dones []func()
			for _, key := range keysOf(a.Slots, 2) {
				_, done, ok := a.Begin(t.Context(), key)
				require.True(t, ok)
				dones = append(dones, done)
			}
			after(calm)
			require.NoError(t, a.Check(), "work may take as long as its slot is owned")
			b := w.join(t, "b", nil)
			after(lease)
			require.NoError(t, a.Check())
			after(3 * retry)
			if err := a.Check(); fails {
				require.ErrorContains(t, err, `shard: check "shards": slot `)
				require.ErrorContains(t, err, "done was not called for 1 calls of Begin")
			} else {
				require.NoError(t, err)
			}
			require.Empty(t, b.Owned())
			for _, done := range dones {
				done()
			}
			after(2 * retry)
			require.NoError(t, a.Check())
			w.settle(t, 4*retry, a, b)
		})
	}
}

func TestWorkBeginsAfterPrepare(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		ready := make(chan struct{})
		a := w.join(t, "a", func(cfg *shard.Config) {
			cfg.Prepare = func(ctx context.Context, slot int) error {
				l, ok := leaderelect.FromContext(ctx)
				assert.True(t, ok)
				assert.NoError(t, l.Err())
				<-ready
				return nil
			}
		})
		after(5 * time.Second)
		require.Equal(t, []int{0}, a.Owned())
		assert.False(t, a.Owns("k"))
		_, _, ok := a.Begin(t.Context(), "k")
		assert.False(t, ok, "work begins before Prepare has returned")
		assert.Zero(t, w.acquired)
		close(ready)
		after(time.Second)
		assert.True(t, a.Owns("k"))
		require.NoError(t, a.stop())
	})
}

// A replica whose Prepare fails, panics, or takes too long declines the slot, whatever Prepare returns. Another replica gets it.
func TestReplicaThatCannotPrepareDeclinesSlot(t *testing.T) {
	for name, prepare := range map[string]func(ctx context.Context) error{
		"it fails":          func(context.Context) error { return errExpected },
		"it panics":         func(context.Context) error { panic("on purpose") },
		"it takes too long": func(ctx context.Context) error { <-ctx.Done(); return nil },
	} {
		subWorld(t, name, 4, func(t *testing.T, w *world) {
			var calls atomic.Int32
			a := w.join(t, "a", func(cfg *shard.Config) {
				cfg.OnRevoked = nil // it is called without an OnAcquired
				cfg.Prepare = func(ctx context.Context, _ int) error {
					calls.Add(1)
					return prepare(ctx)
				}
			})
			after(time.Minute)
			for _, key := range keysOf(a.Slots, 4) {
				_, _, ok := a.Begin(t.Context(), key)
				assert.False(t, ok)
			}
			assert.Positive(t, calls.Load())
			b := w.join(t, "b", nil)
			owned := make(map[string]bool) // at some time: after a while, the first replica tries again
			for range 60 {
				after(5 * time.Second)
				for _, key := range keysOf(b.Slots, 4) {
					owned[key] = owned[key] || b.Owns(key)
				}
			}
			for key, ok := range owned {
				assert.True(t, ok, "the slot of %s", key)
			}
			require.NoError(t, a.stop())
			require.NoError(t, b.stop())
		})
	}
}
