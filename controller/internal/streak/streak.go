package streak

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// MaxConflicts is how many conflicts in a row count as unfinished. A conflict means that the reconcile has read stale data, and the next
// one most likely reads fresh data. Further conflicts count as failures.
const MaxConflicts = 8

// ConflictDelay is how long a key waits after its first conflict. It doubles with each conflict in a row.
const ConflictDelay = 5 * time.Millisecond

// Budget limits how often, and for how long, a key is tried before it is parked. A zero limit is none.
type Budget struct {
	Attempts int
	Elapsed  time.Duration
}

// Spent reports whether a failure of this attempt is the last one that the budget allows. The key has not finished since the
// earlier of since and first. The zero time is unknown.
func (b Budget) Spent(attempt int, since, first time.Time) bool {
	if b.Attempts > 0 && attempt >= b.Attempts {
		return true
	}
	began := earlier(since, first)
	return b.Elapsed > 0 && !began.IsZero() && time.Since(began) >= b.Elapsed
}

// Left returns how much of Elapsed is left to a key that has not finished since the earlier of since and first.
func (b Budget) Left(since, first time.Time) time.Duration {
	return b.Elapsed - time.Since(earlier(since, first))
}

// earlier returns the earlier of two times. The zero time is unknown.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Book remembers keys whose last reconciles did not finish, or that were parked. The zero value is ready for use.
type Book[K comparable] struct {
	n atomic.Int64 // of keys; written with mu held

	mu sync.Mutex
	// mu guards the following. Invariant: a streak has conflicts, since is set, or it is a probe.
	keys map[K]streak
}

type streak struct {
	conflicts int       // in a row
	since     time.Time // the end of the first reconcile that did not finish; zero if there is no limit
	probe     probe
}

// probe is what a resync has to do with a key.
type probe int

const (
	noProbe    probe = iota
	asked            // a resync is finding out whether the key is parked
	oneAttempt       // the key was parked, and a resync has given it one attempt
)

// Conflicts returns how many of the last reconciles of key were conflicts.
func (s *Book[K]) Conflicts(key K) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[key].conflicts
}

// Unfinished records that a reconcile of key did not finish. It returns the number of conflicts in a row, and since when key is unfinished
// if there is a limit.
func (s *Book[K]) Unfinished(key K, conflict, limited bool) (conflicts int, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.keys[key]
	if conflict {
		now.conflicts++
	} else {
		now.conflicts = 0
	}
	if limited && now.since.IsZero() {
		now.since = time.Now()
	}
	s.setLocked(key, now)
	return now.conflicts, now.since
}

// Failed records that a reconcile of key has failed, by a conflict or something else. It returns since when key is unfinished, if that is
// known.
func (s *Book[K]) Failed(key K, conflict bool) (since time.Time) {
	if s.n.Load() == 0 {
		return time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.keys[key]
	if !conflict {
		now.conflicts = 0
		s.setLocked(key, now)
	}
	return now.since
}

// BeginProbe begins a resync of key. It returns false if one has begun before, and has not ended or has given key an attempt that is left.
// Otherwise the caller calls EndProbe.
func (s *Book[K]) BeginProbe(key K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.keys[key]
	if now.probe != noProbe {
		return false
	}
	now.probe = asked
	s.setLocked(key, now)
	return true
}

// EndProbe records whether key was parked, and so has one attempt unless an event has arrived since BeginProbe.
func (s *Book[K]) EndProbe(key K, parked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.keys[key]
	if now.probe != asked {
		return
	}
	if now.probe = noProbe; parked {
		now.probe = oneAttempt
	}
	s.setLocked(key, now)
}

// ClearProbe records that an event has arrived, which gives key a whole budget.
func (s *Book[K]) ClearProbe(key K) {
	if s.n.Load() == 0 { // nearly always
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.keys[key]
	now.probe = noProbe
	s.setLocked(key, now)
}

// IsProbe reports whether key was parked and has one attempt.
func (s *Book[K]) IsProbe(key K) bool {
	if s.n.Load() == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[key].probe == oneAttempt
}

// End forgets key, which is finished or no longer retried.
func (s *Book[K]) End(key K) { s.Parked(key, false) }

// Parked is End for a key that is parked. If again is true, the key has been added again. If it had one attempt, and only a resync has added
// it, it has one more.
func (s *Book[K]) Parked(key K, again bool) {
	if s.n.Load() == 0 { // nearly always
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var now streak
	if p := s.keys[key].probe; again || p == asked { // after asked, EndProbe follows
		now.probe = p
	}
	s.setLocked(key, now)
}

func (s *Book[K]) setLocked(key K, now streak) {
	if now == (streak{}) {
		delete(s.keys, key)
	} else {
		if s.keys == nil {
			s.keys = make(map[K]streak)
		}
		s.keys[key] = now
	}
	s.n.Store(int64(len(s.keys)))
}

// Len returns the number of keys that are remembered.
func (s *Book[K]) Len() int { return int(s.n.Load()) }

// CheckInvariants returns an error if what is written at the fields does not hold. It is for tests.
func (s *Book[K]) CheckInvariants() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.n.Load(); n != int64(len(s.keys)) {
		return fmt.Errorf("streak: %d keys, counted %d", len(s.keys), n)
	}
	for key, now := range s.keys {
		if now == (streak{}) || now.conflicts > MaxConflicts {
			return fmt.Errorf("streak: %v has %+v", key, now)
		}
	}
	return nil
}

// MaxSuperseded is how often in a row a reconcile of one key is ended because of a newer event. The one after that is not ended, so that a
// key with constant events is still reconciled.
const MaxSuperseded = 8

// Flights are the reconciles that a newer event may end.
type Flights[K comparable] struct {
	mu sync.Mutex
	// mu guards the following. Invariant: a key is in ended only if its last reconcile was superseded, or is one that must not be ended.
	cancels map[K]context.CancelCauseFunc
	ended   map[K]int // how often in a row
}

// NewFlights returns Flights without a reconcile.
func NewFlights[K comparable]() *Flights[K] {
	return &Flights[K]{cancels: make(map[K]context.CancelCauseFunc), ended: make(map[K]int)}
}

// Begin records that a reconcile of key begins, which cancel ends.
func (f *Flights[K]) Begin(key K, cancel context.CancelCauseFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended[key] < MaxSuperseded {
		f.cancels[key] = cancel
	}
}

// End records that the reconcile of key has ended.
func (f *Flights[K]) End(key K, superseded bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.cancels, key)
	if superseded {
		f.ended[key]++
	} else {
		delete(f.ended, key)
	}
}

// UnderWay returns a function that ends the reconcile of key in flight, and no later one. It returns nil if there is none that may be
// ended.
func (f *Flights[K]) UnderWay(key K) context.CancelCauseFunc {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cancels[key]
}

// CheckInvariants returns an error if an invariant at the fields does not hold, or if a reconcile is in flight although running is false.
// It is for tests.
func (f *Flights[K]) CheckInvariants(running bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, n := range f.ended {
		if n <= 0 || n > MaxSuperseded {
			return fmt.Errorf("streak: %v was superseded %d times", key, n)
		}
	}
	if !running && len(f.cancels) > 0 {
		return fmt.Errorf("streak: %d reconciles are under way", len(f.cancels))
	}
	return nil
}
