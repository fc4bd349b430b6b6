package workqueue

// schedule holds the wake-ups, the earliest first; of equal ones the one that was set first. It is a heap of four
// branches, which needs fewer cache misses than one of two. The zero value is empty.
type schedule[K comparable] struct {
	heap []wakeup[K] // heap[i].e.slot == i
	seq  uint64
}

type wakeup[K comparable] struct {
	due int64 // nanoseconds on the clock of the queue
	seq uint64
	e   *entry[K]
}

func (s *schedule[K]) len() int             { return len(s.heap) }
func (s *schedule[K]) first() wakeup[K]     { return s.heap[0] }
func (s *schedule[K]) before(i, j int) bool { return s.heap[i].before(s.heap[j]) }
func (a wakeup[K]) before(b wakeup[K]) bool { return a.due < b.due || a.due == b.due && a.seq < b.seq }

// set schedules e, or moves it.
func (s *schedule[K]) set(e *entry[K], due int64) {
	if e.slot >= 0 && s.heap[e.slot].due == due {
		return
	}
	s.seq++
	if e.slot < 0 {
		e.slot = len(s.heap)
		s.heap = append(s.heap, wakeup[K]{})
	}
	s.heap[e.slot] = wakeup[K]{due, s.seq, e}
	s.down(s.up(e.slot))
}

// remove takes e, which is scheduled, off the heap.
func (s *schedule[K]) remove(e *entry[K]) {
	i, last := e.slot, len(s.heap)-1
	s.swap(i, last)
	s.heap[last] = wakeup[K]{}
	s.heap = s.heap[:last]
	e.slot = -1
	if i < last {
		s.down(s.up(i))
	}
	if c := cap(s.heap); c > keep && last <= c/4 {
		s.heap = append(make([]wakeup[K], 0, c/2), s.heap...)
	}
}

// clear drops all wake-ups and returns their entries.
func (s *schedule[K]) clear() []wakeup[K] {
	heap := s.heap
	for _, w := range heap {
		w.e.slot = -1
	}
	s.heap = nil
	return heap
}

func (s *schedule[K]) up(i int) int {
	for i > 0 {
		parent := (i - 1) / 4
		if !s.before(i, parent) {
			break
		}
		s.swap(i, parent)
		i = parent
	}
	return i
}

func (s *schedule[K]) down(i int) {
	for {
		least := i
		for c := 4*i + 1; c <= 4*i+4 && c < len(s.heap); c++ {
			if s.before(c, least) {
				least = c
			}
		}
		if least == i {
			return
		}
		s.swap(i, least)
		i = least
	}
}

func (s *schedule[K]) swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.heap[i].e.slot, s.heap[j].e.slot = i, j
}
