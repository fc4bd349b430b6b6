package follow

import (
	"sync"
	"time"
)

// Delays notes since when something has kept the watches of a source from reporting what is committed. All methods, and those of a [Delay], are
// safe for concurrent use.
type Delays struct {
	mu sync.Mutex
	// mu guards the following, and what is in it.
	watches map[*Delay]struct{}
}

// Join returns the Delay of a watch that begins.
func (ds *Delays) Join() *Delay {
	d := &Delay{of: ds}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.watches == nil {
		ds.watches = make(map[*Delay]struct{})
	}
	ds.watches[d] = struct{}{}
	return d
}

// Since returns when an open watch first saw what delays it, or zero if none is delayed.
func (ds *Delays) Since() (first time.Time) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for d := range ds.watches {
		if !d.since.IsZero() && (first.IsZero() || d.since.Before(first)) {
			first = d.since
		}
	}
	return first
}

// Delay is what one watch has seen.
type Delay struct {
	of    *Delays
	by    uint64
	since time.Time
}

// Note notes whether the watch is delayed, and by what: a number that stays the same for as long as one thing, such as a transaction, is the cause.
func (d *Delay) Note(by uint64, delayed bool) {
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	switch {
	case !delayed:
		d.since = time.Time{}
	case d.since.IsZero() || d.by != by:
		d.by, d.since = by, time.Now()
	}
}

// Leave ends the watch.
func (d *Delay) Leave() {
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	delete(d.of.watches, d)
}
