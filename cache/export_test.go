package cache

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"

	"github.com/setpoint-go/setpoint/internal/hashtable"
)

// CheckInvariants compares everything that an Indexer and its indexes store twice. Index functions must be pure.
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
		case ok != !it.deleted.Load() || it.hash != a.hash(it.key):
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
		ps := slices.Clone(ix.postings.of(n))
		for i, value := range values {
			if slices.Contains(values[:i], value) {
				continue
			}
			members[value]++
			b, ok := buckets.get(value, buckets.hash(value))
			if !ok {
				return fmt.Errorf("there is no bucket %v", value)
			}
			j := slices.IndexFunc(ps, func(p posting) bool { return p.bucket == b.id+1 })
			if j < 0 || b.members[ps[j].place] != n+1 {
				return fmt.Errorf("%v is not in bucket %v, or its postings lack it", it.key, value)
			}
			ps = slices.Delete(ps, j, j+1)
		}
		if len(ps) > 0 {
			return fmt.Errorf("%v is in %d buckets too many", it.key, len(ps))
		}
	}
	if err := ix.postings.check(); err != nil {
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
	if p := ix.planned; p.begun || p.changes || len(p.want)+len(p.added)+len(p.leave) > 0 || p.content != nil {
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
	return hashtable.CapacityOf(len(buckets.slots)), ix.postings.room(), members
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

// room returns the number of objects that p has room for.
func (p *postings) room() int { return chunkSize * len(p.one) }

// check returns an error if an invariant does not hold.
func (p *postings) check() error {
	marked := 0
	for at, c := range p.one {
		for i := range c {
			if c == nil || c[i].bucket != several {
				continue
			}
			marked++
			if n := uint32(at*chunkSize + i); p.more.Get(n) == nil || len(p.more.Get(n).Value) < 2 {
				return fmt.Errorf("object %d does not have several postings", n)
			}
		}
	}
	if marked != p.more.Len() {
		return fmt.Errorf("%d objects have several postings, and %d are marked", p.more.Len(), marked)
	}
	return p.more.Check()
}

// Postings are the postings of objects.
type Postings struct{ p postings }

// Posting is a bucket and a place.
type Posting [2]uint32

// NewPostings returns postings with room for a number of objects.
func NewPostings(seed maphash.Seed, objects int) *Postings {
	return &Postings{newPostings(seed, objects)}
}

// Set stores the postings of an object, and then clears those that it has passed on.
func (p *Postings) Set(n uint32, ps []Posting) {
	var set []posting
	for _, q := range ps {
		set = append(set, posting{q[0], q[1]})
	}
	p.p.set(n, set)
	clear(set)
}

// Of returns the postings of an object.
func (p *Postings) Of(n uint32) (ps []Posting) {
	for _, q := range p.p.of(n) {
		ps = append(ps, Posting{q.bucket, q.place})
	}
	return ps
}

// Only returns the bucket of an object that has one.
func (p *Postings) Only(n uint32) uint32 { return p.p.only(n) }

// In returns the posting of an object in a bucket.
func (p *Postings) In(n, bucket uint32) (in Posting, ok bool) {
	if q := p.p.in(n, bucket); q != nil {
		return Posting{q.bucket, q.place}, true
	}
	return in, false
}

// Move changes the place of a posting.
func (p *Postings) Move(n, bucket, place uint32) { p.p.in(n, bucket).place = place }

// Check returns an error if an invariant does not hold.
func (p *Postings) Check() error { return p.p.check() }

// CheckInvariants compares everything that the queue stores twice.
func (f *DeltaFIFO[K, T]) CheckInvariants() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	initial := 0
	for e := range f.waiting.All() {
		if e.Value.initial {
			initial++
		}
		if err := e.Value.check(); err != nil {
			return fmt.Errorf("%v: %w", e.Key, err)
		}
	}
	if f.current.Value.initial {
		initial++
	}
	if !f.current.Present && !reflect.ValueOf(f.current).IsZero() {
		return fmt.Errorf("%v is kept, but not processed", f.current.Key)
	}
	if err := checkFloors(&f.waiting, f.seen, func(it item[T]) uint64 { return it.floor }); err != nil {
		return fmt.Errorf("waiting: %w", err)
	}
	if err := checkFloors(&f.failed, f.seen, func(floor uint64) uint64 { return floor }); err != nil {
		return fmt.Errorf("failed: %w", err)
	}
	if f.waiting.Len() > 0 && f.failed.Len() > 0 && f.failed.Last().Value > f.waiting.First().Value.floor {
		return fmt.Errorf("failed at %d, but %d waits", f.failed.Last().Value, f.waiting.First().Value.floor)
	}
	switch {
	case initial != f.initial:
		return fmt.Errorf("%d items of the first list, counted as %d", initial, f.initial)
	case f.started && initial == 0 && !f.HasSynced():
		return fmt.Errorf("nothing is left to wait for, but it is not in sync")
	case f.seen < f.below:
		return fmt.Errorf("seen %d is below %d", f.seen, f.below)
	case f.replacing == 0 && f.popped != nil:
		return fmt.Errorf("%v are kept for nobody", f.popped)
	}
	return nil
}

func (it *item[T]) check() error {
	switch {
	case !it.deleted && it.what == 0:
		return fmt.Errorf("nothing is reported")
	case it.what == Deleted || it.what == Sync && it.deleted:
		return fmt.Errorf("%v after a deletion: %v", it.what, it.deleted)
	case it.unknown && !it.deleted || it.bare && !it.unknown && it.what != Sync || it.what == Sync && !it.bare:
		return fmt.Errorf("%v, deleted: %v, unknown: %v, without an object: %v", it.what, it.deleted, it.unknown, it.bare)
	case !reflect.ValueOf(it.deletedObj).IsZero() && (!it.deleted || it.bare) || !reflect.ValueOf(it.obj).IsZero() && (it.what == 0 || it.what == Sync):
		return fmt.Errorf("%v and %v are kept, but not reported", it.deletedObj, it.obj)
	}
	return nil
}

func checkFloors[K comparable, V any](l *hashtable.Ordered[K, V], seen uint64, floor func(V) uint64) error {
	before := uint64(0)
	for e := range l.All() {
		switch at := floor(e.Value); {
		case at > seen:
			return fmt.Errorf("%v is from %d, after %d", e.Key, at, seen)
		case at < before:
			return fmt.Errorf("floors fall from %d to %d", before, at)
		default:
			before = at
		}
	}
	return l.Check()
}
