package manager_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/manager"
)

// shards is what several replicas do to the same objects.
type shards struct {
	t       *testing.T
	store   *memlease.Store
	objects *source

	mu sync.Mutex
	// mu guards the following.
	inFlight map[string]string   // key to replica
	done     map[string][]string // replica to keys
	terms    map[int]uint64      // slot to the greatest term that was seen at work
}

func newShards(t *testing.T, keys int) *shards {
	s := &shards{
		t: t, store: memlease.New(), objects: newSource(),
		inFlight: map[string]string{}, done: map[string][]string{}, terms: map[int]uint64{},
	}
	for i := range keys {
		s.objects.Put(object{Key: fmt.Sprint("k", i)})
	}
	return s
}

// take returns the keys that a replica has reconciled since the last take, in order.
func (s *shards) take(replica string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := s.done[replica]
	delete(s.done, replica)
	slices.Sort(keys)
	return slices.Compact(keys)
}

// replica is a manager that shares its keys.
type replica struct {
	*looptest.Running
	name    string
	manager *manager.Manager
	mirror  *informer.Informer[string, object]
	c       *controller.Controller[string]
	leases  *leases
	events  *looptest.Log[string]
	reports *looptest.Log[controller.Report[string]]
}

func (s *shards) replica(name string) *replica {
	r := &replica{
		name: name, leases: &leases{Store: s.store}, events: &looptest.Log[string]{}, reports: &looptest.Log[controller.Report[string]]{},
		mirror: newInformer("mirror", s.objects),
	}
	r.leases.updates = func(e *leaderelect.Entry) {
		if strings.Contains(e.Key, "/slot/") && releases(e) {
			r.events.Add("a slot is released")
		}
	}
	bye := func(context.Context) error { r.events.Add("hook"); return nil }
	cfg := controller.Config[string]{Workers: 2, Logger: quiet}
	cfg.Hooks.Reconciled = r.reports.Add
	r.c = must(controller.New("things", func(ctx context.Context, key string) (controller.Result, error) {
		return controller.Result{}, s.reconcile(ctx, r, key)
	}, cfg, controller.For(r.mirror)))
	r.manager = must(manager.New(manager.Config{Logger: quiet, BeforeRelease: bye, Shards: &shard.Config{
		Lease: leaderelect.Config{Store: r.leases, Key: "things", Identity: name, Logger: quiet}, Slots: 8, Members: 4,
	}}, r.c))
	r.Running = looptest.Start(s.t, r.manager.Run)
	return r
}

// reconcile takes half a second, in which no other replica may work on the key.
func (s *shards) reconcile(ctx context.Context, r *replica, key string) error {
	slot := r.manager.Slots().Slot(key)
	l, ok := leaderelect.FromContext(ctx)
	require.True(s.t, ok)
	term := l.Term()
	s.mu.Lock()
	assert.Empty(s.t, s.inFlight[key], "%s is reconciled by %s too", key, r.name)
	assert.GreaterOrEqual(s.t, term, s.terms[slot], "%s is reconciled in an earlier term", key)
	s.inFlight[key], s.terms[slot] = r.name, term
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.inFlight, key)
	}()
	select {
	case <-time.After(500 * time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[r.name] = append(s.done[r.name], key)
	r.events.Add("reconciled")
	return nil
}

func TestReplicasShareKeysAndHandThemOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShards(t, 40)
		ann := s.replica("ann")
		time.Sleep(time.Minute)
		assert.Len(t, s.take("ann"), 40, "a single replica has all keys")
		assert.Equal(t, "leading", ann.manager.Stats().State)
		require.NoError(t, ann.manager.Ready())
		require.NoError(t, ann.manager.Check())

		bob := s.replica("bob")
		time.Sleep(2 * time.Minute)
		shared := s.take("bob")
		assert.Greater(t, len(shared), 4, "a joining replica gets some keys")
		assert.Less(t, len(shared), 36)
		assert.Empty(t, s.take("ann"), "the giving replica has nothing more to do")

		for i := range 40 {
			s.objects.Put(object{Key: fmt.Sprint("k", i), Value: 1})
		}
		time.Sleep(time.Minute)
		assert.Equal(t, shared, s.take("bob"))
		assert.Len(t, s.take("ann"), 40-len(shared), "each key belongs to one replica")

		require.NoError(t, ann.Stop())
		time.Sleep(time.Minute)
		assert.Len(t, s.take("bob"), 40-len(shared), "the remaining replica gets the keys of the leaving one")
		require.NoError(t, bob.Stop())
	})
}

func TestPartitionedReplicaLosesSlotsAndSkipsTheirKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShards(t, 40)
		ann, bob := s.replica("ann"), s.replica("bob")
		time.Sleep(2 * time.Minute)
		assert.NotEmpty(t, s.take("ann"))
		assert.NotEmpty(t, s.take("bob"))
		bob.leases.off.Store(true)
		for range 60 { // there is work all the time
			for i := range 40 {
				s.objects.Put(object{Key: fmt.Sprint("k", i), Value: 1})
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		assert.Len(t, s.take("ann"), 40)
		bob.reports.Take()
		s.take("bob")
		s.objects.Put(object{Key: "k1", Value: 2})
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"k1"}, s.take("ann"))
		assert.Empty(t, s.take("bob"))
		assert.Empty(t, bob.reports.Take(), "a key of another replica is not reconciled")

		bob.leases.off.Store(false)
		time.Sleep(2 * time.Minute)
		assert.NotEmpty(t, s.take("bob"), "it is back")
		require.NoError(t, ann.Stop())
		require.NoError(t, bob.Stop())
	})
}

func TestStoppingReplicaDrainsKeysBeforeReleasingSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShards(t, 8)
		ann := s.replica("ann")
		time.Sleep(time.Minute)
		ann.events.Take()
		for i := range 8 {
			s.objects.Put(object{Key: fmt.Sprint("k", i), Value: 1})
		}
		synctest.Wait()
		require.NoError(t, ann.Stop())
		assert.Equal(t, []string{"reconciled", "hook", "a slot is released"}, slices.Compact(ann.events.Take()))
		assert.Len(t, s.take("ann"), 8)
		assert.Empty(t, ann.manager.Slots().Owned())
	})
}

func TestManagerWithSlotsAcceptsOnlySharingControllers(t *testing.T) {
	cfg := manager.Config{Logger: quiet, Shards: &shard.Config{
		Lease: leaderelect.Config{Store: memlease.New(), Key: "things", Identity: "ann", Logger: quiet},
	}}
	m, err := manager.New(cfg)
	require.NoError(t, err)
	assert.Nil(t, cfg.Shards.OnAcquired, "the configuration of the user is as it was")
	assert.Nil(t, m.Elector())
	events := &looptest.Log[string]{}
	require.EqualError(t, m.Add(newFakePart("all", events)), `manager: add part "all": it does not share its keys: add it to stage Always`)
	require.NoError(t, m.Add(manager.At(manager.Always, newFakePart("all", events))))

	cfg.Election = election(memlease.New())
	_, err = manager.New(cfg)
	require.EqualError(t, err, "manager: new: Config.Shards is set beside Config.Election")
	_, err = manager.New(manager.Config{Shards: &shard.Config{}})
	require.ErrorContains(t, err, "manager: new: Config.Shards: ")
}

// shareable is a part that can share its keys. It records the calls.
type shareable struct {
	*fakePart
}

func (s shareable) Share(controller.Slots) { s.events.Add(s.name + " shares") }
func (s shareable) Acquired(slot int)      { s.events.Add(fmt.Sprint(s.name, " acquired ", slot)) }
func (s shareable) Revoked(slot int)       { s.events.Add(fmt.Sprint(s.name, " revoked ", slot)) }

func (s shareable) Prepare(_ context.Context, slot int) error {
	s.events.Add(fmt.Sprint(s.name, " prepares ", slot))
	return nil
}

func TestRefusedPartSharesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := &looptest.Log[string]{}
		part := func(name string) manager.Part { return shareable{newFakePart(name, events)} }
		m := must(manager.New(manager.Config{Logger: quiet, Shards: &shard.Config{
			Lease: leaderelect.Config{Store: memlease.New(), Key: "things", Identity: "ann", Logger: quiet}, Slots: 1,
		}}, part("a")))
		assert.Equal(t, []string{"a shares"}, events.Take())
		require.ErrorIs(t, m.Add(part("b"), part("a")), manager.ErrExists)
		assert.Empty(t, events.Take(), "neither was added")
		r := looptest.Start(t, m.Run)
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{"a starts", "a prepares 0", "a acquired 0"}, events.Take())
		require.NoError(t, m.Add(part("c")))
		synctest.Wait()
		assert.Equal(t, []string{"c shares", "c prepares 0", "c starts"}, events.Take())
		require.NoError(t, r.Stop())
		ends := events.Take()
		assert.Subset(t, ends, []string{"a revoked 0", "c revoked 0"})
		require.ErrorIs(t, m.Add(part("d")), manager.ErrStopped)
		assert.Empty(t, events.Take())
	})
}

func TestUsersOnAcquiredIsCalledToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acquired := &looptest.Log[int]{}
		m, err := manager.New(manager.Config{Logger: quiet, Shards: &shard.Config{
			Lease: leaderelect.Config{Store: memlease.New(), Key: "things", Identity: "ann", Logger: quiet},
			Slots: 1, OnAcquired: func(_ context.Context, slot int) error { acquired.Add(slot); return nil },
		}})
		require.NoError(t, err)
		r := looptest.Start(t, m.Run)
		time.Sleep(time.Minute)
		assert.Equal(t, []int{0}, acquired.Take())
		require.NoError(t, r.Stop())
	})
}

func TestSlotsAreKeptWhileAbandonedWorkRuns(t *testing.T) {
	for _, abandoned := range []string{"BeforeRelease", `run part "everywhere"`} {
		bubble(t, abandoned, func(t *testing.T) {
			run, release := stuck(t)
			leases := memlease.New()
			lease := leaderelect.Config{Store: leases, Key: "things", Logger: quiet}
			overruns := &looptest.Log[string]{}
			lease.OnStepDownOverrun = func(l *leaderelect.Leadership) { overruns.Add(l.Key()) }
			cfg := manager.Config{Logger: quiet, StopTimeout: 10 * time.Second, Shards: &shard.Config{Lease: lease, Slots: 2}}
			var parts []manager.Part
			if abandoned == "BeforeRelease" {
				cfg.BeforeRelease = run
			} else {
				parts = append(parts, manager.At(manager.Always, &fakePart{name: "everywhere", events: &looptest.Log[string]{}, run: run}))
			}
			m := must(manager.New(cfg, parts...))
			r := looptest.Start(t, m.Run)
			time.Sleep(time.Minute)
			require.Len(t, m.Slots().Owned(), 2)
			require.ErrorIs(t, r.Stop(), manager.ErrStopTimeout)
			assert.Len(t, m.Slots().Owned(), 2, "they are not released")

			time.Sleep(time.Minute)
			assert.Empty(t, m.Slots().Owned(), "they are no longer renewed")
			assert.ElementsMatch(t, []string{"things/slot/0", "things/slot/1"}, overruns.Take(), "the process ends")
			release()
			synctest.Wait()
		})
	}
}

func TestHandoverWithoutStopTimeoutWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, events := memlease.New(), &looptest.Log[string]{}
		replica := func(name string) *manager.Manager {
			lease := leaderelect.Config{Store: leases, Key: "things", Identity: name, Logger: quiet}
			return must(manager.New(manager.Config{Logger: quiet, StopTimeout: -1, Shards: &shard.Config{Lease: lease, Slots: 2}},
				shareable{newFakePart(name, events)}))
		}
		a, b := replica("a"), replica("b")
		ra := looptest.Start(t, a.Run)
		time.Sleep(time.Minute)
		require.Len(t, a.Slots().Owned(), 2)
		var dones []func()
		for i := 0; len(dones) < 2; i++ {
			if key := fmt.Sprint(i); a.Slots().Slot(key) == len(dones) {
				_, done, ok := a.Slots().Begin(t.Context(), key)
				require.True(t, ok)
				dones = append(dones, done)
			}
		}
		rb := looptest.Start(t, b.Run)
		time.Sleep(10 * time.Minute)
		assert.NoError(t, a.Check(), "the work may take any time")
		assert.Len(t, a.Slots().Owned(), 2, "it is not interrupted")
		for _, done := range dones {
			done()
		}
		time.Sleep(time.Minute)
		assert.Len(t, b.Slots().Owned(), 1)
		require.NoError(t, ra.Stop())
		require.NoError(t, rb.Stop())
	})
}
