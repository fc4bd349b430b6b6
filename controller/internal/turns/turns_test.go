package turns_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/controller/internal/turns"
)

const period = time.Hour

// world runs Turns of its keys, and records what they do.
type world struct {
	keys   []int
	listed []time.Duration // when the keys were listed, since the beginning
	times  map[int][]time.Duration
	delay  func(key int) time.Duration // that resync takes
}

// run runs Turns until ctx ends.
func (w *world) run(ctx context.Context) {
	began := time.Now()
	w.times = make(map[int][]time.Duration)
	turns.New[int](period).Run(ctx, func(add func(int)) {
		w.listed = append(w.listed, time.Since(began))
		for _, key := range w.keys {
			add(key)
		}
	}, func(key int) {
		w.times[key] = append(w.times[key], time.Since(began))
		if w.delay != nil {
			time.Sleep(w.delay(key))
		}
	})
}

// runFor runs Turns for a time, except for its last nanosecond.
func (w *world) runFor(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d-1)
	defer cancel()
	w.run(ctx)
}

func numbers(n int) (keys []int) {
	for i := range n {
		keys = append(keys, i)
	}
	return keys
}

// Guarantees 1 and 2.
func TestEachKeyHasOneTurnPerPeriodAtFixedOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{keys: append(numbers(100), numbers(100)...)}
		w.runFor(3 * period)
		assert.Equal(t, []time.Duration{0, period, 2 * period}, w.listed)
		quarters := map[time.Duration]int{}
		for key, times := range w.times {
			assert.Len(t, times, 3, key)
			assert.GreaterOrEqual(t, times[0], time.Duration(0))
			assert.Less(t, times[0], period)
			quarters[times[0]/(period/4)]++
			for i := range times {
				assert.Equal(t, times[0], times[i]-time.Duration(i)*period, key)
			}
		}
		assert.Len(t, w.times, 100)
		for q := range time.Duration(4) {
			assert.Greater(t, quarters[q], 5, "turns are spread over the whole period")
		}
	})
}

func TestProcessesGiveKeyDifferentTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &world{keys: []int{1}}, &world{keys: []int{1}}
		a.runFor(period)
		b.runFor(period)
		assert.NotEqual(t, a.times, b.times)
	})
}

func TestNewKeyHasFirstTurnInNextPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{keys: []int{1}}
		w.delay = func(int) time.Duration { w.keys = []int{1, 2}; return 0 }
		w.runFor(3 * period)
		assert.Len(t, w.times[1], 3)
		assert.Len(t, w.times[2], 2)
	})
}

// Guarantee 3.
func TestPeriodsMissedDuringSuspendAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, late := range []time.Duration{period / 2, 5*period + period/2} {
			t.Log(late)
			w := &world{keys: []int{1}}
			w.delay = func(int) time.Duration {
				w.delay = nil
				return late // no turn comes meanwhile, as in a suspended process
			}
			w.runFor(8 * period)
			// A delay shorter than a period moves no period. After a longer one a period begins at once.
			first := w.times[1][0]
			if late < period {
				assert.Equal(t, max(period, first+late), w.listed[1])
				assert.Equal(t, 2*period, w.listed[2])
				assert.Len(t, w.times[1], 8)
				continue
			}
			assert.Equal(t, first+late, w.listed[1], "at once")
			assert.Equal(t, first+late+period, w.listed[2], "and the next one a period later")
		}
	})
}

// Guarantee 4.
func TestRunReturnsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, keys := range [][]int{nil, numbers(3)} { // it ends in the wait for a turn, and in the wait for a period
			w := &world{keys: keys}
			began := time.Now()
			w.runFor(period / 2)
			assert.Equal(t, period/2-1, time.Since(began))
		}
	})
}

func TestNoTurnAfterContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{keys: numbers(100)}
		w.delay = func(int) time.Duration {
			cancel()
			return 2 * period // all other turns are due by then
		}
		w.run(ctx)
		assert.Len(t, w.times, 1)
		assert.Len(t, w.listed, 1)
	})
}
