package wait_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/wait"
)

// always returns a source of random numbers that knows one.
func always(f float64) func() float64 { return func() float64 { return f } }

func TestDelayGrowsByFactorUpToCap(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name string
		b    wait.Backoff
		want []time.Duration
	}{
		{"the zero value waits for nothing", wait.Backoff{}, []time.Duration{0, 0, 0}},
		{"without a factor the delay is constant", wait.Backoff{Duration: ms}, []time.Duration{ms, ms, ms}},
		{"a factor multiplies", wait.Backoff{Duration: ms, Factor: 5}, []time.Duration{ms, 5 * ms, 25 * ms, 125 * ms}},
		{"a factor may be fractional, and the delay is rounded", wait.Backoff{Duration: 10 * ms, Factor: 1.4}, []time.Duration{10 * ms, 14 * ms, 19600 * time.Microsecond}},
		{"a factor below 1 shrinks", wait.Backoff{Duration: 8 * ms, Factor: 0.5}, []time.Duration{8 * ms, 4 * ms, 2 * ms}},
		{"a negative factor is ignored", wait.Backoff{Duration: ms, Factor: -2}, []time.Duration{ms, ms, ms}},
		{"a NaN factor is ignored", wait.Backoff{Duration: ms, Factor: math.NaN()}, []time.Duration{ms, ms, ms}},
		{"an infinite factor jumps to the cap", wait.Backoff{Duration: ms, Factor: math.Inf(1), Cap: 9 * ms}, []time.Duration{ms, 9 * ms, 9 * ms}},
		{"the cap ends only the growth", wait.Backoff{Duration: ms, Factor: 2, Cap: 3 * ms, Steps: 2}, []time.Duration{ms, 2 * ms, 3 * ms, 3 * ms}},
		{"the cap binds the first delay too", wait.Backoff{Duration: 5 * ms, Cap: 3 * ms}, []time.Duration{3 * ms, 3 * ms}},
		{"the factor shrinks what the cap allows", wait.Backoff{Duration: 8 * ms, Factor: 0.5, Cap: 3 * ms}, []time.Duration{3 * ms, 3 * ms, 2 * ms}},
		{"a negative duration is 0", wait.Backoff{Duration: -ms, Factor: 2}, []time.Duration{0, 0, 0}},
		{"a negative cap is ignored", wait.Backoff{Duration: ms, Factor: 2, Cap: -1}, []time.Duration{ms, 2 * ms, 4 * ms}},
		{"a long constant delay is exact", wait.Backoff{Duration: math.MaxInt64 - 1}, []time.Duration{math.MaxInt64 - 1, math.MaxInt64 - 1}},
		{"also with a factor of 1", wait.Backoff{Duration: math.MaxInt64 - 1, Factor: 1}, []time.Duration{math.MaxInt64 - 1, math.MaxInt64 - 1}},
		{"the first delay is exact", wait.Backoff{Duration: math.MaxInt64 - 1, Factor: 0.5}, []time.Duration{math.MaxInt64 - 1, 1 << 62}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []time.Duration
			for n := range tc.want {
				got = append(got, tc.b.Delay(n))
			}
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.want[0], tc.b.Delay(-1), "a negative n counts as 0")
		})
	}
}

func TestDelayDoesNotOverflowWithManyFailures(t *testing.T) {
	b := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 1}
	for _, n := range []int{62, 63, 64, 1 << 20, math.MaxInt / 2, math.MaxInt} {
		assert.Equal(t, time.Duration(math.MaxInt64), b.Delay(n), "n=%d", n)
	}
	b.Cap = time.Minute
	b.Rand = always(0)
	for _, n := range []int{62, 63, 64, 1 << 20, math.MaxInt / 2, math.MaxInt} {
		assert.Equal(t, time.Minute, b.Delay(n), "n=%d", n)
	}
}

// As a float64, the largest duration equals the next number, which exceeds time.Duration.
func TestDelayJustPastMaxDurationDoesNotOverflow(t *testing.T) {
	const half = time.Duration(1 << 62)
	grown := wait.Backoff{Duration: half, Factor: 2}
	assert.Equal(t, time.Duration(math.MaxInt64), grown.Delay(1), "2^62 doubled")
	jittered := wait.Backoff{Duration: half, Jitter: 1, Rand: always(1)}
	assert.Equal(t, time.Duration(math.MaxInt64), jittered.Delay(0), "2^62 plus as much random jitter")
	odd := wait.Backoff{Duration: half + 1<<20, Jitter: 1, Rand: always(float64(half-1<<20) / float64(half+1<<20))}
	assert.Equal(t, time.Duration(math.MaxInt64), odd.Delay(0))
}

func TestJitterIsAFractionOfDelay(t *testing.T) {
	for _, tc := range []struct {
		name         string
		jitter, rand float64
		want         time.Duration
	}{
		{"0 means no jitter, not 100%", 0, 0.9, 100},
		{"the smallest random number adds nothing", 0.5, 0, 100},
		{"half of the range", 0.5, 0.5, 125},
		{"the whole range", 0.5, 1, 150},
		{"more than the delay itself", 3, 0.5, 250},
		{"a negative fraction is ignored", -0.5, 0.5, 100},
		{"a NaN fraction is ignored", math.NaN(), 0.5, 100},
		{"an infinite fraction saturates", math.Inf(1), 0.5, math.MaxInt64},
		{"an infinite fraction of zero is zero", math.Inf(1), 0, 100},
		{"a random number above 1 counts as 1", 0.5, 7, 150},
		{"a negative random number counts as 0", 0.5, -7, 100},
		{"a NaN random number counts as 0", 0.5, math.NaN(), 100},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := wait.Backoff{Duration: 100, Jitter: tc.jitter, Rand: always(tc.rand)}
			assert.Equal(t, tc.want, b.Delay(0))
			assert.Equal(t, tc.want, b.Delay(9), "jitter must not accumulate")
		})
	}
	t.Run("it is added to the cap, not cut by it", func(t *testing.T) {
		b := wait.Backoff{Duration: 100, Factor: 10, Jitter: 0.5, Cap: 200, Rand: always(0.5)}
		assert.Equal(t, time.Duration(250), b.Delay(4))
	})
	t.Run("without jitter no random number is drawn", func(t *testing.T) {
		b := wait.Backoff{Duration: 100, Rand: func() float64 { panic("drawn") }}
		assert.Equal(t, time.Duration(100), b.Delay(0))
	})
	t.Run("the default random source covers the range", func(t *testing.T) {
		b := wait.Backoff{Duration: 1000, Jitter: 0.5}
		low, high := b.Delay(0), b.Delay(0)
		for range 1000 {
			d := b.Delay(0)
			low, high = min(low, d), max(high, d)
		}
		assert.GreaterOrEqual(t, low, time.Duration(1000))
		assert.LessOrEqual(t, high, time.Duration(1500))
		assert.Less(t, low, time.Duration(1100))
		assert.Greater(t, high, time.Duration(1400))
	})
}

func TestDelaysMatchSteps(t *testing.T) {
	b := wait.Backoff{Duration: 1, Factor: 2, Steps: 4, Cap: 3}
	want := []time.Duration{1, 2, 3}
	assert.Equal(t, want, slices.Collect(b.Delays()))
	assert.Equal(t, want, slices.Collect(b.Delays()), "ranging does not consume it")

	b.Steps = 1
	assert.Empty(t, slices.Collect(b.Delays()), "no delay follows the only attempt")

	b.Steps = 0
	n := 0
	for range b.Delays() {
		if n++; n == 1000 {
			break
		}
	}
	assert.Equal(t, 1000, n, "0 steps are unlimited")
}

func TestBackoffIsZero(t *testing.T) {
	assert.True(t, wait.Backoff{}.IsZero())
	for _, b := range []wait.Backoff{{Duration: 1}, {Factor: 1}, {Jitter: 1}, {Steps: 1}, {Cap: 1}, {Rand: always(0)}} {
		assert.False(t, b.IsZero(), "%+v", b)
	}
}

func FuzzDelayIsBounded(f *testing.F) {
	f.Add(int64(time.Second), 2.0, 0.1, int64(time.Minute), 0.5, 3)
	f.Add(int64(math.MaxInt64), math.MaxFloat64, math.Inf(1), int64(0), 1.0, math.MaxInt)
	f.Add(int64(1), math.SmallestNonzeroFloat64, 0.1, int64(1), math.NaN(), math.MaxInt)
	f.Add(int64(1<<62+700), 1.0, 1.0, int64(0), 0.99999999999999, 0)
	f.Add(int64(-5), -1.0, -1.0, int64(-1), -1.0, -1)
	f.Fuzz(func(t *testing.T, duration int64, factor, jitter float64, limit int64, random float64, n int) {
		b := wait.Backoff{
			Duration: time.Duration(duration), Factor: factor, Jitter: jitter,
			Cap: time.Duration(limit), Rand: always(random),
		}
		d := b.Delay(n)
		if d < 0 {
			t.Fatalf("%+v.Delay(%d) = %d is negative", b, n, d)
		}
		if limit > 0 {
			fraction := 0.0
			if jitter > 0 {
				fraction = jitter
			}
			if most := float64(limit) * (1 + fraction); float64(d) > most*(1+1e-12) {
				t.Fatalf("%+v.Delay(%d) = %d is more than %g", b, n, d, most)
			}
		}
		plain := b
		plain.Jitter = 0
		if least := plain.Delay(n); d < least {
			t.Fatalf("%+v.Delay(%d) = %d is less than %d, the delay before jitter", b, n, d, least)
		}
	})
}
