package bench_test

import "sync"

// floor is the minimum cost of a queue that holds a key once and hands it to one worker at a time: one mutex, one map, and one ring,
// without features.
type floor struct {
	mu sync.Mutex
	// mu guards the following. keys says for each key whether it waits, is in process, or is in process and was added again. The n waiting
	// keys are in ring, from first on. sleepers wait on arrived for a key or a shutdown.
	keys     map[string]floorState
	ring     []string
	first, n int
	arrived  *sync.Cond
	sleepers int
	shutdown bool
}

type floorState uint8

const (
	waits floorState = iota + 1
	inProcess
	inProcessAgain
)

func newFloor() *floor {
	f := &floor{keys: make(map[string]floorState)}
	f.arrived = sync.NewCond(&f.mu)
	return f
}

func (f *floor) Add(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch f.keys[key] {
	case 0:
		f.keys[key] = waits
		f.push(key)
	case inProcess:
		f.keys[key] = inProcessAgain
	}
}

func (f *floor) push(key string) {
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
	f.keys[key] = inProcess
	return key, false
}

func (f *floor) Done(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys[key] == inProcessAgain {
		f.keys[key] = waits
		f.push(key)
		return
	}
	delete(f.keys, key)
}

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
