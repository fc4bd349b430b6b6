package lincheck_test

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/setpoint-go/setpoint/workqueue"
)

const (
	keys      = 3
	producers = 3
	workers   = 3
	phases    = 3
	calls     = 8 // of each producer in each phase
)

// queue is the interface of the checked queue.
type queue interface {
	Add(key int)
	AddAfter(key int, d time.Duration)
	Get() (key int, shutdown bool)
	TryTake() (item workqueue.Item[int], ok bool)
	Done(key int)
	Cancel(key int) bool
	ShutDown()
	Drain(ctx context.Context) error
}

// recorder records the calls of a queue. Its clock counts the calls and returns: a call that returned before another began has a lower
// number, and no number is used twice.
type recorder struct {
	queue queue
	clock atomic.Int64

	mu      sync.Mutex
	history []porcupine.Operation // guarded by mu
}

func (r *recorder) note(c call, a answer, from, to int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, porcupine.Operation{Input: c, Output: a, Call: from, Return: to})
}

func (r *recorder) add(key int) {
	from := r.clock.Add(1)
	r.queue.Add(key)
	r.note(call{add, key}, answer{}, from, r.clock.Add(1))
}

func (r *recorder) addAfter(key int, d time.Duration) {
	from := r.clock.Add(1)
	r.queue.AddAfter(key, d)
	r.note(call{addAfter, key}, answer{}, from, math.MaxInt64)
}

func (r *recorder) get() (key int, ok bool) {
	from := r.clock.Add(1)
	key, shutdown := r.queue.Get()
	r.note(call{op: get}, answer{key: key, none: shutdown}, from, r.clock.Add(1))
	return key, !shutdown
}

func (r *recorder) tryTakeAndDone() bool {
	from := r.clock.Add(1)
	item, ok := r.queue.TryTake()
	key := item.Key
	r.note(call{op: tryTake}, answer{key: key, none: !ok}, from, r.clock.Add(1))
	if ok {
		runtime.Gosched()
		r.done(key)
	}
	return ok
}

func (r *recorder) done(key int) {
	from := r.clock.Add(1)
	r.queue.Done(key)
	r.note(call{done, key}, answer{}, from, r.clock.Add(1))
}

func (r *recorder) cancel(key int) {
	from := r.clock.Add(1)
	canceled := r.queue.Cancel(key)
	r.note(call{cancel, key}, answer{canceled: canceled}, from, r.clock.Add(1))
}

// drain is a shutdown, and a moment after it, until the return, at which each key is at rest.
func (r *recorder) drain() {
	from := r.clock.Add(1)
	err := r.queue.Drain(context.Background())
	to := r.clock.Add(1)
	r.note(call{op: shutDown}, answer{}, from, to)
	for key := range keys {
		if err == nil {
			r.note(call{drained, key}, answer{}, from, to)
		}
	}
}

func (r *recorder) shutDown() {
	from := r.clock.Add(1)
	r.queue.ShutDown()
	r.note(call{op: shutDown}, answer{}, from, r.clock.Add(1))
}

// drained asks whether each key is at rest. Nothing runs when it is called, and all wake-ups are over.
func (r *recorder) drained() {
	now := r.clock.Add(1)
	r.mu.Lock()
	for i := range r.history {
		r.history[i].Return = min(r.history[i].Return, now)
	}
	r.mu.Unlock()
	for key := range keys {
		from := r.clock.Add(1)
		r.note(call{drained, key}, answer{}, from, r.clock.Add(1))
	}
}

// record runs producers and workers on a queue and returns the history. There are a few phases, and at the end of each everything must be
// at rest. In the last phase, the queue is shut down during the work. record runs in a bubble, so that a wake-up can be due at the very
// moment at which a producer continues, and so that rest can be detected: then only waiting workers are left. A worker that was not woken
// for a key does not come back, and the key is not at rest.
func record(t *testing.T, seed uint64, make func() queue) []porcupine.Operation {
	var r *recorder
	synctest.Test(t, func(t *testing.T) {
		r = &recorder{queue: make()}
		var working, producing sync.WaitGroup
		for range workers {
			// A worker. It ends after the shutdown; record waits for it.
			working.Go(r.work)
		}
		for phase := range phases {
			for p := range producers {
				// A producer. It ends after its calls; record waits for it.
				producing.Go(func() { r.produce(rand.New(rand.NewPCG(seed, uint64(phase*producers+p)))) })
			}
			if phase == phases-1 {
				runtime.Gosched()
				if seed%2 == 0 {
					r.shutDown()
				} else {
					// A drain. It ends when the workers are done; record waits for it.
					working.Go(r.drain)
				}
			}
			producing.Wait()
			time.Sleep(2 * maxDelay)
			synctest.Wait()
			if phase == phases-1 {
				// A key that a producer had in hand when all workers were told to stop, and that was added in the meantime.
				for r.tryTakeAndDone() {
				}
			}
			r.drained()
		}
		working.Wait()
	})
	slices.SortFunc(r.history, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	return r.history
}

func (r *recorder) work() {
	for {
		key, ok := r.get()
		if !ok {
			return
		}
		runtime.Gosched()
		r.done(key)
	}
}

// canceled is the only key that is canceled. Nothing is scheduled for it, so that the result of Cancel is known.
const canceled = 0

// tick is the unit of delays and of the pauses of producers.
const (
	tick     = time.Millisecond
	maxDelay = 3 * tick
)

func (r *recorder) produce(random *rand.Rand) {
	for range calls {
		key := random.IntN(keys)
		switch n := random.IntN(16); {
		case n == 0:
			r.cancel(canceled)
		case n < 8 || n < 10 && key == canceled:
			r.add(key)
		case n < 10:
			r.addAfter(key, tick*time.Duration(1+random.IntN(int(maxDelay/tick))))
		case n < 13:
			r.tryTakeAndDone()
		case n < 15:
			runtime.Gosched()
		default:
			time.Sleep(tick)
		}
	}
}
