package controller

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/setpoint-go/setpoint/internal/reconcile"
)

// maxWrites is the number of writes of one key that are remembered. An event of an earlier write counts as one of another program.
const maxWrites = 256

// ownWrites distinguishes the events of a key's own writes from those of other programs: an event of an own write must neither revive a key that
// was parked, nor end the backoff of one that has failed. A change is known to be an own write if own writes lead from the version before
// it to the version after it, so a change by another program is never mistaken for one, even if a list has merged the two.
//
// Whether a reconcile fails is known when it ends, and the version of a write when its reply has arrived. The event may come earlier. So
// events that are, or may be, those of own writes are kept back until then. All others are added at once.
type ownWrites[K comparable] struct {
	add func(key K, opts AddOptions, news bool)

	n atomic.Int64 // of keys; written with mu held

	mu sync.Mutex
	// mu guards the following. Invariants:
	//
	//  1. A key is here from its first write until it ends without a failure.
	//  2. open has events only while a call is writing, and ownEvents only while a reconcile is in flight.
	keys map[K]*ownKey
}

// ownKey is the writes and events of one key.
type ownKey struct {
	inFlight  bool // a reconcile
	writing   int  // calls of the store that have not returned
	writes    []reconcile.Write
	open      []addition // came during a write, and may be of it
	ownEvents []addition // of own writes, came during a reconcile
}

// begin records that a reconcile of key begins.
func (o *ownWrites[K]) begin(key K) {
	if o.n.Load() == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if k := o.keys[key]; k != nil {
		k.inFlight = true
	}
}

// writes records that a reconcile of key is about to write, unless hasEnded returns true.
func (o *ownWrites[K]) writes(key K, hasEnded func() bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.keys[key]
	if k == nil {
		k = &ownKey{inFlight: true}
		o.setLocked(key, k) // before hasEnded: if it returns false, the end of the reconcile finds the key
		if hasEnded() {
			o.setLocked(key, nil)
			return
		}
	}
	k.writing++
}

// wrote records that a write of key has returned: w is zero if it has failed.
func (o *ownWrites[K]) wrote(key K, w reconcile.Write) {
	o.mu.Lock()
	k := o.keys[key]
	if k == nil {
		o.mu.Unlock()
		return
	}
	if w.Version > 0 && w.Version != w.Before {
		if len(k.writes) == maxWrites {
			k.writes = k.writes[1:]
		}
		k.writes = append(k.writes, w)
	}
	var others []addition
	if k.writing = max(k.writing-1, 0); k.writing == 0 {
		others = k.sort()
	}
	o.mu.Unlock()
	o.release(key, others)
}

// tracked reports whether keepBack may keep an event of key.
func (o *ownWrites[K]) tracked(key K) bool {
	if o.n.Load() == 0 { // nearly always
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.keys[key] != nil
}

// keepBack reports whether an event of key is kept back, or is of no interest. Otherwise the caller adds the key.
func (o *ownWrites[K]) keepBack(key K, e addition) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.keys[key]
	if k == nil {
		return false
	}
	if k.isOwn(e.change) {
		k.keepOwn(e)
		return true
	}
	if k.writing == 0 || len(k.open) == maxWrites {
		return false
	}
	k.open = append(k.open, e)
	return true
}

// end records that the reconcile of key has ended, and adds the key for the events that count. Events of own writes do not count if the key
// has failed or is parked.
func (o *ownWrites[K]) end(key K, failed bool) {
	if o.n.Load() == 0 {
		return
	}
	o.mu.Lock()
	k := o.keys[key]
	if k == nil {
		o.mu.Unlock()
		return
	}
	events := k.sort()
	if !failed {
		events = append(events, k.ownEvents...)
	}
	k.inFlight, k.ownEvents = false, nil
	if !failed || len(k.writes) == 0 {
		o.setLocked(key, nil)
	}
	o.mu.Unlock()
	o.release(key, events)
}

// release adds key for events that were kept back.
func (o *ownWrites[K]) release(key K, events []addition) {
	for _, e := range events {
		o.add(key, e.AddOptions, e.news)
	}
}

func (o *ownWrites[K]) setLocked(key K, k *ownKey) {
	if k == nil {
		delete(o.keys, key)
	} else {
		if o.keys == nil {
			o.keys = make(map[K]*ownKey)
		}
		o.keys[key] = k
	}
	o.n.Store(int64(len(o.keys)))
}

// sort returns the open events that are of no own write, and keeps the others in ownEvents.
func (k *ownKey) sort() (others []addition) {
	for _, e := range k.open {
		if k.isOwn(e.change) {
			k.keepOwn(e)
		} else {
			others = append(others, e)
		}
	}
	k.open = nil
	return others
}

// keepOwn keeps the event of an own write while a reconcile is in flight. A few are enough: together they add the key once.
func (k *ownKey) keepOwn(e addition) {
	const most = 8
	if k.inFlight && len(k.ownEvents) < most {
		k.ownEvents = append(k.ownEvents, e)
	}
}

// isOwn reports whether own writes have made the whole change.
func (k *ownKey) isOwn(c change) bool {
	for at := c.version; ; {
		i := slices.IndexFunc(k.writes, func(w reconcile.Write) bool {
			return w.Version == at && w.Object == c.object && w.Clock.Is(c.clock)
		})
		switch {
		case i < 0:
			return false
		case k.writes[i].Before == c.before, c.deleted: // nothing can hide behind a deletion
			return true
		case k.writes[i].Before >= at: // it is unknown
			return false
		}
		at = k.writes[i].Before
	}
}
