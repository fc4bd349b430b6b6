package controller

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/controller/internal/term"
	"github.com/setpoint-go/setpoint/retry"
)

// Slots says which keys belong to this replica, and for how long. A *shard.Slots is one.
type Slots interface {
	// Slot returns the slot of a text.
	Slot(key string) int

	// Begin begins work on a text. It returns false if this replica does not own the slot. The context ends with ctx, or when
	// the slot is lost. Nobody else owns the slot before done was called.
	Begin(ctx context.Context, key string) (work context.Context, done func(), ok bool)
}

// Share makes c share its keys with the controllers of its name in other replicas: it reconciles a key only while this replica
// owns the slot of [Config].ShardKey, and the slot is not handed over before the reconcile has returned. Call it before c runs,
// and call [Controller.Acquired] for each slot that this replica acquires. A manager with Config.Shards does both.
//
// Each replica watches all keys, so its caches are warm, and leaves out what is not its own. So nothing is lost that happens
// while a slot has no owner, except deletions: nobody reports them to the next owner. Work that a deletion asks for needs a mark
// on the object, such as a finalizer, or a comparison with what is there.
//
// The context of a reconcile has the leaderelect.Leadership of the slot. Each write to a store.Store under it carries the term of
// the slot, and terms of other slots do not matter. The context also ends when the slot is lost. An error of the reconcile then
// cancels it: another replica tries the key again.
//
// Share panics if slots is nil.
func (c *Controller[K]) Share(slots Slots) {
	mustHave("Share", "Slots", isNil(slots))
	c.slots.Store(&slots)
}

// Acquired tells c that this replica owns a slot now: c adds every key of the slot that [For], [Owns], or [Watches] makes of the
// objects that are there, with the priority Config.Background. A caller that adds keys in another way adds those of the slot too. While
// c does not run, Acquired does nothing: all keys are added when a Run begins.
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
		if (*slots).Slot(c.cfg.ShardKey(key)) == slot {
			c.add(key, opts, false)
		}
	})
}

// callOwned calls the reconcile function, if this replica owns the slot of key.
func (c *Controller[K]) callOwned(ctx context.Context, key K) (Result, error) {
	slots := c.slots.Load()
	if slots == nil {
		return c.reconciler(ctx, key)
	}
	work, done, ok := (*slots).Begin(ctx, c.cfg.ShardKey(key))
	if !ok {
		return Result{}, errNotOwned
	}
	defer done()
	result, err := c.reconciler(work, key)
	if err == nil || ctx.Err() != nil || retry.IsPermanent(err) {
		return result, err
	}
	lost := context.Cause(work)
	if lost == nil {
		lost = term.Err(work) // whose timer may not have fired yet
	}
	if lost != nil {
		err = fmt.Errorf("%w: the slot was lost: %w: %w", errNotOwned, lost, err)
	}
	return result, err
}
