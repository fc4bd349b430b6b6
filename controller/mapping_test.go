package controller_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
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

// flaky is the mapper owner, which fails for some owners.
type flaky struct {
	mu sync.Mutex
	// mu guards the following.
	fails map[string]bool // by owner
	calls []string
}

func (f *flaky) break_(owners ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = map[string]bool{}
	for _, o := range owners {
		f.fails[o] = true
	}
}

func (f *flaky) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

func (f *flaky) mapper(_ context.Context, o object) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, o.Key+" of "+o.Owner)
	if f.fails["panic"] {
		panic(errBoom)
	}
	if f.fails[o.Owner] {
		return []string{"not to be added"}, errBoom
	}
	return []string{o.Owner}, nil
}

// flakyWorld is a running controller that watches a source with a flaky mapper.
type flakyWorld struct {
	*flaky
	source  *source
	c       *controller.Controller[string]
	reports *looptest.Log[controller.Report[string]]
	run     *looptest.Running
}

func newFlakyWorld(t *testing.T, cfg controller.Config[string], objects ...object) *flakyWorld {
	w := &flakyWorld{flaky: &flaky{}, source: newSource(objects...)}
	inf := newInformer("things", w.source)
	looptest.Start(t, inf.Run)
	w.c, w.reports = newController(t, cfg, noop, controller.Watches(inf, w.mapper))
	w.run = looptest.Start(t, w.c.Run)
	synctest.Wait()
	return w
}

// keys returns the keys that were reconciled since the last call, in order.
func (w *flakyWorld) keys() []string {
	synctest.Wait()
	return sorted(w.reports.Take())
}

func TestFailedMappingIsRetried(t *testing.T) {
	bubble(t, "an object that is new, after a backoff that grows", func(t *testing.T) {
		w := newFlakyWorld(t, controller.Config[string]{})
		w.break_("x")
		w.source.set(object{Key: "a", Owner: "x"})
		synctest.Wait()
		assert.Empty(t, w.keys())
		assert.Equal(t, 1, w.c.Stats().Unmapped)
		w.take()
		for range 4 {
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(80 * time.Millisecond)
		synctest.Wait()
		assert.Len(t, w.take(), 4, "after 5, 15, 35 and 75 ms")

		w.break_()
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"x"}, w.keys())
		assert.Zero(t, w.c.Stats().Unmapped)
		w.take()
		time.Sleep(time.Hour)
		assert.Empty(t, w.take(), "and no more")
	})
	bubble(t, "an object that moves: the old owner is added at once, the new one when mapping succeeds", func(t *testing.T) {
		w := newFlakyWorld(t, controller.Config[string]{}, object{Key: "a", Owner: "x"})
		assert.Equal(t, []string{"x"}, w.keys())
		w.break_("y")
		w.source.set(object{Key: "a", Owner: "y"})
		assert.Equal(t, []string{"x"}, w.keys())
		w.break_()
		time.Sleep(time.Second)
		assert.Equal(t, []string{"y"}, w.keys())
	})
	bubble(t, "an object that keeps moving: every former owner is added", func(t *testing.T) {
		w := newFlakyWorld(t, controller.Config[string]{}, object{Key: "a", Owner: "x"})
		assert.Equal(t, []string{"x"}, w.keys())
		w.break_("x", "y", "z")
		for _, owner := range []string{"y", "z", "y", "w"} {
			w.source.set(object{Key: "a", Owner: owner})
			synctest.Wait()
		}
		assert.Equal(t, []string{"w"}, w.keys())
		w.break_()
		w.take()
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"x", "y", "z"}, w.keys())
		assert.Equal(t, []string{"a of x", "a of y", "a of z", "a of y"}, w.take(), "each state once")
	})
	bubble(t, "an object that is deleted", func(t *testing.T) {
		w := newFlakyWorld(t, controller.Config[string]{}, object{Key: "a", Owner: "x"})
		w.keys()
		w.break_("x")
		w.source.delete("a")
		assert.Empty(t, w.keys())
		w.break_()
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"x"}, w.keys())
	})
	bubble(t, "a new event does not wait for the backoff", func(t *testing.T) {
		w := newFlakyWorld(t, controller.Config[string]{})
		w.break_("x")
		w.source.set(object{Key: "a", Owner: "x"})
		time.Sleep(time.Minute)
		w.break_()
		w.source.set(object{Key: "a", Owner: "y"})
		assert.Equal(t, []string{"x", "y"}, w.keys())
		assert.Zero(t, w.c.Stats().Unmapped)
	})
	bubble(t, "a mapper that panics", func(t *testing.T) {
		var out looptest.Text
		w := newFlakyWorld(t, controller.Config[string]{Logger: looptest.Logger(&out)})
		w.break_("panic")
		w.source.set(object{Key: "a", Owner: "x"})
		assert.Empty(t, w.keys())
		w.break_()
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"x"}, w.keys())
		assert.Contains(t, out.String(), `level=WARN msg="mapping failed, will be retried" controller=test watch=things object=a error="panic: boom" stack=`)
		assert.Contains(t, out.String(), "mapping_test.go")
	})
	bubble(t, "other keys are not delayed", func(t *testing.T) {
		w := newFlakyWorld(t, controller.Config[string]{})
		w.break_("x")
		w.source.set(object{Key: "a", Owner: "x"})
		w.source.set(object{Key: "b", Owner: "y"})
		assert.Equal(t, []string{"y"}, w.keys())
	})
}

func TestNextRunMapsUnmappedObjectsImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFlakyWorld(t, controller.Config[string]{}, object{Key: "a", Owner: "x"})
		w.keys()
		w.break_("x")
		w.source.delete("a")
		time.Sleep(time.Hour)
		require.NoError(t, w.run.Stop())
		assertNoWorkers(t)
		assert.Empty(t, w.keys())
		assert.Equal(t, 1, w.c.Stats().Unmapped)
		w.break_()
		time.Sleep(time.Hour)
		assert.Empty(t, w.keys(), "nothing runs")

		looptest.Start(t, w.c.Run)
		assert.Equal(t, []string{"x"}, w.keys())
	})
}

func TestObjectMovingDuringMappingRetryReachesEveryOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		inf := newInformer("things", s)
		looptest.Start(t, inf.Run)
		var calls atomic.Int64 // for x
		leave := make(chan struct{})
		c, reports := newController(t, controller.Config[string]{}, noop, controller.Watches(inf,
			func(_ context.Context, o object) ([]string, error) {
				if o.Owner == "x" {
					switch calls.Add(1) {
					case 1:
						return nil, errBoom
					case 2: // after the backoff, beside the handler
						<-leave
						return nil, errBoom
					}
				}
				return []string{o.Owner}, nil
			}))
		looptest.Start(t, c.Run)
		synctest.Wait()
		s.set(object{Key: "a", Owner: "x"})
		time.Sleep(4 * time.Millisecond)
		synctest.Wait()
		for calls.Load() < 2 {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		s.set(object{Key: "a", Owner: "y"})
		synctest.Wait()
		assert.Equal(t, []string{"y"}, sorted(reports.Take()), "x is being mapped again")
		close(leave)
		synctest.Wait()
		s.set(object{Key: "a", Owner: "z"})
		synctest.Wait()
		assert.Equal(t, []string{"x", "y", "z"}, sorted(reports.Take()), "y was the former owner")
	})
}

func TestFormerOwnerIsAddedWhenEarlierMappingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFlakyWorld(t, controller.Config[string]{})
		w.break_("x")
		w.source.set(object{Key: "a", Owner: "x"})
		assert.Empty(t, w.keys())
		w.source.set(object{Key: "a", Owner: "y"})
		assert.Equal(t, []string{"y"}, w.keys())
		w.source.set(object{Key: "a", Owner: "z"})
		assert.Equal(t, []string{"y", "z"}, w.keys(), "y was the former owner")
		w.break_()
		time.Sleep(time.Minute)
		assert.Contains(t, w.keys(), "x")
	})
}

// The object moves when the retry has added the key of its owner, whose reconcile has not seen the move, and has not returned yet.
func TestFormerOwnerIsAddedAgainWhileRetryAddsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFlakyWorld(t, controller.Config[string]{Queue: workqueue.Config[string]{
			Hooks: workqueue.Hooks[string]{Added: func(string, int) { time.Sleep(time.Second) }},
		}})
		w.break_("x")
		w.source.set(object{Key: "a", Owner: "x"})
		synctest.Wait()
		w.break_()
		time.Sleep(10 * time.Millisecond)
		assert.Equal(t, []string{"x"}, w.keys())
		w.source.set(object{Key: "a", Owner: "y"})
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"x", "y"}, w.keys())
	})
}

func TestMappingRetriesKeepStateOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		inf := newInformer("things", s)
		looptest.Start(t, inf.Run)
		leave := make(chan struct{})
		calls := &looptest.Log[string]{}
		var n atomic.Int64
		c, reports := newController(t, controller.Config[string]{}, noop, controller.Watches(inf,
			func(_ context.Context, o object) ([]string, error) {
				calls.Add(o.Owner)
				switch n.Add(1) {
				case 2: // after the backoff, beside the handler
					<-leave
					return nil, errBoom
				case 1, 3:
					return nil, errBoom
				}
				return []string{o.Owner}, nil
			}))
		looptest.Start(t, c.Run)
		synctest.Wait()
		s.set(object{Key: "a", Owner: "x"})
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		s.set(object{Key: "a", Owner: "y"}) // while x is mapped again
		synctest.Wait()
		assert.Equal(t, []string{"x", "x", "y"}, calls.Take())
		assert.Empty(t, reports.Take())
		close(leave)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"x", "y"}, calls.Take(), "the earlier one comes first")
		assert.Equal(t, []string{"x", "y"}, sorted(reports.Take()))
	})
}

func TestMapperContextEndsOnStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		inf := newInformer("things", s)
		looptest.Start(t, inf.Run)
		var out looptest.Text
		block := true
		c, reports := newController(t, controller.Config[string]{Logger: looptest.Logger(&out)}, noop, controller.Watches(inf,
			func(ctx context.Context, o object) ([]string, error) {
				if !block {
					return []string{o.Key}, nil
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}))
		r := looptest.Start(t, c.Run)
		synctest.Wait()
		s.set(object{Key: "a"})
		synctest.Wait()
		began := time.Now()
		require.NoError(t, r.Stop())
		assert.Zero(t, time.Since(began))
		assert.NotContains(t, out.String(), "mapping failed", "it is not one")
		s.delete("a")
		synctest.Wait()
		block = false
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Equal(t, []string{"a"}, sorted(reports.Take()))
	})
}

func TestOldestAndNewestUnmappedStatesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFlakyWorld(t, controller.Config[string]{}, object{Key: "a", Owner: "0"})
		w.keys()
		all := []string{}
		for i := range 1000 {
			all = append(all, fmt.Sprint(i))
		}
		w.break_(all...)
		for _, owner := range all {
			w.source.set(object{Key: "a", Owner: owner, Value: 1})
		}
		synctest.Wait()
		w.break_()
		time.Sleep(time.Minute)
		want := append([]string{"0"}, all[1000-99:]...)
		slices.Sort(want)
		assert.Equal(t, want, w.keys())
	})
}

// TestEveryOwnerEventuallyKnowsItsChildren moves objects between owners while the mapper fails at random, and runs end and
// begin. Each owner remembers the children that it saw when it was reconciled last. In the end all must be right: so each
// owner was told when it lost a child, too.
func TestEveryOwnerEventuallyKnowsItsChildren(t *testing.T) {
	for seed := range uint64(effort(30, 500)) {
		synctest.Test(t, func(t *testing.T) { owners(t, rand.New(rand.NewPCG(seed, 3))) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func owners(t *testing.T, r *rand.Rand) {
	s := newSource()
	inf := newInformer("things", s)
	looptest.Start(t, inf.Run)
	children := func(owner string) (keys []string) {
		for key, o := range inf.Indexer().All() {
			if o.Owner == owner {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		return keys
	}
	seen := map[string][]string{} // one worker
	f := &flaky{}
	watch := controller.Watches(inf, f.mapper)
	if r.IntN(2) == 0 {
		watch = watch.When(changed(func(o object) string { return o.Owner }))
	}
	c, _ := newController(t, controller.Config[string]{}, func(_ context.Context, owner string) (controller.Result, error) {
		seen[owner] = children(owner)
		return controller.Result{}, nil
	}, watch)
	run := looptest.Start(t, c.Run)
	names := []string{"w", "x", "y", "z"}
	for range 60 {
		switch key := fmt.Sprint("k", r.IntN(4)); r.IntN(8) {
		case 0:
			f.break_(names[r.IntN(4)], names[r.IntN(4)])
		case 1:
			f.break_("panic")
		case 2:
			f.break_()
		case 3:
			if _, ok := s.objects[key]; ok {
				s.delete(key)
			}
		case 4:
			c.Add(names[r.IntN(4)])
		case 5:
			if r.IntN(4) == 0 {
				synctest.Wait() // what has happened was told
				run.Stop()
				run = looptest.Start(t, c.Run)
				synctest.Wait()
			}
		default:
			s.set(object{Key: key, Owner: names[r.IntN(4)], Value: r.IntN(2)})
		}
		if r.IntN(2) == 0 {
			synctest.Wait()
		}
		if r.IntN(4) == 0 {
			time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond)
		}
	}
	f.break_()
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	for _, owner := range names {
		assert.Equal(t, children(owner), seen[owner], "of %s", owner)
	}
	assert.Zero(t, c.Stats().Unmapped)
	require.NoError(t, run.Stop())
	c.CheckInvariants(t)
}

func TestNewEventsOvertakeInitialList(t *testing.T) {
	for _, low := range []int{0, -2, 1} {
		bubble(t, fmt.Sprint("background ", low), func(t *testing.T) {
			s := newSource(object{Key: "a"}, object{Key: "b"}, object{Key: "c"}, object{Key: "d"})
			inf := must(informer.New(s, keyOf, informer.Config{ResyncPeriod: time.Hour}))
			looptest.Start(t, inf.Run)
			hold := make(chan struct{})
			c, reports := newController(t, controller.Config[string]{Background: low, Queue: workqueue.Config[string]{Aging: -1}}, func(_ context.Context, key string) (controller.Result, error) {
				if key == "a" || key == "h" {
					<-hold
				}
				return controller.Result{}, nil
			}, controller.For(inf))
			looptest.Start(t, c.Run)
			synctest.Wait() // a is in the hand of the worker, the others wait
			s.set(object{Key: "e"})
			s.set(object{Key: "c", Value: 1})
			synctest.Wait()
			hold <- struct{}{}
			synctest.Wait()
			if low > 0 {
				assert.Equal(t, []string{"a", "b", "c", "d", "e"}, keysOf(reports.Take()), "in the order in which they came")
				return
			}
			assert.Equal(t, []string{"a", "c", "e", "b", "d"}, keysOf(reports.Take()), "c was raised, and keeps its place in time")

			s.set(object{Key: "h"})
			time.Sleep(time.Hour)
			s.set(object{Key: "i"})
			synctest.Wait()
			for range 3 { // h; h, which has kept its priority; a
				hold <- struct{}{}
				synctest.Wait()
			}
			assert.Equal(t, []string{"h", "i", "h", "a", "b", "c", "d", "e"}, keysOf(reports.Take()), "after the resync, too")
		})
	}
}

func TestReasonsNameTheEvent(t *testing.T) {
	for _, on := range []bool{true, false} {
		bubble(t, fmt.Sprint(on), func(t *testing.T) {
			s := newSource(object{Key: "a"})
			inf := must(informer.New(s, keyOf, informer.Config{Name: "things", ResyncPeriod: time.Hour}))
			looptest.Start(t, inf.Run)
			var reasons []string
			c, _ := newController(t, controller.Config[string]{Reasons: on}, func(ctx context.Context, _ string) (controller.Result, error) {
				info, _ := controller.FromContext(ctx)
				for _, r := range info.Reasons {
					reasons = append(reasons, r.Text)
				}
				return controller.Result{}, nil
			}, controller.For(inf))
			looptest.Start(t, c.Run)
			synctest.Wait()
			s.set(object{Key: "b"})
			synctest.Wait()
			s.set(object{Key: "b", Value: 1})
			synctest.Wait()
			s.delete("b")
			time.Sleep(time.Hour)
			synctest.Wait()
			if on {
				assert.Equal(t, []string{"things listed", "things added", "things updated", "things deleted", "things listed again"}, reasons)
			} else {
				assert.Empty(t, reasons)
			}
		})
	}
}

func TestRetriedMappingHasReasonOfLatestEvent(t *testing.T) {
	for name, meanwhile := range map[string]func(s *source){
		"things added":   func(*source) { time.Sleep(time.Hour) }, // a resync, which is no news
		"things updated": func(s *source) { s.set(object{Key: "a", Owner: "x", Value: 1}) },
		"things deleted": func(s *source) { s.delete("a") },
	} {
		bubble(t, name, func(t *testing.T) {
			s, mapper := newSource(), &flaky{}
			inf := must(informer.New(s, keyOf, informer.Config{Name: "things", ResyncPeriod: time.Hour}))
			looptest.Start(t, inf.Run)
			var reasons []string
			c, _ := newController(t, controller.Config[string]{Reasons: true}, func(ctx context.Context, _ string) (controller.Result, error) {
				info, _ := controller.FromContext(ctx)
				for _, r := range info.Reasons {
					reasons = append(reasons, r.Text)
				}
				return controller.Result{}, nil
			}, controller.Watches(inf, mapper.mapper))
			looptest.Start(t, c.Run)
			mapper.break_("x")
			synctest.Wait()
			s.set(object{Key: "a", Owner: "x"})
			synctest.Wait()
			meanwhile(s)
			synctest.Wait()
			assert.Empty(t, reasons)
			mapper.break_()
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			require.NotEmpty(t, reasons)
			assert.Equal(t, name, reasons[0])
		})
	}
}
