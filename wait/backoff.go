package wait

import (
	"iter"
	"math"
	"math/rand/v2"
	"time"
)

// Backoff describes delays between attempts: a first one, how they grow, how much chance is in them, and how often to
// try. It holds no state: whoever tries counts the failures, and asks for [Backoff.Delay].
//
// The zero value waits for no time and has no end. A value may be copied and used by many goroutines at once, if its
// Rand may.
type Backoff struct {
	// Duration is the first delay. A negative one counts as 0.
	Duration time.Duration

	// Factor multiplies the delay from one attempt to the next. 1 keeps it constant, less than 1 shrinks it. 0, negative
	// and undefined factors count as 1.
	Factor float64

	// Jitter is the random part, as a fraction of the delay: a delay of d is drawn from [d, d*(1+Jitter)]. 0 is no
	// jitter. Negative and undefined fractions count as 0.
	Jitter float64

	// Steps is how often to try. Between Steps attempts are Steps-1 delays: nobody waits after the last. 0, or less, is
	// without end.
	Steps int

	// Cap bounds the delay before jitter is added. A delay that has reached it stays there; attempts go on. 0, or less,
	// is no bound but the largest time.Duration.
	Cap time.Duration

	// Rand returns random numbers in [0, 1). Defaults to math/rand/v2's Float64.
	Rand func() float64
}

// Delay returns the n-th delay, counted from 0: Duration*Factor^n, but at most Cap, and then jittered. It is never
// negative and never more than Cap*(1+Jitter). Steps is not looked at. A negative n counts as 0.
func (b Backoff) Delay(n int) time.Duration {
	return b.jitter(b.grow(n))
}

// Delays returns the delays between Steps attempts, in order: Steps-1 of them, or without end when Steps is 0. Ranging
// over it twice starts twice.
func (b Backoff) Delays() iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for n := 0; b.Steps <= 0 || n < b.Steps-1; n++ {
			if !yield(b.Delay(n)) {
				return
			}
		}
	}
}

// IsZero reports whether no field is set, so that a Config that contains a Backoff can put its own default there.
func (b Backoff) IsZero() bool {
	return b.Duration == 0 && b.Factor == 0 && b.Jitter == 0 && b.Steps == 0 && b.Cap == 0 && b.Rand == nil
}

// grow returns the n-th delay without jitter.
func (b Backoff) grow(n int) time.Duration {
	limit := time.Duration(math.MaxInt64)
	if b.Cap > 0 {
		limit = b.Cap
	}
	d := min(max(b.Duration, 0), limit)
	if d == 0 || n <= 0 || b.Factor == 1 || !(b.Factor > 0) {
		return d // exact; a float64 does not hold every duration
	}
	// The comparison is in float64, where what is too large is still in order: +Inf at worst.
	grown := math.Round(float64(b.Duration) * math.Pow(b.Factor, float64(n)))
	if grown >= float64(limit) {
		return limit
	}
	return time.Duration(grown)
}

// jitter adds the random part to d.
func (b Backoff) jitter(d time.Duration) time.Duration {
	if d == 0 || b.Jitter <= 0 {
		return d
	}
	random := b.Rand
	if random == nil {
		random = rand.Float64
	}
	extra := float64(d) * b.Jitter * min(max(random(), 0), 1)
	if !(extra > 0) {
		return d // also when something is not a number: infinity times 0 is none
	}
	if room := math.MaxInt64 - d; extra >= float64(room) {
		return math.MaxInt64
	}
	return d + time.Duration(extra)
}
