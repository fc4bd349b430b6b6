package cache

// Replace makes list the content: what is not in it goes. When a key is in it twice, the last object counts.
//
// The change is one step for Get, Len and each batch of an iterator: there is no time at which some of the new
// objects can be seen without the others. An iterator that runs meanwhile yields old objects before that step and new
// ones after it, and still each key that was there before and after exactly once. Keys that stay keep their place;
// the new ones follow in the order of the list.
//
// The new content is built beside the old one, so that a reader waits for a few pointers only, whatever the length of
// list. Replace takes no hold of list.
func (x *Indexer[K, T]) Replace(list []T) {
	keys := make([]K, len(list))
	for i, obj := range list {
		keys[i] = x.keyOf(obj)
	}
	x.writer.Lock()
	defer x.writer.Unlock()

	// Numbers are taken from a copy of x.seq: if an index function panics, nothing has happened.
	seq := x.seq
	byKey := newTable[K, *entry[K, T]](len(list))
	for i, key := range keys {
		e := byKey.m[key]
		if e == nil {
			e = &entry[K, T]{key: key, postings: make([]any, len(x.indexes))}
			byKey.put(key, e)
		}
		e.obj = list[i]
	}

	// Entries that stay come first, in their order, then the new ones. before holds what each entry takes the place of.
	entries := make([]*entry[K, T], 0, len(byKey.m))
	before := make([]*entry[K, T], 0, len(byKey.m))
	for _, s := range x.entries.slots {
		if s.v == nil {
			continue
		}
		if e := byKey.m[s.v.key]; e != nil {
			e.seq = s.seq
			entries, before = append(entries, e), append(before, s.v)
		}
	}
	for _, key := range keys {
		if e := byKey.m[key]; e.seq == 0 {
			seq++
			e.seq = seq
			entries, before = append(entries, e), append(before, nil)
		}
	}
	for _, ix := range x.indexes {
		ix.planReplace(&seq, entries, before)
	}
	ordered := ordered[entry[K, T]]{slots: make([]slot[entry[K, T]], 0, len(entries))}
	for _, e := range entries {
		ordered.push(e.seq, e)
	}

	x.mu.Lock()
	defer x.mu.Unlock()
	x.byKey, x.entries, x.seq = byKey, ordered, seq
	for _, ix := range x.indexes {
		ix.applyReplaceLocked()
	}
}
