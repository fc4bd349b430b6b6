package delivery

import (
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
)

// The rest of this file is for tests, including those of package informer: they decide the order of every step, and inspect the pending
// items between two steps.

// Item is the pending change of a key for a handler.
type Item[T any] struct {
	Known, Now    State[T]
	Gone, Unknown bool // Known was deleted; the final state was missed
	Initial       bool
}

// Asks returns the number of calls of Ask that are not answered.
func (l *Listener[K, T]) Asks() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.backlog.asks)
}

// Owes reports whether the next call is for the current item. The caller makes all calls.
func (l *Listener[K, T]) Owes() bool { return l.owes }

// Pending yields the pending items, in order. The caller makes all calls.
func (l *Listener[K, T]) Pending() iter.Seq2[K, Item[T]] {
	return func(yield func(K, Item[T]) bool) {
		if isClosed(l.gone) {
			return
		}
		initial := make(map[*item[K, T]]bool)
		for _, o := range l.initial.all() {
			it := Item[T]{Now: State[T]{o.obj, true}, Initial: true}
			if waits := l.backlog.find(maphash.Comparable(l.seed, o.key), o.key); waits != nil {
				initial[waits] = true
				it.Now.Object = waits.now.Object
				if waits.gone {
					continue
				}
			}
			if !yield(o.key, it) {
				return
			}
		}
		for it := l.backlog.first; it != nil; it = it.after {
			item := Item[T]{Known: it.known, Now: it.now, Gone: it.gone, Unknown: it.missed}
			if initial[it] {
				if !it.gone || !it.now.Present {
					continue
				}
				item = Item[T]{Now: it.now}
			}
			if !yield(it.key, item) {
				return
			}
		}
	}
}

// all returns the objects whose turn is still to come.
func (p *present[K, T]) all() []object[K, T] {
	for p.next != nil {
		piece, ok := p.next()
		if p.piece = slices.Concat(p.piece, piece); !ok {
			p.next = nil
		}
	}
	return p.piece
}

// CheckInvariants returns the first invariant that is broken.
func (l *Listener[K, T]) CheckInvariants() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dismissed && l.backlog.n > 0 {
		return fmt.Errorf("it is dismissed, and something waits")
	}
	return l.backlog.checkInvariants()
}

func (b *backlog[K, T]) checkInvariants() error {
	n := 0
	var before *item[K, T]
	for it := b.first; it != nil; before, it = it, it.after {
		n++
		switch {
		case !b.every && b.find(it.hash, it.key) != it:
			return fmt.Errorf("key %v: the list has an item that the table has not", it.key)
		case it.before != before:
			return fmt.Errorf("key %v: the list is broken", it.key)
		case !it.known.Present && !it.now.Present:
			return fmt.Errorf("key %v: nothing is to be told", it.key)
		case it.gone && !it.known.Present:
			return fmt.Errorf("key %v: it goes, and was not there", it.key)
		case it.known.Present && !it.now.Present && !it.gone:
			return fmt.Errorf("key %v: it is not there, and does not go", it.key)
		case it.initial:
			return fmt.Errorf("key %v: it is initial, and in the backlog", it.key)
		}
	}
	switch {
	case b.last != before:
		return fmt.Errorf("the last item is not the last")
	case n != b.n:
		return fmt.Errorf("%d items in the list, %d counted", n, b.n)
	}
	return nil
}
