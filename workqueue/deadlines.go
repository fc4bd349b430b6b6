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
	var added []addition[K]
	q.mu.Lock()
	if q.shutdown {
		q.mu.Unlock()
		return false
	}
	now := q.now()
	for range batch {
		if q.schedule.len() == 0 {
			break
		}
		e, due := q.schedule.first()
		if due > now {
			break
		}
		if e.wakeAt <= now {
			e.wakeAt = 0
		}
		w, changed := q.makeReadyLocked(e) // ends the other deadlines
		q.rescheduleLocked(e)
		if w != nil {
			wake = append(wake, w)
		}
		if changed && q.cfg.Hooks.Added != nil {
			added = append(added, addition[K]{e.key, e.priority})
		}
	}
	forgotten := q.forgetOldLocked(now)
	if more = q.firstDueLocked() <= now; !more {
		q.armedFor = 0
		q.armLocked()
	}
	q.unlockAndNotify(wake, added, forgotten)
	return more
}

// addition is a call of Hooks.Added to come.
type addition[K comparable] struct {
	key      K
	priority int
}

// unlockAndNotify releases the lock, wakes workers, calls the hook for keys that were added, and makes the limiter forget others. A Drain waits
// for that: no caller has control of the goroutine of the timer, or of another Drain, so nobody else could.
func (q *Queue[K]) unlockAndNotify(wake []*waiter, added []addition[K], forgotten []K) {
	notifies := len(added)+len(forgotten) > 0
	if notifies {
		q.notifying++
	}
	idle := q.idleLocked() // a shutdown makes a paused queue idle
	q.mu.Unlock()
	wakeAll(wake)
	announce(idle)
	if !notifies {
		return
	}
	defer func() { // even after a Goexit of the hook
		q.mu.Lock()
		q.notifying--
		idle := q.idleLocked()
		q.mu.Unlock()
		announce(idle)
	}()
	for _, a := range added {
		q.cfg.Hooks.Added(a.key, a.priority)
	}
	for _, key := range forgotten {
		q.limiterForgets(key)
	}
}

// firstDueLocked returns the first time at which the timer must fire, or the end of time.
func (q *Queue[K]) firstDueLocked() int64 {
	due := int64(math.MaxInt64)
	if q.shutdown {
		return due
	}
	if q.remembered.len() > 0 && q.cfg.RememberFailures > 0 {
		due = later(q.remembered.head().since, q.cfg.RememberFailures)
	}
	if q.schedule.len() > 0 {
		due = min(due, q.schedule.firstDue())
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
	details := q.entries.edit(e)
	if details.quietUntil == 0 {
		q.quiet++
		details.quietLimit = later(now, q.cfg.DebounceLimit)
	}
	details.quietUntil = min(later(now, q.cfg.Debounce), details.quietLimit)
	q.rescheduleAtLocked(e, now)
}

// endQuietLocked ends the quiet time of e, if it has one. The caller reschedules e.
func (q *Queue[K]) endQuietLocked(e *entry[K]) {
	if e.quietUntil != 0 {
		e.quietUntil, e.quietLimit = 0, 0
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
	if q.cfg.Timestamps && e.state == Delayed && !e.isScheduled() {
		q.entries.edit(e).since = now
	}
	q.rescheduleLocked(e)
}

// rescheduleLocked gives e its place in the schedule after its deadlines have changed.
func (q *Queue[K]) rescheduleLocked(e *entry[K]) {
	if q.schedule.update(e) {
		q.armLocked()
	}
}

// isSooner reports whether a deadline is before another, which is 0 if there is none.
func isSooner(at, than int64) bool { return than == 0 || at < than }

// later returns the time that is d after t. A time that does not fit becomes the end of time.
func later(t int64, d time.Duration) int64 {
	if t += int64(d); t < 0 {
		return math.MaxInt64
	}
	return t
}

// schedule orders the entries that have deadlines by the earliest of each. Of equal ones, the one that was set first comes first;
// setting one again counts as new, even to the same time. It is a 4-ary heap, which causes fewer cache misses than a binary heap. A deadline
// that no longer counts stays in the heap until it reaches the top or there are many of them. So nothing ever searches the heap, and moving
// a deadline within it touches no entry.
//
// Invariants, which CheckInvariants tests:
//
//  1. A deadline counts if and only if its number is that of its entry. n is the number of deadlines that count.
//  2. At most n+slack of the deadlines in the heap do not count, except during a shutdown.
//  3. No deadline is before its parent.
//  4. An entry is scheduled if and only if it has a deadline, and then for the earliest one.
type schedule[K comparable] struct {
	pool   *pool[K]
	heap   []deadline
	n      int
	number uint32 // of the deadline that was set last
}

// deadline is the earliest deadline of an entry.
type deadline struct {
	due    int64 // nanoseconds on the clock of the queue
	number uint32
	entry  id
}

// len returns the number of entries.
func (s *schedule[K]) len() int { return s.n }

// slack is a number of stale deadlines that is harmless.
const slack = 32

// counts reports whether d counts. By now, its entry may have another key, or its memory may be freed.
func (s *schedule[K]) counts(d deadline) bool {
	return s.pool.exists(d.entry) && s.pool.at(d.entry).deadline == d.number
}

// before reports whether d comes before other.
func (d deadline) before(other deadline) bool {
	return d.due < other.due || d.due == other.due && d.number < other.number
}

func (d deadline) compare(other deadline) int {
	return cmp.Or(cmp.Compare(d.due, other.due), cmp.Compare(d.number, other.number))
}

// first returns the entry that is due first, and when. There must be one.
func (s *schedule[K]) first() (e *entry[K], due int64) {
	d := s.head()
	return s.pool.at(d.entry), d.due
}

// firstDue returns when the first entry is due. There must be one.
func (s *schedule[K]) firstDue() int64 { return s.head().due }

// head removes the deadlines at the top that do not count, and returns the first one that does.
func (s *schedule[K]) head() deadline {
	for !s.counts(s.heap[0]) {
		last := len(s.heap) - 1
		moved := s.heap[last]
		s.heap = s.heap[:last]
		s.down(0, moved)
		s.shrink()
	}
	return s.heap[0]
}

// last returns an entry that is cheap to find. There must be one.
func (s *schedule[K]) last() *entry[K] {
	for !s.counts(s.heap[len(s.heap)-1]) {
		s.heap = s.heap[:len(s.heap)-1]
	}
	return s.pool.at(s.heap[len(s.heap)-1].entry)
}

// update schedules e for its earliest deadline, or removes it if it has none. The caller calls update whenever a deadline has changed. It
// reports whether e is now the first.
func (s *schedule[K]) update(e *entry[K]) (first bool) {
	due := e.due()
	if due == 0 {
		if e.isScheduled() {
			s.remove(e)
		}
		return false
	}
	if e.deadline == 0 {
		s.n++
	}
	if s.number == math.MaxUint32 {
		s.renumber()
	}
	s.number++
	e.deadline = s.number
	d := deadline{due, s.number, e.id}
	i := len(s.heap)
	s.heap = append(s.heap, d)
	for i > 0 && d.before(s.heap[(i-1)/4]) {
		s.heap[i] = s.heap[(i-1)/4]
		i = (i - 1) / 4
	}
	s.heap[i] = d
	s.tidy()
	return s.head().entry == e.id
}

// remove removes the deadline of e, which is scheduled.
func (s *schedule[K]) remove(e *entry[K]) {
	e.deadline = 0
	s.n--
	s.tidy()
}

// tidy removes the deadlines that do not count, if they are a large part of the heap.
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

// clean removes the deadlines that do not count.
func (s *schedule[K]) clean() {
	s.heap = slices.DeleteFunc(s.heap, func(d deadline) bool { return !s.counts(d) })
}

// renumber gives all deadlines small numbers, in order, when the numbers are used up. The result is sorted, and so it is a heap.
func (s *schedule[K]) renumber() {
	s.clean()
	slices.SortFunc(s.heap, deadline.compare)
	s.number = 0
	for i := range s.heap {
		s.number++
		s.heap[i].number = s.number
		s.pool.at(s.heap[i].entry).deadline = s.number
	}
}

// shrink frees memory after a burst.
func (s *schedule[K]) shrink() {
	if c := cap(s.heap); c > keep && len(s.heap) <= c/4 {
		s.heap = append(make([]deadline, 0, c/2), s.heap...)
	}
}

// down puts d at place i or, while a child comes before it, below.
func (s *schedule[K]) down(i int, d deadline) {
	for {
		least, first := i, d
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

// release frees the memory of a schedule that is empty.
func (s *schedule[K]) release() { s.heap = nil }
