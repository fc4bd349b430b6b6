package controller

import (
	"sync"
	"sync/atomic"

	"github.com/setpoint-go/setpoint/internal/outcome"
)

// unfinishedKeys has the states of keys whose last reconciles did not finish. The zero value is ready for use. A key without a state costs
// no memory. While no key has one, a lookup costs one atomic read.
type unfinishedKeys[K comparable] struct {
	n atomic.Int64 // of keys; written with mu held

	mu sync.Mutex
	// mu guards the following. Invariant: no state is zero.
	keys map[K]unfinishedKey
}

// unfinishedKey is what happened to a key several times in a row.
type unfinishedKey struct {
	outcome.Unfinished
	parkFailed bool // the key was to be parked, and is not because Config.GaveUp has failed; its budget stays spent until an event comes
}

// of returns the state of key.
func (s *unfinishedKeys[K]) of(key K) unfinishedKey {
	if s.n.Load() == 0 { // nearly always
		return unfinishedKey{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[key]
}

// edit edits the state of key, and returns the new one. A state of zero costs no memory.
func (s *unfinishedKeys[K]) edit(key K, edit func(state *unfinishedKey)) unfinishedKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.keys[key]
	edit(&state)
	if state == (unfinishedKey{}) {
		delete(s.keys, key)
	} else {
		if s.keys == nil {
			s.keys = make(map[K]unfinishedKey)
		}
		s.keys[key] = state
	}
	s.n.Store(int64(len(s.keys)))
	return state
}

// failed records that a reconcile of key has failed, and returns its state.
func (s *unfinishedKeys[K]) failed(key K, conflict bool) unfinishedKey {
	if s.n.Load() == 0 {
		return unfinishedKey{}
	}
	return s.edit(key, func(state *unfinishedKey) { state.Fail(conflict) })
}

// parkFailed records that key was to be parked, and is tried again only because that has failed.
func (s *unfinishedKeys[K]) parkFailed(key K) {
	s.edit(key, func(state *unfinishedKey) { state.parkFailed = true })
}

// revive forgets that key was to be parked. It returns false if it was not.
func (s *unfinishedKeys[K]) revive(key K) bool {
	if !s.of(key).parkFailed {
		return false
	}
	s.end(key)
	return true
}

// end forgets key, which is finished or no longer retried.
func (s *unfinishedKeys[K]) end(key K) {
	if s.n.Load() > 0 {
		s.edit(key, func(state *unfinishedKey) { *state = unfinishedKey{} })
	}
}
