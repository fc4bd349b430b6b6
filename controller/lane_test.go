package controller_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
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

// changedBy returns who has changed an object.
func changedBy(o object) string { return o.Owner }

type watchOf = controller.Watch[string, object]

// A job changes 50,000 objects, each of which takes 20 ms. Then somebody changes one by hand that waits since then, and one that the job has not
// changed, and creates one.
func TestChangeByHandDoesNotWaitForBulkChange(t *testing.T) {
	const n, work, workers = 50_000, 20 * time.Millisecond, 4
	for name, with := range map[string]func(w watchOf) watchOf{
		"ChangedBy": func(w watchOf) watchOf { return w.ChangedBy(changedBy) },
		"Lane": func(w watchOf) watchOf {
			return w.Lane(func(_, new object) (lane controller.Lane) {
				if new.Owner == "job" {
					lane.Priority = -1
				}
				return lane
			})
		},
		"neither": func(w watchOf) watchOf { return w },
	} {
		bubble(t, name, func(t *testing.T) {
			s := newSource(object{Key: "other"})
			inf := newInformer("rows", s)
			looptest.Start(t, inf.Run)
			var began sync.Map // by key: when the last reconcile began
			c, _ := newController(t, controller.Config[string]{Workers: workers}, func(_ context.Context, key string) (controller.Result, error) {
				began.Store(key, time.Now())
				time.Sleep(work)
				return controller.Result{}, nil
			}, with(controller.For(inf)))
			looptest.Start(t, c.Run)
			require.NoError(t, c.WaitIdle(t.Context()))
			for i := range n {
				s.set(object{Key: fmt.Sprint("row ", i), Owner: "job"})
			}
			time.Sleep(time.Second)
			for _, key := range []string{"row 49000", "other", "new"} {
				changed := time.Now()
				s.set(object{Key: key, Value: 1, Owner: "ann"})
				waits := func() bool {
					at, ok := began.Load(key)
					return !ok || at.(time.Time).Before(changed)
				}
				for time.Sleep(work / 2); waits() && time.Since(changed) < 2*time.Minute; {
					time.Sleep(work / 2)
				}
				if waited := time.Since(changed); name == "neither" {
					assert.Greater(t, waited, time.Minute, key)
					return
				} else {
					assert.Less(t, waited, time.Second, key)
				}
			}
			before := c.Stats().Queue.Ready
			time.Sleep(10 * time.Second)
			assert.InDelta(t, before-2000, c.Stats().Queue.Ready, 10, "the job goes on")
		})
	}
}

// lanes returns the lanes of the keys that wait, sorted by their keys.
func lanes(c *controller.Controller[string]) (all []string) {
	synctest.Wait()
	for _, k := range c.Snapshot() {
		if k.State == workqueue.Ready {
			all = append(all, fmt.Sprintf("%s %d %s", k.Key, k.Priority, k.Group))
		}
	}
	slices.Sort(all)
	return all
}

func TestEachChangeHasItsLane(t *testing.T) {
	for kind, watch := range map[string]func(inf *informer.Informer[string, object]) watchOf{
		"For": func(inf *informer.Informer[string, object]) watchOf { return controller.For(inf) },
		"Watches": func(inf *informer.Informer[string, object]) watchOf {
			return controller.Watches(inf, pure(func(o object) []string { return []string{o.Key} }))
		},
	} {
		bubble(t, kind, func(t *testing.T) {
			s := newSource(object{Key: "a"}, object{Key: "b"}, object{Key: "bad"})
			inf := newInformer("things", s)
			looptest.Start(t, inf.Run)
			block := make(chan struct{})
			c, _ := newController(t, controller.Config[string]{}, func(_ context.Context, key string) (controller.Result, error) {
				if key == "busy" {
					<-block
				}
				return controller.Result{}, nil
			}, watch(inf).Lane(func(old, new object) controller.Lane {
				if new.Key == "bad" {
					panic("boom")
				}
				return controller.Lane{Priority: new.Value, Group: fmt.Sprint(old.Value, " to ", new.Value)}
			}).Priority(3))
			c.AddWith("busy", controller.AddOptions{Priority: 100})
			looptest.Start(t, c.Run)
			assert.Equal(t, []string{"a -1 ", "b -1 ", "bad -1 "}, lanes(c), "those of the first list have no lane")
			s.set(object{Key: "a", Value: 5})
			s.set(object{Key: "bad", Value: 5})
			s.set(object{Key: "new", Value: 7})
			assert.Equal(t, []string{"a 5 0 to 5", "b -1 ", "bad 3 ", "new 7 7 to 7"}, lanes(c))
			s.set(object{Key: "a", Value: 9})
			s.delete("new") // the lane of its last state
			s.delete("b")
			assert.Equal(t, []string{"a 9 5 to 9", "b 0 0 to 0", "bad 3 ", "new 7 7 to 7"}, lanes(c))
			close(block)
			require.NoError(t, c.WaitIdle(t.Context()))
		})
	}
}

func TestHeldKeyKeepsItsLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		c, _ := newController(t, controller.Config[string]{}, func(_ context.Context, key string) (controller.Result, error) {
			if key == "busy" {
				<-block
			}
			return controller.Result{}, nil
		})
		c.AddWith("busy", controller.AddOptions{Priority: 100})
		looptest.Start(t, c.Run)
		synctest.Wait()
		for _, key := range []string{"a", "b", "c"} {
			c.PauseKey(key)
			c.AddWith(key, controller.AddOptions{Priority: 2, Group: "ann"})
		}
		c.AddWith("a", controller.AddOptions{Group: "job"})
		c.AddWith("b", controller.AddOptions{Priority: 2, Group: "bob"})
		c.AddWith("c", controller.AddOptions{Priority: 3})
		c.ResumeKey("a")
		c.ResumeKey("b")
		c.ResumeKey("c")
		assert.ElementsMatch(t, []string{"c 3 ann", "a 2 ann", "b 2 bob"}, lanes(c))
		close(block)
		require.NoError(t, c.WaitIdle(t.Context()))
	})
}

func TestLaneAndGroupLimitExcludeEachOther(t *testing.T) {
	inf := newInformer("things", newSource())
	cfg := controller.Config[string]{Queue: workqueue.Config[string]{Group: func(string) string { return "" }, GroupLimit: 1}}
	for _, watch := range []watchOf{controller.For(inf).ChangedBy(changedBy), controller.For(inf).Lane(func(_, _ object) (l controller.Lane) { return l })} {
		_, err := controller.New("test", noop, cfg, watch)
		require.ErrorContains(t, err, `Config.Queue.GroupLimit cannot be set, because the watch of "things" has ChangedBy or Lane`)
	}
	c := must(controller.New("test", noop, cfg, controller.For(inf)))
	assert.Panics(t, func() { c.AddWith("a", controller.AddOptions{Group: "g"}) })
	assert.Panics(t, func() { controller.For(inf).Lane(nil) })
	assert.Panics(t, func() { controller.For(inf).ChangedBy(nil) })
}

// A held key of a queue with groups comes back to the group that the queue gives it.
func TestHeldKeyKeepsGroupOfConfig(t *testing.T) {
	for _, limit := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			c, reports := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{
				Group: func(key string) string { return key[:1] }, GroupLimit: limit,
			}}, noop)
			looptest.Start(t, c.Run)
			c.PauseKey("a1")
			c.Add("a1")
			c.AddWith("a1", controller.AddOptions{Priority: 4})
			c.ResumeKey("a1")
			require.NoError(t, c.WaitIdle(t.Context()))
			assert.Equal(t, []string{"a1"}, keysOf(reports.Take()))
		})
	}
}
