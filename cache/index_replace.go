package cache

import (
	"cmp"
	"slices"
)

// content is a new index of all objects, built beside the current one.
type content[I comparable] struct {
	buckets  *table[I, *bucket]
	postings postings
	byID     []uint32
}

func (ix *Index[I, K, T]) newContent(values int, memberships postings) *content[I] {
	c := &content[I]{
		buckets:  newTable[I, *bucket](ix.x.seed, values),
		postings: memberships,
		byID:     make([]uint32, 0, values),
	}
	c.buckets.generation = ix.buckets.Load().generation + 1
	return c
}

// push adds a bucket, and sets the places in its postings. The id of the bucket is its number.
func (ix *Index[I, K, T]) push(c *content[I], value I, hash uint32, members []uint32) {
	ix.layouts++
	b := &bucket{id: uint32(len(c.byID)), live: uint32(len(members)), members: members, layout: ix.layouts}
	c.byID = append(c.byID, c.buckets.push(value, hash, held[*bucket]{b}))
	for place, m := range members {
		c.postings.in(m-1, b.id+1).place = uint32(place)
	}
}

// applyReplaceLocked installs the planned content in the index.
func (ix *Index[I, K, T]) applyReplaceLocked() {
	c := ix.planned.content
	ix.buckets.Store(c.buckets)
	ix.postings, ix.byID, ix.free = c.postings, c.byID, nil
	ix.dropPlan()
}

// planMove plans the renumbering of objects. For each old number, to has the new one plus one, or 0 if the object was deleted.
func (ix *Index[I, K, T]) planMove(to []uint32) {
	ix.beginPlan()
	buckets := ix.buckets.Load()
	c := ix.newContent(int(buckets.live.Load()), newPostings(ix.x.seed, len(to)))
	ids := make([]uint32, len(ix.byID)) // the new ones, by old id
	next := uint32(0)
	for n := range buckets.used.Load() {
		if b, ok := buckets.at(n).load(); ok {
			ids[b.id] = next
			next++
		}
	}
	var ps []posting
	for n, m := range to {
		if m == 0 {
			continue
		}
		ps = ps[:0]
		for _, p := range ix.postings.of(uint32(n)) {
			ps = append(ps, posting{bucket: ids[p.bucket-1] + 1})
		}
		c.postings.set(m-1, ps)
	}
	for n := range buckets.used.Load() {
		it := buckets.at(n)
		b, ok := it.load()
		if !ok {
			continue
		}
		members := make([]uint32, 0, b.live+b.live/4)
		for _, m := range b.members {
			if m != 0 {
				members = append(members, to[m-1])
			}
		}
		ix.push(c, it.key, it.hash, members)
	}
	ix.planned.content = c
}

// newBucket is a bucket under construction. Ranks give the order: the rank of an old value or member is its old place, and all old ones come
// before the new.
type newBucket[I comparable] struct {
	value   I
	hash    uint32
	rank    uint64
	members []ranked
}

type ranked struct {
	rank   uint64
	member uint32 // as in a bucket
}

// newRank is the lowest rank of a new value or member.
const newRank uint64 = 1 << 32

// planReplace plans an index of objects. For the number of each object, before has the old number plus one, or 0 if the
// object is new; before is nil if all are new. Members that stay in a bucket keep their order, and so do buckets that stay.
func (ix *Index[I, K, T]) planReplace(objects *table[K, T], before []uint32) {
	ix.beginPlan()
	buckets := ix.buckets.Load()
	var added []newBucket[I]
	byValue := make(map[I]uint32)
	memberships := newPostings(ix.x.seed, int(objects.used.Load()))
	var ps []posting
	for n := range objects.used.Load() {
		obj, ok := objects.at(n).load()
		if !ok {
			continue
		}
		ps = ps[:0]
		var old []posting
		if before != nil && before[n] != 0 {
			old = ix.postings.of(before[n] - 1)
		}
		for value := range distinct(ix.values(obj)) {
			i, ok := byValue[value]
			if !ok {
				i = uint32(len(added))
				byValue[value] = i
				hash := buckets.hash(value)
				rank := newRank + uint64(len(added))
				if it, n := buckets.find(value, hash); it != nil {
					rank = uint64(n)
				}
				added = append(added, newBucket[I]{value: value, hash: hash, rank: rank})
			}
			rank := newRank + uint64(n)
			for _, o := range old {
				if buckets.at(ix.byID[o.bucket-1]).key == value {
					rank = uint64(o.place)
				}
			}
			added[i].members = append(added[i].members, ranked{rank, n + 1})
			ps = append(ps, posting{bucket: i + 1})
		}
		memberships.set(n, ps)
	}

	order := make([]uint32, len(added)) // of added
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(added[a].rank, added[b].rank) })
	ids := make([]uint32, len(added))
	for id, i := range order {
		ids[i] = uint32(id)
	}
	for n := range objects.used.Load() {
		for i, ps := 0, memberships.of(n); i < len(ps); i++ {
			ps[i].bucket = ids[ps[i].bucket-1] + 1
		}
	}
	c := ix.newContent(len(added), memberships)
	for _, i := range order {
		p := &added[i]
		slices.SortFunc(p.members, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
		members := make([]uint32, len(p.members))
		for j, m := range p.members {
			members[j] = m.member
		}
		ix.push(c, p.value, p.hash, members)
	}
	ix.planned.content = c
}
