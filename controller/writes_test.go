package controller_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/internal/written"
	"github.com/setpoint-go/setpoint/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kinded is a source that says what its versions count, as a store does.
type kinded struct {
	*source
	clock written.Clock
}

func (k kinded) Clock() written.Clock { return k.clock }

// writer is a controller, driven step by step, whose reconciles tell versions of writes at the moment that a test chooses.
type writer struct {
	*stepped
	tell       func(ctx context.Context) // called by the next reconcile
	disconnect func()
}

var objects = written.Clock{Kind: "Object", DB: 1}

// newWriter returns a writer of a source at version 2, and two more sources of its kind: one in another database, and one of
// another kind.
func newWriter(t *testing.T, cfg controller.Config[string], reads ...controller.Informer) *writer {
	w := &writer{stepped: &stepped{src: newSource(object{Key: "a"}, object{Key: "b"})}}
	w.inf = must(informer.New(informer.ListWatcher[object](kinded{w.src, objects}), keyOf, informer.Config{Name: "things"}))
	w.steps = must(w.inf.Steps(t.Context()))
	t.Cleanup(w.steps.Stop)
	cfg.Reads = reads
	w.c, _ = newController(t, cfg, func(ctx context.Context, _ string) (controller.Result, error) {
		if tell := w.tell; tell != nil {
			w.tell = nil
			tell(ctx)
		}
		return controller.Result{}, nil
	}, controller.For(w.inf))
	w.disconnect = w.connect(t)
	w.sync(t)
	for _, ok := next(t.Context(), w.c); ok; _, ok = next(t.Context(), w.c) {
	}
	return w
}

// write reconciles a, which makes a write of version v, and adds a again.
func (w *writer) write(t *testing.T, clock written.Clock, v uint64) {
	w.tell = func(ctx context.Context) { written.Tell(ctx, clock.Kind, clock.DB, v) }
	w.c.Add("a")
	_, ok := w.c.Step(t.Context(), "a")
	require.True(t, ok)
	w.c.Add("a")
}

// runs reports whether a is reconciled now.
func (w *writer) runs(t *testing.T) bool {
	w.c.CheckInvariants(t)
	_, ok := w.c.Step(t.Context(), "a")
	w.c.CheckInvariants(t)
	return ok
}

func TestKeyIsHeldUntilCacheShowsItsWrites(t *testing.T) {
	bubble(t, "the write comes back first", func(t *testing.T) {
		w := newWriter(t, controller.Config[string]{})
		w.write(t, objects, 4)
		assert.False(t, w.runs(t))
		w.src.set(object{Key: "x"})
		w.read(t)
		assert.False(t, w.runs(t), "version 3 is not enough")
		w.c.Add("b")
		_, ok := w.c.Step(t.Context(), "b")
		assert.True(t, ok, "other keys do not wait")
		w.src.set(object{Key: "x"})
		assert.False(t, w.runs(t), "the cache does not know yet")
		w.read(t)
		assert.True(t, w.runs(t), "the handlers need not have been told")
	})
	bubble(t, "the event comes first", func(t *testing.T) {
		w := newWriter(t, controller.Config[string]{})
		w.src.set(object{Key: "x"})
		w.read(t)
		w.write(t, objects, 3)
		assert.True(t, w.runs(t))
	})
	bubble(t, "the event comes while the write is in flight", func(t *testing.T) {
		w := newWriter(t, controller.Config[string]{})
		w.tell = func(ctx context.Context) {
			w.src.set(object{Key: "x"})
			w.read(t)
			written.Tell(ctx, objects.Kind, objects.DB, 3)
		}
		w.c.Add("a")
		require.True(t, w.runs(t))
		w.c.Add("a")
		assert.True(t, w.runs(t))
	})
	bubble(t, "several writes: the last of them", func(t *testing.T) {
		w := newWriter(t, controller.Config[string]{})
		w.tell = func(ctx context.Context) {
			for _, v := range []uint64{3, 5, 4} {
				written.Tell(context.WithoutCancel(ctx), objects.Kind, objects.DB, v)
			}
		}
		w.c.Add("a")
		require.True(t, w.runs(t))
		w.c.Add("a")
		for range 3 {
			assert.False(t, w.runs(t))
			w.src.set(object{Key: "x"})
			w.read(t)
		}
		assert.True(t, w.runs(t))
	})
	bubble(t, "a write that changed nothing", func(t *testing.T) {
		w := newWriter(t, controller.Config[string]{})
		w.write(t, objects, 1)
		assert.True(t, w.runs(t))
	})
	bubble(t, "a kind that no informer mirrors, and another database", func(t *testing.T) {
		w := newWriter(t, controller.Config[string]{})
		w.write(t, written.Clock{Kind: "Other", DB: 1}, 9)
		assert.True(t, w.runs(t))
		w.write(t, written.Clock{Kind: "Object", DB: 2}, 9)
		assert.True(t, w.runs(t))
	})
	bubble(t, "a cache that never shows it", func(t *testing.T) {
		w := newWriter(t, controller.Config[string]{})
		w.write(t, objects, 9)
		assert.False(t, w.runs(t))
		time.Sleep(10*time.Second - time.Nanosecond)
		assert.False(t, w.runs(t))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.True(t, w.runs(t))
	})
	bubble(t, "every informer of the kind, also one that reconcile only reads", func(t *testing.T) {
		other := newSource(object{Key: "a"})
		read := must(informer.New(informer.Filter(informer.ListWatcher[object](kinded{other, objects}),
			func(object) bool { return true }), keyOf, informer.Config{}))
		looptest.Start(t, read.Run)
		synctest.Wait()
		w := newWriter(t, controller.Config[string]{}, read)
		w.write(t, objects, 2)
		assert.False(t, w.runs(t), "the other one is at version 1")
		other.set(object{Key: "b"})
		synctest.Wait()
		assert.True(t, w.runs(t))
	})
	bubble(t, "StaleReads", func(t *testing.T) {
		w := newWriter(t, controller.Config[string]{StaleReads: true})
		w.write(t, objects, 9)
		assert.True(t, w.runs(t))
	})
	bubble(t, "a source whose versions went back", func(t *testing.T) {
		w := newWriter(t, controller.Config[string]{})
		w.write(t, objects, 9)
		require.False(t, w.runs(t))
		w.src.restore()
		w.inf.Reset()
		w.steps.Read(t.Context())
		w.steps.Apply()
		require.EqualValues(t, 1, w.inf.Version())
		assert.True(t, w.runs(t), "the write no longer belongs to any history")
		w.write(t, objects, 2)
		assert.False(t, w.runs(t))
		w.src.set(object{Key: "x"})
		w.read(t)
		assert.True(t, w.runs(t))
	})
	bubble(t, "steps without Connect", func(t *testing.T) {
		w := newWriter(t, controller.Config[string]{})
		c, _ := newController(t, controller.Config[string]{}, func(ctx context.Context, _ string) (controller.Result, error) {
			written.Tell(ctx, objects.Kind, objects.DB, 3)
			return controller.Result{}, nil
		}, controller.For(w.inf))
		c.Add("a")
		_, ok := next(t.Context(), c)
		assert.True(t, ok)
		c.Add("a")
		_, ok = next(t.Context(), c)
		assert.False(t, ok)
		w.src.set(object{Key: "x"})
		w.read(t)
		_, ok = next(t.Context(), c)
		assert.True(t, ok)
	})
}

func TestDisconnectStopsVersionNotifications(t *testing.T) {
	for _, stale := range []bool{false, true} {
		r := &restarted{}
		c, _ := newController(t, controller.Config[string]{Reads: []controller.Informer{r}, StaleReads: stale}, noop)
		disconnect, err := c.Connect(t.Context())
		require.NoError(t, err)
		assert.Equal(t, stale, r.tell == nil)
		disconnect()
		assert.Nil(t, r.tell)
	}
}

// late is a store whose watches are behind.
type late struct {
	store.Store[int]
	lag time.Duration
}

func (l late) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[store.Object[int]], error] {
	return func(yield func(informer.Event[store.Object[int]], error) bool) {
		for e, err := range l.Store.Watch(ctx, after) {
			if err == nil {
				time.Sleep(l.lag)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func TestCountingCachedChildrenCreatesNoDuplicates(t *testing.T) {
	for _, stale := range []bool{false, true} {
		bubble(t, fmt.Sprint("stale reads: ", stale), func(t *testing.T) {
			db := must(store.NewMemory(store.MemoryConfig{}))
			servers := must(store.Open[int](db, "Server", store.Config[int]{}))
			inf := must(informer.New(late{servers, time.Second}, store.Key, informer.Config{Name: "servers"}))
			looptest.Start(t, inf.Run)
			n, failures := 0, 0
			c, _ := newController(t, controller.Config[string]{StaleReads: stale}, func(ctx context.Context, _ string) (controller.Result, error) {
				if inf.Indexer().Len() < 3 {
					n++
					_, err := servers.Create(ctx, store.Object[int]{Key: fmt.Sprint("server", n)})
					require.NoError(t, err)
				}
				_, err := servers.Create(ctx, store.Object[int]{Key: "server1"})
				require.ErrorIs(t, err, store.ErrExists) // a write that fails is not waited for
				failures++
				return controller.Result{}, nil
			}, controller.Watches(inf, func(context.Context, store.Object[int]) ([]string, error) { return []string{"x"}, nil }))
			r := looptest.Start(t, c.Run)
			for range 100 {
				c.Add("x")
				time.Sleep(100 * time.Millisecond)
			}
			synctest.Wait()
			if stale {
				assert.Greater(t, n, 3)
			} else {
				assert.Equal(t, 3, n)
				assert.Greater(t, failures, 50)
			}
			c.CheckInvariants(t)
			require.NoError(t, r.Stop())
			assertNoWorkers(t)
		})
	}
}
