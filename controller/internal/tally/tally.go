package tally

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// Outcomes is the number of outcomes that a Tally can count. The first is 0.
const Outcomes = 16

// Tally counts reconciles. The zero value has counted none. Several goroutines may call its methods concurrently.
type Tally struct {
	outcomes       [Outcomes]atomic.Uint64 // excluding requeued ones, so that the difference never decreases
	requeued       [Outcomes]atomic.Uint64
	panics, fenced atomic.Uint64

	durations [durationBounds + 1]atomic.Uint64 // by the place of the bound
	total     atomic.Int64                      // nanoseconds
}

// Reconcile is the result of one reconcile, for a Tally.
type Reconcile struct {
	Outcome                    int
	Requeued, Panicked, Fenced bool
	Took                       time.Duration
}

// Sums are the counts of a Tally.
type Sums struct {
	Outcomes                 [Outcomes]uint64
	Requeued, Panics, Fenced uint64
	Durations                workqueue.Histogram // with the bounds of controller-runtime
}

// durationBounds is the number of the bounds of Sums.Durations, and firstBound the first of them.
const (
	durationBounds = 40
	firstBound     = 5 * time.Millisecond
)

// bounds returns the bounds of Sums.Durations.
func bounds() [durationBounds]time.Duration {
	const ms, s = time.Millisecond, time.Second
	return [...]time.Duration{
		firstBound, 10 * ms, 25 * ms, 50 * ms, 100 * ms, 150 * ms, 200 * ms, 250 * ms, 300 * ms, 350 * ms, 400 * ms, 450 * ms, 500 * ms,
		600 * ms, 700 * ms, 800 * ms, 900 * ms, s, 1250 * ms, 1500 * ms, 1750 * ms, 2 * s, 2500 * ms, 3 * s, 3500 * ms, 4 * s,
		4500 * ms, 5 * s, 6 * s, 7 * s, 8 * s, 9 * s, 10 * s, 15 * s, 20 * s, 25 * s, 30 * s, 40 * s, 50 * s, 60 * s,
	}
}

// Note counts a reconcile.
func (t *Tally) Note(r Reconcile) {
	if r.Requeued {
		t.requeued[r.Outcome].Add(1)
	} else {
		t.outcomes[r.Outcome].Add(1)
	}
	if r.Panicked {
		t.panics.Add(1)
	}
	if r.Fenced {
		t.fenced.Add(1)
	}
	i := 0
	if r.Took > firstBound { // most take less
		all := bounds()
		i, _ = slices.BinarySearch(all[:], r.Took)
	}
	t.durations[i].Add(1)
	t.total.Add(int64(r.Took))
}

// Sums returns what t has counted. The caller may keep and change it.
func (t *Tally) Sums() Sums {
	s := Sums{Panics: t.panics.Load(), Fenced: t.fenced.Load()}
	for i := range t.outcomes {
		requeued := t.requeued[i].Load()
		s.Outcomes[i] = requeued + t.outcomes[i].Load()
		s.Requeued += requeued
	}
	all := bounds()
	s.Durations = workqueue.Histogram{Bounds: all[:], Sum: time.Duration(t.total.Load())}
	for i := range t.durations {
		s.Durations.Counts = append(s.Durations.Counts, t.durations[i].Load())
	}
	return s
}
