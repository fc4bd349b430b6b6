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

// listing is a list on its way into the queue: with a hash table, as that of a line, but of places in the list.
type listing[K comparable, T any] struct {
	objs  []T
	keys  []hashed[K] // of objs; each once
	slots []uint64    // the hash, and the place in keys plus one; 0 if the slot is empty
	equal []bool      // objs that are known to be in the cache; nil when nobody has compared
	gone  []hashed[K] // keys that the list lacks
}

// newListing runs the code of the user on the objects.
func (f *DeltaFIFO[K, T]) newListing(list []T) (*listing[K, T], error) {
	slots := minSlots
	for 5*len(list) > 4*slots {
		slots *= 2
	}
	l := &listing[K, T]{objs: make([]T, 0, len(list)), keys: make([]hashed[K], 0, len(list)), slots: make([]uint64, slots)}
	for _, obj := range list {
		obj, key, err := f.prepare(obj)
		if err != nil {
			return nil, err
		}
		hash := f.hash(key)
		i, slot := l.find(key, hash)
		if i >= 0 {
			l.objs[i] = obj
			continue
		}
		l.objs, l.keys = append(l.objs, obj), append(l.keys, hashed[K]{key, hash})
		l.slots[slot] = uint64(hash)<<32 | uint64(len(l.keys))
	}
	return l, nil
}

// find returns the place of key in the list, or -1 and the empty slot that it would get.
func (l *listing[K, T]) find(key K, hash uint32) (i, slot int) {
	mask := len(l.slots) - 1
	for slot = int(hash) & mask; ; slot = (slot + 1) & mask {
		s := l.slots[slot]
		if s == 0 {
			return -1, slot
		}
		if i := int(uint32(s)) - 1; uint32(s>>32) == hash && l.keys[i].key == key {
			return i, slot
		}
	}
}

// compare finds out what is known and not listed, and what is known and equal. Lists tend to have the order of what is
// known, so the one behind the last that was found is tried first.
func (f *DeltaFIFO[K, T]) compare(l *listing[K, T]) {
	if f.equal != nil {
		l.equal = make([]bool, len(l.keys))
	}
	i := -1
	for key, obj := range f.known.All() {
		if i++; i >= len(l.keys) || l.keys[i].key != key {
			hash := f.hash(key)
			if i, _ = l.find(key, hash); i < 0 {
				l.gone = append(l.gone, hashed[K]{key, hash})
				continue
			}
		}
		if f.equal != nil {
			l.equal[i] = f.equal(obj, l.objs[i])
		}
	}
}

// doubt notes that something happens to key: what was known of it does not count, and if it is not listed, it is gone.
func (l *listing[K, T]) doubt(key K, hash uint32) {
	i, _ := l.find(key, hash)
	switch {
	case i < 0:
		l.gone = append(l.gone, hashed[K]{key, hash})
	case l.equal != nil:
		l.equal[i] = false
	}
}

// replaceLocked queues what l brings.
func (f *DeltaFIFO[K, T]) replaceLocked(l *listing[K, T]) {
	lower(&f.waiting, f.below) // everything that waits is about to get a change of version v
	first := !f.started
	note := func(it *item[T]) {
		if first && !it.initial {
			it.initial = true
			f.initial++
		}
	}
	tombstone := Delta[T]{Type: Deleted, FinalStateUnknown: true}
	for e := f.waiting.first; e != nil; e = e.next {
		if i, _ := l.find(e.key, e.hash); i < 0 {
			e.v.add(tombstone, true)
			note(&e.v)
		} else if l.equal != nil {
			l.equal[i] = false
		}
	}
	for _, k := range f.popped {
		l.doubt(k.key, k.hash)
	}
	for e := f.failed.first; e != nil; e = e.next {
		l.doubt(e.key, e.hash) // if it is not known, its tombstone is dropped, and takes the failure along
	}

	news := len(l.keys)
	for _, equal := range l.equal {
		if equal {
			news--
		}
	}
	f.waiting.reserve(news)
	for i, k := range l.keys {
		if l.equal == nil || !l.equal[i] {
			note(f.enqueueLocked(k.key, k.hash, Delta[T]{Type: Replaced, Object: l.objs[i]}, false, f.below))
		}
	}
	for _, k := range l.gone {
		if f.waiting.find(k.key, k.hash) == nil {
			note(f.enqueueLocked(k.key, k.hash, tombstone, true, f.below))
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
		f.current.v.floor = 0
	}
	lower(&f.failed, 0)
}

// watchPops starts to write down which keys the consumer takes out.
func (f *DeltaFIFO[K, T]) watchPops() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replacing++
	if f.current != nil {
		f.popped = append(f.popped, hashed[K]{f.current.key, f.current.hash})
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
