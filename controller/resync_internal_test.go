package controller

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const period = time.Hour

// scheduleRun runs a jitteredSchedule of its keys, and records what they do.
type scheduleRun struct {
	keys   []int
	listed []time.Duration // when the keys were listed, since the beginning
	times  map[int][]time.Duration
	delay  func(key int) time.Duration // that resync takes
}

// run runs the schedule until ctx ends.
func (w *scheduleRun) run(ctx context.Context) {
	began := time.Now()
	w.times = make(map[int][]time.Duration)
	newJitteredSchedule[int](period).run(ctx, func(add func(int)) {
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

// runFor runs the schedule for a time, except for its last nanosecond.
func (w *scheduleRun) runFor(d time.Duration) {
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

func TestEachKeyHasOneMomentPerPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &scheduleRun{keys: append(numbers(100), numbers(100)...)}
		w.runFor(3 * period)
		if diff := cmp.Diff([]time.Duration{0, period, 2 * period}, w.listed); diff != "" {
			t.Errorf("w.listed mismatch (-want +got):\n%s", diff)
		}
		quarters := map[time.Duration]int{}
		for key, times := range w.times {
			if len(times) != 3 {
				t.Errorf("%v: len(times) = %d, want 3: %v", key, len(times), times)
			}
			if times[0] < 0 {
				t.Errorf("times[0] = %v, want at least 0", times[0])
			}
			if times[0] >= period {
				t.Errorf("times[0] = %v, want less than %v", times[0], period)
			}
			quarters[times[0]/(period/4)]++
			for i := range times {
				if got := times[i] - time.Duration(i)*period; got != times[0] {
					t.Errorf("%v: times[i]-time.Duration(i)*period = %v, want %v", key, got, times[0])
				}
			}
		}
		if len(w.times) != 100 {
			t.Errorf("len(w.times) = %d, want 100: %v", len(w.times), w.times)
		}
		for q := range time.Duration(4) {
			if quarters[q] <= 5 {
				t.Errorf("quarters[q] = %d, want more than 5: the moments are spread over the whole period", quarters[q])
			}
		}
	})
}

func TestProcessesGiveKeyDifferentMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &scheduleRun{keys: []int{1}}, &scheduleRun{keys: []int{1}}
		a.runFor(period)
		b.runFor(period)
		if reflect.DeepEqual(b.times, a.times) {
			t.Errorf("b.times = %v, want another value than %v", b.times, a.times)
		}
	})
}

func TestNewKeyIsResyncedInNextPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &scheduleRun{keys: []int{1}}
		w.delay = func(int) time.Duration { w.keys = []int{1, 2}; return 0 }
		w.runFor(3 * period)
		if len(w.times[1]) != 3 {
			t.Errorf("len(w.times[1]) = %d, want 3: %v", len(w.times[1]), w.times[1])
		}
		if len(w.times[2]) != 2 {
			t.Errorf("len(w.times[2]) = %d, want 2: %v", len(w.times[2]), w.times[2])
		}
	})
}

func TestPeriodsMissedDuringSuspendAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, late := range []time.Duration{period / 2, 5*period + period/2} {
			t.Log(late)
			w := &scheduleRun{keys: []int{1}}
			w.delay = func(int) time.Duration {
				w.delay = nil
				return late // no moment comes meanwhile, as in a suspended process
			}
			w.runFor(8 * period)
			// A delay shorter than a period moves no period. After a longer one a period begins at once.
			first := w.times[1][0]
			if late < period {
				if want := max(period, first+late); w.listed[1] != want {
					t.Errorf("w.listed[1] = %v, want %v", w.listed[1], want)
				}
				if w.listed[2] != 2*period {
					t.Errorf("w.listed[2] = %v, want %v", w.listed[2], 2*period)
				}
				if len(w.times[1]) != 8 {
					t.Errorf("len(w.times[1]) = %d, want 8: %v", len(w.times[1]), w.times[1])
				}
				continue
			}
			if want := first + late; w.listed[1] != want {
				t.Errorf("w.listed[1] = %v, want %v: at once", w.listed[1], want)
			}
			if want := first + late + period; w.listed[2] != want {
				t.Errorf("w.listed[2] = %v, want %v: and the next one a period later", w.listed[2], want)
			}
		}
	})
}

func TestScheduleEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, keys := range [][]int{nil, numbers(3)} { // it ends in the wait for a moment, and in the wait for a period
			w := &scheduleRun{keys: keys}
			began := time.Now()
			w.runFor(period / 2)
			if got := time.Since(began); got != period/2-1 {
				t.Errorf("time.Since(began) = %v, want %v", got, period/2-1)
			}
		}
	})
}

func TestNoResyncAfterContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &scheduleRun{keys: numbers(100)}
		w.delay = func(int) time.Duration {
			cancel()
			return 2 * period // all other moments have come by then
		}
		w.run(ctx)
		if len(w.times) != 1 {
			t.Errorf("len(w.times) = %d, want 1: %v", len(w.times), w.times)
		}
		if len(w.listed) != 1 {
			t.Errorf("len(w.listed) = %d, want 1: %v", len(w.listed), w.listed)
		}
	})
}
