package controller

import "time"

// expectation is one of the Expectations for which a key of a controller may wait.
type expectation[K comparable] struct {
	Expectations[K]
	kind expectationKind
	name string // in Stats.HeldBy
}

type expectationKind int

const (
	ofCaller expectationKind = iota // Config.Expectations
	ofUnread                        // unreadKeys: the object of the key can be read
	ofCache                         // storeCache: the cache shows what the key has written
)

// expectationSet is several expectations, numbered from 0. A key waits for the one that expires last.
type expectationSet[K comparable] []expectation[K]

// Expires reports whether key waits, until when, and for which expectation. The zero time is never.
func (all expectationSet[K]) Expires(key K) (until time.Time, on int, waiting bool) {
	unlimited := false
	for i, e := range all {
		at, waits := e.Expires(key)
		if !waits || unlimited {
			continue
		}
		if unlimited = at.IsZero(); unlimited || at.After(until) {
			until, on = at, i
		}
		waiting = true
	}
	return until, on, waiting
}

// Notify registers f with each of them: see [Expectations].
func (all expectationSet[K]) Notify(f func(key K)) (stop func()) {
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
