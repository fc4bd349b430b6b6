package cache

import (
	"iter"
	"slices"
)

// plan is the change that the current write makes in an index, for one object or for all. If an index function panics, the plan stays until
// the next write drops it.
type plan[I comparable] struct {
	begun   bool          // false if the plan is empty
	changes bool          // for one object
	want    []posting     // the new postings of the object; if the bucket is 0, the posting does not exist yet
	added   []newValue[I] // the values of those
	leave   []uint32      // buckets to leave, as in a posting
	content *content[I]   // the new content of the index, if the plan is for all objects
}

type newValue[I comparable] struct {
	value I
	hash  uint32
}

func (ix *Index[I, K, T]) dropPlan() {
	if p := &ix.planned; p.begun {
		clear(p.added)
		*p = plan[I]{want: p.want[:0], added: p.added[:0], leave: p.leave[:0]}
	}
}

func (ix *Index[I, K, T]) beginPlan() *plan[I] {
	ix.dropPlan()
	ix.planned.begun = true
	return &ix.planned
}

// plan plans that the object with this number becomes obj. An object that does not exist yet has no postings.
func (ix *Index[I, K, T]) plan(n uint32, exists bool, obj T) (changes bool) {
	ix.dropPlan()
	values := ix.values(obj)
	var old []posting
	if exists {
		if bucket := ix.postings.only(n); bucket != 0 && len(values) == 1 && ix.value(bucket) == values[0] {
			return false // nearly always
		}
		old = ix.postings.of(n)
	}
	if ix.matches(old, values) {
		return false
	}
	p := ix.beginPlan()
	buckets := ix.buckets.Load()
	for value := range distinct(values) {
		hash := buckets.hash(value)
		if b, ok := buckets.get(value, hash); ok {
			if i := slices.IndexFunc(old, func(p posting) bool { return p.bucket == b.id+1 }); i >= 0 {
				p.want = append(p.want, old[i])
				continue
			}
		}
		p.want = append(p.want, posting{})
		p.added = append(p.added, newValue[I]{value, hash})
	}
	for _, o := range old {
		if !slices.Contains(p.want, o) {
			p.leave = append(p.leave, o.bucket)
		}
	}
	if len(p.added)+len(p.leave) == 0 {
		ix.dropPlan() // the same values, in another order or twice
		return false
	}
	p.changes = true
	ix.tidy()
	return true
}

// planDelete plans the removal of the object with this number.
func (ix *Index[I, K, T]) planDelete(n uint32) {
	ix.dropPlan()
	old := ix.postings.of(n)
	if len(old) == 0 {
		return
	}
	p := ix.beginPlan()
	p.changes = true
	for _, o := range old {
		p.leave = append(p.leave, o.bucket)
	}
	ix.tidy()
}

// matches reports whether the postings are those of exactly these values, in this order.
func (ix *Index[I, K, T]) matches(old []posting, values []I) bool {
	if len(old) != len(values) {
		return false
	}
	for i := range old {
		if ix.value(old[i].bucket) != values[i] {
			return false
		}
	}
	return true
}

// value returns the value of a bucket, which is given as in a posting.
func (ix *Index[I, K, T]) value(bucket uint32) I {
	return ix.buckets.Load().at(ix.byID[bucket-1]).key
}

// applyLocked carries out the plan for the object with this number.
func (ix *Index[I, K, T]) applyLocked(n uint32) {
	p := &ix.planned
	if !p.changes {
		return
	}
	buckets := ix.buckets.Load()
	for _, left := range p.leave {
		at := ix.byID[left-1]
		b := ix.ownLocked(at)
		b.members[ix.postings.in(n, left).place] = 0
		if b.live--; b.live == 0 {
			buckets.remove(at, held[*bucket]{})
			ix.free = append(ix.free, b.id)
		}
	}
	added := p.added
	for i := range p.want {
		if w := &p.want[i]; w.bucket == 0 {
			b := ix.bucketLocked(added[0])
			added = added[1:]
			*w = posting{bucket: b.id + 1, place: uint32(len(b.members))}
			b.members = append(b.members, n+1)
			b.live++
		}
	}
	ix.postings.set(n, p.want)
	ix.dropPlan()
}

// distinct iterates over values without repetitions.
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

// minMembers is the number of members below which a bucket does not shrink.
const minMembers = 8

// bucket lists the objects that have one value, in the order in which they got it.
//
// Invariants: live is the number of members that are not holes. It is not 0. At the beginning of a change, fewer than half of the members
// are holes, or there are fewer than minMembers members.
type bucket struct {
	id      uint32
	live    uint32
	members []uint32 // the numbers of objects, plus one; zeros are holes
	layout  uint64   // while it is unchanged, so are the places of members and the meaning of their numbers
	epoch   uint64   // the epoch of Index.buckets when the bucket was made; a bucket of an earlier epoch belongs to a snapshot
}

// tidy makes room for the values and members that the plan adds, and removes the holes from the buckets that it changes. Readers do not
// wait while a copy is made, only while it replaces the original.
func (ix *Index[I, K, T]) tidy() {
	p := &ix.planned
	buckets := ix.buckets.Load()
	if full := buckets.full(len(p.added)); full || buckets.sparse() {
		if full && buckets.crowded() {
			buckets = buckets.grown(len(p.added))
		} else {
			buckets, _ = buckets.renumbered(len(p.added))
			for n := range buckets.used.Load() {
				b, _ := buckets.at(n).load()
				ix.byID[b.id] = n
			}
		}
		ix.x.lock()
		buckets.takePlace(&ix.buckets)
		ix.x.unlock()
	}
	for _, bucket := range p.leave {
		ix.tidyBucket(ix.byID[bucket-1])
	}
	for _, f := range p.added {
		if it, n := buckets.find(f.value, f.hash); it != nil {
			ix.tidyBucket(n)
		}
	}
}

// tidyBucket replaces a bucket that is full, half empty, or part of a snapshot by a copy.
func (ix *Index[I, K, T]) tidyBucket(n uint32) {
	buckets := ix.buckets.Load()
	b, _ := buckets.at(n).load()
	half := 2*int(b.live) <= len(b.members)
	if len(b.members) < minMembers || !half && len(b.members) < cap(b.members) && b.epoch == buckets.epoch.Load() {
		return
	}
	own := *b
	own.members = make([]uint32, 0, b.live+b.live/2+minMembers)
	own.epoch = buckets.epoch.Load()
	if int(b.live) == len(b.members) {
		own.members = append(own.members, b.members...)
	} else {
		ix.layouts++
		own.layout = ix.layouts
		for _, m := range b.members {
			if m != 0 {
				ix.postings.in(m-1, b.id+1).place = uint32(len(own.members))
				own.members = append(own.members, m)
			}
		}
	}
	ix.x.lock()
	defer ix.x.unlock()
	buckets.mut(n).box.Store(held[*bucket]{&own})
}

// ownLocked returns the bucket with this number in buckets. If it is part of a snapshot, ownLocked first replaces it by a copy.
func (ix *Index[I, K, T]) ownLocked(n uint32) *bucket {
	buckets := ix.buckets.Load()
	b, _ := buckets.at(n).load()
	if epoch := buckets.epoch.Load(); b.epoch != epoch {
		own := *b
		own.members, own.epoch = slices.Clone(b.members), epoch
		b = &own
		buckets.mut(n).box.Store(held[*bucket]{b})
	}
	return b
}

// bucketLocked returns the bucket of a value, for a change. If there is none, it makes one; tidy has made room for it.
func (ix *Index[I, K, T]) bucketLocked(of newValue[I]) *bucket {
	buckets := ix.buckets.Load()
	if it, n := buckets.find(of.value, of.hash); it != nil {
		return ix.ownLocked(n)
	}
	if len(ix.free) == 0 {
		ix.free = append(ix.free, uint32(len(ix.byID)))
		ix.byID = append(ix.byID, 0)
	}
	ix.layouts++
	b := &bucket{id: ix.free[len(ix.free)-1], layout: ix.layouts, epoch: buckets.epoch.Load()}
	ix.free = ix.free[:len(ix.free)-1]
	ix.byID[b.id] = buckets.push(of.value, of.hash, held[*bucket]{b})
	return b
}
