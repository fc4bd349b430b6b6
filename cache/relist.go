package cache

// Replace reports the whole content of the source at version v. It queues a Replaced for each object of list, in its
// order (the last one counts when a key comes twice), and a tombstone for each key that list lacks and that is known,
// waits, or is being processed. A tombstone has the newest state known. An object that is known already, as
// [DeltaFIFOConfig].Equal says, is not queued when nothing else has happened to its key.
//
// A version lower than that of the call before means that the source has started a new history; see
// [DeltaFIFO.Version].
func (f *DeltaFIFO[K, T]) Replace(list []T, v uint64) error {
	l, err := f.newListing(list)
	if err != nil {
		return err
	}
	// Known is read without a lock, while the consumer may move keys from the queue to it. So the keys that it takes
	// out meanwhile are written down, and nothing is concluded from what known has said about them. To take note of too
	// many does no harm: a tombstone of a key that turns out to be unknown when its turn comes is dropped.
	if f.known != nil {
		f.watchPops()
		defer f.unwatchPops()
		l.compare(f.known, f.equal)
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

// listing is a list on its way into the queue.
type listing[K comparable, T any] struct {
	objs  []T
	keys  []K       // of objs; each once
	at    map[K]int // where in keys
	equal []bool    // objs that are known to be in the cache; nil when nobody has compared
	gone  []K       // keys that the list lacks
}

// newListing runs the code of the user on the objects.
func (f *DeltaFIFO[K, T]) newListing(list []T) (*listing[K, T], error) {
	l := &listing[K, T]{objs: make([]T, 0, len(list)), keys: make([]K, 0, len(list)), at: make(map[K]int, len(list))}
	for _, obj := range list {
		obj, key, err := f.prepare(obj)
		if err != nil {
			return nil, err
		}
		if i, twice := l.at[key]; twice {
			l.objs[i] = obj
			continue
		}
		l.at[key] = len(l.keys)
		l.objs, l.keys = append(l.objs, obj), append(l.keys, key)
	}
	return l, nil
}

// compare finds out what is known and not listed, and what is known and equal.
func (l *listing[K, T]) compare(known Known[K, T], equal func(known, listed T) bool) {
	if equal != nil {
		l.equal = make([]bool, len(l.keys))
	}
	for key, obj := range known.All() {
		i, ok := l.at[key]
		switch {
		case !ok:
			l.gone = append(l.gone, key)
		case equal != nil:
			l.equal[i] = equal(obj, l.objs[i])
		}
	}
}

// doubt notes that something happens to key: what was known of it does not count, and if it is not listed, it is gone.
func (l *listing[K, T]) doubt(key K) {
	i, ok := l.at[key]
	switch {
	case !ok:
		l.gone = append(l.gone, key)
	case l.equal != nil:
		l.equal[i] = false
	}
}

// replaceLocked queues what l brings.
func (f *DeltaFIFO[K, T]) replaceLocked(l *listing[K, T]) {
	f.waiting.lower(f.below) // everything that waits is about to get a change of version v
	first := !f.started
	note := func(it *item[K, T]) {
		if first && !it.initial {
			it.initial = true
			f.initial++
		}
	}
	tombstone := Delta[T]{Type: Deleted, FinalStateUnknown: true}
	for it := f.waiting.head; it != nil; it = it.next {
		if i, ok := l.at[it.key]; !ok {
			it.add(tombstone, true)
			note(it)
		} else if l.equal != nil {
			l.equal[i] = false
		}
	}
	for _, key := range f.popped {
		l.doubt(key)
	}
	for it := f.failed.head; it != nil; it = it.next {
		l.doubt(it.key) // if it is not known, its tombstone is dropped, and takes the failure along
	}

	news := len(l.keys)
	for _, equal := range l.equal {
		if equal {
			news--
		}
	}
	f.waiting.reserve(news)
	for i, key := range l.keys {
		if l.equal == nil || !l.equal[i] {
			note(f.enqueueLocked(key, Delta[T]{Type: Replaced, Object: l.objs[i]}, false, f.below))
		}
	}
	for _, key := range l.gone {
		if f.waiting.byKey.m[key] == nil {
			note(f.enqueueLocked(key, tombstone, true, f.below))
		}
	}
}

// rewindLocked starts a new history when v is lower than what has been seen: nothing that was processed says anything
// about it.
func (f *DeltaFIFO[K, T]) rewindLocked(v uint64) {
	if v >= f.seen {
		return
	}
	f.below, f.seen = 0, v
	if f.current != nil {
		f.current.floor = 0
	}
	f.failed.lower(0)
}

// watchPops starts to write down which keys the consumer takes out.
func (f *DeltaFIFO[K, T]) watchPops() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replacing++
	if f.current != nil {
		f.popped = append(f.popped, f.current.key)
	}
}

// unwatchPops undoes watchPops.
func (f *DeltaFIFO[K, T]) unwatchPops() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.replacing--; f.replacing == 0 {
		f.popped = nil
	}
}
