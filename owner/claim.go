package owner

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/store"
)

// Children is what [Children.Claim] has to know of objects of type T: four small functions, all of them needed.
// [ChildrenIn] makes them for the objects of a store. Its methods may be called by several goroutines at once, if the
// functions may.
type Children[T any] struct {
	// Controller returns the UID of the controlling owner of a child, and false if it has none.
	Controller func(child T) (uid string, ok bool)

	// Deleting says whether a child is being deleted.
	Deleting func(child T) bool

	// Adopt makes the claimant the controlling owner of a child, and returns the child as written. It has to fail if the
	// child has changed since it was read, so that two claimants cannot both succeed.
	Adopt func(ctx context.Context, child T) (T, error)

	// Release takes the claimant off the owners of a child. It has to fail if the child has changed since it was read. A
	// child that is gone, or was created anew under the same key, is released already: that is no error.
	Release func(ctx context.Context, child T) error
}

// Claimant is an owner that claims children.
type Claimant struct {
	// UID is the one of the owner.
	UID string

	// Deleting says that the owner is being deleted: then it neither adopts nor releases.
	Deleting bool

	// Alive says by a fresh read, not from a cache, whether the owner exists, with this UID, and is not being deleted.
	// It is called at most once for each call of Claim, and only if there is a child to adopt.
	Alive func(ctx context.Context) (bool, error)
}

// Claim returns the children that belong to the claimant, in the order of candidates: those that it controls and that
// match, and the orphans that match, which it adopts. It releases what it controls and what does not match any more. It
// touches neither the children of another owner nor orphans that are being deleted.
//
// What fails for one child does not keep the others from being looked at: the errors are joined, and the children that
// are returned are those that certainly belong to the claimant. A child that is gone (an error that wraps
// store.ErrNotFound) is no error. When the owner could not be asked for, nothing is adopted, and that is one error; when it
// is not alive, nothing is adopted, and that is none.
func (c Children[T]) Claim(ctx context.Context, by Claimant, candidates []T, match func(T) bool) (mine []T, err error) {
	var (
		errs         []error
		asked, alive bool
	)
	mayAdopt := func() bool {
		if !asked {
			asked = true
			var err error
			if alive, err = by.Alive(ctx); err != nil {
				alive = false
				errs = append(errs, fmt.Errorf("owner: claim children: ask for their owner: %w", err))
			}
		}
		return alive
	}
	for _, child := range candidates {
		uid, owned := c.Controller(child)
		switch {
		case owned && uid != by.UID:
		case owned && match(child):
			mine = append(mine, child)
		case by.Deleting:
		case owned:
			if err := c.Release(ctx, child); err != nil && !errors.Is(err, store.ErrNotFound) {
				errs = append(errs, fmt.Errorf("owner: release child: %w", err))
			}
		case !c.Deleting(child) && match(child) && mayAdopt():
			adopted, err := c.Adopt(ctx, child)
			if err == nil {
				mine = append(mine, adopted)
			} else if !errors.Is(err, store.ErrNotFound) {
				errs = append(errs, fmt.Errorf("owner: adopt child: %w", err))
			}
		}
	}
	return mine, errors.Join(errs...)
}

// ChildrenIn returns the functions for the children in a store, which the owner that ref refers to adopts and releases.
// Every write is meant for the very state of the child that Claim was given: if anybody has changed the child since, the
// write is a conflict. The preconditions, store.IfTerm for one, are those of the writes. ChildrenIn panics if the store is
// nil.
func ChildrenIn[C any](children store.Store[C], ref store.OwnerRef, pre ...store.Precondition) Children[store.Object[C]] {
	if children == nil {
		panic("owner: ChildrenIn called with a nil store")
	}
	return Children[store.Object[C]]{
		Controller: func(child store.Object[C]) (string, bool) {
			has, ok := ControllerOf(child)
			return has.UID, ok
		},
		Deleting: func(child store.Object[C]) bool { return !child.Deleting.IsZero() },
		Adopt: func(ctx context.Context, child store.Object[C]) (store.Object[C], error) {
			if err := SetController(&child, ref); err != nil {
				return child, err
			}
			return children.Update(ctx, child, pre...)
		},
		Release: func(ctx context.Context, child store.Object[C]) error {
			err := release(ctx, children, child, ref.UID, pre)
			if errors.Is(err, store.ErrConflict) {
				now, getErr := children.Get(ctx, child.Key)
				if errors.Is(getErr, store.ErrNotFound) || getErr == nil && now.UID != child.UID {
					return nil
				}
			}
			return err
		},
	}
}

// release takes the owner with the given UID off the owners of child.
func release[C any](
	ctx context.Context, children store.Store[C], child store.Object[C], uid string, pre []store.Precondition,
) error {
	child.Owners = disown(child, func(ref store.OwnerRef) bool { return ref.UID == uid })
	_, err := children.Update(ctx, child, pre...)
	return err
}

// ClaimantOf returns the claimant for an owner, which may come from a cache. Alive reads it again from owners.
// ClaimantOf panics if owners is nil.
func ClaimantOf[T any](owners Owners[T], o store.Object[T]) Claimant {
	if owners == nil {
		panic("owner: ClaimantOf called with a nil store")
	}
	return Claimant{
		UID:      o.UID,
		Deleting: !o.Deleting.IsZero(),
		Alive: func(ctx context.Context) (bool, error) {
			now, err := owners.Get(ctx, o.Key)
			if errors.Is(err, store.ErrNotFound) {
				return false, nil
			}
			return err == nil && now.UID == o.UID && now.Deleting.IsZero(), err
		},
	}
}
