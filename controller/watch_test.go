package controller_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/store"
)

// owner maps an object to its owner, and to nothing if it has none.
func owner(_ context.Context, o object) ([]string, error) {
	if o.Owner == "" {
		return nil, nil
	}
	return []string{o.Owner}, nil
}

// sorted returns the keys of the reports in order, each as often as it was reported.
func sorted(reports []controller.Report[string]) []string {
	return slices.Sorted(slices.Values(keysOf(reports)))
}

func TestWatchAddsExistingAndChangedObjects(t *testing.T) {
	for name, watch := range map[string]func(*informer.Informer[string, object]) controller.Input[string]{
		"of keys": func(inf *informer.Informer[string, object]) controller.Input[string] { return controller.For(inf) },
		"with a mapper": func(inf *informer.Informer[string, object]) controller.Input[string] {
			return controller.Watches(inf, pure(func(o object) []string { return []string{o.Key} }))
		},
	} {
		bubble(t, name, func(t *testing.T) {
			s := newSource(object{Key: "a"}, object{Key: "b"})
			inf := newInformer("things", s)
			looptest.Start(t, inf.Run)
			c, reports := newController(t, controller.Config[string]{}, noop, watch(inf))
			looptest.Start(t, c.Run)
			synctest.Wait()
			assert.Equal(t, []string{"a", "b"}, sorted(reports.Take()))

			s.set(object{Key: "c"})
			synctest.Wait()
			assert.Equal(t, []string{"c"}, sorted(reports.Take()))
			s.set(object{Key: "a", Value: 1})
			synctest.Wait()
			assert.Equal(t, []string{"a"}, sorted(reports.Take()), "once, although it is both the old and the new key")
			s.delete("b")
			synctest.Wait()
			assert.Equal(t, []string{"b"}, sorted(reports.Take()))
		})
	}
}

func TestWatchMapsOldAndNewObjectsAndTombstones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(object{Key: "a", Owner: "x"})
		inf := newInformer("things", s)
		looptest.Start(t, inf.Run)
		c, reports := newController(t, controller.Config[string]{}, noop, controller.Watches(inf, owner))
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Equal(t, []string{"x"}, sorted(reports.Take()))

		s.set(object{Key: "a", Owner: "y"})
		synctest.Wait()
		assert.Equal(t, []string{"x", "y"}, sorted(reports.Take()))
		s.delete("a")
		synctest.Wait()
		assert.Equal(t, []string{"y"}, sorted(reports.Take()))
	})
}

func TestOwnsAddsOwnersOfOneKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		children, err := store.Open[string](must(store.NewMemory(store.MemoryConfig{})), "Child", store.Config[string]{})
		require.NoError(t, err)
		inf := must(informer.New(children, store.Key, informer.Config{}))
		looptest.Start(t, inf.Run)
		big := func(o store.Object[string]) bool { return o.Value != "small" }
		c, reports := newController(t, controller.Config[string]{}, noop, controller.Owns(inf, "Parent").Where(big))
		looptest.Start(t, c.Run)
		owned := func(by store.OwnerRef) []store.OwnerRef { return []store.OwnerRef{by} }
		x := store.OwnerRef{Ref: store.Ref{Kind: "Parent", Key: "x", UID: "1"}, Controller: true}
		y := store.OwnerRef{Ref: store.Ref{Kind: "Parent", Key: "y", UID: "2"}, Controller: true}

		child, err := children.Create(t.Context(), store.Object[string]{Key: "a", Owners: owned(x)})
		require.NoError(t, err)
		for key, by := range map[string]store.OwnerRef{
			"of another kind":  {Ref: store.Ref{Kind: "Guardian", Key: "z", UID: "3"}, Controller: true},
			"does not control": {Ref: store.Ref{Kind: "Parent", Key: "z", UID: "3"}},
		} {
			_, err := children.Create(t.Context(), store.Object[string]{Key: key, Owners: owned(by)})
			require.NoError(t, err)
		}
		_, err = children.Create(t.Context(), store.Object[string]{Key: "filtered", Owners: owned(y), Value: "small"})
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, []string{"x"}, keysOf(reports.Take()))

		child.Owners = owned(y)
		_, err = children.Update(t.Context(), child)
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, []string{"x", "y"}, sorted(reports.Take()))
		_, err = children.Delete(t.Context(), "a")
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, []string{"y"}, keysOf(reports.Take()))
	})
}

func TestHandlesAddsOnlyHandlersKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(object{Key: "a"}, object{Key: "b", Value: 1})
		inf := newInformer("things", s)
		looptest.Start(t, inf.Run)
		c, reports := newController(t, controller.Config[string]{}, noop, controller.Handles(inf, func(add func(string)) informer.Handler[string, object] {
			return informer.Handler[string, object]{
				Filter:   func(o object) bool { return o.Value > 0 },
				OnAdd:    func(o object, _ bool) { add("add " + o.Key) },
				OnDelete: func(t cache.Tombstone[string, object]) { add("delete " + t.Key) },
			}
		}))
		r := looptest.Start(t, c.Run)
		synctest.Wait()
		s.set(object{Key: "a", Value: 1})
		synctest.Wait()
		s.set(object{Key: "a", Value: 2})
		s.delete("b")
		synctest.Wait()
		assert.Equal(t, []string{"add b", "add a", "delete b"}, keysOf(reports.Take()))

		require.NoError(t, r.Stop())
		s.delete("a")
		synctest.Wait()
		assert.Zero(t, c.Stats().Queue.Ready, "a controller that does not run has no handlers")
	})
}

func TestRestartedControllerMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(object{Key: "a"}, object{Key: "b"})
		inf := newInformer("things", s)
		looptest.Start(t, inf.Run)
		seen := map[string]int{}
		c, reports := newController(t, controller.Config[string]{}, func(_ context.Context, key string) (controller.Result, error) {
			o, _ := inf.Get(key)
			seen[key] = o.Value
			return controller.Result{}, nil
		}, controller.For(inf))
		for n := range 3 {
			r := looptest.Start(t, c.Run)
			synctest.Wait()
			assert.Equal(t, []string{"a", "b"}, sorted(reports.Take()), "all existing objects, in each run")
			assert.Equal(t, map[string]int{"a": n, "b": 0}, seen)
			s.set(object{Key: "b"})
			synctest.Wait()
			assert.Equal(t, []string{"b"}, sorted(reports.Take()), "once: handlers of earlier runs are gone")
			require.NoError(t, r.Stop())
			s.set(object{Key: "a", Value: n + 1})
			synctest.Wait()
		}
	})
}

func TestNextRunHandlesDeletionLeftByLostLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(object{Key: "a"}, object{Key: "b"})
		inf := newInformer("things", s)
		looptest.Start(t, inf.Run)
		store := newLeases()
		c, reports := newController(t, controller.Config[string]{}, func(ctx context.Context, _ string) (controller.Result, error) {
			if _, ok := leaderelect.FromContext(ctx); ok {
				<-ctx.Done() // the only worker is busy
			}
			return controller.Result{}, context.Cause(ctx)
		}, controller.For(inf))
		lead(t, store, c.Run)
		time.Sleep(time.Second)
		s.delete("a")
		s.delete("b")
		synctest.Wait()
		cut(store, true)
		time.Sleep(15 * time.Second)
		assert.Len(t, reports.Take(), 1)

		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Equal(t, []string{"a", "b"}, sorted(reports.Take()))
	})
}
