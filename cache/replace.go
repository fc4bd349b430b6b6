package cache

// Replace makes list the content: what is not in it goes. When a key is in it twice, the last object counts.
//
// The change is one step for every reader: there is no time at which some of the new objects can be seen without the
// others. An iterator that runs meanwhile yields old objects before that step and new ones after it, and still each key
// that was there before and after exactly once. Keys that stay keep their place; the new ones follow in the order of the
// list.
//
// The new content is built beside the old one, so that a reader waits for a few pointers only, whatever the length of
// list. Replace takes no hold of list.
func (x *Indexer[K, T]) Replace(list []T) {
	keys, hashes := make([]K, len(list)), make([]uint32, len(list))
	for i, obj := range list {
		keys[i] = x.keyOf(obj)
		hashes[i] = x.objects.Load().hash(keys[i])
	}
	x.writer.Lock()
	defer x.writer.Unlock()

	old := x.objects.Load()
	stays := make([]int, old.used.Load()) // the place in list, plus one
	var news []int                        // places in list
	for i, key := range keys {
		if it, n := old.find(key, hashes[i]); it != nil {
			stays[n] = i + 1
		} else {
			news = append(news, i)
		}
	}
	objects := newArrivals[K, T](x.seed, len(list))
	objects.generation = old.generation + 1
	before := make([]uint32, 0, len(list)) // the old number plus one
	for n, i := range stays {
		if i > 0 {
			objects.push(keys[i-1], hashes[i-1], held[T]{list[i-1]})
			before = append(before, uint32(n+1))
		}
	}
	for _, i := range news {
		if twice, _ := objects.find(keys[i], hashes[i]); twice != nil {
			twice.box.Store(held[T]{list[i]})
		} else {
			objects.push(keys[i], hashes[i], held[T]{list[i]})
		}
	}
	before = append(before, make([]uint32, int(objects.used.Load())-len(before))...)
	for _, ix := range x.indexes {
		ix.planReplace(objects, before)
	}
	x.put(objects)
}
