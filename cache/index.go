package cache

import (
	"cmp"
	"iter"
	"slices"
)

// Index finds the objects of an [Indexer] by a value computed from them, such as their owner, node or label. It is
// kept up to date with the Indexer: whoever sees an object in the one sees it in the other.
//
// All methods may be called by several goroutines at once.
type Index[I, K comparable, T any] struct {
	x      *Indexer[K, T]
	values func(T) []I
	place  int // where in the postings of an entry those of this index are

	// x.writer guards the following: the plan of the write at hand. Each plan begins by dropping the one before it,
	// which is still there when another index function has panicked.
	chain    *posting[I, K, T]   // what the entry's postings become
	gone     []*posting[I, K, T] // to leave their buckets
	fresh    []*posting[I, K, T] // to join their buckets
	replaced *content[I, K, T]   // takes the place of content

	content[I, K, T] // guarded by x.mu; written by the holder of x.writer only
}

// content is an index at one time.
type content[I, K comparable, T any] struct {
	byValue table[I, *bucket[I, K, T]] // no bucket in it is empty
	buckets ordered[bucket[I, K, T]]   // the same ones, in order of their coming
}

// bucket holds the entries that have one value.
type bucket[I, K comparable, T any] struct {
	value   I
	seq     uint64 // its number in buckets
	members ordered[entry[K, T]]
}

// posting is the membership of an entry in a bucket. The postings of an entry in one index form a chain; no two of
// them have the same value. It is written by the holder of Indexer.writer only, and read by no one else.
type posting[I, K comparable, T any] struct {
	bucket *bucket[I, K, T]
	seq    uint64 // its number in bucket.members
	next   *posting[I, K, T]
}

// AddIndex adds an index to x: values returns the values under which an object can be found. It may return none, and
// the same one twice, which counts once. A handful is meant: the time of a write grows with the square of their number.
// The function may read x, but must not write to it. The objects that are in x already are indexed before AddIndex
// returns.
//
// When values panics, x is as it was before. It also panics when a value is not equal to itself (a NaN).
func AddIndex[K, I comparable, T any](x *Indexer[K, T], values func(T) []I) *Index[I, K, T] {
	if values == nil {
		panic("cache: AddIndex: the index function is nil")
	}
	x.writer.Lock()
	defer x.writer.Unlock()

	entries := make([]*entry[K, T], 0, len(x.byKey.m))
	for _, s := range x.entries.slots {
		if s.v != nil {
			entries = append(entries, s.v)
		}
	}
	ix := &Index[I, K, T]{x: x, values: values, place: len(x.indexes)}
	seq := x.seq
	chains := ix.build(&seq, entries, make([]*entry[K, T], len(entries)))

	for i, e := range entries {
		e.postings = append(e.postings, chains[i])
	}
	x.indexes = append(x.indexes, ix)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seq = seq
	ix.applyReplaceLocked()
	return ix
}

// All iterates over the objects that have the given value, in the order in which they got it. Its guarantees are those
// of [Indexer.All], for the objects that have the value from the first step to the last.
func (ix *Index[I, K, T]) All(value I) iter.Seq2[K, T] {
	return func(yield func(K, T) bool) { ix.walk(value, yield) } // small enough to be inlined: nothing escapes
}

func (ix *Index[I, K, T]) walk(value I, yield func(K, T) bool) {
	ix.x.walk(func() *ordered[entry[K, T]] {
		if b := ix.byValue.m[value]; b != nil {
			return &b.members
		}
		return nil
	}, yield)
}

// Len returns the number of objects that have the given value.
func (ix *Index[I, K, T]) Len(value I) int {
	ix.x.mu.RLock()
	defer ix.x.mu.RUnlock()
	if b := ix.byValue.m[value]; b != nil {
		return b.members.live
	}
	return 0
}

// Values iterates over the values that at least one object has, in the order in which they came. Its guarantees are
// those of [Indexer.All], for the values that are there from the first step to the last.
func (ix *Index[I, K, T]) Values() iter.Seq[I] {
	return func(yield func(I) bool) { ix.walkValues(yield) } // as in All
}

func (ix *Index[I, K, T]) walkValues(yield func(I) bool) {
	var batch [batchSize]*bucket[I, K, T]
	ix.x.mu.RLock()
	end := ix.x.seq + 1
	ix.x.mu.RUnlock()
	for from := uint64(0); from < end; {
		n := 0
		ix.x.mu.RLock()
		var slots []slot[bucket[I, K, T]]
		slots, from = ix.buckets.window(from, end)
		for _, s := range slots {
			if s.v != nil {
				batch[n] = s.v
				n++
			}
		}
		ix.x.mu.RUnlock()
		for _, b := range batch[:n] {
			if !yield(b.value) {
				return
			}
		}
	}
}

// postings returns the chain of e, which may be nil.
func (ix *Index[I, K, T]) postings(e *entry[K, T]) *posting[I, K, T] {
	if e == nil {
		return nil
	}
	return e.postings[ix.place].(*posting[I, K, T])
}

// plan computes what storing obj in e changes; e is nil for a new object.
func (ix *Index[I, K, T]) plan(e *entry[K, T], obj T) {
	ix.dropPlan()
	values := ix.values(obj)
	had := ix.postings(e)
	ix.chain = had
	if had.spells(values) {
		return
	}
	var want *posting[I, K, T]
	tail := &want
	for value := range distinct(values) {
		p := had.find(value)
		if p != nil {
			p = &posting[I, K, T]{bucket: p.bucket, seq: p.seq}
		} else {
			p = &posting[I, K, T]{bucket: ix.byValue.m[value]}
			if p.bucket == nil {
				p.bucket = &bucket[I, K, T]{value: value}
			}
			ix.fresh = append(ix.fresh, p)
		}
		*tail, tail = p, &p.next
	}
	for p := had; p != nil; p = p.next {
		if want.find(p.bucket.value) == nil {
			ix.gone = append(ix.gone, p)
		}
	}
	ix.chain = want
	ix.tidy()
}

// planDelete computes what removing e changes.
func (ix *Index[I, K, T]) planDelete(e *entry[K, T]) {
	ix.dropPlan()
	for p := ix.postings(e); p != nil; p = p.next {
		ix.gone = append(ix.gone, p)
	}
	ix.tidy()
}

// tidy makes room for what the plan adds.
func (ix *Index[I, K, T]) tidy() {
	ix.byValue.tidy(&ix.x.mu)
	ix.buckets.tidy(&ix.x.mu)
	for _, p := range ix.fresh {
		p.bucket.members.tidy(&ix.x.mu)
	}
	for _, p := range ix.gone {
		p.bucket.members.tidy(&ix.x.mu)
	}
}

// applyLocked carries out the plan; e is in its place already.
func (ix *Index[I, K, T]) applyLocked(e *entry[K, T]) {
	for _, p := range ix.gone {
		p.bucket.members.remove(p.seq)
		if p.bucket.members.live == 0 {
			delete(ix.byValue.m, p.bucket.value)
			ix.buckets.remove(p.bucket.seq)
		}
	}
	for _, p := range ix.fresh {
		if p.bucket.members.live == 0 {
			p.bucket.seq = ix.x.nextLocked()
			ix.byValue.put(p.bucket.value, p.bucket)
			ix.buckets.push(p.bucket.seq, p.bucket)
		}
		p.seq = ix.x.nextLocked()
		p.bucket.members.push(p.seq, e)
	}
	e.postings[ix.place] = ix.chain
	ix.dropPlan()
}

// planReplace computes the index of entries; before holds the entry that each takes the place of, or nil. The entries
// are new and no one else has them yet.
func (ix *Index[I, K, T]) planReplace(seq *uint64, entries, before []*entry[K, T]) {
	ix.dropPlan()
	for i, chain := range ix.build(seq, entries, before) {
		entries[i].postings[ix.place] = chain
	}
}

// applyReplaceLocked carries out the plan of planReplace.
func (ix *Index[I, K, T]) applyReplaceLocked() {
	ix.content = *ix.replaced
	ix.dropPlan()
}

// build puts the index of entries in ix.replaced, and returns their chains. A member that stays in its bucket keeps
// its number, and so does a bucket that stays: iterators that run meanwhile find their way.
func (ix *Index[I, K, T]) build(seq *uint64, entries, before []*entry[K, T]) []*posting[I, K, T] {
	next := func() uint64 { *seq++; return *seq }
	c := &content[I, K, T]{byValue: newTable[I, *bucket[I, K, T]](0)}
	chains := make([]*posting[I, K, T], len(entries))
	for i, e := range entries {
		had := ix.postings(before[i])
		tail := &chains[i]
		for value := range distinct(ix.values(e.obj)) {
			b := c.byValue.m[value]
			if b == nil {
				b = &bucket[I, K, T]{value: value}
				if old := ix.byValue.m[value]; old != nil {
					b.seq = old.seq
				} else {
					b.seq = next()
				}
				c.byValue.put(value, b)
				c.buckets.push(b.seq, b)
			}
			p := &posting[I, K, T]{bucket: b}
			if old := had.find(value); old != nil {
				p.seq = old.seq
			} else {
				p.seq = next()
			}
			b.members.push(p.seq, e)
			*tail, tail = p, &p.next
		}
	}
	for _, s := range c.buckets.slots {
		sortSlots(s.v.members.slots)
	}
	sortSlots(c.buckets.slots)
	ix.replaced = c
	return chains
}

func (ix *Index[I, K, T]) dropPlan() {
	clear(ix.gone)
	clear(ix.fresh)
	ix.chain, ix.gone, ix.fresh, ix.replaced = nil, ix.gone[:0], ix.fresh[:0], nil
}

// find returns the posting for a value.
func (p *posting[I, K, T]) find(value I) *posting[I, K, T] {
	for ; p != nil; p = p.next {
		if p.bucket.value == value {
			return p
		}
	}
	return nil
}

// spells says that the chain has exactly these values in this order.
func (p *posting[I, K, T]) spells(values []I) bool {
	for _, value := range values {
		if p == nil || p.bucket.value != value {
			return false
		}
		p = p.next
	}
	return p == nil
}

// distinct iterates over values, over each once.
func distinct[I comparable](values []I) iter.Seq[I] {
	return func(yield func(I) bool) {
		for i, value := range values {
			if value != value {
				panic("cache: a value of an index is not equal to itself")
			}
			if slices.Index(values[:i], value) < 0 && !yield(value) {
				return
			}
		}
	}
}

func sortSlots[V any](slots []slot[V]) {
	slices.SortFunc(slots, func(a, b slot[V]) int { return cmp.Compare(a.seq, b.seq) })
}
