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

// resync adds each key again at its moment, until ctx ends: those that the inputs know, and those that are parked.
func (c *Controller[K]) resync(ctx context.Context, syncers []informer.Syncer) {
	if informer.WaitForSync(ctx, syncers...) != nil {
		return
	}
	c.schedule.run(ctx, func(add func(K)) {
		c.inputs.present(noSlot, add)
		for _, key := range c.queue.Parked() {
			add(key)
		}
	}, c.addResync)
}

// addResync adds key for a resync.
func (c *Controller[K]) addResync(key K) {
	opts := AddOptions{Priority: c.cfg.Background}
	if c.cfg.Reasons {
		opts.Reason = "resync"
	}
	c.add(key, opts, false)
}

// jitteredSchedule gives each key its own random moment in each period. So the rate of resyncs is even, and replicas that started together
// do not resync together.
//
//  1. A key that is present when a period begins gets one moment in that period, the same in all periods of one schedule.
//  2. If the process was suspended for longer than a period, the periods that it missed are skipped.
//
// Its methods are safe for concurrent use.
type jitteredSchedule[K comparable] struct {
	period time.Duration
	seed   maphash.Seed
}

// newJitteredSchedule returns a schedule with a period, which must be positive.
func newJitteredSchedule[K comparable](period time.Duration) *jitteredSchedule[K] {
	return &jitteredSchedule[K]{period: period, seed: maphash.MakeSeed()}
}

// run calls resync for each key at its moment until ctx ends. The first period begins now. At the beginning of each period, run calls
// present once, which calls add for each key of the period. If present adds a key twice, resync is called once.
func (s *jitteredSchedule[K]) run(ctx context.Context, present func(add func(K)), resync func(K)) {
	began := time.Now()
	for {
		for _, m := range s.of(present) {
			if !sleepUntil(ctx, began.Add(m.after)) {
				return
			}
			resync(m.key)
		}
		began = began.Add(s.period)
		if !sleepUntil(ctx, began) {
			return
		}
		if late := time.Now(); late.Sub(began) > s.period { // the process was suspended
			began = late
		}
	}
}

// moment is a key and its moment, counted from the beginning of the period.
type moment[K comparable] struct {
	key   K
	after time.Duration
}

// of returns the moments of the keys that are present now, in the order of time.
func (s *jitteredSchedule[K]) of(present func(add func(K))) []moment[K] {
	keys := make(map[K]struct{})
	present(func(key K) { keys[key] = struct{}{} })
	moments := make([]moment[K], 0, len(keys))
	for key := range keys {
		part, _ := bits.Mul64(maphash.Comparable(s.seed, key), uint64(s.period))
		moments = append(moments, moment[K]{key, time.Duration(part)})
	}
	slices.SortFunc(moments, func(a, b moment[K]) int { return cmp.Compare(a.after, b.after) })
	return moments
}

// sleepUntil waits until t. It returns false if ctx ends first.
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
