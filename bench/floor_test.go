package bench_test

import "sync"

// floor is what a queue without duplicates costs at the very least: one mutex, one map and one ring, and no features.
// It does not know which keys are in process, and hands a key out to anybody.
type floor struct {
	mu sync.Mutex
	// mu guards the following. waiting holds the keys in ring, of which there are n, from first on. sleepers wait for
	// arrived, for there to be a key or a shutdown.
	waiting  map[string]struct{}
	ring     []string
	first, n int
	arrived  *sync.Cond
	sleepers int
	shutdown bool
}

func newFloor() *floor {
	f := &floor{waiting: make(map[string]struct{})}
	f.arrived = sync.NewCond(&f.mu)
	return f
}

func (f *floor) Add(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.waiting[key]; ok {
		return
	}
	f.waiting[key] = struct{}{}
	if f.n == len(f.ring) {
		grown := make([]string, max(16, 2*f.n))
		copy(grown[copy(grown, f.ring[f.first:]):], f.ring[:f.first])
		f.ring, f.first = grown, 0
	}
	f.ring[(f.first+f.n)&(len(f.ring)-1)] = key
	f.n++
	if f.sleepers > 0 {
		f.arrived.Signal()
	}
}

func (f *floor) Get() (key string, shutdown bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.n == 0 {
		if f.shutdown {
			return "", true
		}
		f.sleepers++
		f.arrived.Wait()
		f.sleepers--
	}
	key, f.ring[f.first] = f.ring[f.first], ""
	f.first = (f.first + 1) & (len(f.ring) - 1)
	f.n--
	delete(f.waiting, key)
	return key, false
}

func (f *floor) Done(string) {}

func (f *floor) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

func (f *floor) ShutDown() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shutdown = true
	f.arrived.Broadcast()
}
