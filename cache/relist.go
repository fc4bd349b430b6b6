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

// listing is a list on its way into the queue: a line without holes of what is to wait for its keys, except for the floors.
type listing[K comparable, T any] struct {
	line[K, item[T]]
	equal []bool      // what is known to be in the cache, by place in the line
	gone  []hashed[K] // keys that the list lacks
}

// newListing runs the code of the user on the objects.
func (f *DeltaFIFO[K, T]) newListing(list []T) (*listing[K, T], error) {
	l := &listing[K, T]{line: newLine[K, item[T]](f.seed)}
	l.reserve(len(list))
	for _, obj := range list {
		obj, key, err := f.prepare(obj)
		if err != nil {
			return nil, err
		}
		e, _ := l.push(key, f.hash(key))
		e.v.obj, e.v.what = obj, Replaced
	}
	l.equal = make([]bool, l.n)
	return l, nil
}

// compare finds out what is known and not listed, and what is known and equal. Lists tend to have the order of what is
// known, so the one behind the last that was found is tried first.
func (f *DeltaFIFO[K, T]) compare(l *listing[K, T]) {
	next := 0
	for key, obj := range f.known.All() {
		at := next
		if at >= l.n || l.nodes[at].key != key {
			hash := f.hash(key)
			if at = l.search(key, hash); at < 0 {
				l.gone = append(l.gone, hashed[K]{key, hash})
				continue
			}
		}
		l.equal[at] = f.equal != nil && f.equal(obj, l.nodes[at].v.obj)
		next = at + 1
	}
}

// doubt notes that something happens to key: what was known of it does not count, and if it is not listed, it is gone.
func (l *listing[K, T]) doubt(key K, hash uint32) {
	if at := l.search(key, hash); at >= 0 {
		l.equal[at] = false
	} else {
		l.gone = append(l.gone, hashed[K]{key, hash})
	}
}

// replaceLocked queues what l brings.
func (f *DeltaFIFO[K, T]) replaceLocked(l *listing[K, T]) {
	f.lowerLocked(f.below) // everything that waits is about to get a change of version v
	first := !f.started
	note := func(it *item[T]) {
		if first && !it.initial {
			it.initial = true
			f.initial++
		}
	}
	tombstone := Delta[T]{Type: Deleted, FinalStateUnknown: true}
	for e := range f.waiting.all() {
		if at := l.search(e.key, e.hash); at >= 0 {
			l.equal[at] = false
		} else {
			e.v.add(tombstone)
			note(&e.v)
		}
	}
	for _, k := range f.popped {
		l.doubt(k.key, k.hash)
	}
	for e := range f.failed.all() {
		l.doubt(e.key, e.hash) // if it is not known, its tombstone is dropped, and takes the failure along
	}

	news := l.n
	for _, equal := range l.equal {
		if equal {
			news--
		}
	}
	if news == l.n && f.waiting.n == 0 {
		for e := range l.all() {
			e.v.floor = f.below
			note(&e.v)
		}
		f.waiting = l.line
	} else {
		f.waiting.reserve(news)
		for at, equal := range l.equal {
			if e := &l.nodes[at]; !equal {
				note(f.enqueueLocked(e.key, e.hash, Delta[T]{Type: Replaced, Object: e.v.obj}, f.below))
			}
		}
	}
	for _, k := range l.gone {
		if f.waiting.find(k.key, k.hash) == nil {
			note(f.enqueueLocked(k.key, k.hash, tombstone, f.below))
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
	f.current.v.floor = 0
	for e := range f.failed.all() {
		e.v = 0
	}
}

// watchPops starts to write down which keys the consumer takes out.
func (f *DeltaFIFO[K, T]) watchPops() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replacing++
	if f.current.in {
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
