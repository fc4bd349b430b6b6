package turns

import (
	"cmp"
	"context"
	"hash/maphash"
	"math/bits"
	"slices"
	"time"
)

// Turns gives each key a turn in each period. Its methods are safe for concurrent use.
type Turns[K comparable] struct {
	period time.Duration
	seed   maphash.Seed
}

// New returns Turns with a period, which must be positive.
func New[K comparable](period time.Duration) *Turns[K] {
	return &Turns[K]{period: period, seed: maphash.MakeSeed()}
}

// Run calls resync for each key in its turn until ctx ends. The first period begins now. At the beginning of each period Run calls present
// once, which calls add for each key that gets a turn. If present adds a key twice, the key has one turn.
func (ts *Turns[K]) Run(ctx context.Context, present func(add func(K)), resync func(K)) {
	began := time.Now()
	for {
		for _, t := range ts.of(present) {
			if !sleepUntil(ctx, began.Add(t.after)) {
				return
			}
			resync(t.key)
		}
		began = began.Add(ts.period)
		if !sleepUntil(ctx, began) {
			return
		}
		if late := time.Now(); late.Sub(began) > ts.period { // the process was suspended
			began = late
		}
	}
}

// turn is a key, and when its turn comes, counted from the beginning of the period.
type turn[K comparable] struct {
	key   K
	after time.Duration
}

// of returns the turns of the keys that are present now, in the order of time.
func (ts *Turns[K]) of(present func(add func(K))) []turn[K] {
	known := make(map[K]struct{})
	present(func(key K) { known[key] = struct{}{} })
	turns := make([]turn[K], 0, len(known))
	for key := range known {
		part, _ := bits.Mul64(maphash.Comparable(ts.seed, key), uint64(ts.period))
		turns = append(turns, turn[K]{key, time.Duration(part)})
	}
	slices.SortFunc(turns, func(a, b turn[K]) int { return cmp.Compare(a.after, b.after) })
	return turns
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
