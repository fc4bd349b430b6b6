package cache

import "slices"

// minMembers is the number of members below which a bucket is left as it is: it has few holes.
const minMembers = 8

// bucket holds the objects that have one value, in the order in which they got it.
//
// Invariants: live is the number of members that are no holes, and it is not 0. A change begins with fewer holes than
// other members, or with fewer than minMembers members.
type bucket struct {
	id      uint32
	live    uint32
	members []uint32 // the numbers of objects, plus one; zeros are holes
	layout  uint64   // as long as it is the same, so are the places of members, and what their numbers mean
	epoch   uint64   // of Index.buckets, when the bucket was made: a snapshot has those of an earlier one
}

// tidy makes room for what the plan adds, and squeezes the holes out of the buckets that it changes. Readers wait for
// what is new to take the place of the old, not for it to be made.
func (ix *Index[I, K, T]) tidy() {
	p := &ix.planned
	buckets := ix.buckets.Load()
	if full := buckets.full(len(p.fresh)); full || buckets.sparse() {
		if full && buckets.crowded() {
			buckets = buckets.grown(len(p.fresh))
		} else {
			buckets, _ = buckets.renumbered(len(p.fresh))
			for n := range buckets.used.Load() {
				b, _ := buckets.at(n).load()
				ix.byID[b.id] = n
			}
		}
		ix.x.lock()
		buckets.takePlace(&ix.buckets)
		ix.x.unlock()
	}
	for _, bucket := range p.gone {
		ix.tidyBucket(ix.byID[bucket-1])
	}
	for _, f := range p.fresh {
		if it, n := buckets.find(f.value, f.hash); it != nil {
			ix.tidyBucket(n)
		}
	}
}

// tidyBucket puts a copy in the place of a bucket that is full, half empty, or in a snapshot.
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

// ownLocked returns the bucket with this number in buckets, or if a snapshot has it, a copy that takes its place.
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

// bucketLocked returns the bucket of a value, for a change. It makes a new one if there is none, for which tidy has made
// room.
func (ix *Index[I, K, T]) bucketLocked(of newcomer[I]) *bucket {
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
