package cache

import "github.com/setpoint-go/setpoint/internal/hashtable"

// Replace reports the whole content of the source at version v. It queues a Replaced for each object of list, in the order of list; if a
// key is in list twice, the last object counts. It queues a tombstone, with the newest known state, for each key that is known, waiting, or
// being processed and not in list. It does not queue an object that [DeltaFIFOConfig].Equal reports as known, unless there was another
// change to its key.
//
// A lower version than that of the previous call means that the source has started a new history; see [DeltaFIFO.Version].
func (f *DeltaFIFO[K, T]) Replace(list []T, v uint64) error {
	l, err := f.newListing(list)
	if err != nil {
		return err
	}
	// compare reads known without a lock, while the consumer may move keys from the queue to it. So the queue records the keys that the
	// consumer takes in the meantime, and ignores what compare found about them. Recording too many is harmless: a tombstone of an unknown
	// key is dropped when the consumer takes it.
	if f.known != nil {
		f.watchPops()
		defer f.unwatchPops()
		f.compare(l)
	}

	defer f.signal()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	f.rewindLocked(v)
	f.advanceLocked(v)
	f.replaceLocked(l)
	f.startLocked()
	return nil
}

// listing is a list on its way into the queue: the items to queue for its keys, still without floors. Nothing is ever removed from it, so
// the places of the items are 0, 1, and so on.
type listing[K comparable, T any] struct {
	hashtable.Ordered[K, item[T]]
	equal   []bool      // whether the cache is known to have the item, by place
	missing []hashed[K] // keys that are not in the list
}

// newListing runs the user functions on the objects.
func (f *DeltaFIFO[K, T]) newListing(list []T) (*listing[K, T], error) {
	l := &listing[K, T]{Ordered: hashtable.NewOrdered[K, item[T]](f.seed)}
	l.Reserve(len(list))
	for _, obj := range list {
		obj, key, err := f.prepare(obj)
		if err != nil {
			return nil, err
		}
		e, _ := l.Push(key, f.hash(key))
		e.Value.obj, e.Value.what = obj, Replaced
	}
	l.equal = make([]bool, l.Len())
	return l, nil
}

// compare finds the known objects that are not listed, and those that are equal to the listed ones. A list usually has the
// order of the known objects, so compare tries the next place of the list first.
func (f *DeltaFIFO[K, T]) compare(l *listing[K, T]) {
	next := 0
	for key, obj := range f.known.All() {
		at := next
		if at >= l.Len() || l.At(at).Key != key {
			hash := f.hash(key)
			if at = l.Search(key, hash); at < 0 {
				l.missing = append(l.missing, hashed[K]{key, hash})
				continue
			}
		}
		l.equal[at] = f.equal != nil && f.equal(obj, l.At(at).Value.obj)
		next = at + 1
	}
}

// doubt records a change to key: its known state does not count, and if it is not listed, it was deleted.
func (l *listing[K, T]) doubt(key K, hash uint32) {
	if at := l.Search(key, hash); at >= 0 {
		l.equal[at] = false
	} else {
		l.missing = append(l.missing, hashed[K]{key, hash})
	}
}

// replaceLocked queues the changes in l.
func (f *DeltaFIFO[K, T]) replaceLocked(l *listing[K, T]) {
	first := !f.started
	note := func(it *item[T]) {
		if first && !it.initial {
			it.initial = true
			f.initial++
		}
	}
	tombstone := Delta[T]{Type: Deleted, FinalStateUnknown: true}
	for e := range f.waiting.All() {
		if at := l.Search(e.Key, e.Hash); at >= 0 {
			l.equal[at] = false
		} else {
			e.Value.add(tombstone)
			note(&e.Value)
		}
	}
	for _, k := range f.popped {
		l.doubt(k.key, k.hash)
	}
	for e := range f.failed.All() {
		l.doubt(e.Key, e.Hash) // the tombstone of an unknown key is dropped when it is taken, and so is the failure
	}

	news := l.Len()
	for _, equal := range l.equal {
		if equal {
			news--
		}
	}
	if news == l.Len() && f.waiting.Len() == 0 {
		for e := range l.All() {
			e.Value.floor = f.below
			note(&e.Value)
		}
		f.waiting = l.Ordered
	} else {
		f.waiting.Reserve(news)
		for at, equal := range l.equal {
			if e := l.At(at); !equal {
				note(f.enqueueLocked(e.Key, e.Hash, Delta[T]{Type: Replaced, Object: e.Value.obj}, f.below))
			}
		}
	}
	for _, k := range l.missing { // some are already waiting, or appear twice: a second tombstone changes only the floors
		note(f.enqueueLocked(k.key, k.hash, tombstone, f.below))
	}
}

// rewindLocked starts a new history if v is lower than the last version: changes processed earlier mean nothing there.
func (f *DeltaFIFO[K, T]) rewindLocked(v uint64) {
	if v >= f.seen {
		return
	}
	f.below, f.seen = 0, v
	f.lowerLocked(0)
	f.current.Value.floor = 0
	for e := range f.failed.All() {
		e.Value = 0
	}
}

// watchPops starts recording the keys that the consumer takes.
func (f *DeltaFIFO[K, T]) watchPops() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replacing++
	if f.current.Present {
		f.popped = append(f.popped, hashed[K]{f.current.Key, f.current.Hash})
	}
}

// unwatchPops stops it.
func (f *DeltaFIFO[K, T]) unwatchPops() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.replacing--; f.replacing == 0 {
		f.popped = nil
	}
}
