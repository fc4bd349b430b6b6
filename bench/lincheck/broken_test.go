package lincheck_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/workqueue"
)

func TestBrokenQueueIsDetected(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault fault
	}{
		{"an Add of a key in process is lost", losesReAdd},
		{"a wake-up is lost", losesWakeUp},
		{"a key in process is handed out again", handsOutTwice},
		{"TryTake returns nothing while a key is ready", findsNothing},
		{"Done is forgotten", losesDone},
		{"Cancel has no effect", losesCancel},
		{"Drain does not wait", drainsTooEarly},
	} {
		t.Run(c.name, func(t *testing.T) {
			// One fault does no harm if something else adds the key again before anyone can tell.
			for seed := range uint64(1000) {
				var q *broken
				history := record(t, seed, func() queue {
					q = newBroken(c.fault)
					return q
				})
				if check(history) == porcupine.Illegal {
					t.Logf("detected in history %d", seed)
					return
				}
			}
			t.Error("it was not detected")
		})
	}
}

// fault is a mistake that a broken queue makes once.
type fault int

const (
	losesReAdd fault = iota
	losesWakeUp
	handsOutTwice
	findsNothing
	losesDone
	losesCancel
	drainsTooEarly
)

// broken is a queue with a fault.
type broken struct {
	*workqueue.Queue[int]
	fault fault

	mu sync.Mutex
	// mu guards the following.
	happened  bool
	inProcess [keys]int // how often each key is with a worker
}

func newBroken(f fault) *broken {
	return &broken{fault: f, Queue: must(workqueue.New(workqueue.Config[int]{
		// A key that is handed out twice is done twice.
		Hooks: workqueue.Hooks[int]{StrayDone: func(int) {}},
	}))}
}

// goesWrong reports whether the fault happens now.
func (q *broken) goesWrong(f fault, key int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fault != f || q.happened {
		return false
	}
	switch f {
	case losesReAdd, handsOutTwice:
		q.happened = q.inProcess[key] > 0
	case findsNothing:
		q.happened = q.Len() > 0
	default:
		q.happened = true
	}
	return q.happened
}

func (q *broken) count(key, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inProcess[key] += n
}

func (q *broken) Add(key int) {
	if !q.goesWrong(losesReAdd, key) {
		q.Queue.Add(key)
	}
}

func (q *broken) AddAfter(key int, d time.Duration) {
	if !q.goesWrong(losesWakeUp, key) {
		q.Queue.AddAfter(key, d)
	}
}

func (q *broken) Cancel(key int) bool {
	return q.goesWrong(losesCancel, key) || q.Queue.Cancel(key)
}

func (q *broken) Drain(ctx context.Context) error {
	if q.goesWrong(drainsTooEarly, 0) {
		q.ShutDown()
		return nil
	}
	return q.Queue.Drain(ctx)
}

func (q *broken) Get() (int, bool) {
	key, shutdown := q.Queue.Get()
	if !shutdown {
		q.count(key, 1)
	}
	return key, shutdown
}

func (q *broken) TryTake() (workqueue.Item[int], bool) {
	if q.goesWrong(findsNothing, 0) {
		return workqueue.Item[int]{}, false
	}
	for key := range keys {
		if q.goesWrong(handsOutTwice, key) {
			q.count(key, 1)
			return workqueue.Item[int]{Key: key}, true
		}
	}
	item, ok := q.Queue.TryTake()
	if ok {
		q.count(item.Key, 1)
	}
	return item, ok
}

func (q *broken) Done(key int) {
	q.count(key, -1)
	if !q.goesWrong(losesDone, key) {
		q.Queue.Done(key)
	}
}

func TestModelDetectsViolations(t *testing.T) {
	type calls = []op
	const nothing = " none" // the answer of get and tryTake
	for _, c := range []struct {
		name  string
		legal bool
		calls calls
	}{
		{"a key that is added is handed out", true, calls{add, get, done, drained}},
		{"a key that is added twice is handed out once", true, calls{add, add, get, done, drained}},
		{"a key that is added twice is handed out twice", false, calls{add, add, get, done, get}},
		{"a key that is added while in process comes back", true, calls{add, get, add, done, get, done, drained}},
		{"a key that is added while in process does not come back", false, calls{add, get, add, done, drained}},
		{"a key that is added while in process comes back too early", false, calls{add, get, add, get}},
		{"a key that was not added is handed out", false, calls{tryTake}},
		{"a key that is ready is not found", false, calls{add, tryTake + nothing}},
		{"a key in process is not found", true, calls{add, get, tryTake + nothing}},
		{"a key is lost", false, calls{add, drained}},
		{"a key is never done", false, calls{add, get, drained}},
		{"a key is done too often", false, calls{add, get, done, done}},
		{"a worker stops without a shutdown", false, calls{get + nothing}},
		{"a worker stops after a shutdown", true, calls{shutDown, get + nothing, drained}},
		{"a worker stops before the queue is empty", false, calls{add, shutDown, get + nothing}},
		{"a key that is ready is handed out after a shutdown", true, calls{add, shutDown, get, done, get + nothing, drained}},
		{"a canceled key is not handed out", true, calls{add, cancel, tryTake + nothing, drained}},
		{"a canceled key is handed out", false, calls{add, cancel, get}},
		{"a key that is canceled while in process does not come back", true, calls{add, get, add, cancel, done, drained}},
		{"a key is accepted after a shutdown", false, calls{shutDown, add, get}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var history []porcupine.Operation
			for i, o := range c.calls {
				name, none := strings.CutSuffix(string(o), nothing)
				history = append(history, porcupine.Operation{
					Input: call{op: op(name)}, Output: answer{none: none, canceled: true}, Call: int64(2 * i), Return: int64(2*i + 1),
				})
			}
			assert.Equal(t, c.legal, check(history) == porcupine.Ok)
		})
	}
}
