package cache

import "context"

// Pop waits until a key waits, takes it out, and calls process with all that has happened to it since it was taken out
// last: one delta, or a Deleted and then another one. initial says whether it belongs to the first list (see
// [DeltaFIFO.HasSynced]). process runs in the goroutine of the caller, without locks, and may keep deltas.
//
// Pop returns what process returns. After an error the key is not queued again, but Version stays below its changes:
// it is for the caller to list the source again, or to give up. It is the same when process panics.
//
// Pop returns the cause of ctx when ctx has ended, and ErrClosed when the queue has been closed and is empty. It panics
// when another call of Pop or TryPop has not returned yet.
func (f *DeltaFIFO[K, T]) Pop(ctx context.Context, process func(key K, deltas []Delta[T], initial bool) error) error {
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
func (f *DeltaFIFO[K, T]) TryPop(process func(key K, deltas []Delta[T], initial bool) error) (popped bool, err error) {
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
func (f *DeltaFIFO[K, T]) pop(process func(K, []Delta[T], bool) error) (popped bool, err error) {
	for {
		it, err := f.take()
		if it == nil {
			return false, err
		}
		if popped, err := f.handle(it, process); popped {
			return true, err
		}
	}
}

// take makes the first item that waits the current one.
func (f *DeltaFIFO[K, T]) take() (*node[K, item[T]], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	it := f.waiting.first
	switch {
	case it != nil:
	case f.closed:
		return nil, ErrClosed
	default:
		return nil, nil
	}
	f.waiting.remove(it)
	f.current = it
	if f.replacing > 0 {
		f.popped = append(f.popped, hashed[K]{it.key, it.hash})
	}
	return it, nil
}

// handle calls process with what is to be told of it, unless that is nothing.
func (f *DeltaFIFO[K, T]) handle(it *node[K, item[T]], process func(K, []Delta[T], bool) error) (told bool, err error) {
	sync := it.v.deltas[0].Type == Sync // read before process can write to it
	done := false                       // stays so when user code panics
	defer func() { f.finish(it, sync, done) }()
	deltas := f.resolve(it.key, &it.v)
	if len(deltas) == 0 {
		done = true
		return false, nil
	}
	err = process(it.key, deltas, it.v.initial)
	done = err == nil
	return true, err
}

// resolve returns the deltas of an item that has been taken out. Only the consumer writes to known, and it is here, so
// now known is what the consumer was told: the deletion of a key that is not in it is none, and a Sync or tombstone
// without an object is about the object that is in it.
func (f *DeltaFIFO[K, T]) resolve(key K, it *item[T]) []Delta[T] {
	first := &it.deltas[0]
	if !it.bare && (first.Type != Deleted || f.known == nil) {
		return it.deltas
	}
	if f.known != nil {
		if obj, ok := f.known.Get(key); ok {
			if it.bare {
				first.Object = obj
			}
			return it.deltas
		}
	}
	return it.deltas[1:]
}

// finish takes note of an item that has been processed. A Sync is no change: it neither fails nor heals a key.
func (f *DeltaFIFO[K, T]) finish(it *node[K, item[T]], sync, done bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current = nil
	switch failed := f.failed.find(it.key, it.hash); {
	case sync:
	case done && failed != nil:
		f.failed.remove(failed)
	case !done && failed == nil: // otherwise the older failure stays
		f.failed.push(it.key, it.hash, item[T]{floor: it.v.floor})
	}
	if it.v.initial {
		f.initial--
		f.startLocked()
	}
}
