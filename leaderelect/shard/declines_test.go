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

	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/wait"
)

func TestSlotItsOwnerCannotAcquireGoesToAnother(t *testing.T) {
	eachMode(t, func(t *testing.T, mode func(*shard.Config)) {
		w := newWorld(t, 16)
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
		w.checkNow(t)
	})
}

func TestSlotWithUnwritableRecordGoesToAnotherReplica(t *testing.T) {
	eachMode(t, func(t *testing.T, mode func(*shard.Config)) {
		w := newWorld(t, 4)
		a := w.join(t, "a", mode)
		b := w.join(t, "b", mode)
		w.mu.Lock()
		a.deaf = map[string]bool{"shards/slot/0": true, "shards/slot/1": true, "shards/slot/2": true, "shards/slot/3": true}
		w.mu.Unlock()
		w.cover(t, 4*lease, 4, a, b)
		require.Len(t, b.Owned(), 4)
		w.checkNow(t)
	})
}

func TestUnacquirableSlotIsTriedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
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
		w.checkNow(t)
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

func TestSlotThatMayDrainForeverPassesCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		a := w.join(t, "a", func(cfg *shard.Config) { cfg.Lease.DrainTimeout = math.MaxInt64 })
		after(time.Second)
		var dones []func()
		for _, key := range keysOf(a.Slots, 2) {
			_, done, ok := a.Begin(t.Context(), key)
			require.True(t, ok)
			dones = append(dones, done)
		}
		assert.NoError(t, a.Check(math.MaxInt64))
		b := w.join(t, "b", nil)
		after(10 * time.Minute)
		assert.NoError(t, a.Check(0))
		assert.NoError(t, a.Check(math.MaxInt64))
		assert.Empty(t, b.Owned())
		for _, done := range dones {
			done()
		}
		w.settle(t, 4*retry, a, b)
		w.checkNow(t)
	})
}

func TestEndlessSlotWorkFailsCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		a := w.join(t, "a", func(cfg *shard.Config) { cfg.Lease.DrainTimeout = -1 })
		after(time.Second)
		var dones []func()
		for _, key := range keysOf(a.Slots, 2) {
			_, done, ok := a.Begin(t.Context(), key)
			require.True(t, ok)
			dones = append(dones, done)
		}
		after(calm)
		require.NoError(t, a.Check(0), "work may take as long as its slot is owned")
		b := w.join(t, "b", nil)
		after(lease)
		require.NoError(t, a.Check(0))
		after(3 * retry)
		require.NoError(t, a.Check(lease))
		err := a.Check(0)
		require.ErrorContains(t, err, `shard: check "shards": slot `)
		require.ErrorContains(t, err, "done was not called for 1 calls of Begin")
		require.Empty(t, b.Owned())
		for _, done := range dones {
			done()
		}
		after(2 * retry)
		require.NoError(t, a.Check(0))
		w.settle(t, 4*retry, a, b)
		w.checkNow(t)
	})
}
