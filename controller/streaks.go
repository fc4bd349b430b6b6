package controller

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// maxConflicts is how many conflicts in a row count as unfinished. A conflict says that the reconcile has read something stale,
// and the next one most likely reads what is new. One that goes on for longer is a failure.
const maxConflicts = 8

// conflictDelay is how long a key waits after its first conflict. It doubles with each conflict in a row.
const conflictDelay = 5 * time.Millisecond

// streaks are the keys whose last reconciles did not finish, or that were parked, as far as that has to be remembered.
type streaks[K comparable] struct {
	n atomic.Int64 // of keys; written with mu held

	mu sync.Mutex
	// mu guards the following. Invariant: a streak has conflicts, since is set, or it is a probe.
	keys map[K]streak
}

type streak struct {
	conflicts int       // in a row
	since     time.Time // the end of the first reconcile that did not finish; zero if there is no limit
	probe     bool      // the key was parked, and a resync has given it one attempt
}

// conflicts returns how many of the last reconciles of key were conflicts.
func (s *streaks[K]) conflicts(key K) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[key].conflicts
}

// unfinished notes that a reconcile of key did not finish. It returns the number of conflicts in a row, and since when key is
// unfinished if there is a limit.
func (s *streaks[K]) unfinished(key K, conflict, limited bool) (conflicts int, since time.Time) {
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

// failed notes that a reconcile of key has failed, by a conflict or something else. It returns since when key is unfinished,
// if that is known.
func (s *streaks[K]) failed(key K, conflict bool) (since time.Time) {
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

// setProbe notes whether key was parked and has one attempt.
func (s *streaks[K]) setProbe(key K, probe bool) {
	if !probe && s.n.Load() == 0 { // nearly always
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.keys[key]
	now.probe = probe
	s.setLocked(key, now)
}

// isProbe reports whether key was parked and has one attempt.
func (s *streaks[K]) isProbe(key K) bool {
	if s.n.Load() == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[key].probe
}

// end forgets key, which is finished or given up.
func (s *streaks[K]) end(key K) {
	if s.n.Load() == 0 { // nearly always
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setLocked(key, streak{})
}

func (s *streaks[K]) setLocked(key K, now streak) {
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

// maxSuperseded is how often in a row a reconcile of one key is ended because of a newer event. The one after that is left
// in peace, so that a key to which something happens all the time is reconciled nonetheless.
const maxSuperseded = 8

// flights are the reconciles that a newer event may end.
type flights[K comparable] struct {
	mu sync.Mutex
	// mu guards the following. Invariant: a key is in ended only if its last reconcile was superseded, or is one that is
	// left in peace.
	cancels map[K]context.CancelCauseFunc
	ended   map[K]int // how often in a row
}

func newFlights[K comparable]() *flights[K] {
	return &flights[K]{cancels: make(map[K]context.CancelCauseFunc), ended: make(map[K]int)}
}

// begin says that a reconcile of key begins, which cancel ends.
func (f *flights[K]) begin(key K, cancel context.CancelCauseFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended[key] < maxSuperseded {
		f.cancels[key] = cancel
	}
}

// end says that the reconcile of key has ended.
func (f *flights[K]) end(key K, superseded bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.cancels, key)
	if superseded {
		f.ended[key]++
	} else {
		delete(f.ended, key)
	}
}

// underWay returns what ends the reconcile of key that is under way, and no later one; nil if there is none that may be ended.
func (f *flights[K]) underWay(key K) context.CancelCauseFunc {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cancels[key]
}
