package workqueue

import (
	"log/slog"
	"maps"
	"sync"
	"time"
)

// Queue is a work queue of keys. A key that waits is there once, however often it is added; a key that is handed out
// goes to nobody else until Done; a key that is added meanwhile comes back after Done, once. Keys are handed out in
// the order in which they became ready.
//
// Producers call Add, AddAfter or AddRateLimited. A worker calls Get (or Next, which ends with a context, or TryGet,
// which does not wait), does the work, and calls Done. The table in the package documentation says what each call
// does in each state of a key.
//
// A Queue starts no goroutine. All its methods are safe for concurrent use.
type Queue[K comparable] struct {
	name    string
	limiter RateLimiter[K]
	logger  *slog.Logger
	start   time.Time // the zero of entry.due

	mu sync.Mutex
	// mu guards the following. Invariants, which checkInvariants tests:
	//
	//  1. A key has an entry if and only if it is ready, in process or scheduled. Each entry's key is its map key.
	//  2. An entry is in ready if and only if it is queued, and then once.
	//  3. queued and processing exclude each other; dirty implies processing.
	//  4. inProcess counts the entries that are processing, dirty those that are dirty.
	//  5. An entry is in delayed if and only if its slot is not negative, and then at that slot; the heap is ordered.
	//  6. A waiter is in waiters only while the queue is not shut down.
	//  7. After a shutdown nothing is scheduled and the timer does not run.
	//  8. idle is empty whenever the queue is idle.
	entries   map[K]*entry[K]
	ready     ring[K]
	delayed   schedule[K]
	inProcess int
	dirty     int
	waiters   waitlist
	idle      []chan struct{} // closed, and dropped, when nothing is ready or in process
	released  chan struct{}   // closed, and made anew, by ShutDown: whoever drains stops waiting
	shutdown  bool
	timer     *time.Timer // runs fire at the earliest due time; nil until something is scheduled
	free      *entry[K]   // entries to use again, linked by next
	freeLen   int
	peak      int // the most entries since the map was made
}

// entry is a key that the queue has something to do with.
type entry[K comparable] struct {
	key        K
	queued     bool // waits in ready
	processing bool // handed out, not done
	dirty      bool // added while processing
	backoff    bool // the wake-up is one of AddRateLimited
	slot       int  // place in delayed, -1 when nothing is scheduled
	next       *entry[K]
}

// keep is the number of keys for which a queue keeps its memory when a burst is over.
const keep = 4096

// New returns a queue.
func New[K comparable](cfg Config[K]) *Queue[K] {
	cfg = cfg.withDefaults()
	return &Queue[K]{
		name:     cfg.Name,
		limiter:  cfg.RateLimiter,
		logger:   cfg.Logger,
		start:    time.Now(),
		entries:  make(map[K]*entry[K]),
		released: make(chan struct{}),
	}
}

// Add makes key ready. A key that is ready already stays where it is in line; a key in process becomes ready again when
// it is done. After a shutdown Add does nothing. Add panics if key is not equal to itself (a NaN) or not comparable (an
// interface that holds a slice): such a key could never be found again.
func (q *Queue[K]) Add(key K) {
	checkKey(key)
	q.mu.Lock()
	if q.shutdown {
		q.mu.Unlock()
		return
	}
	w := q.makeReadyLocked(q.entryLocked(key))
	q.mu.Unlock()
	w.wake()
}

// Get waits for a key that is ready and hands it out: no other worker gets it until Done. After a shutdown Get hands
// out what is still ready, and then answers true for shutdown.
func (q *Queue[K]) Get() (key K, shutdown bool) {
	key, result := q.next(nil)
	return key, result != gotKey
}

// TryGet is [Queue.Get] that does not wait: it answers false when no key is ready.
func (q *Queue[K]) TryGet() (key K, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.takeLocked()
}

// Done says that the work on key, which was handed out to the caller, has ended. A key that was added meanwhile is
// ready again, at the end of the line. Done of a key that is not in process changes nothing and is logged as an error:
// it is a mistake in the worker loop.
func (q *Queue[K]) Done(key K) {
	checkKey(key)
	q.mu.Lock()
	e := q.entries[key]
	if e == nil || !e.processing {
		q.mu.Unlock()
		q.logger.Error("workqueue: Done of a key that is not in process", "queue", q.name, "key", key)
		return
	}
	e.processing = false
	q.inProcess--
	var w *waiter
	if e.dirty {
		e.dirty = false
		q.dirty--
		w = q.makeReadyLocked(e)
	} else {
		q.releaseLocked(e)
	}
	idle := q.idleLocked()
	q.mu.Unlock()
	w.wake()
	closeAll(idle)
}

// Len returns the number of keys that are ready. Keys in process and keys scheduled for later do not count.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready.len()
}

// makeReadyLocked puts e in line, or marks it when it is in process. It returns the worker to wake, if there is one.
func (q *Queue[K]) makeReadyLocked(e *entry[K]) *waiter {
	switch {
	case e.processing:
		if !e.dirty {
			e.dirty = true
			q.dirty++
		}
		return nil
	case e.queued:
		return nil
	default:
		e.queued = true
		q.ready.push(e)
		return q.waiterToWakeLocked()
	}
}

// takeLocked hands out the key that is first in line. The attempt that now begins is the one that a backoff waited
// for, so the backoff is over.
func (q *Queue[K]) takeLocked() (key K, ok bool) {
	if q.ready.len() == 0 {
		return key, false
	}
	e := q.ready.pop()
	e.queued = false
	e.processing = true
	q.inProcess++
	if e.backoff {
		q.unscheduleLocked(e)
	}
	return e.key, true
}

// entryLocked returns the entry of key, a new one if there is none.
func (q *Queue[K]) entryLocked(key K) *entry[K] {
	if e := q.entries[key]; e != nil {
		return e
	}
	e := q.free
	if e != nil {
		q.free = e.next
		q.freeLen--
		e.key, e.next = key, nil
	} else {
		e = &entry[K]{key: key, slot: -1}
	}
	q.entries[key] = e
	q.peak = max(q.peak, len(q.entries))
	return e
}

// releaseLocked drops e if the queue has nothing more to do with it. A map keeps the memory of its largest size, so
// that a small one takes its place when a burst is over.
func (q *Queue[K]) releaseLocked(e *entry[K]) {
	if e.queued || e.processing || e.slot >= 0 {
		return
	}
	delete(q.entries, e.key)
	if q.freeLen < keep {
		*e = entry[K]{slot: -1, next: q.free}
		q.free = e
		q.freeLen++
	}
	if q.peak > keep && len(q.entries) <= q.peak/16 {
		entries := make(map[K]*entry[K], len(q.entries))
		maps.Copy(entries, q.entries)
		q.entries, q.peak = entries, len(entries)
	}
}

// checkKey panics if key could not be found in a map again.
func checkKey[K comparable](key K) {
	// True for a NaN. An interface that holds a slice panics in the comparison, before any lock is taken.
	if key != key {
		panic("workqueue: the key is not equal to itself")
	}
}
