package entry

import "iter"

// List is a linked list of entries, first in, first out.
type List[K comparable] struct {
	pool        *pool[K]
	first, last id
	n           int
}

// Len returns the number of entries.
func (l *List[K]) Len() int { return l.n }

// Head returns the first entry, nil if there is none.
func (l *List[K]) Head() *Entry[K] {
	if l.n == 0 {
		return nil
	}
	return l.pool.at(l.first)
}

// All iterates over the entries, in order.
func (l *List[K]) All() iter.Seq[*Entry[K]] {
	return func(yield func(*Entry[K]) bool) {
		for i := l.first; i != 0; {
			e := l.pool.at(i)
			if !yield(e) {
				return
			}
			i = e.next
		}
	}
}

// Push adds e, which is in no list, at the end.
func (l *List[K]) Push(e *Entry[K]) {
	e.prev, e.next = l.last, 0
	if l.last != 0 {
		l.pool.at(l.last).next = e.id
	} else {
		l.first = e.id
	}
	l.last = e.id
	l.n++
}

// Remove removes e, which is in the list.
func (l *List[K]) Remove(e *Entry[K]) {
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
