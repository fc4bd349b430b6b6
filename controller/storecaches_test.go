package controller_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kinded is a source that says what its versions count, as a store does.
type kinded struct {
	*source
	clock reconcile.Clock
}

func (k kinded) Clock() reconcile.Clock { return k.clock }

// writer is a controller, driven step by step, whose reconciles tell versions of writes at the moment that a test chooses.
type writer struct {
	*stepped
	tell       func(ctx context.Context) // called by the next reconcile
	disconnect func()
}

var objects = reconcile.Clock{Kind: "Object", DB: 1}

// newWriter returns a writer of a source at version 2, and two more sources of its kind: one in another database, and one of
// another kind.
func newWriter(t *testing.T, cfg controller.Config[string], reads ...controller.Informer) *writer {
	w := &writer{stepped: &stepped{src: newSource(object{Key: "a"}, object{Key: "b"})}}
	w.inf = must(informer.New(informer.ListWatcher[object](kinded{w.src, objects}), keyOf, informer.Config{Name: "things"}))
	w.steps = must(w.inf.Steps(t.Context()))
	t.Cleanup(w.steps.Stop)
	cfg.Reads = reads
	w.c, _ = newController(t, cfg, func(ctx context.Context, _ string) (controller.Result, error) {
		if f := w.tell; f != nil {
			w.tell = nil
			f(ctx)
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
func (w *writer) write(t *testing.T, clock reconcile.Clock, v uint64) {
	w.tell = func(ctx context.Context) { reconcile.ReportWrite(ctx, clock.Kind, clock.DB, v) }
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
			reconcile.ReportWrite(ctx, objects.Kind, objects.DB, 3)
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
				reconcile.ReportWrite(context.WithoutCancel(ctx), objects.Kind, objects.DB, v)
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
		w.write(t, reconcile.Clock{Kind: "Other", DB: 1}, 9)
		assert.True(t, w.runs(t))
		w.write(t, reconcile.Clock{Kind: "Object", DB: 2}, 9)
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
			reconcile.ReportWrite(ctx, objects.Kind, objects.DB, 3)
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
			db := store.NewMemory(store.MemoryConfig{})
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

// heldUp is a source whose watches yield nothing until a channel is closed.
type heldUp struct {
	*source
	until chan struct{}
}

func (h heldUp) Clock() reconcile.Clock { return objects }

func (h heldUp) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[object], error] {
	select {
	case <-h.until:
	case <-ctx.Done():
	}
	return h.source.Watch(ctx, after)
}

// acme is a running controller of a table with the row acme, whose cache does not see what the controller writes. A reconcile that finds 0
// in the row does something outside, such as starting servers. Then it writes 7 in a transaction. The version of the transaction is known
// before its commit.
type acme struct {
	*controller.Controller[string]
	src     *source
	catchUp func()
	effects looptest.Log[string]
	log     looptest.Text
}

func newAcme(t *testing.T, cfg controller.Config[string], locked time.Duration, result error) *acme {
	until := make(chan struct{})
	a := &acme{src: newSource(object{Key: "acme"}), catchUp: func() { close(until) }}
	inf := must(informer.New(informer.ListWatcher[object](heldUp{a.src, until}), keyOf, informer.Config{Name: "tenants"}))
	looptest.Start(t, inf.Run)
	cfg.Logger = looptest.Logger(&a.log)
	began := time.Now()
	write := func(ctx context.Context, key string) {
		a.effects.Add(time.Since(began).String())
		reconcile.ReportWrite(ctx, objects.Kind, objects.DB, uint64(a.src.version())+1) // as VersionOf does
		time.Sleep(locked)                                                              // the UPDATE waits for the lock of the row
		a.src.set(object{Key: key, Value: 7})
	}
	if cfg.GaveUp != nil {
		cfg.GaveUp = func(ctx context.Context, key string, _ error) error {
			write(ctx, key)
			return nil
		}
	}
	a.Controller = must(controller.New("tenants", func(ctx context.Context, key string) (controller.Result, error) {
		switch o, _ := inf.Get(key); {
		case o.Value == 7:
			return controller.Result{}, nil
		case cfg.GaveUp == nil:
			write(ctx, key)
		}
		return controller.Result{}, result
	}, cfg, controller.For(inf)))
	looptest.Start(t, a.Run)
	synctest.Wait()
	return a
}

// expired is the warning of a reconcile that no longer waits.
func expired(version int, waited time.Duration) string {
	return fmt.Sprintf("level=WARN msg=\"expectations expired, reconciling anyway\" controller=tenants key=acme reason=\"cache tenants\" version=%d waited=%v\n",
		version, waited)
}

// warnings returns the warnings about expectations in the log.
func (a *acme) warnings() (found string) {
	for line := range strings.Lines(a.log.String()) {
		if strings.Contains(line, "expectations") {
			found += line
		}
	}
	return found
}

func TestWaitForOwnWriteBeginsWhenReconcileEnds(t *testing.T) {
	for name, test := range map[string]struct {
		cfg    controller.Config[string]
		result error
	}{
		"success":             {},
		"failure":             {result: errors.New("the commit has failed, or not")},
		"GaveUp writes":       {controller.Config[string]{GaveUp: func(context.Context, string, error) error { return nil }}, retry.Permanent(errBoom)},
		"unfinished, at once": {result: retry.NotYet(errBoom, time.Nanosecond)},
	} {
		for _, locked := range []time.Duration{0, 10*time.Second - 1, 10 * time.Second, time.Minute} {
			bubble(t, fmt.Sprintf("%s, locked for %v", name, locked), func(t *testing.T) {
				a := newAcme(t, test.cfg, locked, test.result)
				time.Sleep(locked / 2)
				a.Add("acme") // the event of the one who has the lock
				time.Sleep(locked - locked/2 + 10*time.Second - 1)
				synctest.Wait()
				assert.Equal(t, []string{"0s"}, a.effects.Take())
				assert.Empty(t, a.warnings())
				a.catchUp()
				time.Sleep(time.Hour)
				assert.Empty(t, a.effects.Take(), "the cache shows the write")
				assert.Empty(t, a.warnings())
				assert.Zero(t, a.Stats().Held)
				a.CheckInvariants(t)
			})
			bubble(t, fmt.Sprintf("%s, locked for %v, and the cache never shows it", name, locked), func(t *testing.T) {
				a := newAcme(t, test.cfg, locked, test.result)
				a.Add("acme")
				time.Sleep(locked + 10*time.Second)
				synctest.Wait()
				assert.Equal(t, []string{"0s", (locked + 10*time.Second).String()}, a.effects.Take(), "it does not wait forever")
				assert.Equal(t, expired(2, 10*time.Second), a.warnings())
				a.CheckInvariants(t)
			})
		}
	}
}

// An expiry is remembered until the key is reconciled, or the cache shows the write.
func TestReconcileAfterExpiryIsLoggedAlthoughNothingHeldKey(t *testing.T) {
	for _, later := range []time.Duration{10 * time.Second, 11 * time.Second, time.Hour} {
		bubble(t, fmt.Sprint("added after ", later), func(t *testing.T) {
			a := newAcme(t, controller.Config[string]{}, 0, nil)
			time.Sleep(later)
			assert.Empty(t, a.warnings())
			a.Add("acme")
			synctest.Wait()
			assert.Equal(t, []string{"0s", later.String()}, a.effects.Take())
			assert.Equal(t, expired(2, later), a.warnings())

			a.Add("acme") // it waits for the second write now
			time.Sleep(10*time.Second - 1)
			assert.Empty(t, a.effects.Take())
			a.catchUp()
			time.Sleep(time.Hour)
			a.Add("acme")
			synctest.Wait()
			assert.Empty(t, a.effects.Take())
			assert.Equal(t, expired(2, later), a.warnings(), "once")
			a.CheckInvariants(t)
		})
	}
	bubble(t, "the cache has shown the write in the meantime", func(t *testing.T) {
		a := newAcme(t, controller.Config[string]{}, 0, nil)
		time.Sleep(time.Minute)
		a.catchUp()
		time.Sleep(time.Minute)
		a.Add("acme")
		synctest.Wait()
		assert.Equal(t, []string{"0s"}, a.effects.Take())
		assert.Empty(t, a.warnings())
	})
	bubble(t, "the cache shows the write while the key is held", func(t *testing.T) {
		a := newAcme(t, controller.Config[string]{}, 0, nil)
		a.Add("acme")
		time.Sleep(9 * time.Second)
		a.Pause() // so that the released key is reconciled after the 10 s
		a.catchUp()
		time.Sleep(time.Minute)
		a.Resume()
		time.Sleep(time.Minute)
		assert.Empty(t, a.warnings())
	})
	bubble(t, "each cache that lacks the write", func(t *testing.T) {
		var log looptest.Text
		until := make(chan struct{})
		var reads []controller.Informer
		for _, name := range []string{"one", "two"} {
			inf := must(informer.New(informer.ListWatcher[object](heldUp{newSource(), until}), keyOf, informer.Config{Name: name}))
			looptest.Start(t, inf.Run)
			reads = append(reads, inf)
		}
		c := must(controller.New("tenants", func(ctx context.Context, _ string) (controller.Result, error) {
			reconcile.ReportWrite(ctx, objects.Kind, objects.DB, 5)
			return controller.Result{}, nil
		}, controller.Config[string]{Reads: reads, Logger: looptest.Logger(&log)}))
		looptest.Start(t, c.Run)
		c.Add("acme")
		time.Sleep(time.Minute)
		c.Add("acme")
		synctest.Wait()
		assert.Contains(t, log.String(), `reason="cache one" version=5 waited=1m0s`)
		assert.Contains(t, log.String(), `reason="cache two" version=5 waited=1m0s`)
	})
}

// Keys whose writes were shown, or that were reconciled anyway, take no memory.
func TestExpiredWaitsTakeNoMemory(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		a := newAcme(t, controller.Config[string]{}, 0, nil)
		for range 3 {
			a.Add("acme")
			time.Sleep(time.Minute)
		}
		assert.Equal(t, 1, a.Awaited(), "the last write")
		a.catchUp()
		synctest.Wait()
		assert.Zero(t, a.Awaited())
	})
}

func TestExpiryOfOwnExpectationsIsLoggedWithVersionAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log looptest.Text
		v := expectations.NewVersions(expectations.Config[string]{Name: "sites", TTL: time.Minute, Logger: looptest.Logger(&log)})
		c := must(controller.New("test", noop, controller.Config[string]{
			Expectations: []controller.Expectations[string]{v}, Logger: looptest.Logger(&log),
		}))
		looptest.Start(t, c.Run)
		v.ExpectVersion("a", 5)
		time.Sleep(20 * time.Second)
		c.Add("a")
		v.ExpectVersion("b", 6)
		time.Sleep(2 * time.Minute)
		c.Add("b") // nothing has held it
		synctest.Wait()
		assert.Contains(t, log.String(), `msg="expectations expired" name=sites key=a version=5 waited=1m0s`)
		assert.Contains(t, log.String(), `msg="expectations expired, reconciling anyway" controller=test key=a reason="expectations sites" waited=40s`)
		assert.Contains(t, log.String(), `msg="expectations expired" name=sites key=b version=6 waited=2m0s`)
	})
}
