package cache

import (
	"fmt"
	"slices"
)

// CheckInvariants compares everything that an Indexer and its indexes know twice. Index functions must be pure.
func CheckInvariants[K comparable, T any](x *Indexer[K, T]) error {
	x.writer.Lock()
	defer x.writer.Unlock()
	if err := x.entries.check(x.seq); err != nil {
		return fmt.Errorf("entries: %w", err)
	}
	if err := x.entries.checkHoles(); err != nil {
		return fmt.Errorf("entries: %w", err)
	}
	if x.entries.live != len(x.byKey.m) || x.byKey.peak < len(x.byKey.m) {
		return fmt.Errorf("%d entries, %d keys, at most %d", x.entries.live, len(x.byKey.m), x.byKey.peak)
	}
	for _, s := range x.entries.slots {
		switch e := s.v; {
		case e == nil:
		case e.seq != s.seq || x.byKey.m[e.key] != e || x.key(e.obj) != e.key:
			return fmt.Errorf("entry %v is not where it belongs", e.key)
		case len(e.postings) != len(x.indexes):
			return fmt.Errorf("entry %v is in %d of %d indexes", e.key, len(e.postings), len(x.indexes))
		}
	}
	for i, ix := range x.indexes {
		if err := ix.(interface{ check() error }).check(); err != nil {
			return fmt.Errorf("index %d: %w", i, err)
		}
	}
	return nil
}

// check computes the index anew.
func (ix *Index[I, K, T]) check() error {
	if err := ix.buckets.check(ix.x.seq); err != nil {
		return fmt.Errorf("buckets: %w", err)
	}
	if ix.buckets.live != len(ix.byValue.m) || ix.byValue.peak < len(ix.byValue.m) {
		return fmt.Errorf("%d buckets, %d values, at most %d", ix.buckets.live, len(ix.byValue.m), ix.byValue.peak)
	}
	members := make(map[I]int)
	for _, s := range ix.x.entries.slots {
		if s.v == nil {
			continue
		}
		p := ix.postings(s.v)
		var values []I
		for _, value := range ix.values(s.v.obj) {
			if slices.Contains(values, value) {
				continue
			}
			values = append(values, value)
			members[value]++
			b := ix.byValue.m[value]
			if p == nil || p.bucket != b || b.members.slots[b.members.search(p.seq)].v != s.v {
				return fmt.Errorf("entry %v is not in bucket %v, or its postings do not know", s.v.key, value)
			}
			p = p.next
		}
		if p != nil {
			return fmt.Errorf("entry %v is in a bucket too many: %v", s.v.key, p.bucket.value)
		}
	}
	if len(members) != len(ix.byValue.m) {
		return fmt.Errorf("%d buckets for %d values", len(ix.byValue.m), len(members))
	}
	for _, s := range ix.buckets.slots {
		if s.v == nil {
			continue
		}
		if s.v.seq != s.seq || ix.byValue.m[s.v.value] != s.v || s.v.members.live != members[s.v.value] {
			return fmt.Errorf("bucket %v is not where it belongs, or has %d members", s.v.value, s.v.members.live)
		}
		if err := s.v.members.check(ix.x.seq); err != nil {
			return fmt.Errorf("bucket %v: %w", s.v.value, err)
		}
		if err := s.v.members.checkHoles(); err != nil {
			return fmt.Errorf("bucket %v: %w", s.v.value, err)
		}
	}
	if len(ix.gone)+len(ix.fresh) > 0 || ix.chain != nil || ix.replaced != nil {
		return fmt.Errorf("a plan is left")
	}
	return nil
}

func (o *ordered[V]) check(last uint64) error {
	live := 0
	for i, s := range o.slots {
		if s.seq == 0 || s.seq > last || i > 0 && s.seq <= o.slots[i-1].seq {
			return fmt.Errorf("slot %d has number %d, at most %d", i, s.seq, last)
		}
		if s.v != nil {
			live++
		}
	}
	if live != o.live {
		return fmt.Errorf("%d are live, not %d", live, o.live)
	}
	return nil
}

// checkHoles is for lists that change by one value at a time.
func (o *ordered[V]) checkHoles() error {
	if n := len(o.slots); n > minSlots && n-o.live > (n+1)/2 {
		return fmt.Errorf("%d of %d slots are holes", n-o.live, n)
	}
	return nil
}

// Room returns for how many entries the indexer has room: in its map, and in its list.
func (x *Indexer[K, T]) Room() (keys, entries int) {
	return x.byKey.peak, cap(x.entries.slots)
}

// Room returns for how many buckets the index has room: in its map, and in its list; and how many members the bucket
// of value has room for.
func (ix *Index[I, K, T]) Room(value I) (values, buckets, members int) {
	if b := ix.byValue.m[value]; b != nil {
		members = cap(b.members.slots)
	}
	return ix.byValue.peak, cap(ix.buckets.slots), members
}

// Room returns for how many keys the queue has room.
func (f *DeltaFIFO[K, T]) Room() int { return f.waiting.byKey.peak }
