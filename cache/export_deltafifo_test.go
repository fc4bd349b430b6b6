package cache

import "fmt"

// CheckInvariants compares everything that the queue knows twice.
func (f *DeltaFIFO[K, T]) CheckInvariants() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	initial := 0
	count := func(it *item[K, T]) {
		if it.initial {
			initial++
		}
	}
	for it := f.waiting.head; it != nil; it = it.next {
		count(it)
		if err := it.check(); err != nil {
			return fmt.Errorf("%v: %w", it.key, err)
		}
	}
	if f.current != nil {
		count(f.current)
		if f.waiting.byKey.m[f.current.key] == f.current {
			return fmt.Errorf("%v waits and is processed", f.current.key)
		}
	}
	if err := f.waiting.check(f.seen); err != nil {
		return fmt.Errorf("waiting: %w", err)
	}
	if err := f.failed.check(f.seen); err != nil {
		return fmt.Errorf("failed: %w", err)
	}
	if f.waiting.head != nil && f.failed.tail != nil && f.failed.tail.floor > f.waiting.head.floor {
		return fmt.Errorf("failed at %d, but %d waits", f.failed.tail.floor, f.waiting.head.floor)
	}
	switch {
	case initial != f.initial:
		return fmt.Errorf("%d items of the first list, counted as %d", initial, f.initial)
	case f.started && initial == 0 && !f.HasSynced():
		return fmt.Errorf("nothing is left to wait for, but it is not in sync")
	case f.seen < f.below:
		return fmt.Errorf("seen %d is below %d", f.seen, f.below)
	case f.replacing == 0 && f.popped != nil:
		return fmt.Errorf("%v are kept for nobody", f.popped)
	}
	return nil
}

func (it *item[K, T]) check() error {
	d := it.deltas
	switch {
	case len(d) < 1 || len(d) > 2:
		return fmt.Errorf("%d deltas", len(d))
	case len(d) == 2 && (d[0].Type != Deleted || d[1].Type == Deleted):
		return fmt.Errorf("%v and then %v", d[0].Type, d[1].Type)
	case it.bare && d[0].Type != Sync && (d[0].Type != Deleted || !d[0].FinalStateUnknown):
		return fmt.Errorf("%v without an object", d[0].Type)
	}
	return nil
}

func (l *line[K, T]) check(seen uint64) error {
	n := 0
	for it := l.head; it != nil; it = it.next {
		n++
		switch {
		case l.byKey.m[it.key] != it:
			return fmt.Errorf("%v is not in the map", it.key)
		case it.floor > seen:
			return fmt.Errorf("%v is from %d, after %d", it.key, it.floor, seen)
		case it.next == nil && l.tail != it, it.next != nil && it.next.prev != it:
			return fmt.Errorf("%v is not linked", it.key)
		case it.next != nil && it.next.floor < it.floor:
			return fmt.Errorf("floors fall from %d to %d", it.floor, it.next.floor)
		}
	}
	if n != len(l.byKey.m) || l.byKey.peak < n || n == 0 && l.tail != nil {
		return fmt.Errorf("%d in line, %d in the map, at most %d", n, len(l.byKey.m), l.byKey.peak)
	}
	return nil
}
