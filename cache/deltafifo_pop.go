package cache

import (
	"context"

	"github.com/setpoint-go/setpoint/internal/hashtable"
)

// Pop waits for a key, removes it from the queue, and calls process with its changes since it was last taken. initial reports
// whether they belong to the first list (see [DeltaFIFO.HasSynced]). process runs in the goroutine of the caller, without
// locks.
//
// Pop returns the error of process. After an error, or a panic, the key is not queued again, but Version stays below its
// changes: the caller should list the source again, or give up.
//
// Pop returns the cause of ctx if ctx has ended, and ErrClosed if the queue is closed and empty. It panics if another Pop or
// TryPop has not returned yet.
func (f *DeltaFIFO[K, T]) Pop(ctx context.Context, process func(key K, deltas Deltas[T], initial bool) error) error {
	f.enter("Pop")
	defer f.popping.Store(false)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if popped, err := f.pop(process); popped || err != nil {
			return err
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
		}
	}
}

// TryPop is like Pop but does not wait: it returns false if no key is waiting.
func (f *DeltaFIFO[K, T]) TryPop(process func(key K, deltas Deltas[T], initial bool) error) (popped bool, err error) {
	f.enter("TryPop")
	defer f.popping.Store(false)
	return f.pop(process)
}

func (f *DeltaFIFO[K, T]) enter(method string) {
	if !f.popping.CompareAndSwap(false, true) {
		panic("cache: DeltaFIFO." + method + ": another Pop has not returned: a DeltaFIFO has one consumer")
	}
}

// pop processes the first item that has something to report, if there is one.
func (f *DeltaFIFO[K, T]) pop(process func(K, Deltas[T], bool) error) (popped bool, err error) {
	for {
		if ok, err := f.take(); !ok {
			return false, err
		}
		if popped, err := f.handle(process); popped {
			return true, err
		}
	}
}

// take makes the first waiting item the current one, if there is one.
func (f *DeltaFIFO[K, T]) take() (ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.waiting.First()
	switch {
	case e != nil:
	case f.closed:
		return false, ErrClosed
	default:
		return false, nil
	}
	f.current = *e
	f.waiting.Remove(e)
	if f.replacing > 0 {
		f.popped = append(f.popped, hashed[K]{f.current.Key, f.current.Hash})
	}
	return true, nil
}

// handle calls process for the current item, if there is something to report. It reads the item without the lock, because other goroutines
// change only its floor.
func (f *DeltaFIFO[K, T]) handle(process func(K, Deltas[T], bool) error) (reported bool, err error) {
	done := false // stays false if user code panics
	defer func() { f.finish(done) }()
	deltas, report := f.resolve(f.current.Key, &f.current.Value)
	if !report {
		done = true
		return false, nil
	}
	err = process(f.current.Key, deltas, f.current.Value.initial)
	done = err == nil
	return true, err
}

// resolve returns the deltas of an item that was taken, and whether there is something to report. Only the consumer writes to known, and it
// is running this function, so known shows what the consumer has seen. The deletion of a key that is not in known is dropped. A Sync or a
// tombstone without an object gets its object from known.
func (f *DeltaFIFO[K, T]) resolve(key K, it *item[T]) (deltas Deltas[T], report bool) {
	if !it.bare && (!it.deleted || f.known == nil) {
		return it.deltas(), true
	}
	var obj T
	known := false
	if f.known != nil {
		obj, known = f.known.Get(key)
	}
	switch {
	case !known && (it.what == 0 || it.what == Sync):
		return deltas, false
	case !known:
		it.deleted = false
	case it.what == Sync:
		it.obj = obj
	case it.bare:
		it.deletedObj = obj
	}
	return it.deltas(), true
}

// finish records that the current item has been processed. A Sync is not a change: it neither makes a key fail nor ends a failure.
func (f *DeltaFIFO[K, T]) finish(done bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	it := &f.current
	switch failed := f.failed.Find(it.Key, it.Hash); {
	case it.Value.what == Sync:
	case done && failed != nil:
		f.failed.Remove(failed)
	case !done && failed == nil: // otherwise the earlier failure stays
		e, _ := f.failed.Push(it.Key, it.Hash)
		e.Value = it.Value.floor
	}
	if it.Value.initial {
		f.initial--
		f.startLocked()
	}
	*it = hashtable.Node[K, item[T]]{}
}
