package cache

import "context"

// Pop waits until a key waits, takes it out, and calls process with all that has happened to it since it was taken out
// last. initial says whether it belongs to the first list (see [DeltaFIFO.HasSynced]). process runs in the goroutine of the
// caller, without locks.
//
// Pop returns what process returns. After an error the key is not queued again, but Version stays below its changes:
// it is for the caller to list the source again, or to give up. It is the same when process panics.
//
// Pop returns the cause of ctx when ctx has ended, and ErrClosed when the queue has been closed and is empty. It panics
// when another call of Pop or TryPop has not returned yet.
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

// TryPop is Pop without the wait: it returns false when nothing waits.
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

// pop processes the first item that has something to tell, if there is one.
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

// take makes the first item that waits the current one, if there is one.
func (f *DeltaFIFO[K, T]) take() (ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.waiting.first()
	switch {
	case e != nil:
	case f.closed:
		return false, ErrClosed
	default:
		return false, nil
	}
	f.current = *e
	f.waiting.remove(e)
	if f.replacing > 0 {
		f.popped = append(f.popped, hashed[K]{f.current.key, f.current.hash})
	}
	return true, nil
}

// handle calls process with what is to be told of the current item, unless that is nothing. It reads the item without the
// lock: others change only its floor.
func (f *DeltaFIFO[K, T]) handle(process func(K, Deltas[T], bool) error) (told bool, err error) {
	done := false // stays so when user code panics
	defer func() { f.finish(done) }()
	deltas, tell := f.resolve(f.current.key, &f.current.v)
	if !tell {
		done = true
		return false, nil
	}
	err = process(f.current.key, deltas, f.current.v.initial)
	done = err == nil
	return true, err
}

// resolve returns the deltas of an item that has been taken out, and whether there is something to tell. Only the consumer
// writes to known, and it is here, so now known is what the consumer was told: the deletion of a key that is not in it is
// none, and a Sync or tombstone without an object is about the object that is in it.
func (f *DeltaFIFO[K, T]) resolve(key K, it *item[T]) (deltas Deltas[T], tell bool) {
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
		it.gone = obj
	}
	return it.deltas(), true
}

// finish takes note that the current item has been processed. A Sync is no change: it neither fails nor heals a key.
func (f *DeltaFIFO[K, T]) finish(done bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	it := &f.current
	switch failed := f.failed.find(it.key, it.hash); {
	case it.v.what == Sync:
	case done && failed != nil:
		f.failed.remove(failed)
	case !done && failed == nil: // otherwise the older failure stays
		e, _ := f.failed.push(it.key, it.hash)
		e.v = it.v.floor
	}
	if it.v.initial {
		f.initial--
		f.startLocked()
	}
	*it = node[K, item[T]]{}
}
