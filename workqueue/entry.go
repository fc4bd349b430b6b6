package workqueue

import (
	"iter"
	"math"
)

// entry is a key that the queue has something to do with, or remembers something of. It takes 64 bytes if the key is a string,
// one line of a cache: what most keys never need is in details.
type entry[K comparable] struct {
	key K

	// Its place in the list of its state: every state but resting has one. A free entry has the next one that is free.
	prev, next id

	id          id
	hash        uint32 // of key
	wakeup      uint32 // number of what is scheduled for it, 0 for nothing
	state       state
	dirty       bool   // in process, and added since
	spent       bool   // in process, and the last failure spent its budget: it is parked when it is done
	number      uint64 // of the last change of its state: what is ready is in order by it, and each hand-out has its own
	wakeAt      int64  // the wake-up; 0 for none
	*details[K]        // to be read; what changes them asks the pool for those that are its own
}

// details is what is known of few keys, or only if the configuration asks for it. The zero value is that of all others.
type details[K comparable] struct {
	priority int
	group    *group[K] // nil without groups
	retryAt  int64     // the backoff; 0 for none
	calmAt   int64     // the quiet time: when its Adds have been quiet for long enough; 0 for none
	calmBy   int64     // when they have waited for long enough, quiet or not
	since    int64     // when it got into its state, if it is parked or remembered, or somebody asks for it
	raised   int32     // its place among those of its lane that were raised, counted from 1; 0 if it is not one of them
	failures int32     // at most maxFailures
	failedAt int64     // when the first of them was
	reasons  *reasons
}

// maxFailures is how many failures of a key are counted, and more than one can have in a hundred years.
const maxFailures = math.MaxInt32

// state is what a key does, apart from what is scheduled for it.
type state uint8

const (
	resting    state = iota // nothing, but that something is scheduled
	remembered              // nothing is scheduled either, but it has failed and was not forgotten
	ready                   // it waits to be handed out
	processing              // it is handed out
	parked                  // it has spent its budget
)

// due returns the earliest deadline of e, 0 for none.
func (e *entry[K]) due() int64 { return earliest(earliest(e.wakeAt, e.retryAt), e.calmAt) }

// earliest returns the earlier of two times, of which 0 is never.
func earliest(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (e *entry[K]) isScheduled() bool { return e.wakeup != 0 }

// keep is the number of keys for which a queue keeps its memory when a burst is over.
const keep = 4096

// entryLocked returns the entry of key, a new one if there is none. The hash is worked out before the lock is taken, since it
// looks at all of the key, which may have to come from far away.
func (q *Queue[K]) entryLocked(key K, hash uint32, group string) *entry[K] {
	e := q.entries.find(key, hash)
	if e != nil {
		if e.state == remembered {
			q.memory.remove(e)
			q.enterLocked(e, resting)
		}
		return e
	}
	e = q.pool.take()
	e.key, e.hash = key, hash
	q.entries.add(e)
	q.enterLocked(e, resting)
	if q.order.groups != nil {
		q.pool.own(e).group = q.order.join(group)
	}
	return e
}

// enterLocked brings e, which is in no list, into a state. The caller puts it in the list of that state.
func (q *Queue[K]) enterLocked(e *entry[K], s state) {
	q.changes++
	e.state, e.number = s, q.changes
}

// restLocked lets e go if the queue has nothing to do with it and nothing to remember.
func (q *Queue[K]) restLocked(e *entry[K]) {
	if e.state != resting || e.isScheduled() {
		return
	}
	if e.failures > 0 {
		q.rememberLocked(e)
		return
	}
	q.dropLocked(e)
}

// dropLocked forgets e, which is in no list.
func (q *Queue[K]) dropLocked(e *entry[K]) {
	q.entries.remove(e)
	if e.group != nil {
		q.order.leave(e.group)
	}
	q.pool.give(e)
}

// line is a list of entries, first in, first out.
type line[K comparable] struct {
	pool        *pool[K]
	first, last id
	n           int
}

// head returns the first entry, nil if there is none.
func (l *line[K]) head() *entry[K] {
	if l.n == 0 {
		return nil
	}
	return l.pool.at(l.first)
}

// all returns all entries, the first one first.
func (l *line[K]) all() iter.Seq[*entry[K]] {
	return func(yield func(*entry[K]) bool) {
		for i := l.first; i != 0; {
			e := l.pool.at(i)
			if !yield(e) {
				return
			}
			i = e.next
		}
	}
}

func (l *line[K]) push(e *entry[K]) {
	e.prev, e.next = l.last, 0
	if l.last != 0 {
		l.pool.at(l.last).next = e.id
	} else {
		l.first = e.id
	}
	l.last = e.id
	l.n++
}

// remove takes e, which is in the line, out of it.
func (l *line[K]) remove(e *entry[K]) {
	if e.prev != 0 {
		l.pool.at(e.prev).next = e.next
	} else {
		l.first = e.next
	}
	if e.next != 0 {
		l.pool.at(e.next).prev = e.prev
	} else {
		l.last = e.prev
	}
	e.prev, e.next = 0, 0
	l.n--
}
