package leaderelect_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
)

func TestNoScheduleOfReplicasWorksTwiceInASlot(t *testing.T) {
	t.Parallel()
	lanes(t, effort(30, 2000), func(t *testing.T, seed int) { slotSchedule(t, uint64(seed)) })
}

// slotSchedule has replicas join, leave, die and come back while they work, heals everything, and requires that the
// slots are shared then.
func slotSchedule(t *testing.T, seed uint64) {
	chance := &chance{random: rand.New(rand.NewPCG(seed, 23))}
	w := newShards(t, 1+chance.upTo(8))
	mode := modes["a store that cannot watch"]
	if chance.upTo(2) == 0 {
		mode = telling
	}
	ctx, cancel := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	for i := range 2 + chance.upTo(3) {
		r := w.join(t, string(rune('a'+i)), func(cfg *leaderelect.SlotsConfig) {
			if mode != nil {
				mode(cfg)
			}
			cfg.Lease.RetryPeriod = modelRetry
			cfg.Lease.Rand = chance.float
			cfg.Lease.DrainTimeout = time.Duration(chance.upTo(2)) * 3 * time.Second
		})
		w.mu.Lock()
		r.drain = time.Duration(chance.upTo(2)) * chance.duration(8*time.Second)
		w.mu.Unlock()
		took := 50*time.Millisecond + chance.duration(4*time.Second)
		workers.Go(func() { r.work(ctx, took) })
		after(chance.duration(3 * time.Second))
	}
	for range 6 {
		after(chance.duration(15 * time.Second))
		r := w.replicas[chance.upTo(len(w.replicas))]
		switch chance.upTo(3) {
		case 0:
			r.cut(chance.duration(40 * time.Second))
		case 1:
			_ = r.stop()
			after(chance.duration(5 * time.Second))
			r.start()
		default:
			r.cut(time.Second) // a hiccup
		}
		w.checkNow(t)
	}
	for _, r := range w.replicas {
		r.cut(0)
	}
	if w.slots > 1 {
		w.settle(t, lease+request+8*modelRetry, w.replicas...)
	} else {
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
