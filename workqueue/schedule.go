package workqueue

import (
	"cmp"
	"math"
	"slices"
)

// schedule holds the wake-ups, the earliest first; of equal ones the one that was set first, where setting one again, even
// to the same time, counts. It is a heap of four branches, which needs fewer cache misses than one of two. A wake-up that
// no longer counts stays in the heap until it gets to the top or there are many of them, so that nothing in the heap needs
// to be found, and no entry needs to know where its wake-up is: moving those would touch an entry at each step. The zero
// value is empty.
//
// Invariants, which check tests:
//
//  1. A wake-up counts if and only if its number is that of its entry. n is the number of those that count.
//  2. At most n+slack of those in the heap do not count.
//  3. No wake-up is before its parent.
type schedule[K comparable] struct {
	pool *pool[K]
	heap []wakeup
	n    int
	last uint32 // number of a wake-up
}

type wakeup struct {
	due    int64 // nanoseconds on the clock of the queue
	number uint32
	entry  id
}

// slack is how many wake-ups that do not count are in a heap without harm.
const slack = 32

// counts reports whether w counts. Its entry may be that of another key by now, or be gone with its memory.
func (s *schedule[K]) counts(w wakeup) bool {
	return s.pool.has(w.entry) && s.pool.at(w.entry).wakeup == w.number
}

func (w wakeup) before(other wakeup) bool {
	return w.due < other.due || w.due == other.due && w.number < other.number
}

func (w wakeup) compare(other wakeup) int {
	return cmp.Or(cmp.Compare(w.due, other.due), cmp.Compare(w.number, other.number))
}

// first returns the wake-up that is due first. There must be one.
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

// set schedules e, or moves it. It reports whether e is now the first.
func (s *schedule[K]) set(e *entry[K], due int64) bool {
	if e.wakeup == 0 {
		s.n++
	}
	if s.last == math.MaxUint32 {
		s.renumber()
	}
	s.last++
	e.wakeup = s.last
	w := wakeup{due, s.last, e.id}
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

// remove takes e, which is scheduled, off the schedule.
func (s *schedule[K]) remove(e *entry[K]) {
	e.wakeup = 0
	s.n--
	s.tidy()
}

// tidy takes out what does not count, when that is much of the heap.
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

// clean takes out what does not count.
func (s *schedule[K]) clean() {
	s.heap = slices.DeleteFunc(s.heap, func(w wakeup) bool { return !s.counts(w) })
}

// renumber gives all wake-ups small numbers, in their order, because the numbers are used up. What is in order is a heap.
func (s *schedule[K]) renumber() {
	s.clean()
	slices.SortFunc(s.heap, wakeup.compare)
	s.last = 0
	for i := range s.heap {
		s.last++
		s.heap[i].number = s.last
		s.pool.at(s.heap[i].entry).wakeup = s.last
	}
}

// shrink gives memory back after a burst.
func (s *schedule[K]) shrink() {
	if c := cap(s.heap); c > keep && len(s.heap) <= c/4 {
		s.heap = append(make([]wakeup, 0, c/2), s.heap...)
	}
}

// clear drops all wake-ups and returns those that counted.
func (s *schedule[K]) clear() []wakeup {
	s.clean()
	counted := s.heap
	for _, w := range counted {
		s.pool.at(w.entry).wakeup = 0
	}
	s.heap, s.n = nil, 0
	return counted
}

// down puts w into place i or, as long as something comes before it there, below.
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
