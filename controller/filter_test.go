package controller_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/stretchr/testify/assert"
)

func TestAFilterLeavesOutWhatDoesNotMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(object{Key: "a", Value: 1}, object{Key: "b", Value: 2})
		inf := must(informer.New(s, keyOf, informer.Config{ResyncPeriod: time.Hour}))
		start(t, inf.Run)
		c, reports := newController(t, controller.Config[string]{}, noop)
		controller.WatchKeys(c, inf, controller.Changed(func(o object) int { return o.Value }),
			func(ch controller.Change[object]) bool { return ch.New.Owner != "other" })
		start(t, c.Run)
		synctest.Wait()
		assert.Equal(t, []string{"a", "b"}, sorted(reports.take()), "what is there always passes")
		s.set(object{Key: "a", Value: 1, Owner: "x"})
		synctest.Wait()
		assert.Empty(t, reports.take())
		s.set(object{Key: "a", Value: 2, Owner: "other"})
		synctest.Wait()
		assert.Empty(t, reports.take(), "all filters have to pass")
		s.set(object{Key: "a", Value: 3, Owner: "x"})
		s.delete("b")
		synctest.Wait()
		assert.Equal(t, []string{"a", "b"}, sorted(reports.take()))
		time.Sleep(time.Hour)
		assert.Empty(t, reports.take(), "a resync is no change")
	})
}

func TestAChangeWhoseFilterPanicsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		inf := newInformer("things", s)
		start(t, inf.Run)
		var out logText
		c, reports := newController(t, controller.Config[string]{Logger: textLogger(&out)}, noop)
		controller.WatchKeys(c, inf, func(controller.Change[object]) bool { panic("oh") })
		start(t, c.Run)
		synctest.Wait()
		s.set(object{Key: "a"})
		synctest.Wait()
		assert.Equal(t, []string{"a"}, keysOf(reports.take()))
		assert.Contains(t, out.String(), `msg="filter panicked, the change counts" controller=test watch=things object=a`)
	})
	c, _ := newController(t, controller.Config[string]{}, noop)
	assert.PanicsWithValue(t, "controller: Watch called with a nil filter", func() {
		controller.WatchKeys(c, newInformer("x", newSource()), nil)
	})
	assert.PanicsWithValue(t, "controller: Changed called with a nil function", func() { controller.Changed[object, int](nil) })
}

func TestTheFiltersForObjectsOfAStore(t *testing.T) {
	type app struct{ Replicas int }
	base := store.Object[app]{Key: "a", UID: "1", Version: 7, Generation: 2}
	status, spec, other := base, base, base
	status.Version++
	spec.Version, spec.Generation = 9, 3
	other.UID = "2"
	update := func(old, new store.Object[app]) controller.Change[store.Object[app]] {
		return controller.Change[store.Object[app]]{Type: informer.Modified, Old: old, New: new}
	}
	for _, f := range []struct {
		name                                     string
		filter                                   controller.Filter[store.Object[app]]
		resync, status, spec, other, added, gone bool
	}{
		{"generation", controller.GenerationChanged[app], false, false, true, true, true, true},
		{"version", controller.VersionChanged[app], false, true, true, false, true, true},
		{"any", controller.AnyOf(controller.GenerationChanged[app], controller.VersionChanged), false, true, true, true, true, true},
		{"none", controller.AnyOf[store.Object[app]](), false, false, false, false, false, false},
	} {
		t.Run(f.name, func(t *testing.T) {
			assert.Equal(t, f.resync, f.filter(update(base, base)))
			assert.Equal(t, f.status, f.filter(update(base, status)))
			assert.Equal(t, f.spec, f.filter(update(base, spec)))
			assert.Equal(t, f.other, f.filter(update(base, other)))
			assert.Equal(t, f.added, f.filter(controller.Change[store.Object[app]]{Type: informer.Added, New: base}))
			assert.Equal(t, f.gone, f.filter(controller.Change[store.Object[app]]{Type: informer.Deleted, Old: base}))
		})
	}
}

func TestAnyOfKeepsNoSliceOfItsCallerAndTakesNoNilFilter(t *testing.T) {
	never := func(controller.Change[object]) bool { return false }
	filters := []controller.Filter[object]{func(controller.Change[object]) bool { return true }}
	f := controller.AnyOf(filters...)
	filters[0] = never
	assert.True(t, f(controller.Change[object]{}))
	assert.False(t, controller.AnyOf(filters...)(controller.Change[object]{}))
	assert.False(t, controller.AnyOf[object]()(controller.Change[object]{}))
	assert.PanicsWithValue(t, "controller: AnyOf called with a nil filter", func() { controller.AnyOf(never, nil) })
}
