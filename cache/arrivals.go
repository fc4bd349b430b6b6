package cache

import (
	"hash/maphash"
	"sync/atomic"
)

// chunkSize is the number of items in a chunk of arrivals.
const chunkSize = 32

// arrivals holds values by key, in the order in which the keys came. One writer changes it, under a lock of its owner;
// readers need none. They find a key in a hash table of numbers (open addressing with linear probing), and go by number,
// the order of arrival, through chunks that never move.
//
// What a reader may rely on, since it can be late by any time:
//
//  1. A number stands for one arrival of one key. It is never given again, and its key never changes.
//  2. An item is complete before its number can be found: before used counts it, and before a slot holds it.
//  3. A slot goes from empty to a number, and from there to the number of another item only when the first one is gone.
//     So a key that is there all the time is found by every search.
//  4. An item that is gone stays gone. Its value is looked at first, and whether it is gone after that.
//  5. What takes the place of all this (see grown and renumbered) is another arrivals; the old one says for ever what was
//     true when it was replaced.
//
// These hold in Go's memory model, since each word that a reader looks at is either an atomic, and all atomics have one order
// that everybody sees, or was written before a store that the reader has loaded:
//
//   - key and hash of an item: before used counts it, and no reader looks at an item that used does not count;
//   - all of a copied chunk: before its pointer is stored; what is not there yet in a shared one, no other reads;
//   - seed, generation, and the lengths of slots and chunks: before the pointer to these arrivals is stored;
//   - who removes an item stores gone before it takes the value away: who misses the value sees that it is gone;
//   - who makes a snapshot holds the lock under which items change, so what it copies is of one moment.
//
// Who reads the value of an item that an index has needs no look at gone: it holds a lock that excludes the removal.
//
// A snapshot shares chunks and slots with the original: chunks of an earlier epoch belong to one, and are copied before an
// item in them changes; slots that hold a number that a snapshot knows are left as they are.
//
// Invariants:
//
//  1. At most four fifths of the slots are used. Each item that is there has one slot, and between it and the one that its
//     hash asks for there is no empty one.
//  2. live is the number of items below used that are there.
type arrivals[K comparable, V any] struct {
	seed       maphash.Seed
	generation uint64 // numbers mean the same in all arrivals of one generation
	slots      []atomic.Uint64
	chunks     []atomic.Pointer[chunk[K, V]]
	used, live atomic.Uint32

	// The rest is for the writer and for who takes a snapshot, one at a time but for reads of epoch.
	epoch  atomic.Uint64 // the number of snapshots
	epochs []uint64      // for each chunk the epoch in which it was made
	known  uint32        // numbers below this are known to a snapshot that has the same slots
}

type chunk[K comparable, V any] [chunkSize]arrival[K, V]

type arrival[K comparable, V any] struct {
	key  K
	hash uint32
	gone atomic.Bool
	box  atomic.Value // a held[V]
}

// held is what a box holds. It makes the type of what is in it the same at all times, also when V is an interface, and
// costs no memory: a struct of one pointer is put into an interface as it is.
type held[V any] struct{ v V }

func newArrivals[K comparable, V any](seed maphash.Seed, size int) *arrivals[K, V] {
	a := &arrivals[K, V]{seed: seed}
	a.allocate(size)
	return a
}

// allocate makes slots and chunks for so many items and more.
func (a *arrivals[K, V]) allocate(size int) {
	a.slots = make([]atomic.Uint64, slotsFor(size))
	chunks := (capacityOf(len(a.slots)) + chunkSize - 1) / chunkSize
	a.chunks, a.epochs = make([]atomic.Pointer[chunk[K, V]], chunks), make([]uint64, chunks)
}

func (a *arrivals[K, V]) hash(key K) uint32 { return uint32(maphash.Comparable(a.seed, key)) }

// at returns the item with a number that is used.
func (a *arrivals[K, V]) at(n uint32) *arrival[K, V] {
	c := a.chunks[n/chunkSize].Load()
	if c == nil { // not asked, Go would look at the beginning of the chunk, which most often is another cache line
		panic("cache: no item has this number")
	}
	return &c[n%chunkSize]
}

// load returns the value, unless it is gone.
func (it *arrival[K, V]) load() (v V, ok bool) {
	v = it.box.Load().(held[V]).v
	if it.gone.Load() {
		var none V
		return none, false
	}
	return v, true
}

// get returns the value of key.
func (a *arrivals[K, V]) get(key K, hash uint32) (v V, ok bool) {
	if it, _ := a.find(key, hash); it != nil {
		return it.load()
	}
	return v, false
}

// find returns the item of key and its number, or nil.
func (a *arrivals[K, V]) find(key K, hash uint32) (*arrival[K, V], uint32) {
	mask := len(a.slots) - 1
	for i := int(hash) & mask; ; i = (i + 1) & mask {
		s := a.slots[i].Load()
		if s == 0 {
			return nil, 0
		}
		// A number that is not used was given after a snapshot was taken.
		if n := uint32(s) - 1; uint32(s>>32) == hash && n < a.used.Load() {
			if it := a.at(n); it.key == key && !it.gone.Load() {
				return it, n
			}
		}
	}
}

// full says that there is no room for one more.
func (a *arrivals[K, V]) full(more int) bool {
	return int(a.used.Load())+more > capacityOf(len(a.slots))
}

// push adds what is not there. There must be room.
func (a *arrivals[K, V]) push(key K, hash uint32, box any) uint32 {
	n := a.used.Load()
	c := a.chunks[n/chunkSize].Load()
	if c == nil {
		c = new(chunk[K, V])
		a.epochs[n/chunkSize] = a.epoch.Load()
		a.chunks[n/chunkSize].Store(c)
	}
	it := &c[n%chunkSize]
	it.key, it.hash = key, hash
	it.box.Store(box)
	a.live.Add(1)
	a.used.Store(n + 1)
	a.enter(n, hash)
	return n
}

// enter puts a number into the hash table. It takes the slot of a key that is gone and has the same hash, most often the
// same key: one that comes and goes without end does not fill the table.
func (a *arrivals[K, V]) enter(n, hash uint32) {
	mask := len(a.slots) - 1
	for i := int(hash) & mask; ; i = (i + 1) & mask {
		s := a.slots[i].Load()
		if old := uint32(s) - 1; s == 0 || uint32(s>>32) == hash && old >= a.known && a.at(old).gone.Load() {
			a.slots[i].Store(slotOf(hash, n))
			return
		}
	}
}

// mut returns the item with this number, for a change.
func (a *arrivals[K, V]) mut(n uint32) *arrival[K, V] {
	at := n / chunkSize
	if epoch := a.epoch.Load(); a.epochs[at] != epoch {
		old, own := a.chunks[at].Load(), new(chunk[K, V])
		for i := range min(chunkSize, a.used.Load()-at*chunkSize) {
			from, to := &old[i], &own[i]
			to.key, to.hash = from.key, from.hash
			to.gone.Store(from.gone.Load())
			to.box.Store(from.box.Load())
		}
		a.chunks[at].Store(own)
		a.epochs[at] = epoch
	}
	return a.at(n)
}

// replace gives an item that is there another value, and returns the old one.
func (a *arrivals[K, V]) replace(n uint32, v V) (old V) {
	return a.mut(n).box.Swap(held[V]{v}).(held[V]).v
}

// remove removes an item that is there. none is a held[V] without a value.
func (a *arrivals[K, V]) remove(n uint32, none any) {
	it := a.mut(n)
	it.gone.Store(true)
	it.box.Store(none)
	a.live.Add(^uint32(0))
}

// crowded says that a third of the room or less is taken by what is gone: to make more room is worth while. Otherwise it
// is enough to leave out what is gone.
func (a *arrivals[K, V]) crowded() bool {
	return 3*int(a.live.Load()) > 2*capacityOf(len(a.slots))
}

// sparse says that what is gone is half of all.
func (a *arrivals[K, V]) sparse() bool {
	used := a.used.Load()
	return used > chunkSize && 2*a.live.Load() <= used
}

// grown returns the same items with room for more of them at least.
func (a *arrivals[K, V]) grown(more int) *arrivals[K, V] {
	g := &arrivals[K, V]{seed: a.seed, generation: a.generation}
	g.epoch.Store(a.epoch.Load())
	g.allocate(max(2*capacityOf(len(a.slots)), int(a.used.Load())+more))
	for i := range a.chunks {
		g.chunks[i].Store(a.chunks[i].Load())
	}
	copy(g.epochs, a.epochs)
	g.used.Store(a.used.Load())
	g.live.Store(a.live.Load())
	for n := range a.used.Load() {
		if it := a.at(n); !it.gone.Load() {
			g.enter(n, it.hash)
		}
	}
	return g
}

// renumbered returns what is there without what is gone, with room for more, and for each number the new one plus one.
func (a *arrivals[K, V]) renumbered(more int) (*arrivals[K, V], []uint32) {
	live := int(a.live.Load())
	r := newArrivals[K, V](a.seed, live+max(more, live/2))
	r.generation = a.generation + 1
	r.epoch.Store(a.epoch.Load())
	to := make([]uint32, a.used.Load())
	for n := range to {
		if it := a.at(uint32(n)); !it.gone.Load() {
			to[n] = r.push(it.key, it.hash, it.box.Load()) + 1
		}
	}
	return r, to
}

// snapshot returns what is there now, unchanged by what happens from now on.
func (a *arrivals[K, V]) snapshot() *arrivals[K, V] {
	s := &arrivals[K, V]{seed: a.seed, generation: a.generation, slots: a.slots}
	s.chunks = make([]atomic.Pointer[chunk[K, V]], (a.used.Load()+chunkSize-1)/chunkSize)
	for i := range s.chunks {
		s.chunks[i].Store(a.chunks[i].Load())
	}
	s.used.Store(a.used.Load())
	s.live.Store(a.live.Load())
	a.known = a.used.Load()
	a.epoch.Add(1)
	return s
}

// takePlace puts a in the place of the arrivals from which it was grown or renumbered. The caller holds the lock under which
// snapshots are taken: with one that was taken while a was made, a shares what it has got from the old one.
func (a *arrivals[K, V]) takePlace(of *atomic.Pointer[arrivals[K, V]]) {
	a.epoch.Store(of.Load().epoch.Load())
	of.Store(a)
}

// walk yields what is in arrivals, beginning with first, of which others may take the place meanwhile.
func walk[K comparable, V any](first *arrivals[K, V], arrivals *atomic.Pointer[arrivals[K, V]], yield func(K, V) bool) {
	now := first
	end := first.used.Load() // what comes from now on is not ours: so it ends, and sees no key that comes again
	for n := range end {
		if newer := arrivals.Load(); newer != now {
			if newer.generation != first.generation {
				walkKeys(now, n, end, arrivals, yield)
				return
			}
			now = newer
		}
		it := now.at(n)
		if v, ok := it.load(); ok && !yield(it.key, v) {
			return
		}
	}
}

// walkKeys goes on when numbers do not mean the same any more: with the keys that old had from this number on.
func walkKeys[K comparable, V any](old *arrivals[K, V], from, end uint32, arrivals *atomic.Pointer[arrivals[K, V]], yield func(K, V) bool) {
	for n := from; n < end; n++ {
		it := old.at(n)
		if it.gone.Load() {
			continue
		}
		if v, ok := arrivals.Load().get(it.key, it.hash); ok && !yield(it.key, v) {
			return
		}
	}
}
