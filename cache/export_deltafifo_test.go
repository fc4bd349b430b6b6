package cache

import "fmt"

// CheckInvariants compares everything that the queue knows twice.
func (f *DeltaFIFO[K, T]) CheckInvariants() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	initial := 0
	count := func(it *item[T]) {
		if it.initial {
			initial++
		}
	}
	for e := f.waiting.first; e != nil; e = e.next {
		count(&e.v)
		if err := e.v.check(); err != nil {
			return fmt.Errorf("%v: %w", e.key, err)
		}
	}
	if f.current != nil {
		count(&f.current.v)
		if f.waiting.get(f.current.key) == f.current {
			return fmt.Errorf("%v waits and is processed", f.current.key)
		}
	}
	if err := checkFloors(&f.waiting, f.seen); err != nil {
		return fmt.Errorf("waiting: %w", err)
	}
	if err := checkFloors(&f.failed, f.seen); err != nil {
		return fmt.Errorf("failed: %w", err)
	}
	if f.waiting.n > 0 && f.failed.n > 0 && f.failed.last.v.floor > f.waiting.first.v.floor {
		return fmt.Errorf("failed at %d, but %d waits", f.failed.last.v.floor, f.waiting.first.v.floor)
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

func (it *item[T]) check() error {
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

func checkFloors[K comparable, T any](l *line[K, item[T]], seen uint64) error {
	for e := l.first; e != nil; e = e.next {
		switch {
		case e.v.floor > seen:
			return fmt.Errorf("%v is from %d, after %d", e.key, e.v.floor, seen)
		case e.next != nil && e.next.v.floor < e.v.floor:
			return fmt.Errorf("floors fall from %d to %d", e.v.floor, e.next.v.floor)
		}
	}
	return l.check()
}
