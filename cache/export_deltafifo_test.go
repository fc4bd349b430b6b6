package cache

import (
	"fmt"
	"reflect"

	"github.com/setpoint-go/setpoint/internal/hashtable"
)

// CheckInvariants compares everything that the queue knows twice.
func (f *DeltaFIFO[K, T]) CheckInvariants() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	initial := 0
	for e := range f.waiting.All() {
		if e.Value.initial {
			initial++
		}
		if err := e.Value.check(); err != nil {
			return fmt.Errorf("%v: %w", e.Key, err)
		}
	}
	if f.current.Value.initial {
		initial++
	}
	if !f.current.Present && !reflect.ValueOf(f.current).IsZero() {
		return fmt.Errorf("%v is kept, but not processed", f.current.Key)
	}
	if err := checkFloors(&f.waiting, f.seen, func(it item[T]) uint64 { return it.floor }); err != nil {
		return fmt.Errorf("waiting: %w", err)
	}
	if err := checkFloors(&f.failed, f.seen, func(floor uint64) uint64 { return floor }); err != nil {
		return fmt.Errorf("failed: %w", err)
	}
	if f.waiting.Len() > 0 && f.failed.Len() > 0 && f.failed.Last().Value > f.waiting.First().Value.floor {
		return fmt.Errorf("failed at %d, but %d waits", f.failed.Last().Value, f.waiting.First().Value.floor)
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
	switch {
	case !it.deleted && it.what == 0:
		return fmt.Errorf("nothing is told")
	case it.what == Deleted || it.what == Sync && it.deleted:
		return fmt.Errorf("%v after a deletion: %v", it.what, it.deleted)
	case it.unknown && !it.deleted || it.bare && !it.unknown && it.what != Sync || it.what == Sync && !it.bare:
		return fmt.Errorf("%v, deleted: %v, unknown: %v, without an object: %v", it.what, it.deleted, it.unknown, it.bare)
	case !reflect.ValueOf(it.gone).IsZero() && (!it.deleted || it.bare) || !reflect.ValueOf(it.obj).IsZero() && (it.what == 0 || it.what == Sync):
		return fmt.Errorf("%v and %v are kept, but not told", it.gone, it.obj)
	}
	return nil
}

func checkFloors[K comparable, V any](l *hashtable.Ordered[K, V], seen uint64, floor func(V) uint64) error {
	before := uint64(0)
	for e := range l.All() {
		switch at := floor(e.Value); {
		case at > seen:
			return fmt.Errorf("%v is from %d, after %d", e.Key, at, seen)
		case at < before:
			return fmt.Errorf("floors fall from %d to %d", before, at)
		default:
			before = at
		}
	}
	return l.Check()
}
