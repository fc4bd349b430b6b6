package agenda

import "time"

// Expectations tracks the keys for which a cache is behind. It is controller.Expectations.
type Expectations[K comparable] interface {
	Expires(key K) (at time.Time, waiting bool)
	Notify(f func(key K)) (stop func())
}

// All is several Expectations, numbered from 0. A key waits for the one that expires last.
type All[K comparable] []Expectations[K]

// Expires reports whether key waits, until when, and for which Expectations. The zero time is never.
func (all All[K]) Expires(key K) (until time.Time, on int, waiting bool) {
	never := false
	for i, e := range all {
		at, waits := e.Expires(key)
		if !waits || never {
			continue
		}
		if never = at.IsZero(); never || at.After(until) {
			until, on = at, i
		}
		waiting = true
	}
	return until, on, waiting
}

// Notify registers f with each of them: see controller.Expectations.
func (all All[K]) Notify(f func(key K)) (stop func()) {
	stops := make([]func(), len(all))
	for i, e := range all {
		stops[i] = e.Notify(f)
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}
