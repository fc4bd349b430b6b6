package workqueue

import (
	"fmt"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/workqueue/internal/dispatch"
	"github.com/setpoint-go/setpoint/workqueue/internal/entry"
	"github.com/setpoint-go/setpoint/workqueue/internal/waiters"
)

// Queue is a work queue of keys. It has the method sets of client-go's queues, so it can take their place.
//
// Producers call Add, AddAfter, or AddRateLimited; AddWith is the general form. Workers call Take (TryTake does not wait),
// do the work, and call Done on the [Item]; Run does all of that. Get and Done are client-go's form of Take.
//
// # The contract
//
// A key is in one of five states: absent, ready (in line), process (dispatched and not Done), dirty (in process, and added
// again meanwhile), or parked (its budget of attempts is spent). In addition it may have up to three deadlines:
//
//   - A wake-up, "d", from AddAfter, or from AddWith with After or At. In every state.
//   - A backoff, "b", from AddRateLimited, or from AddWith with RateLimited. Only while the key is absent or in process: a
//     ready or dirty key is about to be tried anyway, and a parked key must not be tried.
//   - A quiet time, from an Add with Config.Debounce, which describes it. Only while the key is absent, in process, or parked.
//
// The first table lists the calls and events that request an attempt.
//
//	state        Add          AddAfter(t)  AddRateLimited  wake-up due  backoff due
//	-----        ---          -----------  --------------  -----------  -----------
//	absent       ready        absent+d     absent+b        -            -
//	absent+d     ready+d      earlier of   absent+db       ready        -
//	absent+b     ready        absent+db    earlier of      -            ready
//	absent+db    ready+d      earlier of   earlier of      ready        ready+d
//	ready        -            ready+d      -               -            -
//	ready+d      -            earlier of   -               ready        -
//	process      dirty        process+d    process+b       -            -
//	process+d    dirty+d      earlier of   process+db      dirty        -
//	process+b    dirty        process+db   earlier of      -            dirty
//	process+db   dirty+d      earlier of   earlier of      dirty        dirty+d
//	dirty        -            dirty+d      -               -            -
//	dirty+d      -            earlier of   -               dirty        -
//	parked       ready        parked+d     -               -            -
//	parked+d     ready+d      earlier of   -               ready        -
//
// The second table lists the others. "Take" is any dispatch of the key.
//
//	state        Take         Done         Forget       Cancel       DropParked   ShutDown
//	-----        ----         ----         ------       ------       ----------   --------
//	absent       -            reported     -            -            -            -
//	absent+d     -            reported     -            absent       -            absent
//	absent+b     -            reported     absent       absent       -            absent
//	absent+db    -            reported     absent+d     absent       -            absent
//	ready        process      reported     -            absent       -            -
//	ready+d      process+d    reported     -            absent       -            ready
//	process      -            absent       -            -            -            -
//	process+d    -            absent+d     -            process      -            process
//	process+b    -            absent+b     process      process      -            process
//	process+db   -            absent+db    process+d    process      -            process
//	dirty        -            ready        -            process      -            -
//	dirty+d      -            ready+d      -            process      -            dirty
//	parked       -            reported     -            -            absent       -
//	parked+d     -            reported     -            parked       absent+d     parked
//
// "-" means no change, or not possible. "earlier of" keeps the state, and the earlier of the two deadlines of that kind. With another
// [Policy], AddWith keeps the later or the new one. A policy never compares a wake-up with a backoff.
//
// An AddAfter whose delay is not positive acts at once, like the column Add. So does an AddWith whose After is negative or whose At has
// passed. Neither drops a pending wake-up. An AddRateLimited whose delay is not positive acts at once too: an absent key becomes ready, a
// key in process becomes dirty, and ready, dirty, and parked keys do not change. Even with Config.Debounce, these calls do not wait for a
// quiet time.
//
// After a shutdown, Add, AddAfter, AddRateLimited, and AddWith change nothing, and AddWith returns false. All other calls follow the
// tables.
//
// The queue is idle when no key is ready, in process, or in its quiet time.
//
// # Differences from client-go
//
// For the methods that client-go's workqueue has, client-go's behavior is the model, except for these faults:
//
//   - A drain there does not wait for ready keys, returns before a dirty key is done, and lets only one of several callers
//     return (https://github.com/kubernetes/kubernetes/pull/141079).
//   - An extra Done there dispatches a key to two workers.
//   - The memory of a burst is never freed there.
//   - A backoff there fires even if the key was tried in the meantime (https://github.com/kubernetes/client-go/issues/131), and an earlier
//     backoff swallows a wake-up.
//
// # Goroutines
//
// A Queue starts no goroutine, so a queue that is no longer used needs no shutdown. In a testing/synctest bubble, its delays take no real
// time, and TryTake drives it without a goroutine. All methods are safe for concurrent use.
type Queue[K comparable] struct {
	cfg   Config[K]
	start time.Time // the zero of all times within the queue; a nanosecond before New, because zero means never

	doubles     bool // the backoff is base, doubled with each failure, at most limit; the limiter need not be asked
	base, limit time.Duration

	mu sync.Mutex
	// mu guards the following. Invariants, tested by checkInvariants:
	//
	//  1. A key has an entry if and only if its state is not resting or it has a deadline.
	//  2. An entry is in the list of its state, once, and in no other.
	//  3. dirty and spent imply the state processing. Ready and dirty entries have no backoff and no quiet time, and parked
	//     entries have no backoff. An entry has a quietBy if and only if it has a quietAt.
	//  4. inProcess counts the entries in process, dirty the dirty ones, and quiet those in their quiet time.
	//  5. The invariants of the table, the line, and the schedule hold: see package entry.
	//  6. When ShutDown has returned, a worker waits only while a key is dirty, or is ready and may not be dispatched yet.
	//  7. When ShutDown has returned, nothing is scheduled and the timer does not run. Before that, the timer fires in time for all
	//     deadlines and for all remembered keys.
	//  8. No caller waits for idle while the queue is idle.
	//  9. last is nil or in process.
	entries   entry.Table[K]
	line      entry.Line[K] // the ready entries
	schedule  entry.Schedule[K]
	parked    entry.List[K]
	memory    entry.List[K]   // the remembered entries, the longest remembered first
	busy      entry.List[K]   // the entries in process, if Timestamps is on
	last      *entry.Entry[K] // the entry that was dispatched last: a single worker's Done comes next, and need not search for it
	inProcess int
	dirty     int
	quiet     int
	changes   uint64 // the number of changes of any key's state
	added     uint64 // for Totals, as the three that follow
	delayed   uint64
	waited    tally
	worked    tally
	waiters   waiters.List
	idle      chan struct{} // removed, and closed, when the queue is idle; nil if no caller waits for it
	released  chan struct{} // removed, and closed, by ShutDown, which releases drains; nil if there are none
	shutdown  bool
	timer     *time.Timer     // runs fire; nil until the first deadline
	armedFor  int64           // the time at which the timer fires, at the latest the first deadline; 0 if it does not run
	rate      *dispatch.Limit // enforces DispatchLimit; nil if there is none
}

// New returns a queue. The error names each field of cfg that is out of its bounds.
func New[K comparable](cfg Config[K]) (*Queue[K], error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("workqueue: new queue: %w", err)
	}
	cfg = cfg.withDefaults()
	entries := entry.NewTable[K]()
	q := &Queue[K]{
		cfg:      cfg,
		start:    time.Now().Add(-1),
		entries:  entries,
		line:     entry.NewLine(&entries, int64(cfg.Aging), cfg.Group != nil, cfg.GroupLimit),
		schedule: entry.NewSchedule(&entries),
		parked:   entries.NewList(),
		memory:   entries.NewList(),
		busy:     entries.NewList(),
	}
	if cfg.DispatchLimit != nil {
		q.rate = dispatch.New(cfg.DispatchLimit, q.dispatchAllowed)
	}
	switch l := q.cfg.RateLimiter.(type) {
	case nil:
		q.doubles, q.base, q.limit = true, baseDelay, maxDelay
	case *ItemExponentialFailureRateLimiter[K]:
		q.doubles, q.base, q.limit = true, l.base, l.limit
	}
	return q, nil
}

// The following methods change the state of an entry. They return what the caller must do after it has released the lock.

// entryLocked returns the entry of key, a new one if there is none. The caller computes the hash before it takes the lock,
// because hashing reads the whole key, which may be a cache miss.
func (q *Queue[K]) entryLocked(key K, hash uint32, group string) *entry.Entry[K] {
	e := q.entries.Find(key, hash)
	if e != nil {
		if e.State == entry.Remembered {
			q.memory.Remove(e)
			q.enterLocked(e, entry.Resting)
		}
		return e
	}
	e = q.entries.Add(key, hash)
	q.enterLocked(e, entry.Resting)
	q.line.Join(e, group)
	return e
}

// enterLocked sets the state of e, which is in no list. The caller puts it in the list of that state.
func (q *Queue[K]) enterLocked(e *entry.Entry[K], s entry.State) {
	q.changes++
	e.State, e.Number = s, q.changes
}

// makeReadyLocked puts e in line, or marks it dirty if it is in process. It returns the worker to wake, if any, and whether
// it changed anything.
func (q *Queue[K]) makeReadyLocked(e *entry.Entry[K]) (w *waiters.Waiter, changed bool) {
	switch e.State {
	case entry.Ready:
		return nil, false
	case entry.Processing:
		if e.Dirty {
			return nil, false
		}
		e.Dirty = true
		q.dirty++
	case entry.Parked:
		q.reviveLocked(e)
		fallthrough
	default:
		q.lineUpLocked(e)
		w = q.waiterToWakeLocked()
	}
	q.added++
	if e.RetryAt != 0 || e.QuietAt != 0 { // both wait for the attempt that comes now
		e.RetryAt = 0
		q.endQuietLocked(e)
		q.rescheduleLocked(e)
	}
	return w, true
}

// lineUpLocked makes e, which is in no list, ready.
func (q *Queue[K]) lineUpLocked(e *entry.Entry[K]) {
	q.enterLocked(e, entry.Ready)
	if q.cfg.Timestamps || q.line.Graded() {
		q.entries.Own(e).Since = q.now()
	}
	q.line.Push(e)
}

// restLocked removes e if it is resting without a deadline, or remembers its failures if it has any.
func (q *Queue[K]) restLocked(e *entry.Entry[K]) {
	switch {
	case e.State != entry.Resting || e.IsScheduled():
	case e.Failures > 0:
		q.rememberLocked(e)
	default:
		q.removeLocked(e)
	}
}

// removeLocked removes e, which is in no list.
func (q *Queue[K]) removeLocked(e *entry.Entry[K]) {
	q.line.Leave(e)
	q.entries.Remove(e)
}

// waiterToWakeLocked removes the longest waiting worker from the list if a key may be dispatched. The caller wakes it after
// releasing the lock. Each time a key gets in line, a group falls below its limit, or a worker gives up a wake-up, one worker
// leaves the list. So workers never all sleep while a key may be dispatched.
func (q *Queue[K]) waiterToWakeLocked() *waiters.Waiter {
	if !q.line.Available() {
		return nil
	}
	return q.waiters.Next()
}

// The following are here because they must be inlined, and the compiler inlines no function of package waiters in another package's Queue.

// wake wakes w, unless it is nil.
func wake(w *waiters.Waiter) {
	if w != nil {
		w.Wake()
	}
}

// wakeAll wakes all of ws.
func wakeAll(ws []*waiters.Waiter) {
	for _, w := range ws {
		w.Wake()
	}
}

// groupOf returns the name of key's group. It calls user code, so the caller must not hold the lock.
func (q *Queue[K]) groupOf(key K) string {
	if q.cfg.Group == nil {
		return ""
	}
	return q.cfg.Group(key)
}

// now returns the time since start, on the monotonic clock, in nanoseconds.
func (q *Queue[K]) now() int64 { return int64(time.Since(q.start)) }

// time converts a time within the queue. 0, which means never, becomes the zero time.
func (q *Queue[K]) time(t int64) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return q.start.Add(time.Duration(t))
}

// tellAdded calls the hook for keys that were added.
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
