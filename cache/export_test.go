package cache

import (
	"fmt"
	"slices"

	"github.com/setpoint-go/setpoint/cache/internal/postings"
	"github.com/setpoint-go/setpoint/internal/hashtable"
)

// CheckInvariants compares everything that an Indexer and its indexes know twice. Index functions must be pure.
func CheckInvariants[K comparable, T any](x *Indexer[K, T]) error {
	x.writer.Lock()
	defer x.writer.Unlock()
	objects := x.objects.Load()
	if err := objects.check(); err != nil {
		return fmt.Errorf("objects: %w", err)
	}
	if objects.used.Load() > 2*chunkSize && objects.sparse() {
		return fmt.Errorf("%d objects of %d are there", objects.live.Load(), objects.used.Load())
	}
	for n := range objects.used.Load() {
		it := objects.at(n)
		if obj, ok := it.load(); ok && x.key(obj) != it.key {
			return fmt.Errorf("%v is not where it belongs", it.key)
		}
	}
	for i, ix := range x.indexes {
		if err := ix.(interface{ check() error }).check(); err != nil {
			return fmt.Errorf("index %d: %w", i, err)
		}
	}
	return nil
}

// check looks up every item the way readers do.
func (a *table[K, V]) check() error {
	var used, live, slots int
	for i := range a.slots {
		if s := a.slots[i].Load(); s != 0 {
			slots++
			if n := uint32(s) - 1; n >= a.used.Load() || a.at(n).hash != uint32(s>>32) {
				return fmt.Errorf("slot %d has number %d", i, n)
			}
		}
	}
	for ; used < int(a.used.Load()); used++ {
		it := a.at(uint32(used))
		found, n := a.find(it.key, it.hash)
		switch _, ok := it.load(); {
		case ok != !it.gone.Load() || it.hash != a.hash(it.key):
			return fmt.Errorf("%v is and is not there", it.key)
		case ok && (found != it || int(n) != used):
			return fmt.Errorf("%v has number %d, found %d", it.key, used, n)
		case ok:
			live++
		case found != nil && int(n) < used:
			return fmt.Errorf("%v went at %d, but is there at %d", it.key, used, n)
		}
	}
	if room := hashtable.CapacityOf(len(a.slots)); live != int(a.live.Load()) || used > room || slots > used || used > chunkSize*len(a.chunks) {
		return fmt.Errorf("%d are there, counted as %d; %d of %d used, in %d slots", live, a.live.Load(), used, room, slots)
	}
	return nil
}

// check computes the index anew.
func (ix *Index[I, K, T]) check() error {
	buckets, objects := ix.buckets.Load(), ix.x.objects.Load()
	if err := buckets.check(); err != nil {
		return fmt.Errorf("buckets: %w", err)
	}
	members := make(map[I]int)
	for n := range objects.used.Load() {
		it := objects.at(n)
		obj, ok := it.load()
		var values []I
		if ok {
			values = ix.values(obj)
		}
		ps := slices.Clone(ix.postings.Of(n))
		for i, value := range values {
			if slices.Contains(values[:i], value) {
				continue
			}
			members[value]++
			b, ok := buckets.get(value, buckets.hash(value))
			if !ok {
				return fmt.Errorf("there is no bucket %v", value)
			}
			j := slices.IndexFunc(ps, func(p postings.Posting) bool { return p.Bucket == b.id+1 })
			if j < 0 || b.members[ps[j].Place] != n+1 {
				return fmt.Errorf("%v is not in bucket %v, or its postings do not know", it.key, value)
			}
			ps = slices.Delete(ps, j, j+1)
		}
		if len(ps) > 0 {
			return fmt.Errorf("%v is in %d buckets too many", it.key, len(ps))
		}
	}
	if err := ix.postings.Check(); err != nil {
		return err
	}
	ids := slices.Clone(ix.free)
	for n := range buckets.used.Load() {
		it := buckets.at(n)
		b, ok := it.load()
		if !ok {
			continue
		}
		ids = append(ids, b.id)
		holes := 0
		for _, m := range b.members {
			if m == 0 {
				holes++
			}
		}
		switch {
		case ix.byID[b.id] != n:
			return fmt.Errorf("bucket %v has number %d, not %d", it.key, n, ix.byID[b.id])
		case b.live == 0 || int(b.live) != members[it.key] || len(b.members)-holes != members[it.key]:
			return fmt.Errorf("bucket %v has %d members, counted as %d, want %d", it.key, len(b.members)-holes, b.live, members[it.key])
		case len(b.members) > minMembers && holes > (len(b.members)+1)/2:
			return fmt.Errorf("bucket %v has %d holes among %d", it.key, holes, len(b.members))
		case b.epoch > buckets.epoch.Load() || b.layout > ix.layouts:
			return fmt.Errorf("bucket %v is from the future", it.key)
		}
	}
	slices.Sort(ids)
	for i, id := range ids {
		if int(id) != i {
			return fmt.Errorf("id %d is in the place of %d", id, i)
		}
	}
	if len(ids) != len(ix.byID) || int(buckets.live.Load()) != len(members) {
		return fmt.Errorf("%d ids of %d, %d buckets for %d values", len(ids), len(ix.byID), buckets.live.Load(), len(members))
	}
	if p := ix.planned; p.begun || p.changes || len(p.want)+len(p.fresh)+len(p.gone) > 0 || p.content != nil {
		return fmt.Errorf("a plan is left")
	}
	return nil
}

// Room returns for how many objects the indexer has room.
func (x *Indexer[K, T]) Room() int { return hashtable.CapacityOf(len(x.objects.Load().slots)) }

// Room returns for how many values the index has room, for how many objects, and for how many members the bucket of value.
func (ix *Index[I, K, T]) Room(value I) (values, objects, members int) {
	buckets := ix.buckets.Load()
	if b, ok := buckets.get(value, buckets.hash(value)); ok {
		members = cap(b.members)
	}
	return hashtable.CapacityOf(len(buckets.slots)), ix.postings.Room(), members
}

// Room returns for how many keys the queue has room.
func (f *DeltaFIFO[K, T]) Room() int { return f.waiting.Room() }

// LockForEver takes all locks of x.
func LockForEver[K comparable, T any](x *Indexer[K, T]) {
	x.writer.Lock()
	x.lock()
}

// LockReadersOfIndexes takes the lock of the readers of indexes, forever.
func LockReadersOfIndexes[K comparable, T any](x *Indexer[K, T]) { x.mu.RLock() }
