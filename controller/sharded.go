package controller

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// Sharded is a [Controller] that shares its keys with the controllers of its name in other replicas: it reconciles a key
// only while this replica owns the slot of the key, and the slot is not handed over before the reconcile has returned. It
// is for [ManagerConfig.Slots], and for whoever runs slots and calls Acquired himself.
//
// Its sources and watches are those of all keys: each replica has warm caches, and skips what is not its own ([ErrSkip]).
// When it acquires a slot, every key of the slot is reconciled, as all keys are when a process starts. So nothing is lost
// that happens while a slot has no owner, except deletions, which are not reported to the next owner: work that they ask
// for needs a mark on the object, such as a finalizer, or a comparison with what is there.
//
// The context of a reconcile has the [leaderelect.Leadership] of the slot. Each write to a store.Store under it carries the
// term of the slot, and terms of other slots do not matter. The context also ends when the slot is lost, and then an error
// of the reconcile skips the key: it is another replica's to try again.
//
// All methods are safe for concurrent use.
type Sharded[K comparable] struct {
	*Controller[K]

	reconciler Reconciler[K]
	slots      *leaderelect.Slots
	cfg        ShardedConfig[K]
}

// ShardedConfig is the configuration of a [Sharded]. Keys is required.
type ShardedConfig[K comparable] struct {
	// Controller is the configuration of the controller itself.
	Controller Config[K]

	// Keys yields the keys of a slot that exist now: those of the objects in the cache that is watched, by an index of
	// their slots, or, if they are few, all of them: keys of other slots are left out. It is called when the slot was
	// acquired, and may be called for several slots at once. Required.
	Keys func(slot int) iter.Seq[K]

	// SlotKey returns the text that says which slot a key has. It must be the same in all replicas. Keys that have the
	// same text are in the same slot: those of one tenant, say. Defaults to what fmt.Sprint makes of the key.
	SlotKey func(K) string
}

// NewSharded returns a controller that calls r for the keys of the slots that this replica owns. It returns an error if
// slots is nil, or as New does.
func NewSharded[K comparable](
	name string, r Reconciler[K], slots *leaderelect.Slots, cfg ShardedConfig[K],
) (*Sharded[K], error) {
	switch {
	case isNil(r):
		return nil, fmt.Errorf("controller: new sharded %q: the reconciler is nil", name)
	case slots == nil:
		return nil, fmt.Errorf("controller: new sharded %q: the slots are nil", name)
	case cfg.Keys == nil:
		return nil, fmt.Errorf("controller: new sharded %q: ShardedConfig.Keys is required", name)
	}
	if cfg.SlotKey == nil {
		cfg.SlotKey = func(key K) string { return fmt.Sprint(key) }
	}
	s := &Sharded[K]{reconciler: r, slots: slots, cfg: cfg}
	var err error
	if s.Controller, err = New(name, Func[K](s.reconcile), cfg.Controller); err != nil {
		return nil, err
	}
	return s, nil
}

// Acquired adds the keys of a slot, which this replica owns now.
func (s *Sharded[K]) Acquired(slot int) {
	for key := range s.cfg.Keys(slot) {
		if s.slots.Slot(s.cfg.SlotKey(key)) == slot {
			s.Add(key)
		}
	}
}

// reconcile calls the reconciler if this replica owns the slot of key.
func (s *Sharded[K]) reconcile(ctx context.Context, key K) (Result, error) {
	work, done, ok := s.slots.Begin(ctx, s.cfg.SlotKey(key))
	if !ok {
		return Result{}, ErrSkip
	}
	defer done()
	result, err := s.reconciler.Reconcile(work, key)
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrTerminal) {
		return result, err
	}
	lost := context.Cause(work)
	if lost == nil {
		lost = leadershipErr(work) // whose timer may not have fired yet
	}
	if lost != nil {
		err = fmt.Errorf("%w: the slot was lost: %w: %w", ErrSkip, lost, err)
	}
	return result, err
}
