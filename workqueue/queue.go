package workqueue

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Queue is a work queue of keys. A key that waits is there once, however often it is added; a key that is handed out
// goes to nobody else until Done; a key that is added meanwhile comes back after Done, once. Keys are handed out in
// the order in which they became ready, unless priorities or groups say otherwise.
//
// Producers call Add, AddAfter or AddRateLimited; AddWith is the general form. A worker calls Get (or Next, which ends
// with a context, or TryGet, which does not wait), does the work, and calls Done; or Take, which gives an [Item]; or it
// leaves all of that to Run. The table in the package documentation says what each call does in each state of a key.
//
// A Queue starts no goroutine. All its methods are safe for concurrent use.
type Queue[K comparable] struct {
	cfg   Config[K]
	start time.Time // the zero of all times within the queue: a nanosecond before it was made, since zero stands for never

	doubles     bool // the backoff is base, doubled with each failure, at most limit: what the limiter would say
	base, limit time.Duration

	mu sync.Mutex
	// mu guards the following. Invariants, which checkInvariants tests:
	//
	//  1. A key has an entry if and only if its state is not resting or something is scheduled for it.
	//  2. An entry is in the list of its state, once, and in no other.
	//  3. dirty and spent imply the state processing. What is ready or dirty has no backoff and no quiet time, and what is
	//     parked has no backoff. An entry has a calmBy if and only if it has a calmAt.
	//  4. inProcess counts the entries in process, dirty those that are dirty, calming those in their quiet time.
	//  5. An entry is scheduled if and only if it has a deadline, and then for the earliest one.
	//  6. After a shutdown a waiter is in waiters only while something is ready that may not be handed out yet, or dirty.
	//  7. After a shutdown nothing is scheduled and the timer does not run. Before it, the timer comes in time for what is
	//     scheduled and for what is remembered.
	//  8. Nobody waits for idle whenever the queue is idle.
	//  9. last is nil or in process.
	// 10. A group counts its entries, and those of them that are in process.
	pool      *pool[K]
	entries   table[K]
	order     order[K]
	schedule  schedule[K]
	parked    line[K]
	memory    line[K]   // of what is remembered, the longest remembered first
	busy      line[K]   // of what is in process, if there are timestamps
	last      *entry[K] // that was handed out: its Done, which comes next where there is one worker, need not look for it
	inProcess int
	dirty     int
	calming   int
	changes   uint64 // of the state of any key
	waiters   waitlist
	idle      chan struct{} // dropped, and closed, when the queue is idle; nil while nobody waits for that
	released  chan struct{} // dropped, and closed, by ShutDown, which releases those who drain; nil while nobody does
	shutdown  bool
	timer     *time.Timer // runs fire; nil until there is something to wait for
	armedFor  int64       // when the timer fires, at the latest when something is due; 0 when it does not run
	gate      gate
}

// New returns a queue. The error names each field of cfg that is out of its bounds.
func New[K comparable](cfg Config[K]) (*Queue[K], error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("workqueue: new queue: %w", err)
	}
	p := newPool[K]()
	q := &Queue[K]{
		cfg:      cfg.withDefaults(),
		start:    time.Now().Add(-1),
		pool:     p,
		entries:  newTable(p),
		order:    order[K]{plain: line[K]{pool: p}},
		schedule: schedule[K]{pool: p},
		parked:   line[K]{pool: p},
		memory:   line[K]{pool: p},
		busy:     line[K]{pool: p},
	}
	switch l := q.cfg.RateLimiter.(type) {
	case nil:
		q.doubles, q.base, q.limit = true, baseDelay, maxDelay
	case *ItemExponentialFailureRateLimiter[K]:
		q.doubles, q.base, q.limit = true, l.base, l.limit
	}
	q.order.ageing = int64(q.cfg.Ageing)
	if q.cfg.Group != nil {
		q.order.limit = q.cfg.GroupLimit
		q.order.groups = make(map[string]*group[K])
		q.order.grade()
	}
	return q, nil
}

// Add makes key ready. A key that is ready already stays where it is in line; a key in process becomes ready again when
// it is done; one that is parked is revived. After a shutdown Add does nothing. Add panics if key is not equal to itself
// (a NaN) or not comparable (an interface that holds a slice): such a key could never be found again.
func (q *Queue[K]) Add(key K) {
	checkKey(key)
	hash, group := q.entries.hash(key), q.groupOf(key)
	q.mu.Lock()
	if q.shutdown {
		q.mu.Unlock()
		return
	}
	e := q.entryLocked(key, hash, group)
	if e.state == ready && e.priority >= 0 { // so in most cases, which need no more than this
		q.mu.Unlock()
		return
	}
	if e.priority < 0 {
		q.raiseLocked(e, 0)
	}
	w, added := q.addLocked(e)
	q.mu.Unlock()
	w.wake()
	if added && q.cfg.Hooks.Added != nil {
		q.cfg.Hooks.Added(key)
	}
}

// Get waits for a ready key and hands it out: no other worker gets it until Done. After a shutdown Get hands out the keys
// that are still ready, and then answers true for shutdown. As in client-go it does so even if a key is dirty, which
// becomes ready with its Done. The worker that has this key has to call Get again. If the work is done in other
// goroutines, use Next.
func (q *Queue[K]) Get() (key K, shutdown bool) {
	key, result := q.next(nil, nil, false)
	return key, result != gotKey
}

// Next waits for a ready key and hands it out, as Get does, and ends with a context. It returns [ErrShutDown] when the
// queue is shut down and no key can become ready any more, and the cause of ctx when ctx ends. An ended ctx takes no key.
func (q *Queue[K]) Next(ctx context.Context) (K, error) {
	return q.nextUntil(ctx, nil)
}

// TryGet is [Queue.Get] that does not wait: it answers false when no key may be handed out.
func (q *Queue[K]) TryGet() (key K, ok bool) {
	q.mu.Lock()
	e := q.takeLocked()
	if e == nil {
		q.mu.Unlock()
		return key, false
	}
	return q.handOut(e), true
}

// Done says that the work on key, which was handed out to the caller, has ended. A key that was added meanwhile is
// ready again, at the end of the line. Done of a key that is not in process changes nothing and is reported to
// Hooks.StrayDone: it is a mistake in the worker loop.
func (q *Queue[K]) Done(key K) {
	checkKey(key)
	q.mu.Lock()
	e := q.handedOutLocked(key)
	if e == nil || e.state != processing {
		q.mu.Unlock()
		q.strayDone(key)
		return
	}
	q.done(e)
}

// Len returns the number of keys that are ready. Keys in process and keys scheduled for later do not count.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.order.n
}

// addLocked adds e now, or when its Adds have become quiet. It returns the worker to wake, if there is one, and whether
// the addition has had its effect.
func (q *Queue[K]) addLocked(e *entry[K]) (w *waiter, added bool) {
	if q.cfg.Debounce > 0 && e.state != ready && !e.dirty {
		q.debounceLocked(e)
		return nil, false
	}
	return q.makeReadyLocked(e)
}

// makeReadyLocked puts e in line, or marks it when it is in process. It returns the worker to wake, if there is one, and
// whether it made a difference.
func (q *Queue[K]) makeReadyLocked(e *entry[K]) (w *waiter, changed bool) {
	switch e.state {
	case ready:
		return nil, false
	case processing:
		if e.dirty {
			return nil, false
		}
		e.dirty = true
		q.dirty++
	case parked:
		q.reviveLocked(e)
		fallthrough
	default:
		q.lineUpLocked(e)
		w = q.waiterToWakeLocked()
	}
	if e.retryAt != 0 || e.calmAt != 0 { // the attempt that they wait for is to come
		e.retryAt = 0
		q.calmLocked(e)
		q.rescheduleLocked(e)
	}
	return w, true
}

// lineUpLocked makes e, which is in no list, ready.
func (q *Queue[K]) lineUpLocked(e *entry[K]) {
	q.enterLocked(e, ready)
	if q.cfg.Timestamps || q.order.graded() {
		q.pool.own(e).since = q.now()
	}
	q.order.push(e)
}

// takeLocked takes the entry of the key that is to be handed out next, nil if none may be. The caller goes on with handOut.
func (q *Queue[K]) takeLocked() *entry[K] {
	if q.cfg.HandOut != nil && !q.passLocked() {
		return nil
	}
	e := q.order.pop()
	if e == nil {
		return nil
	}
	q.takenLocked(e)
	return e
}

// takenLocked notes that e was taken out of its line, to be handed out.
func (q *Queue[K]) takenLocked(e *entry[K]) {
	q.order.begin(e.group)
	q.enterLocked(e, processing)
	q.inProcess++
	q.last = e
}

// handOut gives up the lock, does what is due when e was taken, and returns its key.
func (q *Queue[K]) handOut(e *entry[K]) K {
	key := e.key
	var waited int64
	if q.cfg.Timestamps {
		now := q.now()
		waited, e.since = now-e.since, now
		q.busy.push(e)
	}
	var w *waiter
	if q.cfg.HandOut != nil {
		w = q.waiterToWakeLocked() // to wait for the limiter
	}
	ended := q.endedLocked()
	q.mu.Unlock()
	w.wake()
	wakeAll(ended)
	if q.cfg.Hooks.HandedOut != nil {
		q.cfg.Hooks.HandedOut(key, time.Duration(waited))
	}
	return key
}

// done gives up the lock, after it has ended the work on e.
func (q *Queue[K]) done(e *entry[K]) {
	key := e.key
	var took int64
	if q.cfg.Timestamps {
		now := q.now()
		took, e.since = now-e.since, now
		q.busy.remove(e)
	}
	q.inProcess--
	if q.last == e {
		q.last = nil
	}
	freed := q.order.end(e.group)
	parkedAfter := 0
	var w, other *waiter
	q.enterLocked(e, resting)
	switch {
	case e.dirty:
		e.dirty = false
		q.dirty--
		if e.spent {
			q.reviveLocked(e)
		}
		q.lineUpLocked(e)
		w = q.waiterToWakeLocked()
	case e.spent:
		parkedAfter = int(e.failures)
		q.parkLocked(e)
	default:
		q.restLocked(e)
	}
	if freed {
		other = q.waiterToWakeLocked()
	}
	idle := q.idleLocked()
	q.mu.Unlock()
	w.wake()
	other.wake()
	announce(idle)
	if q.cfg.Hooks.Done != nil {
		q.cfg.Hooks.Done(key, time.Duration(took))
	}
	if parkedAfter > 0 && q.cfg.Hooks.Parked != nil {
		q.cfg.Hooks.Parked(key, parkedAfter)
	}
}

// handedOutLocked returns the entry of key, which was handed out; nil, or one that is in another state, if it was not.
func (q *Queue[K]) handedOutLocked(key K) *entry[K] {
	if e := q.last; e != nil && e.key == key {
		return e
	}
	return q.entries.get(key)
}

// strayDone reports a Done of a key that is not in process.
func (q *Queue[K]) strayDone(key K) {
	if q.cfg.Hooks.StrayDone != nil {
		q.cfg.Hooks.StrayDone(key)
		return
	}
	q.cfg.Logger.Error("workqueue: Done of a key that is not in process", "queue", q.cfg.Name, "key", key)
}

// groupOf returns the name of the group of key. It calls the code of the user, and so is called without the lock.
func (q *Queue[K]) groupOf(key K) string {
	if q.cfg.Group == nil {
		return ""
	}
	return q.cfg.Group(key)
}

// now returns the time since the queue was made, on the monotonic clock, in nanoseconds.
func (q *Queue[K]) now() int64 { return int64(time.Since(q.start)) }

// time returns a time within the queue as one outside of it, the zero time for never.
func (q *Queue[K]) time(t int64) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return q.start.Add(time.Duration(t))
}

// tellAdded tells the hook of keys that were added.
func (q *Queue[K]) tellAdded(keys []K) {
	if q.cfg.Hooks.Added == nil {
		return
	}
	for _, key := range keys {
		q.cfg.Hooks.Added(key)
	}
}

// checkKey panics if key could not be found in a map again.
func checkKey[K comparable](key K) {
	// True for a NaN. An interface that holds a slice panics in the comparison, before any lock is taken.
	if key != key {
		panic("workqueue: the key is not equal to itself")
	}
}
