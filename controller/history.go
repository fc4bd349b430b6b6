package controller

import (
	"strings"
	"sync"
	"time"
)

// Ended describes a reconcile that has ended. [Inspector] returns it.
type Ended struct {
	At       time.Time // of its end
	Duration time.Duration
	Outcome  Outcome
	Attempt  int    // see [Report]
	Error    string // at most the first 500 bytes of the text of the error; empty after Succeeded
}

// historySize is the number of reconciles that a controller remembers, of all keys together.
const historySize = 2048

// mostError is the number of bytes that are remembered of an error.
const mostError = 500

// history is the latest reconciles of a controller. Its memory is bounded, however many keys there are. The zero value is ready for use.
type history[K comparable] struct {
	mu sync.Mutex
	// mu guards the following. Workers hold it for a copy, and History for a pass over the ring.
	ring []remembered[K] // grows up to historySize
	next int             // the place of the oldest, once the ring is full
}

// remembered is a reconcile and its key.
type remembered[K comparable] struct {
	key K
	Ended
}

// add remembers a reconcile that has ended at a time, and forgets the oldest of more than historySize.
func (h *history[K]) add(r Report[K], at time.Time) {
	one := remembered[K]{r.Key, Ended{At: at, Duration: r.Duration, Outcome: r.Outcome, Attempt: r.Attempt}}
	if r.Err != nil {
		text := r.Err.Error()
		one.Error = strings.Clone(text[:min(mostError, len(text))]) // no more of a long text stays in memory
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ring) < historySize {
		h.ring = append(h.ring, one)
		return
	}
	h.ring[h.next] = one
	h.next = (h.next + 1) % historySize
}

// of returns the reconciles of a key, the latest first.
func (h *history[K]) of(key K) (all []Ended) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.ring {
		if one := h.ring[(h.next+len(h.ring)-1-i)%len(h.ring)]; one.key == key {
			all = append(all, one.Ended)
		}
	}
	return all
}
