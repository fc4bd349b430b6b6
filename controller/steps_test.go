package controller_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stepped is a controller and its informer, both driven step by step. A reconcile copies an object of the cache to done.
type stepped struct {
	src   *source
	inf   *informer.Informer[string, object]
	steps informer.Steps
	c     *controller.Controller[string]
	fail  bool
	done  map[string]int
}

func newStepped(t *testing.T, cfg controller.Config[string]) *stepped {
	w := &stepped{src: newSource(), done: map[string]int{}}
	w.inf = newInformer("things", w.src)
	var err error
	w.steps, err = w.inf.Steps(t.Context())
	require.NoError(t, err)
	t.Cleanup(w.steps.Stop)
	w.c, _ = newController(t, cfg, func(_ context.Context, key string) (controller.Result, error) {
		if w.fail {
			return controller.Result{}, errBoom
		}
		if o, ok := w.inf.Get(key); ok {
			w.done[key] = o.Value
		} else {
			delete(w.done, key)
		}
		return controller.Result{}, nil
	}, controller.For(w.inf))
	return w
}

// sync brings the list into the cache and to the watch.
func (w *stepped) sync(t *testing.T) {
	w.steps.Read(t.Context())
	w.steps.Apply()
	w.deliver()
}

func (w *stepped) deliver() {
	for _, handler := range w.steps.Handlers() {
		for w.steps.Deliver(handler) {
		}
	}
}

// catchUp lets the cache and the watch hear all that the source says.
func (w *stepped) catchUp(t *testing.T) {
	for w.steps.Apply() {
	}
	w.read(t)
	w.deliver()
}

// read lets the cache hear all that the source says.
func (w *stepped) read(t *testing.T) {
	for w.inf.Version() < w.src.version() {
		w.steps.Read(t.Context())
		w.steps.Apply()
	}
}

func (w *stepped) connect(t *testing.T) (disconnect func()) {
	disconnect, err := w.c.Connect(t.Context())
	require.NoError(t, err)
	t.Cleanup(disconnect)
	return disconnect
}

func TestConnectAttachesWatchesWithoutRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStepped(t, controller.Config[string]{})
		w.src.set(object{Key: "a", Value: 1})
		w.src.set(object{Key: "b", Value: 2})
		disconnect := w.connect(t)
		w.c.Add("z")
		assert.Empty(t, w.c.Ready(), "nothing is ready before the informer has synced")
		_, ok := next(t.Context(), w.c)
		assert.False(t, ok)
		_, ok = w.c.Step(t.Context(), "z")
		assert.False(t, ok)

		w.sync(t)
		assert.Equal(t, []string{"z", "a", "b"}, w.c.Ready(), "existing objects wait behind new events")
		report, ok := w.c.Step(t.Context(), "b")
		assert.True(t, ok)
		assert.Equal(t, "b", report.Key)
		_, ok = w.c.Step(t.Context(), "b")
		assert.False(t, ok, "it is not ready")
		assert.Equal(t, map[string]int{"b": 2}, w.done)
		assert.Equal(t, []string{"z", "a"}, w.c.Ready())
		w.c.Pause()
		assert.Empty(t, w.c.Ready())
		_, ok = w.c.Step(t.Context(), "a")
		assert.False(t, ok)
		w.c.Resume()

		require.ErrorIs(t, w.c.Run(t.Context()), controller.ErrRunning)
		_, err := w.c.Connect(t.Context())
		require.EqualError(t, err, `controller: connect "test": already running`)
		w.c.CheckInvariants(t)

		disconnect()
		disconnect()
		assert.Empty(t, w.steps.Handlers())
		w.src.set(object{Key: "c", Value: 3})
		w.catchUp(t)
		assert.Equal(t, []string{"z", "a"}, w.c.Ready(), "added keys stay, and nothing is reconciled")
		w.connect(t)
		w.steps.Apply()
		w.deliver()
		assert.Equal(t, []string{"z", "a", "b", "c"}, w.c.Ready(), "another Connect receives all existing objects")
	})
}

func TestConnectToEndedInformerLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStepped(t, controller.Config[string]{})
		w.steps.Stop()
		for range 2 {
			_, err := w.c.Connect(t.Context())
			require.ErrorIs(t, err, informer.ErrEnded)
		}
		require.ErrorIs(t, w.c.Run(t.Context()), informer.ErrEnded)
		assertNoWorkers(t)
	})
}

func TestConcurrentStepsAndRunExcludeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newController(t, controller.Config[string]{}, noop)
		looptest.Start(t, c.Run)
		synctest.Wait()
		_, err := c.Connect(t.Context())
		require.ErrorIs(t, err, controller.ErrRunning)
		assert.PanicsWithValue(t, "controller: Step called during a Run", func() { c.Step(t.Context(), "a") })
	})
}

func TestReadyListsKeysInReconcileOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for range 50 {
			c, _ := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{Aging: time.Second}}, noop)
			for i := range 20 {
				c.AddWith(fmt.Sprint(i), controller.AddOptions{Priority: r.IntN(5)})
				time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
			}
			ready := c.Ready()
			require.Len(t, ready, 20)
			for _, key := range ready {
				report, _ := next(t.Context(), c)
				require.Equal(t, key, report.Key)
			}
		}
	})
}

// TestEveryOrderOfStepsConverges interleaves a source, its cache, the watch, and the reconciles at random, with
// failures and crashes of the watches. Finally, the result must match the source.
func TestEveryOrderOfStepsConverges(t *testing.T) {
	for seed := range uint64(100) {
		bubble(t, fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 3))
			w := newStepped(t, controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: time.Second}}})
			disconnect := w.connect(t)
			truth := map[string]int{}
			for i := range 150 {
				key := fmt.Sprint("k", r.IntN(4))
				switch r.IntN(8) {
				case 0:
					if w.src.has(key) && seed%2 == 0 && r.IntN(2) == 0 {
						delete(truth, key)
						w.src.delete(key)
					} else {
						truth[key] = i
						w.src.set(object{Key: key, Value: i})
					}
				case 1:
					if w.inf.Version() < w.src.version() || !w.inf.HasSynced() {
						short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
						w.steps.Read(short)
						cancel()
					}
				case 2:
					w.steps.Apply()
				case 3:
					if handlers := w.steps.Handlers(); len(handlers) > 0 {
						w.steps.Deliver(handlers[r.IntN(len(handlers))])
					}
				case 4, 5:
					if r.IntN(4) == 0 {
						w.c.Add(key)
					}
					if ready := w.c.Ready(); len(ready) > 0 {
						key := ready[r.IntN(len(ready))]
						report, ok := w.c.Step(t.Context(), key)
						require.True(t, ok)
						require.Equal(t, key, report.Key)
					}
				case 6:
					w.fail = r.IntN(3) == 0
				case 7:
					if r.IntN(4) == 0 && seed%2 == 1 { // no watch hears of what is deleted while it is not connected
						disconnect()
						disconnect = w.connect(t)
					}
					time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
				}
				w.c.CheckInvariants(t)
			}
			w.fail = false
			for range 2 {
				w.catchUp(t)
				w.steps.Apply()
				w.deliver()
				time.Sleep(time.Minute)
				for _, ok := next(t.Context(), w.c); ok; _, ok = next(t.Context(), w.c) {
				}
			}
			require.True(t, maps.Equal(truth, w.done), "got %v, want %v", w.done, truth)
			disconnect()
		})
	}
}

// TestShortLivedObjectIsReported is why watches receive every event, also those of their own keys. An object
// comes and goes while the watch is behind. In between a reconcile, which something else has asked for, has acted on it. If
// the two events were merged to nothing, no reconcile would clean up.
func TestShortLivedObjectIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStepped(t, controller.Config[string]{})
		w.connect(t)
		w.sync(t)
		w.src.set(object{Key: "a", Value: 1})
		w.read(t)
		w.c.Add("a") // by the writer
		_, ok := w.c.Step(t.Context(), "a")
		assert.True(t, ok)
		assert.Equal(t, map[string]int{"a": 1}, w.done)
		w.src.delete("a")
		w.read(t)
		w.deliver()
		for _, ok := next(t.Context(), w.c); ok; _, ok = next(t.Context(), w.c) {
		}
		assert.Empty(t, w.done)
	})
}
