package manager_test

import (
	"context"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store"
)

// slowNames is a source of strings whose lists take some time.
func slowNames(takes time.Duration, have ...string) informer.ListWatcher[string] {
	src := informertest.NewSource(func(s string) string { return s })
	for _, s := range have {
		src.Put(s)
	}
	return &slowList{src, takes}
}

type slowList struct {
	*informertest.Source[string, string]
	takes time.Duration
}

func (s *slowList) List(ctx context.Context) (informer.List[string], error) {
	select {
	case <-ctx.Done():
		return informer.List[string]{}, context.Cause(ctx)
	case <-time.After(s.takes):
	}
	return s.Source.List(ctx)
}

// Both the manager and a controller have a SyncTimeout. That of the manager limits lists, that of the controller the mapping.
func TestSyncTimeoutOfManagerLimitsListsAndThatOfControllerTheMapping(t *testing.T) {
	for name, c := range map[string]struct {
		ofManager, ofController time.Duration
		list, mapping           time.Duration // what they take
		err                     string        // after limit
		limit                   time.Duration
	}{
		"a list that takes longer than the controller's": {5 * time.Minute, time.Minute, 3 * time.Minute, 0, "", 0},
		"a list that takes longer than the manager's": {
			time.Minute, 5 * time.Minute, 3 * time.Minute, 0,
			`manager: run informer "names": not synced in time: 1m0s have passed, the SyncTimeout of the manager`, time.Minute,
		},
		"a mapping that takes longer than the manager's": {time.Minute, 5 * time.Minute, 0, 3 * time.Minute, "", 0},
		"a mapping that takes longer than the controller's": {
			5 * time.Minute, time.Minute, 0, 3 * time.Minute,
			`manager: run part "test": controller: run "test": informer: wait for sync of names handler 1: not synced in time: 1m0s have passed`,
			time.Minute,
		},
	} {
		bubble(t, name, func(t *testing.T) {
			in := must(informer.New(slowNames(c.list, "a"), func(s string) string { return s }, informer.Config{Name: "names", Logger: quiet}))
			ctl, reports := reporting(t, controller.Config[string]{SyncTimeout: c.ofController},
				func(context.Context, string) (controller.Result, error) { return controller.Result{}, nil },
				controller.Watches(in, func(ctx context.Context, s string) ([]string, error) {
					select {
					case <-ctx.Done():
					case <-time.After(c.mapping):
					}
					return []string{s}, context.Cause(ctx)
				}))
			m := must(manager.New(manager.Config{Logger: quiet, SyncTimeout: c.ofManager}, ctl))
			began := time.Now()
			if c.err != "" {
				err := m.Run(t.Context())
				require.ErrorContains(t, err, c.err)
				assert.Equal(t, c.limit, time.Since(began))
				assert.Empty(t, reports.Take())
				return
			}
			r := looptest.Start(t, m.Run)
			time.Sleep(4 * time.Minute)
			synctest.Wait()
			assert.Equal(t, []string{"a"}, keysOf(reports.Take()))
			require.NoError(t, r.Stop())
		})
	}
}

// stuckCache is a replica whose cache of a store can stop to follow it.
type stuckCache struct {
	mu   sync.Mutex
	open chan struct{} // closed when watches go on
}

func (s *stuckCache) wait(ctx context.Context) {
	s.mu.Lock()
	open := s.open
	s.mu.Unlock()
	if open != nil {
		select {
		case <-open:
		case <-ctx.Done():
		}
	}
}

// followers makes a source whose watches wait.
type followers[T any] struct {
	informer.ListWatcher[T]
	stuck *stuckCache
}

func (f followers[T]) Source() any { return f.ListWatcher }

func (f followers[T]) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[T], error] {
	return func(yield func(informer.Event[T], error) bool) {
		for ev, err := range f.ListWatcher.Watch(ctx, after) {
			f.stuck.wait(ctx)
			if !yield(ev, err) {
				return
			}
		}
	}
}

// A leader whose cache does not catch up with its predecessor reconciles nothing, Check says so after half of SyncTimeout, and Run ends
// after all of it.
func TestTakeoverThatDoesNotCatchUpIsReported(t *testing.T) {
	for _, c := range []struct {
		name  string
		stuck time.Duration // how long the cache does not follow
	}{{"for good", time.Hour}, {"for a while", 90 * time.Second}} {
		bubble(t, c.name, func(t *testing.T) {
			db := store.NewMemory(store.MemoryConfig{})
			objects := must(store.Open[count](db, "object", store.Config[count]{}))
			must(objects.Create(t.Context(), store.Object[count]{Key: "a"}))
			leases, stuck := memlease.New(), &stuckCache{}
			var src informer.ListWatcher[store.Object[count]] = followers[store.Object[count]]{objects, stuck} // so that New infers its types
			in := must(informer.New(src, store.Key, informer.Config{Name: "objects", Logger: quiet}))
			ctl, reports := reporting(t, controller.Config[string]{SyncTimeout: 2 * time.Minute},
				func(context.Context, string) (controller.Result, error) { return controller.Result{}, nil }, controller.For(in))
			m := must(manager.New(manager.Config{Logger: quiet, Election: election(leases)}, ctl))

			former, stop := context.WithCancel(t.Context())
			other := looptest.Start(t, func(context.Context) error {
				return must(leaderelect.New(leaderelect.Config{
					Store: leases, Key: "lock", Identity: "former", Logger: quiet, ReleaseOnCancel: true,
					OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error { <-ctx.Done(); return nil },
				})).Run(former)
			})
			synctest.Wait()
			r := looptest.Start(t, m.Run)
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, "standby", m.Stats().State)
			require.NoError(t, m.Ready())
			stuck.mu.Lock()
			stuck.open = make(chan struct{})
			stuck.mu.Unlock()
			obj := must(objects.Get(t.Context(), "a"))
			obj.Value.N = 7
			must(objects.Update(t.Context(), obj)) // the last write of the former leader
			stop()
			require.NoError(t, other.Stop())
			for m.Stats().State != "leading" {
				time.Sleep(10 * time.Millisecond)
			}
			leads := time.Now()
			time.AfterFunc(c.stuck, func() { close(stuck.open) })

			time.Sleep(59 * time.Second)
			synctest.Wait()
			require.NoError(t, m.Check(), "for less than half of SyncTimeout")
			time.Sleep(3 * time.Second)
			synctest.Wait()
			require.ErrorContains(t, m.Check(), `controller: check "test": it leads, and its caches have not caught up with the former leader for 1m`)
			require.Error(t, m.Ready())
			assert.Empty(t, reports.Take())
			if c.stuck < time.Hour {
				time.Sleep(time.Minute)
				synctest.Wait()
				require.NoError(t, m.Check())
				assert.Contains(t, keysOf(reports.Take()), "a")
				require.NoError(t, r.Stop())
				return
			}
			time.Sleep(2*time.Minute - time.Since(leads) + time.Second)
			synctest.Wait()
			assert.Empty(t, reports.Take())
			err := r.Stop()
			require.ErrorContains(t, err, `controller: run "test": `)
			require.ErrorContains(t, err, "not synced in time: 2m0s have passed")
			require.ErrorContains(t, err, "objects")
		})
	}
}

// A controller that is added while the manager leads waits for its own informers, and begins with what former leaders wrote.
func TestControllerAddedLateWaitsForItsInformersAndCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		objects := must(store.Open[count](db, "object", store.Config[count]{}))
		must(objects.Create(t.Context(), store.Object[count]{Key: "a", Value: count{N: 1}}))
		m := must(manager.New(manager.Config{Logger: quiet, Election: election(memlease.New())}))
		r := looptest.Start(t, m.Run)
		time.Sleep(time.Minute)
		require.Equal(t, "leading", m.Stats().State)

		names := must(informer.New(slowNames(time.Minute, "b"), func(s string) string { return s }, informer.Config{Name: "names", Logger: quiet}))
		in := must(informer.New(objects, store.Key, informer.Config{Name: "objects", Logger: quiet}))
		ctl, reports := reporting(t, controller.Config[string]{}, func(ctx context.Context, key string) (controller.Result, error) {
			if _, ok := leaderelect.FromContext(ctx); !ok {
				t.Errorf("%s is reconciled without a leadership", key)
			}
			if o, ok := in.Get("a"); !ok || o.Value.N != 1 {
				t.Errorf("%s is reconciled on an empty cache", key)
			}
			return controller.Result{}, nil
		}, controller.For(in), controller.For(names))
		require.NoError(t, m.Add(ctl))
		time.Sleep(30 * time.Second)
		synctest.Wait()
		assert.Empty(t, reports.Take(), "names has not synced")
		require.NoError(t, m.Check())
		time.Sleep(2 * time.Minute) // names reports no latest version, so catching up is one more list
		synctest.Wait()
		assert.ElementsMatch(t, []string{"a", "b"}, keysOf(reports.Take()))
		require.NoError(t, m.Ready())
		require.NoError(t, r.Stop())
	})
}
