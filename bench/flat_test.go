package bench_test

import (
	"hash/maphash"
	"sync"
	"time"
)

// flat is the minimum cost of delayed keys on this machine, without regard to any guarantee: the memory is allocated before the first key,
// each key is added once, and one worker processes its keys in turn. Its hash table has hashes and numbers, with open addressing; a
// four-way heap and a ring have numbers too.
type flat struct {
	seed  maphash.Seed
	start time.Time

	mu sync.Mutex
	// mu guards the following. in counts those that have been added.
	slots    []uint64 // the hash, and the number of the key counted from 1; 0 if it is empty
	keys     []flatKey
	in       int
	heap     []flatWakeup
	ring     []uint32 // the numbers of the n waiting keys, from first on
	first, n int
	arrived  *sync.Cond
	sleepers int
	last     uint32 // was handed out
	timer    *time.Timer
}

type flatKey struct {
	key  string
	hash uint32
}

type flatWakeup struct {
	due    int64 // nanoseconds after start
	number uint32
}

func newFlat(size int) *flat {
	room := 1
	for 4*room < 5*size {
		room *= 2
	}
	f := &flat{
		seed: maphash.MakeSeed(), start: time.Now(), slots: make([]uint64, room), keys: make([]flatKey, size),
		heap: make([]flatWakeup, 0, size), ring: make([]uint32, room),
	}
	f.arrived = sync.NewCond(&f.mu)
	return f
}

func (f *flat) AddAfter(key string, d time.Duration) {
	hash := uint32(maphash.String(f.seed, key))
	due := int64(time.Since(f.start) + d)
	f.mu.Lock()
	defer f.mu.Unlock()
	mask := uint32(len(f.slots) - 1)
	i := hash & mask
	for ; f.slots[i] != 0; i = (i + 1) & mask {
		if uint32(f.slots[i]>>32) == hash && f.keys[uint32(f.slots[i])-1].key == key {
			panic("a key is added twice")
		}
	}
	number := uint32(f.in)
	f.in++
	f.keys[number] = flatKey{key, hash}
	f.slots[i] = uint64(hash)<<32 | uint64(number+1)
	if f.schedule(flatWakeup{due, number}) {
		f.arm(due)
	}
}

// schedule puts w on the heap, and reports whether it is the first there.
func (f *flat) schedule(w flatWakeup) bool {
	i := len(f.heap)
	f.heap = append(f.heap, w)
	for i > 0 && w.due < f.heap[(i-1)/4].due {
		f.heap[i] = f.heap[(i-1)/4]
		i = (i - 1) / 4
	}
	f.heap[i] = w
	return i == 0
}

// next takes the first wake-up off the heap.
func (f *flat) next() uint32 {
	first := f.heap[0].number
	w := f.heap[len(f.heap)-1]
	f.heap = f.heap[:len(f.heap)-1]
	if len(f.heap) == 0 {
		return first
	}
	i := 0
	for {
		least, at := w, i
		for c := 4*i + 1; c <= 4*i+4 && c < len(f.heap); c++ {
			if f.heap[c].due < least.due {
				least, at = f.heap[c], c
			}
		}
		f.heap[i] = least
		if at == i {
			return first
		}
		i = at
	}
}

func (f *flat) arm(due int64) {
	d := time.Duration(due) - time.Since(f.start)
	if f.timer == nil {
		f.timer = time.AfterFunc(d, f.fire)
		return
	}
	f.timer.Reset(d)
}

func (f *flat) fire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := int64(time.Since(f.start))
	for len(f.heap) > 0 && f.heap[0].due <= now {
		f.ring[(f.first+f.n)&(len(f.ring)-1)] = f.next()
		f.n++
	}
	if f.n > 0 && f.sleepers > 0 {
		f.arrived.Signal()
	}
	if len(f.heap) > 0 {
		f.arm(f.heap[0].due)
	}
}

func (f *flat) Get() (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.n == 0 {
		f.sleepers++
		f.arrived.Wait()
		f.sleepers--
	}
	f.last = f.ring[f.first]
	f.first = (f.first + 1) & (len(f.ring) - 1)
	f.n--
	return f.keys[f.last].key, false
}

func (f *flat) Done(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	done := &f.keys[f.last]
	if done.key != key {
		panic("Done of a key that was not handed out last")
	}
	mask := uint32(len(f.slots) - 1)
	empty := done.hash & mask
	for uint32(f.slots[empty]) != f.last+1 {
		empty = (empty + 1) & mask
	}
	for i := (empty + 1) & mask; f.slots[i] != 0; i = (i + 1) & mask {
		if (i-uint32(f.slots[i]>>32))&mask >= (i-empty)&mask {
			f.slots[empty] = f.slots[i]
			empty = i
		}
	}
	f.slots[empty] = 0
	*done = flatKey{}
}

// Len implements later. Delayed keys count, as elsewhere.
func (f *flat) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// Add and ShutDown implement later. Nothing calls Add.
func (f *flat) Add(key string) { f.AddAfter(key, 0) }
func (f *flat) ShutDown()      { f.timer.Stop() }
