package entry

import (
	"cmp"
	"math"
	"slices"
)

// Schedule holds one wakeup for each entry with deadlines, the earliest first. Of equal ones, the one that was set first comes first;
// setting one again counts as new, even to the same time. It is a 4-ary heap, which causes fewer cache misses than a binary heap. A wakeup
// that no longer counts stays in the heap until it reaches the top or there are many of them. So nothing ever searches the heap, and moving
// a wakeup within it touches no entry.
//
// Invariants, which Check tests:
//
//  1. A wakeup counts if and only if its number is that of its entry. n is the number of wakeups that count.
//  2. At most n+slack of the wakeups in the heap do not count, except during a shutdown.
//  3. No wakeup is before its parent.
//  4. An entry is scheduled if and only if it has a deadline, and then for the earliest one.
type Schedule[K comparable] struct {
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

// NewSchedule returns an empty schedule for entries of t.
func NewSchedule[K comparable](t *Table[K]) Schedule[K] { return Schedule[K]{pool: t.pool} }

// Len returns the number of entries.
func (s *Schedule[K]) Len() int { return s.n }

// slack is a number of dead wakeups that is harmless.
const slack = 32

// counts reports whether w counts. By now, its entry may have another key, or its memory may be freed.
func (s *Schedule[K]) counts(w wakeup) bool {
	return s.pool.has(w.entry) && s.pool.at(w.entry).wakeup == w.number
}

// before reports whether a comes before b. It is a method of Schedule, because the compiler inlines only generic code here.
func (s *Schedule[K]) before(a, b wakeup) bool {
	return a.due < b.due || a.due == b.due && a.number < b.number
}

func (w wakeup) compare(other wakeup) int {
	return cmp.Or(cmp.Compare(w.due, other.due), cmp.Compare(w.number, other.number))
}

// First returns the entry that is due first, and when. There must be one.
func (s *Schedule[K]) First() (e *Entry[K], due int64) {
	w := s.first()
	return s.pool.at(w.entry), w.due
}

// FirstDue returns when the first entry is due. There must be one.
func (s *Schedule[K]) FirstDue() int64 { return s.first().due }

// first removes the wakeups at the top that do not count, and returns the first one that does.
func (s *Schedule[K]) first() wakeup {
	for !s.counts(s.heap[0]) {
		last := len(s.heap) - 1
		moved := s.heap[last]
		s.heap = s.heap[:last]
		s.down(0, moved)
		s.shrink()
	}
	return s.heap[0]
}

// Last returns an entry that is cheap to find. There must be one.
func (s *Schedule[K]) Last() *Entry[K] {
	for !s.counts(s.heap[len(s.heap)-1]) {
		s.heap = s.heap[:len(s.heap)-1]
	}
	return s.pool.at(s.heap[len(s.heap)-1].entry)
}

// Update schedules e for its earliest deadline, or removes it if it has none. The caller calls Update whenever a deadline has changed. It
// reports whether e is now the first.
func (s *Schedule[K]) Update(e *Entry[K]) (first bool) {
	due := e.Due()
	if due == 0 {
		if e.IsScheduled() {
			s.remove(e)
		}
		return false
	}
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
	for i > 0 && s.before(w, s.heap[(i-1)/4]) {
		s.heap[i] = s.heap[(i-1)/4]
		i = (i - 1) / 4
	}
	s.heap[i] = w
	s.tidy()
	return s.first().entry == e.id
}

// remove removes the wakeup of e, which is scheduled.
func (s *Schedule[K]) remove(e *Entry[K]) {
	e.wakeup = 0
	s.n--
	s.tidy()
}

// tidy removes the wakeups that do not count, if they are a large part of the heap.
func (s *Schedule[K]) tidy() {
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
func (s *Schedule[K]) clean() {
	s.heap = slices.DeleteFunc(s.heap, func(w wakeup) bool { return !s.counts(w) })
}

// renumber gives all wakeups small numbers, in order, when the numbers are used up. The result is sorted, and so it is a heap.
func (s *Schedule[K]) renumber() {
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
func (s *Schedule[K]) shrink() {
	if c := cap(s.heap); c > keep && len(s.heap) <= c/4 {
		s.heap = append(make([]wakeup, 0, c/2), s.heap...)
	}
}

// down puts w at place i or, while a child comes before it, below.
func (s *Schedule[K]) down(i int, w wakeup) {
	for {
		least, first := i, w
		for c := 4*i + 1; c <= 4*i+4 && c < len(s.heap); c++ {
			if s.before(s.heap[c], first) {
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

// Release frees the memory of a schedule that is empty.
func (s *Schedule[K]) Release() { s.heap = nil }
