package workqueue

import (
	"fmt"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/internal/outcome"
)

// Queue is a work queue of keys. It has the method sets of client-go's queues, so it can take their place.
//
//   - To add a key, call [Queue.Add], or [Queue.AddAfter] to add it later. [Queue.AddWith] takes options: a priority, a time, a reason.
//   - To work on keys, call [Queue.Run]. A loop of your own calls [Queue.Take] (or [Queue.TryTake], which does not wait), does the work,
//     reports a failure with [Queue.AddRateLimited] and a success with [Queue.Forget], and calls Done on the [Item]. Get and Done are
//     client-go's form of Take.
//   - To stop, call [Queue.Drain], which also processes what is ready, or end the context of Run, which does not. [Queue.Pause] holds all keys
//     back for a while.
//   - To see what the queue does, call [Queue.Stats], [Queue.Totals], or [Queue.Snapshot].
//
// A Queue has no goroutine, so a queue that is no longer used needs no shutdown. In a testing/synctest bubble, its delays take no real
// time, and TryTake drives it without a goroutine. All methods are safe for concurrent use.
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
//   - A Forget there leaves the backoff: a key whose failures are forgotten is still retried. Here it ends the backoff too.
//
// # The contract
//
// A key is in one of five states: absent, ready (in line), process (dispatched and not Done), dirty (in process, and added
// again meanwhile), or parked (its budget of attempts is spent). In addition it may have up to three deadlines:
//
//   - A wake-up, "d", from AddAfter, or from AddWith with After or At. In every state.
//   - A backoff, "b", from AddRateLimited, or from AddWith with RateLimited. Only while the key is absent or in process: a
//     ready or dirty key is about to be tried anyway, and a parked key must not be tried. If that attempt fails before the backoff would
//     have ended, the key gets the earlier of the old and the new one, and the failure does not count: see AddRateLimited.
//   - A quiet time, from an Add with Config.Debounce, which describes it. Only while the key is absent, in process, or parked.
//
// The queue is idle when no key is ready, in process, or in its quiet time, and no hook is called for a key that was due. After the shutdown
// of a paused queue, ready keys do not count, because nobody gets them.
//
// Between [Queue.Pause] and [Queue.Resume], there is no Take. The rest of the tables holds.
//
// An AddAfter whose delay is not positive acts at once, like the column Add. So does an AddWith whose After is negative or whose At has
// passed. Neither drops a pending wake-up. An AddRateLimited whose delay is not positive acts at once too: an absent key becomes ready, a
// key in process becomes dirty, and ready, dirty, and parked keys do not change. Even with Config.Debounce, these calls do not wait for a
// quiet time.
//
// After a shutdown, Add, AddAfter, AddRateLimited, and AddWith change nothing, and AddWith returns false. All other calls follow the
// tables.
//
// In the tables, "-" means no change, or not possible. "earlier of" keeps the state, and the earlier of the two deadlines of that kind. With
// AddOptions.Replace, AddWith keeps the new one. A wake-up and a backoff are never compared. "Take" is any dispatch of the key. [State]
// maps these states to those of a Snapshot.
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
// The second table lists the others.
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
type Queue[K comparable] struct {
	cfg   Config[K]
	start time.Time // the zero of all times within the queue; a nanosecond before New, because zero means never

	doubles             bool // the backoff is baseDelay, doubled with each failure, at most maxDelay; the limiter need not be asked
	baseDelay, maxDelay time.Duration
	budget              outcome.Budget // of each key

	mu sync.Mutex
	// mu guards the following. Invariants, tested by CheckInvariants:
	//
	//  1. A key has an entry if and only if its state is not Delayed or it has a deadline.
	//  2. An entry is in the list of its state, once, and in no other.
	//  3. dirty and spent imply the state InProcess. Ready and dirty entries have no backoff and no quiet time, and parked
	//     entries have no backoff. An entry has a quietLimit if and only if it has a quietUntil. With Timestamps, ready and dirty
	//     entries, and no others, have an addedAt.
	//  4. inProcess counts the entries in process, dirty the dirty ones, and quiet those in their quiet time.
	//  5. The invariants of the pool, the line, and the schedule hold.
	//  6. When ShutDown has returned, a worker waits only while a key is dirty, or is ready and may not be dispatched yet. None waits
	//     if the queue is paused.
	//  7. When ShutDown has returned, nothing is scheduled and the timer does not run. Before that, the timer fires in time for all
	//     deadlines and for all remembered keys.
	//  8. No caller waits for idle while the queue is idle.
	//  9. last is nil or in process.
	entries    table[K]
	line       line[K] // the ready entries
	schedule   schedule[K]
	parked     list[K]
	remembered list[K]   // the remembered entries, the longest remembered first
	busy       list[K]   // the entries in process, if Timestamps is on
	last       *entry[K] // the entry that was dispatched last: a single worker's Done comes next, and need not search for it
	inProcess  int
	dirty      int
	quiet      int
	notifying  int    // the batches of due keys for which the hook or the limiter is being called
	changes    uint64 // the number of changes of any key's state
	added      uint64 // for Totals, as the three that follow
	delayed    uint64
	waited     durations
	worked     durations
	waiters    waiterList
	idle       chan struct{} // removed, and closed, when the queue is idle; nil if no caller waits for it
	released   chan struct{} // removed, and closed, by ShutDown, which releases drains; nil if there are none
	shutdown   bool
	paused     bool
	timer      *time.Timer    // runs fire; nil until the first deadline
	armedFor   int64          // the time at which the timer fires, at the latest the first deadline; 0 if it does not run
	limit      *dispatchLimit // enforces DispatchLimit; nil if there is none
}

// New returns a queue. The error names each field of cfg that is out of its bounds.
func New[K comparable](cfg Config[K]) (*Queue[K], error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("workqueue: new queue: %w", err)
	}
	cfg = cfg.withDefaults()
	entries := newTable[K]()
	q := &Queue[K]{
		cfg:        cfg,
		start:      time.Now().Add(-1),
		budget:     outcome.Budget{Attempts: cfg.MaxAttempts, Elapsed: cfg.MaxElapsed},
		entries:    entries,
		line:       newLine(&entries, int64(cfg.Aging), cfg.Group != nil, cfg.GroupLimit),
		schedule:   schedule[K]{pool: entries.pool},
		parked:     entries.newList(),
		remembered: entries.newList(),
		busy:       entries.newList(),
	}
	if cfg.DispatchLimit != nil {
		q.limit = &dispatchLimit{limiter: cfg.DispatchLimit, wake: q.dispatchAllowed}
	}
	switch l := q.cfg.RateLimiter.(type) {
	case nil:
		q.doubles, q.baseDelay, q.maxDelay = true, baseDelay, maxDelay
	case *ItemExponentialFailureRateLimiter[K]:
		q.doubles, q.baseDelay, q.maxDelay = true, l.base, l.limit
	}
	return q, nil
}

// The following methods change the state of an entry. They return what the caller must do after it has released the lock.

// entryLocked returns the entry of key, a new one if there is none. The caller computes the hash before it takes the lock,
// because hashing reads the whole key, which may be a cache miss.
func (q *Queue[K]) entryLocked(key K, hash uint32, group string) *entry[K] {
	e := q.entries.find(key, hash)
	if e != nil {
		if e.state == Remembered {
			q.remembered.remove(e)
			q.enterLocked(e, Delayed)
		}
		return e
	}
	e = q.entries.add(key, hash)
	q.enterLocked(e, Delayed)
	q.line.join(e, group)
	return e
}

// enterLocked sets the state of e, which is in no list. The caller puts it in the list of that state.
func (q *Queue[K]) enterLocked(e *entry[K], s State) {
	q.changes++
	e.state, e.number = s, q.changes
}

// makeReadyLocked puts e in line, or marks it dirty if it is in process. It returns the worker to wake, if any, and whether
// it changed anything.
func (q *Queue[K]) makeReadyLocked(e *entry[K]) (w *waiter, changed bool) {
	switch e.state {
	case Ready:
		return nil, false
	case InProcess:
		if e.dirty {
			return nil, false
		}
		e.dirty = true
		q.dirty++
		q.line.countDirty(e, 1)
		if q.cfg.Timestamps {
			e.addedAt = q.now()
		}
	case Parked:
		q.reviveLocked(e)
		fallthrough
	default:
		q.lineUpLocked(e)
		w = q.waiterToWakeLocked()
	}
	q.added++
	if e.retryAt != 0 || e.quietUntil != 0 { // both wait for the attempt that comes now
		e.retryAt = 0
		q.endQuietLocked(e)
		q.rescheduleLocked(e)
	}
	return w, true
}

// cleanLocked makes e, which is dirty, no longer so.
func (q *Queue[K]) cleanLocked(e *entry[K]) {
	e.dirty = false
	q.dirty--
	q.line.countDirty(e, -1)
}

// lineUpLocked makes e, which is in no list, ready.
func (q *Queue[K]) lineUpLocked(e *entry[K]) {
	q.enterLocked(e, Ready)
	if q.cfg.Timestamps || q.line.prioritized() {
		details := q.entries.edit(e)
		details.since = q.now()
		if q.cfg.Timestamps && details.addedAt == 0 { // it was not dirty
			details.addedAt = details.since
		}
	}
	q.line.push(e)
}

// settleLocked removes e if it is Delayed without a deadline, or remembers its failures if it has any.
func (q *Queue[K]) settleLocked(e *entry[K]) {
	switch {
	case e.state != Delayed || e.isScheduled():
	case e.mustRemember():
		q.rememberLocked(e)
	default:
		q.removeLocked(e)
	}
}

// removeLocked removes e, which is in no list.
func (q *Queue[K]) removeLocked(e *entry[K]) {
	q.line.leave(e)
	q.entries.remove(e)
}

// waiterToWakeLocked removes the longest waiting worker from the list if a key may be dispatched. The caller wakes it after
// releasing the lock. Each time a key gets in line, a group falls below its limit, or a worker gives up its signal, one worker
// leaves the list, and with Resume, all do. So workers never all sleep while a key may be dispatched.
func (q *Queue[K]) waiterToWakeLocked() *waiter {
	if q.paused || !q.line.available() {
		return nil
	}
	return q.waiters.pop()
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

// checkKey panics if key could not be found in a map again.
func checkKey[K comparable](key K) {
	// True for a NaN. An interface that holds a slice panics in the comparison, before any lock is taken.
	if key != key {
		panic("workqueue: the key is not equal to itself")
	}
}

// Interface is the plain queue: the methods that a worker loop needs. Its method set equals that of client-go's
// TypedInterface.
type Interface[K comparable] interface {
	Add(key K)
	Len() int
	Get() (key K, shutdown bool)
	Done(key K)
	ShutDown()
	ShutDownWithDrain()
	ShuttingDown() bool
}

// DelayingInterface is an [Interface] that can add a key later. Its method set equals that of client-go's
// TypedDelayingInterface.
type DelayingInterface[K comparable] interface {
	Interface[K]
	AddAfter(key K, d time.Duration)
}

// RateLimitingInterface is a [DelayingInterface] that can add a key after a backoff. Its method set equals that of client-go's
// TypedRateLimitingInterface.
type RateLimitingInterface[K comparable] interface {
	DelayingInterface[K]
	AddRateLimited(key K)
	Forget(key K)
	NumRequeues(key K) int
}
