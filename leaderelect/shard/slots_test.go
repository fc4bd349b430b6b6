package shard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/store"
)

// calm is how long nothing happens: long enough for a lease that is not renewed to change hands.
const calm = 2 * lease

// modes are the two ways to learn of changes.
var modes = map[string]func(*shard.Config){"a store that cannot watch": nil, "a store that watches": watching}

// eachMode runs a test in a world for each mode.
func eachMode(t *testing.T, slots int, f func(t *testing.T, w *world, mode func(*shard.Config))) {
	t.Helper()
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, slots, func(t *testing.T, w *world) { f(t, w, mode) })
		})
	}
}

func TestSingleReplicaTakesAllSlots(t *testing.T) {
	eachMode(t, 16, func(t *testing.T, w *world, mode func(*shard.Config)) {
		a := w.join(t, "a", mode)
		after(100 * time.Millisecond)
		require.Len(t, a.Owned(), 16)
		for slot, key := range keysOf(a.Slots, 16) {
			require.True(t, a.Owns(key))
			require.Equal(t, slot, a.Slot(key))
			owner, ok := a.Owner(key)
			require.True(t, ok)
			require.Equal(t, "a", owner.Identity)
			ctx, done, ok := a.Begin(t.Context(), key)
			require.True(t, ok)
			l, ok := leaderelect.FromContext(ctx)
			require.True(t, ok)
			require.Equal(t, uint64(1), l.Term())
			require.NoError(t, ctx.Err())
			done()
			done()
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			require.True(t, a.Owns(key), "another call of done has no effect")
		}
		require.Equal(t, "a", a.Members()[0].Identity)
		require.NoError(t, a.stop())
		require.Empty(t, a.Owned())
	})
}

func TestOnlySlotsThatMustMoveMove(t *testing.T) {
	eachMode(t, 16, func(t *testing.T, w *world, mode func(*shard.Config)) {
		a, b := w.join(t, "a", mode), w.join(t, "b", mode)
		w.settle(t, 4*retry, a, b)
		acquired := w.acquired
		after(2 * calm)
		assert.Equal(t, acquired, w.acquired, "nothing moves while nothing changes")

		c := w.join(t, "c", mode)
		w.settle(t, 4*retry, a, b, c)
		after(calm)
		assert.Equal(t, len(c.Owned()), w.acquired-acquired, "those that c gets")
		owners := map[string]int{}
		for _, key := range keysOf(a.Slots, 16) {
			owner, _ := c.Owner(key)
			owners[owner.Identity]++
			assert.Equal(t, owner.Identity == "a", a.Owns(key))
		}
		assert.Len(t, owners, 3)
		assert.Len(t, b.Members(), 3)

		acquired = w.acquired
		had := len(b.Owned())
		require.NoError(t, b.stop())
		w.settle(t, 2*retry, a, c)
		after(calm)
		assert.Equal(t, had, w.acquired-acquired, "those that b had")
	})
}

// releases is a store that remembers in whose favor slots were released, by slot.
type releases struct {
	shardLink
	favored map[string]string
}

func (r releases) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	var rec struct {
		Released  bool
		Preferred string
	}
	if json.Unmarshal(e.Value, &rec) == nil && rec.Released && strings.Contains(e.Key, "/slot/") {
		r.replica.world.mu.Lock()
		r.favored[e.Key] = rec.Preferred
		r.replica.world.mu.Unlock()
	}
	return r.shardLink.Update(ctx, e)
}

func TestSlotIsReleasedInFavorOfNewOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, favored := newWorld(t, 8), make(map[string]string)
		a := w.join(t, "a", func(cfg *shard.Config) {
			cfg.Lease.Store = releases{cfg.Lease.Store.(shardLink), favored}
		})
		w.settle(t, 4*retry, a)
		b := w.join(t, "b", nil)
		w.settle(t, 4*retry, a, b)
		members := a.Members()
		require.Len(t, members, 2)
		require.Len(t, favored, 4)
		for key, incarnation := range favored {
			require.Equal(t, members[1].Incarnation, incarnation, key)
		}
		w.checkNow(t)
	})
}

func TestSlotIgnoredByNewOwnerSoonBecomesFree(t *testing.T) {
	inWorld(t, 8, func(t *testing.T, w *world) {
		a := w.join(t, "a", nil)
		w.settle(t, 4*retry, a)
		b := w.join(t, "b", nil)
		w.mu.Lock()
		b.unwritable = make(map[string]bool)
		for slot := range 8 {
			b.unwritable[fmt.Sprint("shards/slot/", slot)] = true
		}
		w.mu.Unlock()
		for len(a.Owned()) == 8 {
			after(retry / 10)
		}
		after(retry / 10)
		require.NoError(t, b.stop())
		w.settle(t, 5*retry/2, a)
	})
}

func TestSlotsOfDeadReplicaAreTakenAfterLease(t *testing.T) {
	eachMode(t, 16, func(t *testing.T, w *world, mode func(*shard.Config)) {
		a, b, c := w.join(t, "a", mode), w.join(t, "b", mode), w.join(t, "c", mode)
		w.settle(t, 4*retry, a, b, c)
		after(calm)
		b.cut(time.Hour)
		w.settle(t, lease+2*retry, a, c)
		assert.Empty(t, b.Owned())
	})
}

func TestSlotIsHandedOverAfterItsWorkEnds(t *testing.T) {
	eachMode(t, 2, func(t *testing.T, w *world, mode func(*shard.Config)) {
		a := w.join(t, "a", mode)
		after(time.Second)
		keys := keysOf(a.Slots, 2)
		var works [2]context.Context
		var dones [2][2]func() // two works of each slot
		for i, key := range keys {
			for j := range 2 {
				var ok bool
				works[i], dones[i][j], ok = a.Begin(t.Context(), key)
				require.True(t, ok)
			}
		}
		b := w.join(t, "b", mode)
		after(calm)
		moving := 0
		if a.Owns(keys[0]) {
			moving = 1
		}
		require.False(t, a.Owns(keys[moving]), "no new work")
		_, _, ok := a.Begin(t.Context(), keys[moving])
		require.False(t, ok)
		require.NoError(t, works[moving].Err(), "work that has begun continues")
		require.Len(t, a.Owned(), 2, "and the lease is kept")
		require.Empty(t, b.Owned())

		dones[moving][0]()
		after(retry * 11 / 10)
		require.Empty(t, b.Owned(), "one work remains")
		dones[moving][1]()
		after(retry * 11 / 10)
		require.Equal(t, []int{moving}, b.Owned())
		require.True(t, b.Owns(keys[moving]))
		term := termOf(mustBegin(t, b, keys[moving]))
		assert.Equal(t, uint64(2), term)
		for _, done := range dones[1-moving] {
			done()
		}
	})
}

// mustBegin begins and ends some work and returns its context.
func mustBegin(t testing.TB, r *replica, key string) context.Context {
	t.Helper()
	ctx, done, ok := r.Begin(t.Context(), key)
	require.True(t, ok)
	done()
	return ctx
}

// A store accepts writes of a slot's owner and rejects those of a former owner, regardless of the terms of other
// slots.
func TestSlotWritesAreFencedByTermOfSlot(t *testing.T) {
	eachMode(t, 2, func(t *testing.T, w *world, mode func(*shard.Config)) {
		db := store.NewMemory(store.MemoryConfig{})
		things, err := store.Open(db, "things", store.Config[int]{})
		require.NoError(t, err)
		write := func(ctx context.Context) error {
			_, err := store.CreateOrUpdate(context.WithoutCancel(ctx), things, "a", func(o *store.Object[int]) error {
				o.Value++
				return nil
			})
			return err
		}
		a := w.join(t, "a", mode)
		after(time.Second)
		keys := keysOf(a.Slots, 2)
		before := [2]context.Context{mustBegin(t, a, keys[0]), mustBegin(t, a, keys[1])}
		b := w.join(t, "b", mode)
		after(calm)
		moved := 0
		if a.Owns(keys[0]) {
			moved = 1
		}
		now := mustBegin(t, b, keys[moved])
		fence, ok := store.FenceFrom(now)
		require.True(t, ok)
		l, _ := leaderelect.FromContext(now)
		require.Equal(t, store.Fence{Lease: l.Key(), Term: 2}, fence)
		require.NoError(t, write(before[moved]), "its successor has not written yet")
		require.NoError(t, write(now))
		require.NoError(t, write(before[1-moved]), "the other slot is still in term 1")
		require.ErrorIs(t, write(before[moved]), store.ErrFenced)
		require.NoError(t, write(store.Unfenced(before[moved])))
	})
}

func TestLostSlotEndsWorkContext(t *testing.T) {
	eachMode(t, 4, func(t *testing.T, w *world, mode func(*shard.Config)) {
		a := w.join(t, "a", mode)
		after(time.Second)
		key := keysOf(a.Slots, 4)[2]
		ctx, done, ok := a.Begin(t.Context(), key)
		require.True(t, ok)
		a.cut(time.Hour)
		after(renew)
		require.ErrorIs(t, context.Cause(ctx), leaderelect.ErrLeaseExpired)
		require.False(t, a.Owns(key))
		after(lease)
		require.Error(t, a.Check(), "it still works")
		done()
		rest()
		require.NoError(t, a.Check())
	})
}

func TestOwnsReadsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, paused := newWorld(t, 4), make(chan struct{})
		a := w.join(t, "a", func(cfg *shard.Config) {
			cfg.OnAcquired = func(context.Context, int) error { <-paused; return nil }
			cfg.OnRevoked = nil
		})
		after(time.Second)
		l, ok := leaderelect.FromContext(mustBegin(t, a, "key"))
		require.True(t, ok)
		assert.Equal(t, fmt.Sprint("shards/slot/", a.Slot("key")), l.Key())
		a.Blind()
		a.cut(time.Hour)
		after(renew - retry)
		require.True(t, a.Owns("key"))
		after(retry)
		require.False(t, a.Owns("key"), "although no context has ended")
		_, _, ok = a.Begin(t.Context(), "key")
		require.False(t, ok)
		assert.Empty(t, a.Owned())
		close(paused)
		w.checkNow(t)
	})
}

func TestNoWorkStartsInDrainingSlot(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		a := w.join(t, "a", func(cfg *shard.Config) {
			cfg.OnAcquired = func(ctx context.Context, _ int) error {
				<-ctx.Done()
				time.Sleep(3 * time.Second) // it has something to finish
				return nil
			}
			cfg.OnRevoked = nil
		})
		after(time.Second)
		require.True(t, a.Owns("key"))
		a.cancel()
		after(time.Second)
		require.Len(t, a.Owned(), 4, "the leases are kept while it finishes")
		require.False(t, a.Owns("key"))
		_, _, ok := a.Begin(t.Context(), "key")
		require.False(t, ok)
		after(3 * time.Second)
		require.Empty(t, a.Owned())
	})
}

func TestDrainTimeoutEndsSlotWork(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		a := w.join(t, "a", func(cfg *shard.Config) { cfg.Lease.DrainTimeout = time.Second })
		after(time.Second)
		ctx, done, ok := a.Begin(t.Context(), "key")
		require.True(t, ok)
		a.cancel()
		after(time.Second - 1)
		require.NoError(t, ctx.Err())
		after(1)
		require.ErrorIs(t, context.Cause(ctx), leaderelect.ErrDrainTimeout)
		done()
		require.NoError(t, a.stop())
	})
}

func TestSingleSlotIsLeaderElection(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		plain := func(cfg *shard.Config) {
			cfg.Lease.Store = struct{ leaderelect.LeaseStore }{cfg.Lease.Store} // it cannot list
		}
		a := w.join(t, "a", plain)
		after(time.Second)
		b := w.join(t, "b", plain)
		after(calm)
		require.True(t, a.Owns("any"))
		require.False(t, b.Owns("any"))
		require.Empty(t, a.Members())
		list, err := w.store.List(t.Context(), "")
		require.NoError(t, err)
		require.Len(t, list, 2, "with one that says so")
		require.NoError(t, a.stop())
		after(3 * retry)
		require.True(t, b.Owns("any"))
	})
}

func TestFailedSlotWorkIsRetried(t *testing.T) {
	for what, fail := range map[string]func() error{
		"error": func() error { return errExpected },
		"panic": func() error { panic("on purpose") },
	} {
		subWorld(t, what, 2, func(t *testing.T, w *world) {
			failed := 0
			var mu sync.Mutex
			var causes []error
			a := w.join(t, "a", func(cfg *shard.Config) {
				acquired := cfg.OnAcquired
				cfg.OnAcquired = func(ctx context.Context, slot int) error {
					if slot == 1 && failed < 2 {
						failed++
						return fail()
					}
					return acquired(ctx, slot)
				}
				cfg.OnRevoked = func(_ int, cause error) {
					mu.Lock()
					defer mu.Unlock()
					causes = append(causes, cause)
				}
			})
			after(20 * retry)
			assert.Len(t, a.Owned(), 2)
			mu.Lock()
			defer mu.Unlock()
			assert.Len(t, causes, 2)
			assert.Error(t, errors.Join(causes...))
		})
	}
}

func TestMemberRecordsAreReusedAndBounded(t *testing.T) {
	eachMode(t, 4, func(t *testing.T, w *world, mode func(*shard.Config)) {
		few := func(cfg *shard.Config) {
			if mode != nil {
				mode(cfg)
			}
			cfg.Members = 2
		}
		a, b := w.join(t, "a", few), w.join(t, "b", few)
		w.settle(t, 4*retry, a, b)
		c := w.join(t, "c", few)
		after(calm)
		require.Empty(t, c.Owned(), "there is no free number")
		require.Len(t, c.Members(), 2)
		b.cut(time.Hour)
		w.settle(t, lease+4*retry, a, c)
		for range 10 {
			require.NoError(t, c.stop())
			after(time.Second)
			c.start()
			w.settle(t, 4*retry, a, c)
		}
		list, err := w.store.List(t.Context(), "shards/member/")
		require.NoError(t, err)
		assert.Len(t, list, 2)
	})
}

func TestRequestsPerSlot(t *testing.T) {
	const slots, replicas, periods = 8, 3, 50
	eachMode(t, slots, func(t *testing.T, w *world, mode func(*shard.Config)) {
		for _, name := range []string{"a", "b", "c"} {
			w.join(t, name, mode)
		}
		w.settle(t, 4*retry, w.replicas...)
		after(calm)
		w.mu.Lock()
		w.writes, w.lists, w.gets = 0, 0, 0
		w.mu.Unlock()
		after(periods * retry)
		w.mu.Lock()
		defer w.mu.Unlock()
		assert.InDelta(t, (slots+replicas)*periods, w.writes, (slots+replicas)*2, "each lease, once in a RetryPeriod")
		assert.InDelta(t, replicas*periods*10/11, w.lists, replicas*2, "each replica, with jitter")
		confirmations := replicas * (1 + int(periods*retry/lease))
		assert.LessOrEqual(t, w.gets, confirmations+periods/10, "the number of slots, and when a List and a renewal cross")
	})
}

func TestHooksReportCallsOfSlotsAndMembership(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		var claims, releases atomic.Int64
		a := w.join(t, "a", func(cfg *shard.Config) {
			cfg.Lease.Hooks.Request = func(op string, _ time.Duration, _ error) {
				switch op {
				case "create":
					claims.Add(1)
				case "update":
					releases.Add(1)
				}
			}
		})
		after(time.Second)
		require.NoError(t, a.stop())
		assert.Equal(t, int64(4+1), claims.Load())
		assert.Equal(t, int64(4+1), releases.Load())
	})
}

func TestSlotsRunOnceAtATime(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		a := w.join(t, "a", nil)
		after(time.Second)
		require.ErrorIs(t, a.Run(t.Context()), leaderelect.ErrRunning)
		require.NoError(t, a.stop())
		a.start()
		after(time.Second)
		assert.Len(t, a.Owned(), 4)
	})
}

func TestConfigErrorNamesEveryField(t *testing.T) {
	acquired := func(context.Context, int) error { return nil }
	_, err := shard.New(shard.Config{Slots: -1, Members: 5000, Lease: leaderelect.Config{
		OnStartedLeading: func(context.Context, *leaderelect.Leadership) error { return nil },
		OnStoppedLeading: func(*leaderelect.Leadership, error) {}, OnNewLeader: func(leaderelect.Leader) {}, RequestTimeout: -1,
		Sessions: memlease.New(), Fenced: true,
	}})
	for _, want := range []string{
		"shard: new: Config.Slots is -1, must be 1 to 4096", "Config.Members is 5000, must be 1 to 4096", "Config.OnAcquired is required", "Lease.OnStartedLeading must be nil",
		"Lease.OnStoppedLeading must be nil", "Lease.OnNewLeader must be nil", "Lease.Sessions must be nil", "Config.Lease: leaderelect: new elector: Config.Store is required", "Config.Key is required",
		"Config.RequestTimeout is -1ns, must be",
	} {
		require.ErrorContains(t, err, want)
	}
	_, err = shard.New(shard.Config{OnAcquired: acquired, Lease: leaderelect.Config{
		Key: "shards", Store: struct{ leaderelect.LeaseStore }{memlease.New()},
	}})
	require.ErrorContains(t, err, "Lease.Store must be a Lister")
	s, err := shard.New(shard.Config{OnAcquired: acquired, Lease: leaderelect.Config{
		Key: "shards", Store: memlease.New(),
	}})
	require.NoError(t, err)
	assert.Less(t, s.Slot("any"), 64)
}

func TestRestoredRecordWithRaisedTermDoesNotMakeTwoOwners(t *testing.T) {
	eachMode(t, 3, func(t *testing.T, w *world, mode func(*shard.Config)) {
		one, two := w.join(t, "a", mode), w.join(t, "b", mode)
		w.settle(t, 4*retry, one, two)
		after(calm)
		if len(one.Owned()) > len(two.Owned()) {
			one, two = two, one
		}
		from, to := fmt.Sprint("shards/slot/", one.Owned()[0]), fmt.Sprint("shards/slot/", two.Owned()[0])
		old, err := w.store.Get(t.Context(), from)
		require.NoError(t, err)
		have, err := w.store.Get(t.Context(), to)
		require.NoError(t, err)
		var rec map[string]any
		require.NoError(t, json.Unmarshal(old.Value, &rec))
		require.Equal(t, one.name, rec["holder"])
		rec["term"] = have.Term + 3
		value, err := json.Marshal(rec)
		require.NoError(t, err)
		w.store.Put(leaderelect.Entry{Key: to, Value: value, Term: have.Term + 3})
		after(lease)
		w.checkNow(t)
		assert.Equal(t, 2, ownedTogether(t, one, two), "the slot has no owner for a lease")
		w.settle(t, 4*retry, one, two)
	})
}
