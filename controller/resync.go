package controller

import (
	"cmp"
	"context"
	"hash/maphash"
	"math/bits"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

// turn is a key, and when its resync is due, counted from the beginning of the period.
type turn[K comparable] struct {
	key   K
	after time.Duration
}

// resync adds each key again once in each Config.Resync, until ctx ends. The turn of a key is a random moment of the period, the
// same in all periods. So the keys are spread, and replicas that started together do not resync together.
func (c *Controller[K]) resync(ctx context.Context, syncers []informer.Syncer) {
	if informer.WaitForSync(ctx, syncers...) != nil {
		return
	}
	began := time.Now()
	for {
		for _, t := range c.turns(ctx) {
			if !sleepUntil(ctx, began.Add(t.after)) {
				return
			}
			c.probe(t.key)
		}
		began = began.Add(c.cfg.Resync)
		if !sleepUntil(ctx, began) {
			return
		}
		if late := time.Now(); late.Sub(began) > c.cfg.Resync { // the process was suspended
			began = late
		}
	}
}

// turns returns the keys that the watches know now, and those that are parked, in the order of their turns.
func (c *Controller[K]) turns(ctx context.Context) []turn[K] {
	known := make(map[K]struct{})
	for _, f := range c.feeds {
		f.Present(ctx, func(key K) { known[key] = struct{}{} })
	}
	for _, key := range c.queue.Parked() {
		known[key] = struct{}{}
	}
	turns := make([]turn[K], 0, len(known))
	for key := range known {
		part, _ := bits.Mul64(maphash.Comparable(c.seed, key), uint64(c.cfg.Resync))
		turns = append(turns, turn[K]{key, time.Duration(part)})
	}
	slices.SortFunc(turns, func(a, b turn[K]) int { return cmp.Compare(a.after, b.after) })
	return turns
}

// probe adds key once more. If it is parked, it gets one attempt, not a whole budget: unless news comes before the attempt has
// failed, it is parked again then.
func (c *Controller[K]) probe(key K) {
	c.streaks.SetProbe(key, true) // before it can be taken
	if !c.queue.DropParked(key) {
		c.streaks.SetProbe(key, false)
	}
	opts := AddOptions{Priority: c.cfg.Background}
	if c.cfg.Reasons {
		opts.Reason = "resync"
	}
	c.add(key, opts, false)
}

// sleepUntil waits until t. It returns false if ctx ends before.
func sleepUntil(ctx context.Context, t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
