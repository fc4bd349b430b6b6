package workqueue

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// batch is the number of keys that the timer, or a shutdown, handles under one hold of the lock.
const batch = 256

// fire runs when the timer fires.
func (q *Queue[K]) fire() {
	for q.fireSome() {
		// The lock is free between two batches.
	}
}

// fireSome makes a batch of due keys ready, and removes a batch of the keys that were remembered long enough. It reports whether there is
// more. While there is more, armedFor stays in the past, so that no other call sets the timer.
func (q *Queue[K]) fireSome() (more bool) {
	var wake []*waiter
	var added []K
	q.mu.Lock()
	if q.shutdown {
		q.mu.Unlock()
		return false
	}
	now := q.now()
	for range batch {
		if q.schedule.n == 0 || q.schedule.first().due > now {
			break
		}
		e := q.pool.at(q.schedule.first().entry)
		if e.wakeAt <= now {
			e.wakeAt = 0
		}
		w, changed := q.makeReadyLocked(e) // ends the other deadlines
		q.rescheduleLocked(e)
		if w != nil {
			wake = append(wake, w)
		}
		if changed && q.cfg.Hooks.Added != nil {
			added = append(added, e.key)
		}
	}
	forgotten := q.forgetOldLocked(now)
	if more = q.firstDueLocked() <= now; !more {
		q.armedFor = 0
		q.armLocked()
	}
	q.mu.Unlock()
	wakeAll(wake)
	q.tellAdded(added)
	for _, key := range forgotten {
		q.cfg.RateLimiter.Forget(key)
	}
	return more
}

// firstDueLocked returns the first time at which the timer must fire, or the end of time.
func (q *Queue[K]) firstDueLocked() int64 {
	due := int64(math.MaxInt64)
	if q.shutdown {
		return due
	}
	if q.memory.n > 0 {
		due = later(q.memory.head().since, remember)
	}
	if q.schedule.n > 0 {
		due = min(due, q.schedule.first().due)
	}
	return due
}

// armLocked sets the timer, unless it already fires early enough. At worst, the timer finds nothing due.
func (q *Queue[K]) armLocked() {
	due := q.firstDueLocked()
	if due == math.MaxInt64 || q.armedFor != 0 && q.armedFor <= due {
		return
	}
	q.armedFor = due
	d := time.Duration(due - q.now())
	if q.timer == nil {
		q.timer = time.AfterFunc(d, q.fire)
	} else {
		q.timer.Reset(d)
	}
}

// debounceLocked starts the quiet time of e, or extends it.
func (q *Queue[K]) debounceLocked(e *entry[K]) {
	now := q.now()
	details := q.pool.own(e)
	if details.quietAt == 0 {
		q.quiet++
		details.quietBy = later(now, q.cfg.DebounceLimit)
	}
	details.quietAt = min(later(now, q.cfg.Debounce), details.quietBy)
	q.rescheduleAtLocked(e, now)
}

// endQuietLocked ends the quiet time of e, if it has one. The caller reschedules e.
func (q *Queue[K]) endQuietLocked(e *entry[K]) {
	if e.quietAt != 0 {
		e.quietAt, e.quietBy = 0, 0
		q.quiet--
	}
}

// clearDeadlinesLocked ends all deadlines of e.
func (q *Queue[K]) clearDeadlinesLocked(e *entry[K]) {
	e.wakeAt = 0
	if e.retryAt != 0 {
		e.retryAt = 0
	}
	q.endQuietLocked(e)
	q.rescheduleLocked(e)
}

// rescheduleAtLocked is rescheduleLocked for an entry that may become delayed now.
func (q *Queue[K]) rescheduleAtLocked(e *entry[K], now int64) {
	if q.cfg.Timestamps && e.state == resting && !e.isScheduled() {
		q.pool.own(e).since = now
	}
	q.rescheduleLocked(e)
}

// rescheduleLocked gives e its place in the schedule after its deadlines have changed.
func (q *Queue[K]) rescheduleLocked(e *entry[K]) {
	due := e.due()
	if due == 0 {
		if e.isScheduled() {
			q.schedule.remove(e)
		}
		return
	}
	if q.schedule.set(e, due) {
		q.armLocked()
	}
}

// later returns the time that is d after t. A time that does not fit becomes the end of time.
func later(t int64, d time.Duration) int64 {
	if t += int64(d); t < 0 {
		return math.MaxInt64
	}
	return t
}

// schedule holds one wakeup for each entry with deadlines, the earliest first. Of equal ones, the one that was set first comes first;
// setting one again counts as new, even to the same time. It is a 4-ary heap, which causes fewer cache misses than a binary heap. A wakeup
// that no longer counts stays in the heap until it reaches the top or there are many of them. So nothing ever searches the heap, and moving
// a wakeup within it touches no entry. The zero value is empty.
//
// Invariants, tested by check:
//
//  1. A wakeup counts if and only if its number is that of its entry. n is the number of wakeups that count.
//  2. At most n+slack of the wakeups in the heap do not count, except during a shutdown.
//  3. No wakeup is before its parent.
type schedule[K comparable] struct {
	pool   *pool[K]
	heap   []wakeup
	n      int
	number uint32 // of the wakeup that was set last
}

type wakeup struct {
	due    int64 // nanoseconds on the clock of the queue
	number uint32
	entry  id
}

// slack is a number of dead wakeups that is harmless.
const slack = 32

// counts reports whether w counts. By now, its entry may have another key, or its memory may be freed.
func (s *schedule[K]) counts(w wakeup) bool {
	return s.pool.has(w.entry) && s.pool.at(w.entry).wakeup == w.number
}

func (w wakeup) before(other wakeup) bool {
	return w.due < other.due || w.due == other.due && w.number < other.number
}

func (w wakeup) compare(other wakeup) int {
	return cmp.Or(cmp.Compare(w.due, other.due), cmp.Compare(w.number, other.number))
}

// first returns the wakeup that is due first. There must be one.
func (s *schedule[K]) first() wakeup {
	for !s.counts(s.heap[0]) {
		last := len(s.heap) - 1
		moved := s.heap[last]
		s.heap = s.heap[:last]
		s.down(0, moved)
		s.shrink()
	}
	return s.heap[0]
}

// last returns a wakeup that is cheap to find. There must be one.
func (s *schedule[K]) last() wakeup {
	for !s.counts(s.heap[len(s.heap)-1]) {
		s.heap = s.heap[:len(s.heap)-1]
	}
	return s.heap[len(s.heap)-1]
}

// set schedules e, or moves it. It reports whether e is now the first.
func (s *schedule[K]) set(e *entry[K], due int64) bool {
	if e.wakeup == 0 {
		s.n++
	}
	if s.number == math.MaxUint32 {
		s.renumber()
	}
	s.number++
	e.wakeup = s.number
	w := wakeup{due, s.number, e.id}
	i := len(s.heap)
	s.heap = append(s.heap, w)
	for i > 0 && w.before(s.heap[(i-1)/4]) {
		s.heap[i] = s.heap[(i-1)/4]
		i = (i - 1) / 4
	}
	s.heap[i] = w
	s.tidy()
	return s.first().entry == e.id
}

// remove removes the wakeup of e, which is scheduled.
func (s *schedule[K]) remove(e *entry[K]) {
	e.wakeup = 0
	s.n--
	s.tidy()
}

// tidy removes the wakeups that do not count, if they are a large part of the heap.
func (s *schedule[K]) tidy() {
	if len(s.heap) <= 2*s.n+slack {
		return
	}
	s.clean()
	s.shrink()
	for i := (len(s.heap) - 2) / 4; i >= 0 && len(s.heap) > 1; i-- {
		s.down(i, s.heap[i])
	}
}

// clean removes the wakeups that do not count.
func (s *schedule[K]) clean() {
	s.heap = slices.DeleteFunc(s.heap, func(w wakeup) bool { return !s.counts(w) })
}

// renumber gives all wakeups small numbers, in order, when the numbers are used up. The result is sorted, and so it is a heap.
func (s *schedule[K]) renumber() {
	s.clean()
	slices.SortFunc(s.heap, wakeup.compare)
	s.number = 0
	for i := range s.heap {
		s.number++
		s.heap[i].number = s.number
		s.pool.at(s.heap[i].entry).wakeup = s.number
	}
}

// shrink frees memory after a burst.
func (s *schedule[K]) shrink() {
	if c := cap(s.heap); c > keep && len(s.heap) <= c/4 {
		s.heap = append(make([]wakeup, 0, c/2), s.heap...)
	}
}

// down puts w at place i or, while a child comes before it, below.
func (s *schedule[K]) down(i int, w wakeup) {
	for {
		least, first := i, w
		for c := 4*i + 1; c <= 4*i+4 && c < len(s.heap); c++ {
			if s.heap[c].before(first) {
				least, first = c, s.heap[c]
			}
		}
		if i < len(s.heap) {
			s.heap[i] = first
		}
		if least == i {
			return
		}
		i = least
	}
}
