package wait

import (
	"iter"
	"math"
	"math/rand/v2"
	"time"
)

// Backoff describes the delays between attempts: the first delay, its growth, its jitter, and the number of attempts. A
// Backoff has no state. The caller counts the failures and asks [Backoff.Delay] for the next delay.
//
// The zero value has no delays and no last attempt. A Backoff may be copied. Several goroutines may use it concurrently if
// they may call its Rand concurrently.
type Backoff struct {
	// Duration is the first delay. A negative Duration counts as 0.
	Duration time.Duration

	// Factor multiplies the delay after each attempt. A factor of 1 keeps the delay constant; a factor below 1 shrinks it. A
	// factor that is 0, negative, or NaN counts as 1.
	Factor float64

	// Jitter is the random part, as a fraction of the delay: a delay of d becomes a random one in [d, d*(1+Jitter)]. 0 means no
	// jitter. A Jitter that is negative or NaN counts as 0.
	Jitter float64

	// Steps is the number of attempts. There are Steps-1 delays between them, and no delay after the last attempt. If Steps is
	// 0 or negative, the number of attempts is unlimited.
	Steps int

	// Cap is the longest delay, without jitter. Once a growing delay has reached Cap, it stays there, and attempts continue. If
	// Cap is 0 or negative, only the largest time.Duration limits the delay.
	Cap time.Duration

	// Rand returns random numbers in [0, 1). Defaults to math/rand/v2's Float64.
	Rand func() float64
}

// Delay returns the n-th delay, counted from 0: Duration*Factor^n, at most Cap, plus jitter. It is never negative and never
// more than Cap*(1+Jitter). Delay ignores Steps. A negative n counts as 0.
func (b Backoff) Delay(n int) time.Duration {
	return b.jitter(b.grow(n))
}

// Delays returns the delays between Steps attempts, in order: Steps-1 delays, or an endless sequence if Steps is 0 or negative.
// Each range over the result starts with the first delay.
func (b Backoff) Delays() iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for n := 0; b.Steps <= 0 || n < b.Steps-1; n++ {
			if !yield(b.Delay(n)) {
				return
			}
		}
	}
}

// IsZero reports whether no field is set. A Config with a Backoff uses it to apply its own default.
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
	// Compare as float64: a value that overflows a Duration is still larger than limit there, if only as +Inf.
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
		return d // also if extra is NaN, as infinity times 0 is
	}
	if room := math.MaxInt64 - d; extra >= float64(room) {
		return math.MaxInt64
	}
	return d + time.Duration(extra)
}
