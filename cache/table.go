package cache

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/setpoint-go/setpoint/internal/hashtable"
)

// chunkSize is the number of entries in a chunk of a table.
const chunkSize = 32

// table holds values by key, in the order in which the keys arrived. One writer changes it, under a lock of the table's
// owner. Readers take no lock: they find the number of a key in a hash table (open addressing with linear probing). Numbers
// count the keys in order of arrival, and lead to entries in chunks that never move.
//
// A reader may lag by any amount of time. It relies on these rules:
//
//  1. A number stands for one arrival of one key. It is never used again, and its key never changes.
//  2. An entry is complete before a reader can find its number: before used counts it, and before a slot holds it.
//  3. A slot changes from empty to a number. It changes to another number only when the entry of the first is deleted. So a search always
//     finds a key that stays present.
//  4. An entry that is deleted stays deleted. A reader loads the value first, and then whether the entry is deleted.
//  5. Where this is not possible (see grown and renumbered), the writer makes a new table. The old table stays as it was when
//     it was replaced.
//
// This holds in Go's memory model. Each word that a reader loads is either an atomic (all atomics have one total order), or
// was written before an atomic store whose value the reader has loaded:
//
//   - key and hash of an entry: before used counts the entry; no reader looks at an entry that used does not count;
//   - a copied chunk: before its pointer is stored; of a shared chunk, a snapshot reads only the entries that were there;
//   - seed, generation, and the lengths of slots and chunks: before the pointer to the table is stored;
//   - the writer that removes an entry stores deleted before it clears the value: a reader that misses the value sees deleted;
//   - a snapshot is made under the same lock as changes to entries, so it shows one moment.
//
// A reader of an index need not check deleted: it holds a lock that excludes removals.
//
// A snapshot shares chunks and slots with the original. Chunks of an earlier epoch belong to a snapshot; the writer copies
// such a chunk before it changes an entry there. The writer never overwrites a slot whose number a snapshot knows.
//
// Invariants:
//
//  1. At most four fifths of the slots are used. Each present entry has one slot. No slot between the first slot of its hash
//     and that one is empty.
//  2. live is the number of present entries below used.
type table[K comparable, V any] struct {
	seed       maphash.Seed
	generation uint64 // numbers mean the same in all tables of one generation
	slots      []atomic.Uint64
	chunks     []atomic.Pointer[chunk[K, V]]
	used, live atomic.Uint32

	// Only the writer and Snapshot use the following, one at a time. Readers may load epoch.
	epoch  atomic.Uint64 // the number of snapshots
	epochs []uint64      // of each chunk, the epoch in which it was made
	shared uint32        // a snapshot with the same slots knows the numbers below this
}

type chunk[K comparable, V any] [chunkSize]entry[K, V]

type entry[K comparable, V any] struct {
	key     K
	hash    uint32
	deleted atomic.Bool
	box     atomic.Value // a held[V]
}

// held is the content of a box. An atomic.Value must always hold the same dynamic type, even if V is an interface. held takes no memory if
// V is a pointer: Go stores a struct of one pointer in an interface directly.
type held[V any] struct{ v V }

func newTable[K comparable, V any](seed maphash.Seed, size int) *table[K, V] {
	t := &table[K, V]{seed: seed}
	t.allocate(size)
	return t
}

// allocate makes slots and chunks for at least size entries.
func (t *table[K, V]) allocate(size int) {
	t.slots = make([]atomic.Uint64, hashtable.SlotsFor(size))
	chunks := (hashtable.CapacityOf(len(t.slots)) + chunkSize - 1) / chunkSize
	t.chunks, t.epochs = make([]atomic.Pointer[chunk[K, V]], chunks), make([]uint64, chunks)
}

func (t *table[K, V]) hash(key K) uint32 { return uint32(maphash.Comparable(t.seed, key)) }

// at returns the entry with number n, which must be used.
func (t *table[K, V]) at(n uint32) *entry[K, V] {
	c := t.chunks[n/chunkSize].Load()
	if c == nil { // without this check, Go loads the beginning of the chunk, which is usually another cache line
		panic("cache: no item has this number")
	}
	return &c[n%chunkSize]
}

// load returns the value, unless the entry is deleted.
func (it *entry[K, V]) load() (v V, ok bool) {
	v = it.box.Load().(held[V]).v
	if it.deleted.Load() {
		var none V
		return none, false
	}
	return v, true
}

// get returns the value of key.
func (t *table[K, V]) get(key K, hash uint32) (v V, ok bool) {
	if it, _ := t.find(key, hash); it != nil {
		return it.load()
	}
	return v, false
}

// find returns the entry of key and its number, or nil.
func (t *table[K, V]) find(key K, hash uint32) (*entry[K, V], uint32) {
	mask := len(t.slots) - 1
	for i := int(hash) & mask; ; i = (i + 1) & mask {
		s := t.slots[i].Load()
		if s == 0 {
			return nil, 0
		}
		// In a snapshot, an unused number was assigned after the snapshot was taken.
		if n := uint32(s) - 1; uint32(s>>32) == hash && n < t.used.Load() {
			if it := t.at(n); it.key == key && !it.deleted.Load() {
				return it, n
			}
		}
	}
}

// full reports whether there is no room for that many more entries.
func (t *table[K, V]) full(more int) bool {
	return int(t.used.Load())+more > hashtable.CapacityOf(len(t.slots))
}

// push adds a key that is not present. There must be room.
func (t *table[K, V]) push(key K, hash uint32, box any) uint32 {
	n := t.used.Load()
	c := t.chunks[n/chunkSize].Load()
	if c == nil {
		c = new(chunk[K, V])
		t.epochs[n/chunkSize] = t.epoch.Load()
		t.chunks[n/chunkSize].Store(c)
	}
	it := &c[n%chunkSize]
	it.key, it.hash = key, hash
	it.box.Store(box)
	t.live.Add(1)
	t.used.Store(n + 1)
	t.enter(n, hash)
	return n
}

// enter puts a number into a slot. It reuses the slot of a key that is deleted and has the same hash, which is usually the same
// key: so a key that is added and removed again and again does not fill the table.
func (t *table[K, V]) enter(n, hash uint32) {
	mask := len(t.slots) - 1
	for i := int(hash) & mask; ; i = (i + 1) & mask {
		s := t.slots[i].Load()
		if old := uint32(s) - 1; s == 0 || uint32(s>>32) == hash && old >= t.shared && t.at(old).deleted.Load() {
			t.slots[i].Store(uint64(hash)<<32 | uint64(n+1))
			return
		}
	}
}

// mut returns the entry with this number, for a change.
func (t *table[K, V]) mut(n uint32) *entry[K, V] {
	at := n / chunkSize
	if epoch := t.epoch.Load(); t.epochs[at] != epoch {
		old, own := t.chunks[at].Load(), new(chunk[K, V])
		for i := range min(chunkSize, t.used.Load()-at*chunkSize) {
			from, to := &old[i], &own[i]
			to.key, to.hash = from.key, from.hash
			to.deleted.Store(from.deleted.Load())
			to.box.Store(from.box.Load())
		}
		t.chunks[at].Store(own)
		t.epochs[at] = epoch
	}
	return t.at(n)
}

// replace gives the present entry number n, which find returned, another value. It returns the old one.
func (t *table[K, V]) replace(it *entry[K, V], n uint32, v V) (old V) {
	if t.epochs[n/chunkSize] != t.epoch.Load() {
		it = t.mut(n)
	}
	return it.box.Swap(held[V]{v}).(held[V]).v
}

// remove removes a present entry. none is a held[V] without a value.
func (t *table[K, V]) remove(n uint32, none any) {
	it := t.mut(n)
	it.deleted.Store(true)
	it.box.Store(none)
	t.live.Add(^uint32(0))
}

// crowded reports whether more than two thirds of the room are taken by present entries. Then a full table has to grow.
// Otherwise it is enough to drop the entries that are deleted.
func (t *table[K, V]) crowded() bool {
	return 3*int(t.live.Load()) > 2*hashtable.CapacityOf(len(t.slots))
}

// sparse reports whether at least half of the entries are deleted.
func (t *table[K, V]) sparse() bool {
	used := t.used.Load()
	return used > chunkSize && 2*t.live.Load() <= used
}

// grown returns a table with the same entries, and room for at least that many more.
func (t *table[K, V]) grown(more int) *table[K, V] {
	g := &table[K, V]{seed: t.seed, generation: t.generation}
	g.epoch.Store(t.epoch.Load())
	g.allocate(max(2*hashtable.CapacityOf(len(t.slots)), int(t.used.Load())+more))
	for i := range t.chunks {
		g.chunks[i].Store(t.chunks[i].Load())
	}
	copy(g.epochs, t.epochs)
	g.used.Store(t.used.Load())
	g.live.Store(t.live.Load())
	for n := range t.used.Load() {
		if it := t.at(n); !it.deleted.Load() {
			g.enter(n, it.hash)
		}
	}
	return g
}

// renumbered returns a table of only the present entries, with room for that many more. For each old number it returns the new one plus
// one, or 0 if the entry is deleted.
func (t *table[K, V]) renumbered(more int) (*table[K, V], []uint32) {
	live := int(t.live.Load())
	r := newTable[K, V](t.seed, live+max(more, live/2))
	r.generation = t.generation + 1
	r.epoch.Store(t.epoch.Load())
	to := make([]uint32, t.used.Load())
	for n := range to {
		if it := t.at(uint32(n)); !it.deleted.Load() {
			to[n] = r.push(it.key, it.hash, it.box.Load()) + 1
		}
	}
	return r, to
}

// snapshot returns the table as it is now. Later changes do not affect it.
func (t *table[K, V]) snapshot() *table[K, V] {
	s := &table[K, V]{seed: t.seed, generation: t.generation, slots: t.slots}
	s.chunks = make([]atomic.Pointer[chunk[K, V]], (t.used.Load()+chunkSize-1)/chunkSize)
	for i := range s.chunks {
		s.chunks[i].Store(t.chunks[i].Load())
	}
	s.used.Store(t.used.Load())
	s.live.Store(t.live.Load())
	t.shared = t.used.Load()
	t.epoch.Add(1)
	return s
}

// takePlace replaces the table from which t was grown or renumbered. The caller holds the lock under which snapshots are made. A snapshot
// that was made in the meantime shares the chunks that t has from the old table: hence the epoch.
func (t *table[K, V]) takePlace(of *atomic.Pointer[table[K, V]]) {
	t.epoch.Store(of.Load().epoch.Load())
	of.Store(t)
}

// walk yields the entries, beginning with the table first. The writer may replace that table in the meantime.
func walk[K comparable, V any](first *table[K, V], current *atomic.Pointer[table[K, V]], yield func(K, V) bool) {
	now := first
	end := first.used.Load() // ignores keys that arrive later: so the walk ends, and yields no key twice
	for n := range end {
		if newer := current.Load(); newer != now {
			if newer.generation != first.generation {
				walkKeys(now, n, end, current, yield)
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

// walkKeys continues a walk after a renumbering, by the keys that old had from this number on.
func walkKeys[K comparable, V any](old *table[K, V], from, end uint32, current *atomic.Pointer[table[K, V]], yield func(K, V) bool) {
	for n := from; n < end; n++ {
		it := old.at(n)
		if it.deleted.Load() {
			continue
		}
		if v, ok := current.Load().get(it.key, it.hash); ok && !yield(it.key, v) {
			return
		}
	}
}
