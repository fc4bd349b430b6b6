package controller_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		children := must(store.Open[string](must(store.NewMemory(store.MemoryConfig{})), "Child", store.Config[string]{}))
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
