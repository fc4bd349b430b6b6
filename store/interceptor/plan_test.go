package interceptor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/interceptor"
)

func TestRuleSeesArgumentsAndCaller(t *testing.T) {
	first := func(ctx context.Context, s store.Store[thing], sel store.Selector, after informer.Version) error {
		ctx, cancel := context.WithCancel(ctx)
		cancel() // it hits before it comes to that
		for _, err := range s.WatchSelected(ctx, sel, after) {
			return err
		}
		return nil
	}
	for name, c := range map[string]struct {
		rule      interceptor.Rule
		hit, miss func(ctx context.Context, s *intercepting) error
	}{
		"the object": {
			interceptor.Rule{Op: "update", When: func(c interceptor.Call) bool { return c.Args.Object.(object).Value.Size == 7 }},
			func(ctx context.Context, s *intercepting) error {
				return errOf(s.Update(ctx, object{Key: "web", Value: thing{Size: 7}, Version: 2}))
			},
			func(ctx context.Context, s *intercepting) error {
				return errOf(s.Update(ctx, object{Key: "web", Value: thing{Size: 6}, Version: 1}))
			},
		},
		"a precondition": {
			interceptor.Rule{When: func(c interceptor.Call) bool {
				for _, p := range c.Args.Pre {
					if uid, ok := p.UID(); ok && uid == "u1" {
						return true
					}
				}
				return false
			}},
			func(ctx context.Context, s *intercepting) error {
				return errOf(s.Delete(ctx, "web", store.IfUID("u1")))
			},
			func(ctx context.Context, s *intercepting) error {
				return errOf(s.Create(ctx, object{Key: "new"}, store.IfVersion(0)))
			},
		},
		"the fence": {
			interceptor.Rule{When: func(c interceptor.Call) bool { return c.Args.Fence == store.Fence{Lease: "shop", Term: 3} }},
			func(ctx context.Context, s *intercepting) error {
				ctx = store.WithFence(ctx, store.Fence{Lease: "shop", Term: 3})
				_, err := s.UpdateStatus(ctx, object{Key: "web", Version: 1})
				return err
			},
			func(ctx context.Context, s *intercepting) error {
				ctx = store.WithFence(ctx, store.Fence{Lease: "shop", Term: 2})
				_, err := s.UpdateStatus(ctx, object{Key: "web", Version: 1})
				return err
			},
		},
		"the selector of a list": {
			interceptor.Rule{Op: "list", When: func(c interceptor.Call) bool { return c.Args.Selector.Prefix == "shop/" }},
			func(ctx context.Context, s *intercepting) error {
				_, err := s.Select(ctx, store.Selector{Prefix: "shop/"})
				return err
			},
			func(ctx context.Context, s *intercepting) error { _, err := s.List(ctx); return err },
		},
		"the selector and the version of a watch": {
			interceptor.Rule{Op: "watch", When: func(c interceptor.Call) bool {
				return c.Args.Selector.Prefix == "w" && c.Args.After == 1
			}},
			func(ctx context.Context, s *intercepting) error { return first(ctx, s, store.Selector{Prefix: "w"}, 1) },
			func(ctx context.Context, s *intercepting) error {
				_ = first(ctx, s, store.Selector{Prefix: "w"}, 0)
				_ = first(ctx, s, store.Selector{}, 1)
				return nil
			},
		},
		"the caller": {
			interceptor.Rule{Caller: "worker 1"},
			func(ctx context.Context, s *intercepting) error { return errOf(s.As("worker 1").Get(ctx, "web")) },
			func(ctx context.Context, s *intercepting) error {
				return errors.Join(errOf(s.As("worker 2").Get(ctx, "web")), errOf(s.Get(ctx, "web")))
			},
		},
		"the kind": {
			interceptor.Rule{Kind: "thing"},
			func(ctx context.Context, s *intercepting) error { return errOf(s.Get(ctx, "web")) },
			func(ctx context.Context, s *intercepting) error {
				other := must(store.Open(store.NewMemory(store.MemoryConfig{}), "other", store.Config[thing]{}))
				_, err := interceptor.NewWithPlan(s.Plan, other).List(ctx)
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := intercepted(t)
			down := errors.New("down")
			c.rule.Fault = interceptor.Fail(down)
			in := s.Inject(c.rule)
			require.NoError(t, c.miss(t.Context(), s))
			require.Zero(t, in.Hits())
			require.ErrorIs(t, c.hit(t.Context(), s), down)
			require.Equal(t, 1, in.Hits(), "calls that do not match are not counted")
			for _, call := range s.Calls() {
				assert.Zero(t, call.Args, "the caller may change its arguments afterward")
			}
		})
	}
}

func TestSharedPlanRuleCountsCallsOfAllKinds(t *testing.T) {
	db := store.NewMemory(store.MemoryConfig{})
	var plan interceptor.Plan
	things := interceptor.NewWithPlan(&plan, must(store.Open(db, "thing", store.Config[thing]{})))
	numbers := interceptor.NewWithPlan(&plan, must(store.Open(db, "number", store.Config[int]{})))
	third := plan.Inject(interceptor.Rule{Op: "create", Nth: 3, Fault: interceptor.LoseReply()})
	_, err1 := things.Create(t.Context(), object{Key: "a"})
	_, err2 := numbers.As("counter").Create(t.Context(), store.Object[int]{Key: "a"})
	_, err3 := things.As("maker").Create(t.Context(), object{Key: "b"})
	_, err4 := numbers.Create(t.Context(), store.Object[int]{Key: "b"})
	assert.NoError(t, errors.Join(err1, err2, err4))
	require.ErrorIs(t, err3, interceptor.ErrLost)
	assert.Equal(t, 1, third.Hits())
	var calls []string
	for _, c := range plan.Calls() {
		calls = append(calls, c.Caller+" "+c.Op+" "+c.Kind+" "+c.Key)
	}
	assert.Equal(t, []string{" create thing a", "counter create number a", "maker create thing b", " create number b"}, calls)
	assert.Equal(t, plan.Calls(), things.Writes())
}

// curious is a store that looks at the plan of its interceptor whenever it is asked for its kind.
type curious struct {
	store.Store[thing]
	t    *testing.T
	plan *interceptor.Plan
}

func (c curious) Kind() string {
	looked := make(chan struct{})
	go func() { // ends when it has the lock of the plan
		defer close(looked)
		c.plan.Calls()
	}()
	select {
	case <-looked:
	case <-time.After(5 * time.Second):
		c.t.Error("the store is called while the plan is locked")
	}
	return c.Store.Kind()
}

func TestBreakWatchesCallsStoreWithoutLock(t *testing.T) {
	_, to := intercepted(t)
	p := new(interceptor.Plan)
	s := interceptor.NewWithPlan[thing](p, curious{to, t, p})
	pull := follow(t, t.Context(), s)
	require.Equal(t, "Added web", pull())
	s.BreakWatches(errors.New("down"))
	assert.Equal(t, "store: watch thing: down", pull())
}

func TestBreakWatchesEndsWatchesOfKindAndCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		var plan interceptor.Plan
		things := interceptor.NewWithPlan(&plan, must(store.Open(db, "thing", store.Config[thing]{})))
		others := interceptor.NewWithPlan(&plan, must(store.Open(db, "other", store.Config[thing]{})))
		ended := map[string]bool{}
		done := make(chan string)
		for name, s := range map[string]*intercepting{
			"thing of one": things.As("one"), "thing of two": things.As("two"), "thing": things, "other of one": others.As("one"),
		} {
			go func() { // ends with its watch; the bubble waits for it
				for _, err := range s.Watch(t.Context(), 0) {
					if err != nil {
						done <- name
						return
					}
				}
			}()
		}
		wait := func() map[string]bool {
			for synctest.Wait(); ; synctest.Wait() {
				select {
				case name := <-done:
					ended[name] = true
				default:
					return ended
				}
			}
		}
		require.Empty(t, wait())
		things.As("one").BreakWatches(errors.New("broken"))
		require.Equal(t, map[string]bool{"thing of one": true}, wait())
		things.BreakWatches(errors.New("broken"))
		require.Equal(t, map[string]bool{"thing of one": true, "thing of two": true, "thing": true}, wait())
		others.BreakWatches(errors.New("broken"))
		require.Len(t, wait(), 4)
	})
}
