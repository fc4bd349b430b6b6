package cache

// Replace reports the whole content of the source at version v. It queues a Replaced for each object of list, in its
// order (the last one counts when a key comes twice), and a tombstone for each key that list lacks and that is known,
// waits, or is being processed. A tombstone has the newest state known. A version lower than that of the call before
// means that the source has started a new history; see [DeltaFIFO.Version].
func (f *DeltaFIFO[K, T]) Replace(list []T, v uint64) error {
	objs, keys := make([]T, len(list)), make([]K, len(list))
	listed := make(map[K]struct{}, len(list))
	for i, obj := range list {
		var err error
		if objs[i], keys[i], err = f.prepare(obj); err != nil {
			return err
		}
		listed[keys[i]] = struct{}{}
	}

	// Known is read without a lock, while the consumer may move keys from the queue to it. So the keys that it takes
	// out meanwhile are written down. To take note of too many does no harm: a tombstone of a key that turns out to be
	// unknown when its turn comes is dropped.
	var gone []K
	if f.known != nil {
		f.watchPops()
		defer f.unwatchPops()
		for key := range f.known.All() {
			if _, ok := listed[key]; !ok {
				gone = append(gone, key)
			}
		}
	}

	defer f.signal()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	f.rewindLocked(v)
	f.advanceLocked(v)
	f.waiting.lower(f.below) // everything that waits is about to get a change of version v
	first := !f.started
	note := func(it *item[K, T]) {
		if first && !it.initial {
			it.initial = true
			f.initial++
		}
	}

	for i, key := range keys {
		note(f.enqueueLocked(key, Delta[T]{Type: Replaced, Object: objs[i]}, false, f.below))
	}
	tombstone := Delta[T]{Type: Deleted, FinalStateUnknown: true}
	for it := f.waiting.head; it != nil; it = it.next {
		if _, ok := listed[it.key]; !ok {
			it.add(tombstone, true)
			note(it)
		}
	}
	gone = append(gone, f.popped...)
	for it := f.failed.head; it != nil; it = it.next {
		gone = append(gone, it.key) // if it is not known, its tombstone is dropped, and takes the failure along
	}
	for _, key := range gone {
		_, ok := listed[key]
		if !ok && f.waiting.byKey.m[key] == nil {
			note(f.enqueueLocked(key, tombstone, true, f.below))
		}
	}
	f.startLocked()
	return nil
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
