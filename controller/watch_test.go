package controller_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
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
	ownership "github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/workqueue"
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
		children, err := store.Open[string](store.NewMemory(store.MemoryConfig{}), "Child", store.Config[string]{})
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

// The last write of an object may move it to another owner and end it for the watch at once. Its former owner matters all the same.
func TestFormerOwnerIsReconciledIfLastWriteChangesOwner(t *testing.T) {
	owned := func(by string) []store.OwnerRef {
		return []store.OwnerRef{{Ref: store.Ref{Kind: "Parent", Key: by, UID: by}, Controller: true}}
	}
	active := func(o store.Object[string]) bool { return o.Labels["state"] == "active" }
	owns := func(inf *informer.Informer[string, store.Object[string]]) controller.Input[string] {
		return controller.Owns(inf, "Parent")
	}
	watches := func(inf *informer.Informer[string, store.Object[string]]) controller.Input[string] {
		return controller.Watches(inf, func(_ context.Context, o store.Object[string]) ([]string, error) {
			return []string{o.Owners[0].Key}, nil
		})
	}
	for name, test := range map[string]struct {
		source  func(store.Store[string]) informer.ListWatcher[store.Object[string]]
		input   func(*informer.Informer[string, store.Object[string]]) controller.Input[string]
		deletes bool
	}{
		"it leaves a Filter": {
			func(s store.Store[string]) informer.ListWatcher[store.Object[string]] {
				return informer.Filter(s, active)
			}, owns, false,
		},
		"it leaves a Filter, with a mapper": {
			func(s store.Store[string]) informer.ListWatcher[store.Object[string]] {
				return informer.Filter(s, active)
			}, watches, false,
		},
		"it is no longer Selected": {
			func(s store.Store[string]) informer.ListWatcher[store.Object[string]] {
				return store.Selected(s, store.Selector{Labels: []store.Requirement{{Label: "state", Values: []string{"active"}}}})
			}, owns, false,
		},
		"it loses its last finalizer": {
			func(s store.Store[string]) informer.ListWatcher[store.Object[string]] { return s }, owns, true,
		},
		"it loses its last finalizer, with a mapper": {
			func(s store.Store[string]) informer.ListWatcher[store.Object[string]] { return s }, watches, true,
		},
	} {
		bubble(t, name, func(t *testing.T) {
			children, err := store.Open[string](store.NewMemory(store.MemoryConfig{}), "Child", store.Config[string]{})
			require.NoError(t, err)
			inf := must(informer.New(test.source(children), store.Key, informer.Config{}))
			looptest.Start(t, inf.Run)
			c, reports := newController(t, controller.Config[string]{}, noop, test.input(inf))
			looptest.Start(t, c.Run)
			child, err := children.Create(t.Context(), store.Object[string]{
				Key: "a", Owners: owned("x"), Labels: map[string]string{"state": "active"}, Finalizers: []string{"test"},
			})
			require.NoError(t, err)
			if test.deletes {
				child, err = children.Delete(t.Context(), "a")
				require.NoError(t, err)
			}
			synctest.Wait()
			reports.Take()

			child.Owners, child.Labels = owned("y"), nil
			if test.deletes {
				child.Finalizers = nil
			}
			_, err = children.Update(t.Context(), child)
			require.NoError(t, err)
			synctest.Wait()
			_, cached := inf.Get("a")
			assert.False(t, cached)
			assert.Contains(t, keysOf(reports.Take()), "x")
		})
	}
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

func value(o object) int { return o.Value }

// changed makes those updates news that change what of returns.
func changed[V comparable](of func(object) V) func(old, new object) bool {
	return func(old, new object) bool { return of(old) != of(new) }
}

func TestWhenFiltersOnlyUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(object{Key: "a", Value: 1}, object{Key: "b", Value: 2})
		inf := must(informer.New(s, keyOf, informer.Config{ResyncPeriod: time.Hour}))
		looptest.Start(t, inf.Run)
		asked := 0
		c, reports := newController(t, controller.Config[string]{}, noop, controller.For(inf).
			When(func(old, new object) bool { asked++; return changed(value)(old, new) }).
			When(func(_, new object) bool { return new.Owner != "other" }))
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Equal(t, []string{"a", "b"}, sorted(reports.Take()), "the present objects")
		s.set(object{Key: "a", Value: 1, Owner: "x"})
		synctest.Wait()
		assert.Empty(t, reports.Take())
		s.set(object{Key: "a", Value: 2, Owner: "other"})
		synctest.Wait()
		assert.Empty(t, reports.Take(), "all of them must pass")
		s.set(object{Key: "a", Value: 3, Owner: "x"})
		s.set(object{Key: "c", Owner: "other"})
		s.delete("b")
		synctest.Wait()
		assert.Equal(t, []string{"a", "b", "c"}, sorted(reports.Take()), "additions and deletions always pass")
		assert.Equal(t, 3, asked)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, []string{"a", "c"}, sorted(reports.Take()), "a resync cannot be canceled")
		assert.Equal(t, 3, asked)
	})
}

func TestWhereFiltersObjectsAndReportsLeavingAsDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(object{Key: "a", Owner: "x", Value: 1}, object{Key: "b", Owner: "x"})
		inf := must(informer.New(s, keyOf, informer.Config{ResyncPeriod: time.Hour}))
		looptest.Start(t, inf.Run)
		c, reports := newController(t, controller.Config[string]{}, noop, controller.Watches(inf, owner).
			Where(func(o object) bool { return o.Value > 0 }).
			Where(func(o object) bool { return o.Value < 10 }).
			When(func(_, new object) bool { return new.Value != 5 }))
		looptest.Start(t, c.Run)
		put := func(o object) []string {
			s.set(o)
			synctest.Wait()
			return sorted(reports.Take())
		}
		synctest.Wait()
		assert.Equal(t, []string{"x"}, sorted(reports.Take()), "only of a")
		assert.Empty(t, put(object{Key: "b", Owner: "y"}), "it does not count")
		assert.Equal(t, []string{"z"}, put(object{Key: "b", Owner: "z", Value: 5}), "it enters, which is no update")
		assert.Empty(t, put(object{Key: "b", Owner: "z", Value: 5}), "and this one is not news")
		assert.Equal(t, []string{"z"}, put(object{Key: "b", Owner: "y", Value: 10}), "the last state that passed is deleted")
		assert.Empty(t, put(object{Key: "b", Owner: "y", Value: 11}))
		s.delete("b")
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, []string{"x"}, sorted(reports.Take()), "nor does a resync report filtered objects")
	})
}

func TestHandlerSeesEventsPassingWhereWhenAndFilter(t *testing.T) {
	for _, own := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newSource()
			inf := newInformer("things", s)
			looptest.Start(t, inf.Run)
			handler := func(add func(string)) informer.Handler[string, object] {
				h := informer.Handler[string, object]{
					ResyncPeriod: time.Hour,
					Filter:       func(o object) bool { return o.Owner != "other" },
					OnAdd:        func(o object, _ bool) { add("add " + o.Key) },
					OnUpdate:     func(_, o object) { add("update " + o.Key) },
				}
				if own {
					h.OnResync = func(o object) { add("resync " + o.Key) }
				}
				return h
			}
			c, reports := newController(t, controller.Config[string]{}, noop, controller.Handles(inf, handler).
				Where(func(o object) bool { return o.Value > 0 }).When(changed(value)))
			looptest.Start(t, c.Run)
			synctest.Wait()
			for _, o := range []object{
				{Key: "a"}, {Key: "b", Value: 1, Owner: "other"}, {Key: "c", Value: 1}, {Key: "c", Value: 1, Owner: "x"}, {Key: "a", Value: 1},
			} {
				s.set(o)
				synctest.Wait()
			}
			assert.Equal(t, []string{"add c", "add a"}, keysOf(reports.Take()))
			s.set(object{Key: "c", Value: 2})
			synctest.Wait()
			assert.Equal(t, []string{"update c"}, keysOf(reports.Take()))
			time.Sleep(time.Hour)
			synctest.Wait()
			want := []string{"update a", "update c"}
			if own {
				want = []string{"resync a", "resync c"}
			}
			assert.Equal(t, want, sorted(reports.Take()), "a resync passes When")
		})
	}
}

func TestPanickingWhereOrWhenAcceptsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		inf := newInformer("things", s)
		looptest.Start(t, inf.Run)
		var out looptest.Text
		c, reports := newController(t, controller.Config[string]{Logger: looptest.Logger(&out)}, noop,
			controller.For(inf).Where(func(object) bool { panic("oh") }).When(func(_, _ object) bool { panic("ah") }))
		looptest.Start(t, c.Run)
		synctest.Wait()
		s.set(object{Key: "a"})
		synctest.Wait()
		assert.Equal(t, []string{"a"}, keysOf(reports.Take()))
		assert.Contains(t, out.String(), `msg="Where panicked, the change counts" controller=test watch=things object=a`)
		s.set(object{Key: "a", Value: 1})
		synctest.Wait()
		assert.Equal(t, []string{"a"}, keysOf(reports.Take()))
		assert.Contains(t, out.String(), `msg="When panicked, the change counts" controller=test watch=things object=a`)
	})
}

func TestControllersMayShareWatchValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		inf := newInformer("things", s)
		looptest.Start(t, inf.Run)
		all := controller.For(inf)
		some := all.Where(func(o object) bool { return o.Value > 0 })
		few := some.Where(func(o object) bool { return o.Value > 1 })
		var reports []*looptest.Log[controller.Report[string]]
		for _, w := range []controller.Watch[string, object]{all, some, few, some} {
			c, r := newController(t, controller.Config[string]{}, noop, w)
			looptest.Start(t, c.Run)
			reports = append(reports, r)
		}
		synctest.Wait()
		s.set(object{Key: "a"})
		s.set(object{Key: "b", Value: 1})
		s.set(object{Key: "c", Value: 2})
		synctest.Wait()
		assert.Equal(t, []string{"a", "b", "c"}, sorted(reports[0].Take()))
		assert.Equal(t, []string{"b", "c"}, sorted(reports[1].Take()))
		assert.Equal(t, []string{"c"}, sorted(reports[2].Take()))
		assert.Equal(t, []string{"b", "c"}, sorted(reports[3].Take()))
	})
}

func TestWatchPriorityAppliesToItsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		urgent, usual := newSource(object{Key: "u"}), newSource(object{Key: "v"})
		infUrgent, infUsual := newInformer("urgent", urgent), newInformer("usual", usual)
		looptest.Start(t, infUrgent.Run)
		looptest.Start(t, infUsual.Run)
		c, _ := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{Aging: -1}}, noop,
			controller.For(infUsual), controller.For(infUrgent).Priority(2),
			controller.Handles(infUrgent, func(add func(string)) informer.Handler[string, object] {
				return informer.Handler[string, object]{OnUpdate: func(_, o object) { add("handled " + o.Key) }}
			}).Priority(5),
			controller.For(infUsual).Where(func(o object) bool { return o.Key == "low" }).Priority(-7))
		disconnect, err := c.Connect(t.Context())
		assert.NoError(t, err)
		defer disconnect()
		synctest.Wait()
		usual.set(object{Key: "w"})
		synctest.Wait()
		urgent.set(object{Key: "u2"})
		synctest.Wait()
		urgent.set(object{Key: "u"})
		synctest.Wait()
		assert.Equal(t, []string{"handled u", "u", "u2", "w", "v"}, c.Ready(), "existing objects come last, except the changed one")
		usual.set(object{Key: "low"})
		synctest.Wait()
		c.AddWith("low", controller.AddOptions{Priority: -7})
		assert.Contains(t, c.Ready()[3:], "low", "the higher priority counts")
	})
}

func TestWhenPredicatesRunInOrderUntilOneFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(object{Key: "a"})
		inf := newInformer("things", s)
		looptest.Start(t, inf.Run)
		asked := &looptest.Log[string]{}
		when := func(name string) func(old, new object) bool {
			return func(old, new object) bool {
				asked.Add(fmt.Sprintf("%s %d%d", name, old.Value, new.Value))
				return new.Owner != name
			}
		}
		two := controller.For(inf).When(when("x")).When(when("y"))
		three := two.When(when("z"))
		c, reports := newController(t, controller.Config[string]{}, noop, three)
		looptest.Start(t, c.Run)
		synctest.Wait()
		reports.Take()
		for i, step := range []struct {
			owner string
			asked []string
			news  []string
		}{
			{"x", []string{"x 01"}, nil},
			{"y", []string{"x 12", "y 12"}, nil},
			{"z", []string{"x 23", "y 23", "z 23"}, nil},
			{"w", []string{"x 34", "y 34", "z 34"}, []string{"a"}},
		} {
			s.set(object{Key: "a", Owner: step.owner, Value: i + 1})
			synctest.Wait()
			assert.Equal(t, step.asked, asked.Take())
			assert.Equal(t, step.news, keysOf(reports.Take()), step.owner)
		}
		c, reports = newController(t, controller.Config[string]{}, noop, two)
		looptest.Start(t, c.Run)
		synctest.Wait()
		reports.Take()
		s.set(object{Key: "a", Owner: "z", Value: 9})
		synctest.Wait()
		assert.Equal(t, []string{"a"}, keysOf(reports.Take()), "adding a third When did not change two")
	})
}

func TestEachKindOfWatchHasItsEventPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parents := func(key string) []store.OwnerRef {
			return []store.OwnerRef{{Ref: store.Ref{Kind: "Parent", Key: key, UID: "1"}, Controller: true}}
		}
		children := must(store.Open[string](store.NewMemory(store.MemoryConfig{}), "Child", store.Config[string]{}))
		create := func(name string) {
			must(children.Create(t.Context(), store.Object[string]{Key: name, Owners: parents(name + " owned")}))
		}
		create("old")
		inf := must(informer.New(children, store.Key, informer.Config{Name: "children"}))
		looptest.Start(t, inf.Run)
		c, _ := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{Aging: -1}, Background: -9}, noop,
			controller.For(inf).Priority(1),
			controller.Owns(inf, "Parent").Priority(3),
			controller.Watches(inf, func(_ context.Context, o store.Object[string]) ([]string, error) {
				return []string{o.Key + " mapped"}, nil
			}).Priority(2),
			controller.Watches(inf, func(_ context.Context, o store.Object[string]) ([]string, error) {
				return []string{o.Key + " below"}, nil
			}).Priority(-11),
			controller.Handles(inf, func(add func(string)) informer.Handler[string, store.Object[string]] {
				return informer.Handler[string, store.Object[string]]{OnAdd: func(o store.Object[string], initial bool) { add(o.Key + " handled") }}
			}).Priority(4))
		disconnect, err := c.Connect(t.Context())
		require.NoError(t, err)
		defer disconnect()
		synctest.Wait()
		create("new")
		synctest.Wait()
		c.AddWith("between", controller.AddOptions{Priority: -10})
		ready := c.Ready()
		require.Len(t, ready, 11)
		assert.Equal(t, []string{"old handled", "new handled", "new owned", "new mapped", "new"}, ready[:5])
		assert.ElementsMatch(t, []string{"old", "old owned", "old mapped"}, ready[5:8], "existing objects have background priority")
		assert.Equal(t, []string{"between", "old below", "new below"}, ready[8:], "and no higher one than its events")
	})
}

func TestMapperContextHasValuesOfRunAndEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type valueKey struct{}
		inf := newInformer("things", newSource(object{Key: "a"}))
		looptest.Start(t, inf.Run)
		mapped := make(chan error, 1)
		c, reports := newController(t, controller.Config[string]{}, noop, controller.Watches(inf, func(ctx context.Context, _ object) ([]string, error) {
			assert.Equal(t, "value", ctx.Value(valueKey{}))
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
				t.Error("the context of the mapper does not end")
			}
			mapped <- context.Cause(ctx)
			return nil, ctx.Err()
		}))
		r := looptest.StartIn(context.WithValue(t.Context(), valueKey{}, "value"), t, c.Run)
		synctest.Wait()
		assert.Empty(t, mapped)
		require.NoError(t, r.Stop())
		require.ErrorIs(t, <-mapped, context.Canceled)
		assert.Empty(t, reports.Take())
		assert.Equal(t, 1, c.Stats().Unmapped, "the next Run maps it")
	})
}

func TestStopWaitsForMapperOfAcquiredOrResync(t *testing.T) {
	for _, resync := range []bool{false, true} {
		bubble(t, fmt.Sprintf("resync: %v", resync), func(t *testing.T) {
			inf := newInformer("things", newSource(object{Key: "a"}, object{Key: "b"}))
			looptest.Start(t, inf.Run)
			var slow, mapping atomic.Bool
			began := make(chan struct{})
			cfg := controller.Config[string]{}
			if resync {
				cfg.Resync = time.Hour
			}
			c, _ := newController(t, cfg, noop, controller.Watches(inf, func(_ context.Context, o object) ([]string, error) {
				if slow.CompareAndSwap(true, false) {
					mapping.Store(true)
					close(began)
					time.Sleep(time.Second) // although its context has ended
					mapping.Store(false)
				}
				return []string{o.Key}, nil
			}))
			c.Share(&lendable{})
			r := looptest.Start(t, c.Run)
			synctest.Wait()
			slow.Store(true)
			if !resync {
				go c.Acquired(0)
			}
			<-began
			require.NoError(t, r.Stop())
			assert.False(t, mapping.Load(), "no mapper runs after Run returns")
		})
	}
}

func TestCollectorDeletesChildrenOfDeletedOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type site struct{}
		type server struct{}
		db := store.NewMemory(store.MemoryConfig{})
		sites := must(store.Open(db, "Site", store.Config[site]{}))
		servers := must(store.Open(db, "Server", store.Config[server]{}))
		seenSites := must(informer.New(sites, store.Key, informer.Config{}))
		seenServers := must(informer.New(servers, store.Key, informer.Config{}))
		children := ownership.NewChildren(servers, seenServers)
		ctx, stop := context.WithCancel(t.Context())
		before, err := children.Apply(ctx, store.Ref{Kind: "Site", Key: "ulm", UID: "gone"}, map[string]server{"ulm-0": {}})
		require.NoError(t, err)
		require.Len(t, before, 1)

		c, err := controller.NewCollector(children, sites, seenSites, controller.Config[string]{})
		require.NoError(t, err)
		assert.Equal(t, "Server collector", c.Name())
		ended := make(chan error, 3)
		for _, run := range []func(context.Context) error{seenSites.Run, seenServers.Run, c.Run} {
			go func() { ended <- run(ctx) }() // ends with ctx, and is waited for below
		}
		synctest.Wait()
		list := func() int { return len(must(servers.List(ctx)).Items) }
		assert.Zero(t, list(), "keys left before it started")

		berlin := must(sites.Create(ctx, store.Object[site]{Key: "berlin"}))
		_, err = children.Apply(ctx, berlin.Ref(), map[string]server{"berlin-0": {}, "berlin-1": {}})
		require.NoError(t, err)
		must(servers.Create(ctx, store.Object[server]{Key: "free"}))
		synctest.Wait()
		assert.Equal(t, 3, list())
		must(sites.Delete(ctx, "berlin"))
		synctest.Wait()
		assert.Equal(t, 1, list(), "only the one that has no owner is left")
		stop()
		for range 3 {
			require.NoError(t, <-ended)
		}
	})
}

// outage is a source that cannot be read while down is true. Its watch ends when it goes down.
type outage[T any] struct {
	informer.ListWatcher[T]
	mu   sync.Mutex
	down bool
	end  context.CancelFunc
}

func (o *outage[T]) set(down bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down = down; down && o.end != nil {
		o.end()
	}
}

func (o *outage[T]) isDown() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.down
}

func (o *outage[T]) List(ctx context.Context) (informer.List[T], error) {
	if o.isDown() {
		return informer.List[T]{}, errors.New("down")
	}
	return o.ListWatcher.List(ctx)
}

func (o *outage[T]) Watch(ctx context.Context, v informer.Version) iter.Seq2[informer.Event[T], error] {
	return func(yield func(informer.Event[T], error) bool) {
		ctx, end := context.WithCancel(ctx)
		defer end()
		o.mu.Lock()
		o.end = end
		down := o.down
		o.mu.Unlock()
		if down {
			yield(informer.Event[T]{}, informer.ErrExpired)
			return
		}
		for e, err := range o.ListWatcher.Watch(ctx, v) {
			if err != nil { // the history is trimmed during the outage
				err = informer.ErrExpired
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// An owner is created and deleted while its cache is cut off. So the cache never shows it, and never reports its deletion.
func TestCollectorDeletesChildrenOfOwnerThatCacheNeverShowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type site struct{}
		type server struct{}
		db := store.NewMemory(store.MemoryConfig{})
		sites := must(store.Open(db, "Site", store.Config[site]{}))
		servers := must(store.Open(db, "Server", store.Config[server]{}))
		source := &outage[store.Object[site]]{ListWatcher: sites}
		seenSites := must(informer.New(source, store.Key, informer.Config{Logger: slog.New(slog.DiscardHandler)}))
		seenServers := must(informer.New(servers, store.Key, informer.Config{}))
		children := ownership.NewChildren(servers, seenServers)
		c, err := controller.NewCollector(children, sites, seenSites, controller.Config[string]{})
		require.NoError(t, err)
		for _, run := range []func(context.Context) error{seenSites.Run, seenServers.Run, c.Run} {
			looptest.Start(t, run)
		}
		ctx := t.Context()
		synctest.Wait()
		source.set(true)
		synctest.Wait()
		berlin := must(sites.Create(ctx, store.Object[site]{Key: "berlin"}))
		_, err = children.Apply(ctx, berlin.Ref(), map[string]server{"berlin-0": {}})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.Len(t, must(servers.List(ctx)).Items, 1, "its site exists, whatever the cache shows")
		must(sites.Delete(ctx, "berlin"))
		source.set(false)
		time.Sleep(time.Minute)
		assert.Empty(t, must(servers.List(ctx)).Items)
	})
}
