package controller

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/wait"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Slots determines which keys belong to this replica, and for how long. A *shard.Slots implements it. If it has the method HashRange of
// shard.Slots too, informers of an informer.RangeLister list only the slots that they hold.
type Slots interface {
	// Slot returns the slot of a text.
	Slot(key string) int

	// Begin begins work on a text. It returns false if this replica does not own the slot. The context ends with ctx, or when
	// the slot is lost. No other replica owns the slot before done is called.
	Begin(ctx context.Context, key string) (work context.Context, done func(), ok bool)
}

// Share makes c share its keys with the controllers of its name in other replicas. c reconciles a key only while this replica owns
// the slot of [Config].ShardKey. The slot is handed over only after the reconcile and Config.GaveUp have returned. A key of another
// replica leaves the queue without a reconcile: no hook is called, and Stats counts none. Call Share before c runs, and call
// [Controller.Acquired] for each slot that this replica acquires. A manager with Config.Shards does both.
//
// The methods of c are those that shard.Config asks for: Prepare, OnAcquired, and OnRevoked. Without [Controller.Prepare], the first
// reconciles may see states from before the last writes of the former owner. A manager with Config.Shards calls all three.
//
// An informer whose source was made by [informer.Divide] holds only the objects of the slots that this replica owns. The cache of any other
// informer has all objects, so it is warm when a slot is acquired, and c skips keys of other slots. No change is lost while a slot has no
// owner, except deletions, which the next owner does not see. If a deletion requires work, use a mark on the object, such as a finalizer, or
// compare with the actual state.
//
// The context of a reconcile has the leaderelect.Leadership of the slot. Each write to a store.Store under it carries the term of
// the slot, independently of other slots. The context also ends when the slot is lost. An error of the reconcile then has the
// outcome Canceled, and the next owner retries the key. The same holds for GaveUp.
//
// Share panics if slots is nil, or if one of the divided informers of c runs already.
func (c *Controller[K]) Share(slots Slots) {
	mustHave("Share", "Slots", isNil(slots))
	var ranges func(slot int) (from, to uint64)
	if s, ok := slots.(ranger); ok {
		ranges = s.HashRange
	}
	for _, in := range c.inputs.informers {
		if in, ok := in.(divided); ok {
			in.Share(slots.Slot, ranges)
		}
	}
	c.slots.Store(&slots)
}

// ranger is Slots that can say which hashes a slot has, so that sources can select by them: see informer.RangeLister.
type ranger interface {
	HashRange(slot int) (from, to uint64)
}

// divided is an informer that can hold the objects of some slots only, as *informer.Informer does.
type divided interface {
	Share(slotOf func(shardKey string) int, ranges func(slot int) (from, to uint64))
	Hold(ctx context.Context, slot int) error
	Drop(slot int)
}

// Prepare makes c ready for a slot, whose leadership ctx has. It returns nil when nothing can be written anymore under earlier terms of the
// slot, and when each informer of c ([Controller.Informers]) has all objects of the slot, with all that was written before: see
// [informer.Informer.Hold] and [Controller.CatchUp]. Errors of the sources are logged, and Prepare tries again until ctx ends. Then the error
// wraps the cause of ctx. Call it before work in the slot begins, and [Controller.Revoked] even if it fails.
func (c *Controller[K]) Prepare(ctx context.Context, slot int) error {
	if err := c.takeover(ctx, func(ctx context.Context, in Informer) error {
		if in, ok := in.(divided); ok {
			return in.Hold(ctx, slot)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("controller: prepare slot %d for %q: %w", slot, c.name, err)
	}
	return nil
}

// Revoked tells c that this replica does not own a slot anymore, and that no work in it is in flight: the informers that are divided drop its
// objects. Call it before the slot is released, and after a Prepare that has failed.
func (c *Controller[K]) Revoked(slot int) {
	for _, in := range c.inputs.informers {
		if in, ok := in.(divided); ok {
			in.Drop(slot)
		}
	}
}

// Acquired tells c that this replica now owns a slot: c adds all keys of the slot that [For], [Owns], or [Watches] map present objects to,
// with the priority Config.Background. If your code adds keys in another way, it must add those of the slot too. Between Runs, Acquired
// does nothing: all keys are added when a Run begins.
func (c *Controller[K]) Acquired(slot int) {
	slots := c.slots.Load()
	if slots == nil {
		return
	}
	opts := AddOptions{Priority: c.cfg.Background}
	if c.cfg.Reasons {
		opts.Reason = fmt.Sprintf("slot %d acquired", slot)
	}
	c.inputs.present(slot, func(key K) {
		if of, ok := c.slotOf(*slots, key); of == slot || !ok { // if not, its reconcile reports the panic
			c.add(key, opts, false)
		}
	})
}

// misplaced logs that an object is mapped to a key of another slot, once for each watch.
func (c *Controller[K]) misplaced(watch string, object any, in int, key K, wants int) {
	if _, logged := c.misplacedBy.LoadOrStore(watch, true); logged {
		return
	}
	c.cfg.Logger.LogAttrs(context.Background(), slog.LevelError, "an object of a divided informer is mapped to a key of another slot, whose owner "+
		"does not see the object: do not divide this informer, or divide it by the key", slog.String("controller", c.name),
		slog.String("watch", watch), slog.Any("object", object), slog.Int("slot", in), slog.Any("key", key), slog.Int("slot_of_key", wants))
}

// slotOf returns the slot of key, or false after a panic of Config.ShardKey or of slots.
func (c *Controller[K]) slotOf(slots Slots, key K) (slot int, ok bool) {
	defer func() {
		if recover() != nil {
			slot, ok = 0, false
		}
	}()
	return slots.Slot(c.cfg.ShardKey(key)), true
}

// enterSlot begins the work of a in the slot of its key. It returns false if another replica owns the slot, and an error after a panic of
// Config.ShardKey or of slots.
func (c *Controller[K]) enterSlot(a *attempt[K], slots Slots) (owned bool, err error) {
	err = wait.Call(a.Context, func(ctx context.Context) error {
		work, done, ok := slots.Begin(ctx, c.cfg.ShardKey(a.key))
		if owned = ok; owned {
			a.shared, a.Context, a.work, a.done = ctx, work, work, done
		}
		return nil
	})
	return owned, err
}

// notOwned leaves the key of item to the replica that owns it, and returns the result for WaitReconciled.
func (c *Controller[K]) notOwned(ctx context.Context, item workqueue.Item[K]) waitResult {
	c.forget(item.Key, item.Attempt)
	c.own.end(item.Key, false)
	c.pending.causes.take(item.Key)
	c.ended.Store(int64(time.Since(c.started)))
	c.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "left to another replica", slog.String("controller", c.name), slog.Any("key", item.Key))
	return c.answer(item.Key, Canceled, errNotOwned)
}

// forget forgets the failures of a key that has succeeded, or that another replica may work on.
func (c *Controller[K]) forget(key K, attempt int) {
	c.unfinished.end(key)
	if attempt > 1 {
		c.queue.Forget(key)
	}
}
