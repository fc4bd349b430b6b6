package cache

import (
	"iter"
	"slices"
)

// plan is what the write at hand changes for one object. It is dropped by the next one, if its index function or another
// one has panicked.
type plan[I comparable] struct {
	changes bool
	want    []posting     // what the postings of the object become; those whose bucket is 0 are yet to be made
	fresh   []newcomer[I] // the values of those
	gone    []uint32      // buckets to leave, as in a posting
}

type newcomer[I comparable] struct {
	value I
	hash  uint32
}

func (ix *Index[I, K, T]) dropPlan() {
	p := &ix.planned
	clear(p.fresh)
	*p = plan[I]{want: p.want[:0], fresh: p.fresh[:0], gone: p.gone[:0]}
	ix.replaced = nil
}

// plan computes what it changes that the object with this number becomes obj. If it is not known yet, it has no postings.
func (ix *Index[I, K, T]) plan(n uint32, known bool, obj T) (changes bool) {
	ix.dropPlan()
	values := ix.values(obj)
	var had []posting
	if known {
		had = ix.postings.of(n)
	}
	if ix.spells(had, values) {
		return false
	}
	p := &ix.planned
	buckets := ix.buckets.Load()
	for value := range distinct(values) {
		hash := buckets.hash(value)
		if b, ok := buckets.get(value, hash); ok {
			if i := slices.IndexFunc(had, func(p posting) bool { return p.bucket == b.id+1 }); i >= 0 {
				p.want = append(p.want, had[i])
				continue
			}
		}
		p.want = append(p.want, posting{})
		p.fresh = append(p.fresh, newcomer[I]{value, hash})
	}
	for _, h := range had {
		if !slices.Contains(p.want, h) {
			p.gone = append(p.gone, h.bucket)
		}
	}
	if len(p.fresh)+len(p.gone) == 0 {
		ix.dropPlan() // the same values, in another order or twice
		return false
	}
	p.changes = true
	ix.tidy()
	return true
}

// planDelete computes what it changes that the object with this number goes.
func (ix *Index[I, K, T]) planDelete(n uint32) {
	ix.dropPlan()
	p := &ix.planned
	for _, h := range ix.postings.of(n) {
		p.gone = append(p.gone, h.bucket)
	}
	if p.changes = len(p.gone) > 0; p.changes {
		ix.tidy()
	}
}

// spells says that the postings are those of exactly these values in this order.
func (ix *Index[I, K, T]) spells(had []posting, values []I) bool {
	if len(had) != len(values) {
		return false
	}
	buckets := ix.buckets.Load()
	for i := range had {
		if buckets.at(ix.byID[had[i].bucket-1]).key != values[i] {
			return false
		}
	}
	return true
}

// applyLocked carries out the plan for the object with this number.
func (ix *Index[I, K, T]) applyLocked(n uint32) {
	p := &ix.planned
	if !p.changes {
		return
	}
	buckets := ix.buckets.Load()
	for _, left := range p.gone {
		at := ix.byID[left-1]
		b := ix.ownLocked(at)
		b.members[ix.postings.in(n, left).place] = 0
		if b.live--; b.live == 0 {
			buckets.remove(at, held[*bucket]{})
			ix.free = append(ix.free, b.id)
		}
	}
	fresh := p.fresh
	for i := range p.want {
		if w := &p.want[i]; w.bucket == 0 {
			b := ix.bucketLocked(fresh[0])
			fresh = fresh[1:]
			*w = posting{bucket: b.id + 1, place: uint32(len(b.members))}
			b.members = append(b.members, n+1)
			b.live++
		}
	}
	ix.postings.set(n, p.want)
	ix.dropPlan()
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
