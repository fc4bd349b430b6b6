package controller

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/controller/internal/waiters"
	"github.com/setpoint-go/setpoint/wait"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Slots determines which keys belong to this replica, and for how long. A *shard.Slots implements it.
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
// Each replica watches all keys, so its caches are warm, and skips keys of other slots. So no change is lost while a slot has no owner,
// except deletions, which the next owner does not see. If a deletion requires work, use a mark on the object, such as a finalizer, or
// compare with the actual state.
//
// The context of a reconcile has the leaderelect.Leadership of the slot. Each write to a store.Store under it carries the term of
// the slot, independently of other slots. The context also ends when the slot is lost. An error of the reconcile then has the
// outcome Canceled, and the next owner retries the key. The same holds for GaveUp.
//
// Share panics if slots is nil.
func (c *Controller[K]) Share(slots Slots) {
	mustHave("Share", "Slots", isNil(slots))
	c.slots.Store(&slots)
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
	c.inputs.Present(func(key K) {
		if of, ok := c.slotOf(*slots, key); of == slot || !ok { // if not, its reconcile reports the panic
			c.add(key, opts, false)
		}
	})
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

// begin begins the work of t in the slot of its key. It returns false if another replica owns the slot, and an error after a panic of
// Config.ShardKey or of slots.
func (c *Controller[K]) begin(t *try[K], slots Slots) (owned bool, err error) {
	err = wait.Call(t.Context, func(ctx context.Context) error {
		work, done, ok := slots.Begin(ctx, c.cfg.ShardKey(t.Key))
		if owned = ok; owned {
			t.shared, t.Context, t.Work, t.done = ctx, work, work, done
		}
		return nil
	})
	return owned, err
}

// notOwned leaves the key of item to the replica that owns it, and returns the verdict for WaitReconciled.
func (c *Controller[K]) notOwned(ctx context.Context, item workqueue.Item[K]) waiters.Verdict {
	c.forget(item.Key, item.Attempt)
	c.agenda.Causes.Take(item.Key)
	c.ended.Store(int64(time.Since(c.started)))
	c.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "left to another replica", slog.String("controller", c.name), slog.Any("key", item.Key))
	return c.answer(item.Key, Canceled, errNotOwned)
}

// forget forgets the failures of a key that has succeeded, or that another replica may work on.
func (c *Controller[K]) forget(key K, attempt int) {
	c.streaks.End(key)
	if attempt > 1 {
		c.queue.Forget(key)
	}
}
