package shard_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	marks "github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
)

// numbered makes a replica have another number of slots.
func numbered(n int) func(*shard.Config) {
	return func(cfg *shard.Config) { cfg.Slots = n }
}

func TestReplicaWithDifferentSlotCountDoesNotJoin(t *testing.T) {
	inWorld(t, 16, func(t *testing.T, w *world) {
		a := w.join(t, "a", nil)
		after(time.Second)
		b := w.join(t, "b", numbered(8))
		<-b.done
		require.ErrorIs(t, b.err, leaderelect.ErrMismatch)
		require.EqualError(t, b.err, `shard: run "shards": there are 16 slots, and this replica has 8: `+
			`give all replicas the same number, or stop them all and delete the record: `+leaderelect.ErrMismatch.Error())
		require.Len(t, a.Owned(), 16)

		require.NoError(t, a.stop())
		require.ErrorIs(t, b.Run(t.Context()), leaderelect.ErrMismatch, "even if no other replica runs")
		w.store.Delete("shards")
		b.start()
		after(time.Second)
		require.Len(t, b.Owned(), 8, "the number can be changed")
	})
}

func TestConcurrentReplicasAgreeOnOneSlotCount(t *testing.T) {
	inWorld(t, 16, func(t *testing.T, w *world) {
		a, b := w.join(t, "a", nil), w.join(t, "b", numbered(8))
		after(time.Second)
		require.True(t, len(a.Owned()) == 16 && len(b.Owned()) == 0 || len(a.Owned()) == 0 && len(b.Owned()) == 8)
	})
}

// lagging is a store whose reads are stale at first: the record under the key is not there yet.
type lagging struct {
	shardLink
	until   time.Time
	creates *atomic.Int64
}

func (l lagging) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	if time.Now().Before(l.until) {
		return leaderelect.Entry{}, errors.Join(wait.Sleep(ctx, latency), leaderelect.ErrNotFound)
	}
	return l.shardLink.Get(ctx, key)
}

func (l lagging) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	l.creates.Add(1)
	return l.shardLink.Create(ctx, e)
}

func TestReplicaWithStaleReadsWaitsBetweenAttempts(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.join(t, "a", nil)
		after(time.Second)
		var creates atomic.Int64
		b := w.join(t, "b", func(cfg *shard.Config) {
			cfg.Lease.Store = lagging{cfg.Lease.Store.(shardLink), time.Now().Add(5 * retry), &creates}
		})
		after(5 * retry)
		assert.LessOrEqual(t, creates.Load(), int64(12), "two per RetryPeriod")
		after(2 * retry)
		_, ok := b.Owner("key")
		assert.True(t, ok, "it takes part")
	})
}

func TestReplicaEndsWhenSlotCountChanges(t *testing.T) {
	inWorld(t, 16, func(t *testing.T, w *world) {
		a := w.join(t, "a", nil)
		after(time.Second)
		w.store.Delete("shards") // without stopping a
		b := w.join(t, "b", numbered(8))
		after(lease + time.Second)
		<-a.done
		require.ErrorIs(t, a.err, leaderelect.ErrMismatch)
		require.Empty(t, a.Owned())
		require.NotEmpty(t, b.Owned())
	})
}

func TestDeletedOrDamagedCountRecordIsRepaired(t *testing.T) {
	inWorld(t, 16, func(t *testing.T, w *world) {
		a := w.join(t, "a", nil)
		after(time.Second)
		w.store.Delete("shards")
		after(lease)
		_, err := w.store.Get(t.Context(), "shards")
		require.NoError(t, err)
		w.store.Put(leaderelect.Entry{Key: "shards", Value: []byte("{")})
		b := w.join(t, "b", numbered(8))
		after(lease + 2*retry)
		<-b.done
		require.ErrorIs(t, b.err, leaderelect.ErrMismatch, "it leaves the repair to running replicas")
		require.Len(t, a.Owned(), 16)
		require.NoError(t, a.stop())

		w.store.Put(leaderelect.Entry{Key: "shards", Value: []byte("{")})
		b.start()
		after(lease + time.Second)
		require.Empty(t, b.Owned())
		require.Error(t, b.Check(), "it waits, and says so")
		after(lease + 2*retry)
		require.Len(t, b.Owned(), 8, "without a repair")
		require.NoError(t, b.Check())
	})
}

// What failed in one run says nothing about the next, and nothing fails between two runs.
func TestCheckConsidersOnlyPresentRun(t *testing.T) {
	inWorld(t, 16, func(t *testing.T, w *world) {
		w.store.Inject(memlease.Faults{Before: func(context.Context, memlease.Call) error { return errExpected }})
		a := w.join(t, "a", nil)
		after(2 * lease)
		require.ErrorIs(t, a.Check(), errExpected)
		require.NoError(t, a.stop())
		require.NoError(t, a.Check(), "it does not run")
		after(time.Hour)
		a.start()
		after(time.Second)
		require.NoError(t, a.Check(), "it has just begun")
		after(2 * lease)
		require.ErrorIs(t, a.Check(), errExpected)
		w.store.Inject(memlease.Faults{})
		after(2 * retry)
		require.NoError(t, a.Check())
		require.Len(t, a.Owned(), 16)
	})
}

func TestReadOnlyStoreIsOneErrorForAllSlots(t *testing.T) {
	inWorld(t, 16, func(t *testing.T, w *world) {
		a := w.join(t, "a", nil)
		after(time.Second)
		require.NoError(t, a.stop(), "now there is a record of the number")
		w.store.Inject(memlease.Faults{Before: func(_ context.Context, c memlease.Call) error {
			if c.Op == "update" && strings.Contains(c.Key, "/slot/") {
				return errExpected
			}
			return nil
		}})
		a.start()
		after(2*lease + 2*retry)
		err := a.Check()
		require.ErrorIs(t, err, errExpected)
		require.Equal(t, 1, strings.Count(err.Error(), errExpected.Error()), err.Error())
	})
}

// competitor returns an elector of a key.
func competitor(t *testing.T, s leaderelect.LeaseStore, key string) *leaderelect.Elector {
	t.Helper()
	e, err := leaderelect.New(leaderelect.Config{
		Store: s, Key: key, Identity: "elector", Logger: slog.New(slog.DiscardHandler), ReleaseOnCancel: true,
		OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error { <-ctx.Done(); return nil },
	})
	require.NoError(t, err)
	return e
}

func TestElectorAndSlotsCannotShareKey(t *testing.T) {
	for _, slots := range []int{1, 16} {
		inWorld(t, slots, func(t *testing.T, w *world) {
			a := w.join(t, "a", nil)
			after(time.Second)
			e := competitor(t, w.store, "shards")
			err := e.Run(t.Context())
			require.ErrorIs(t, err, leaderelect.ErrMismatch)
			require.ErrorContains(t, err, `leaderelect: run "shards": the record is that of`)
			require.ErrorIs(t, e.RunOnce(t.Context()), leaderelect.ErrMismatch)
			_, ok := e.Leader()
			assert.False(t, ok)
			_, err = leaderelect.Holder(t.Context(), w.store, "shards")
			require.ErrorIs(t, err, leaderelect.ErrNotFound)
			require.Len(t, a.Owned(), slots)

			require.NoError(t, a.stop())
			w.store.Delete("shards")
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- e.Run(ctx) }() // ends with ctx
			after(time.Second)
			require.True(t, e.IsLeader(), "the key is free again")
			require.ErrorIs(t, a.Run(t.Context()), leaderelect.ErrMismatch)
			cancel()
			require.NoError(t, <-ended)
			err = a.Run(t.Context())
			require.ErrorIs(t, err, leaderelect.ErrMismatch, "the lease was released, and may be taken by another elector")
			require.ErrorContains(t, err, "is the lease of an Elector")
		})
	}
}

func TestStoreThatCannotWorkEndsSlots(t *testing.T) {
	for what, c := range map[string]struct {
		broken func(call memlease.Call, at time.Duration) bool
		ends   bool
	}{
		"the table is missing":   {func(memlease.Call, time.Duration) bool { return true }, true},
		"the role may only read": {func(c memlease.Call, _ time.Duration) bool { return c.Op == "create" || c.Op == "update" }, true},
		"the number of slots is there": {func(c memlease.Call, _ time.Duration) bool {
			return c.Key != "shards" && c.Op != "list" && c.Op != "get"
		}, true},
		"one slot cannot be written":      {func(c memlease.Call, _ time.Duration) bool { return c.Key == "shards/slot/3" }, false},
		"the role has lost its privilege": {func(_ memlease.Call, at time.Duration) bool { return at > time.Minute }, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, begin := newWorld(t, 8), time.Now()
				w.store.Inject(memlease.Faults{Before: func(_ context.Context, call memlease.Call) error {
					if c.broken(call, time.Since(begin)) {
						return marks.Permanent(errExpected)
					}
					return nil
				}})
				a := w.join(t, "a", func(*shard.Config) {})
				after(5 * time.Minute)
				select {
				case <-a.done:
					require.True(t, c.ends, "%v", a.err)
					require.ErrorIs(t, a.err, errExpected)
					require.True(t, marks.IsPermanent(a.err))
					require.Equal(t, 1, strings.Count(a.err.Error(), errExpected.Error()), "%v", a.err)
				default:
					require.False(t, c.ends)
					require.NoError(t, a.stop())
				}
			})
		})
	}
}
