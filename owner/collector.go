package owner

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/store"
)

// Collector deletes children whose owners are all gone: background collection of one kind of children. Its method may be
// called concurrently if the store and the function that it was made of may.
type Collector[C any] struct {
	children store.Store[C]
	alive    func(ctx context.Context, ref store.OwnerRef) (bool, error)
}

// NewCollector returns a collector of children. The function alive says whether the object that ref refers to exists: not
// another one under its key, and by a fresh read, not from a cache that may not have seen the owner yet. [AliveIn] makes
// one for owners of one kind; if there are several kinds, choose by ref.Kind. When it returns an error, nothing is deleted.
// NewCollector panics if children or alive is nil.
func NewCollector[C any](
	children store.Store[C], alive func(ctx context.Context, ref store.OwnerRef) (bool, error),
) *Collector[C] {
	if children == nil {
		panic("owner: NewCollector called with a nil store")
	}
	if alive == nil {
		panic("owner: NewCollector called with a nil alive")
	}
	return &Collector[C]{children: children, alive: alive}
}

// Collect deletes the child under key if all its owners are gone, whether they control it or not. If some are gone and
// others live, Collect removes the references to those that are gone, so that another owner may control the child. It
// reports whether it asked the store to delete the child: one with finalizers is still there then, and is being deleted.
//
// There is nothing to do, and no error, if there is no such child, if it has no owners, or if it is already being deleted.
// Every error is worth another attempt; one that wraps store.ErrConflict says that somebody changed the child in the
// meantime. The preconditions, store.IfTerm for one, are those of the write.
func (c *Collector[C]) Collect(ctx context.Context, key string, pre ...store.Precondition) (deleted bool, err error) {
	child, err := c.children.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, c.fail(key, err)
	}
	if len(child.Owners) == 0 || !child.Deleting.IsZero() {
		return false, nil
	}
	gone := map[string]bool{} // by UID
	for _, ref := range child.Owners {
		alive, err := c.alive(ctx, ref)
		if err != nil {
			return false, c.fail(key, fmt.Errorf("ask for its owner %s: %w", name(ref), err))
		}
		if !alive {
			gone[ref.UID] = true
		}
	}
	left := disown(child, func(ref store.OwnerRef) bool { return gone[ref.UID] })
	switch {
	case len(left) == len(child.Owners):
		return false, nil
	case len(left) > 0:
		child.Owners = left
		_, err = c.children.Update(ctx, child, pre...)
	default:
		all := append([]store.Precondition{store.IfUID(child.UID), store.IfVersion(child.Version)}, pre...)
		_, err = c.children.Delete(ctx, key, all...)
	}
	if errors.Is(err, store.ErrNotFound) {
		return false, nil // somebody else deleted it
	}
	if err != nil {
		return false, c.fail(key, err)
	}
	return len(left) == 0, nil
}

func (c *Collector[C]) fail(key string, err error) error {
	return fmt.Errorf("owner: collect %s %q: %w", c.children.Kind(), key, err)
}

// Owners is where owners of one kind are read. Every store.Store is one.
type Owners[T any] interface {
	Kind() string
	Get(ctx context.Context, key string) (store.Object[T], error)
}

// AliveIn returns a function that says whether an owner is one of owners, for a [Collector]. It reads the owner each time.
// An owner that is being deleted is alive until it is gone. To be asked about an owner of another kind is an error: else a
// child of another kind of owner would seem an orphan.
func AliveIn[T any](owners Owners[T]) func(ctx context.Context, ref store.OwnerRef) (bool, error) {
	if owners == nil {
		panic("owner: AliveIn called with a nil store")
	}
	return func(ctx context.Context, ref store.OwnerRef) (bool, error) {
		if kind := owners.Kind(); ref.Kind != kind {
			return false, fmt.Errorf("owner: look for %s: the owners looked at are of kind %s", name(ref), kind)
		}
		o, err := owners.Get(ctx, ref.Key)
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return o.UID == ref.UID, nil
	}
}
