package controller_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
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
)

// someSlots are the slots of a replica that owns some of them. The slot of a text is that of its first letter.
type someSlots struct {
	mu    sync.Mutex
	owned map[int]bool
}

func (s *someSlots) Slot(text string) int { return int(text[0] - 'a') }

func (s *someSlots) Begin(ctx context.Context, text string) (context.Context, func(), bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ctx, func() {}, s.owned[s.Slot(text)]
}

func (s *someSlots) own(slot int, owns bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owned[slot] = owns
}

// shardKeyOf returns the owner of a child, as in "a/1", or the key itself.
func shardKeyOf(o object) string {
	of, _, _ := strings.Cut(o.Key, "/")
	return of
}

// divided is a controller whose two informers, of parents and of children, hold the objects of the slots of this replica.
type divided struct {
	t                 *testing.T
	slots             *someSlots
	parents, children *informer.Informer[string, object]
	of, childrenOf    *source
	c                 *controller.Controller[string]
	reports           *looptest.Log[controller.Report[string]]
	log               bytes.Buffer
}

func newDivided(t *testing.T, childKey func(object) string) *divided {
	d := &divided{
		t: t, slots: &someSlots{owned: map[int]bool{}}, of: newSource(object{Key: "a"}, object{Key: "b"}),
		childrenOf: newSource(object{Key: "a/1"}, object{Key: "b/1"}, object{Key: "b/2"}),
	}
	d.parents = must(informer.New(informer.Divide(d.of, shardKeyOf), keyOf, informer.Config{Name: "parents", Logger: quiet}))
	d.children = must(informer.New(informer.Divide(d.childrenOf, childKey), keyOf, informer.Config{Name: "children", Logger: quiet}))
	cfg := controller.Config[string]{Logger: slog.New(slog.NewTextHandler(&d.log, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	d.c, d.reports = newController(t, cfg, noop, controller.For(d.parents), controller.Watches(d.children, func(_ context.Context, o object) ([]string, error) {
		return []string{shardKeyOf(o)}, nil
	}))
	d.c.Share(d.slots)
	looptest.Start(t, d.parents.Run)
	looptest.Start(t, d.children.Run)
	looptest.Start(t, d.c.Run)
	time.Sleep(time.Second)
	return d
}

// acquire does what a manager does for a slot.
func (d *divided) acquire(slot int) {
	require.NoError(d.t, d.c.Prepare(d.t.Context(), slot))
	d.slots.own(slot, true)
	d.c.Acquired(slot)
	time.Sleep(time.Second)
	synctest.Wait()
}

func (d *divided) release(slot int) {
	d.slots.own(slot, false)
	d.c.Revoked(slot)
	time.Sleep(time.Second)
	synctest.Wait()
}

func (d *divided) reconciled() []string {
	keys := keysOf(d.reports.Take())
	slices.Sort(keys)
	return slices.Compact(keys)
}

func TestCachesHoldOnlySlotsOfThisReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, shardKeyOf)
		cached := func() []string {
			return slices.Concat(slices.Sorted(d.parents.Keys()), slices.Sorted(d.children.Keys()))
		}
		assert.True(t, d.parents.HasSynced(), "with no slot")
		assert.Empty(t, cached())
		assert.Empty(t, d.reconciled())

		d.acquire(1)
		assert.Equal(t, []string{"b", "b/1", "b/2"}, cached())
		assert.Equal(t, []string{"b"}, d.reconciled())
		d.of.set(object{Key: "a", Value: 2})
		d.childrenOf.set(object{Key: "a/2"})
		time.Sleep(time.Second)
		assert.Empty(t, d.reconciled())
		d.childrenOf.set(object{Key: "b/2", Value: 2})
		time.Sleep(time.Second)
		assert.Equal(t, []string{"b"}, d.reconciled())

		d.acquire(0)
		assert.Equal(t, []string{"a", "b", "a/1", "a/2", "b/1", "b/2"}, cached())
		assert.Equal(t, []string{"a"}, d.reconciled())

		d.of.delete("b")
		time.Sleep(time.Second)
		assert.Equal(t, []string{"b"}, d.reconciled())
		d.release(1)
		assert.Equal(t, []string{"a", "a/1", "a/2"}, cached())
		assert.Empty(t, d.reconciled(), "an object that leaves with its slot is not deleted")
		d.childrenOf.delete("b/1")
		d.childrenOf.delete("b/2")
		time.Sleep(time.Second)
		assert.Empty(t, d.reconciled())
		assert.Empty(t, d.log.String())
	})
}

// The deletion has the state in which the object belongs to a key of another replica. The key that it has left needs a reconcile.
func TestKeyIsReconciledWhenObjectMovesToSlotOfAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, shardKeyOf)
		keyOfValue := func(o object) string { return string(rune('a' + o.Value)) }
		src := newSource(object{Key: "moving", Value: 1})
		moving := must(informer.New(informer.Divide(src, keyOfValue), keyOf, informer.Config{Name: "moving", Logger: quiet}))
		d.c, d.reports = newController(t, controller.Config[string]{}, noop, controller.Watches(moving, func(_ context.Context, o object) ([]string, error) {
			return []string{keyOfValue(o)}, nil
		}))
		d.c.Share(d.slots)
		looptest.Start(t, moving.Run)
		looptest.Start(t, d.c.Run)
		d.acquire(1)
		assert.Equal(t, []string{"b"}, d.reconciled())
		src.set(object{Key: "moving", Value: 0})
		time.Sleep(time.Second)
		assert.Equal(t, []string{"b"}, d.reconciled())
	})
}

// The parent was deleted while no replica owned the slot. Its children bring its key back.
func TestAcquiredSlotHasKeysThatOnlyChildrenHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, shardKeyOf)
		d.of.delete("b")
		d.acquire(1)
		assert.Equal(t, []string{"b"}, d.reconciled())
	})
}

// Work must not begin while one of the caches has no objects of the slot.
func TestPrepareWaitsForEachCache(t *testing.T) {
	for _, of := range []string{"parents", "children"} {
		bubble(t, of, func(t *testing.T) {
			d := newDivided(t, shardKeyOf)
			src := map[string]*source{"parents": d.of, "children": d.childrenOf}[of]
			synctest.Wait()
			src.hold = make(chan struct{}) // lists block
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("too long"))
			defer cancel()
			err := d.c.Prepare(ctx, 1)
			require.ErrorContains(t, err, `controller: prepare slot 1 for "test": informer: hold slot 1 of `+of)
			require.ErrorContains(t, err, "too long")
			close(src.hold)
			d.c.Revoked(1)
			time.Sleep(time.Minute)
			assert.Empty(t, slices.Collect(d.parents.Keys()))
			assert.Empty(t, slices.Collect(d.children.Keys()))
			d.acquire(1)
			assert.Equal(t, []string{"b"}, d.reconciled())
		})
	}
}

// The replica that owns the slot of such a key does not see the child.
func TestChildInAnotherSlotThanItsOwnerIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, func(o object) string { return "c" })
		d.acquire(1)
		assert.Empty(t, d.log.String())
		d.acquire(2)
		assert.Equal(t, 1, strings.Count(d.log.String(), "mapped to a key of another slot"), "once: %s", d.log.String())
		assert.Contains(t, d.log.String(), "watch=children")
		assert.Contains(t, d.log.String(), "slot=2 key=")
	})
}
