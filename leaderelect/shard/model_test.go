package shard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
)

func TestNoScheduleRunsSlotWorkTwice(t *testing.T) {
	t.Parallel()
	looptest.Lanes(t, effort(10, 2000), func(t *testing.T, seed int) { slotSchedule(t, uint64(seed)) })
}

// brokenSlots returns the slots that a replica cannot acquire: for some its work fails, and it cannot write the records of
// others. Each slot is left to one replica at least.
func brokenSlots(chance *looptest.Chance, slots, replica, replicas int) (fails map[int]bool, unwritable map[string]bool) {
	fails, unwritable = make(map[int]bool), make(map[string]bool)
	for slot := range slots {
		switch able := slot%replicas == replica; {
		case able:
		case chance.UpTo(4) == 0:
			fails[slot] = true
		case chance.UpTo(8) == 0:
			unwritable[fmt.Sprint("shards/slot/", slot)] = true
		}
	}
	return fails, unwritable
}

// slotSchedule has replicas join, leave, die and come back while they work, heals everything, and requires that the
// slots are shared then.
func slotSchedule(t *testing.T, seed uint64) {
	chance := looptest.NewChance(seed, 23)
	w := newWorld(t, 1+chance.UpTo(8))
	mode := modes["a store that cannot watch"]
	if chance.UpTo(2) == 0 {
		mode = watching
	}
	ctx, cancel := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	replicas := 2 + chance.UpTo(3)
	broken := w.slots > 1 && chance.UpTo(3) == 0
	for i := range replicas {
		r := w.join(t, string(rune('a'+i)), func(cfg *shard.Config) {
			if mode != nil {
				mode(cfg)
			}
			cfg.Lease.RetryPeriod = modelRetry
			cfg.Lease.Rand = chance.Float
			cfg.Lease.DrainTimeout = time.Duration(chance.UpTo(2)) * 3 * time.Second
		})
		w.mu.Lock()
		r.drain = time.Duration(chance.UpTo(2)) * chance.Duration(8*time.Second)
		if broken {
			r.fails, r.unwritable = brokenSlots(chance, w.slots, i, replicas)
		}
		w.mu.Unlock()
		took := 50*time.Millisecond + chance.Duration(4*time.Second)
		workers.Go(func() { r.work(ctx, took) })
		after(chance.Duration(3 * time.Second))
	}
	if chance.UpTo(3) == 0 {
		stray := w.join(t, "stray", func(cfg *shard.Config) { cfg.Slots++ })
		workers.Go(func() { stray.work(ctx, time.Second) })
		after(time.Minute)
		w.checkNow(t)
		if err := stray.stop(); !errors.Is(err, leaderelect.ErrMismatch) {
			t.Fatalf("a replica with another number of slots ends with %v", err)
		}
		w.replicas = w.replicas[:replicas]
	}
	for range 6 {
		after(chance.Duration(15 * time.Second))
		r := w.replicas[chance.UpTo(len(w.replicas))]
		switch chance.UpTo(3) {
		case 0:
			r.cut(chance.Duration(40 * time.Second))
		case 1:
			_ = r.stop()
			after(chance.Duration(5 * time.Second))
			r.start()
		default:
			r.cut(time.Second) // a hiccup
		}
		w.checkNow(t)
	}
	for _, r := range w.replicas {
		r.cut(0)
	}
	switch {
	case broken:
		w.cover(t, 10*lease, w.slots, w.replicas...)
	case w.slots > 1:
		w.settle(t, lease+request+8*modelRetry, w.replicas...)
	default:
		after(lease + request + 2*modelRetry)
		if n := ownedTogether(t, w.replicas...); n != 1 {
			t.Fatalf("%d replicas lead", n)
		}
	}
	cancel()
	workers.Wait()
	for _, r := range w.replicas {
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
	}
	w.checkNow(t)
}
