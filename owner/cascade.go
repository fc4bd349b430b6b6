package owner

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/store"
)

// Cascade carries out the [Policy] of owners of one kind that are being deleted: it deletes or releases their children, and
// then lets the owner go. Its method may be called for several keys at once, if the stores may.
type Cascade[T any] struct {
	owners     store.Store[T]
	dependents []Dependents
}

// NewCascade returns a Cascade of owners, whose children are of one or several kinds. A kind that is missing here is not
// looked at: its children are left to a [Collector], which deletes them, whatever the policy of their owner was.
// NewCascade panics if owners is nil.
func NewCascade[T any](owners store.Store[T], children ...Dependents) *Cascade[T] {
	if owners == nil {
		panic("owner: NewCascade called with a nil store")
	}
	return &Cascade[T]{owners: owners, dependents: children}
}

// Reconcile takes the deletion of the owner under key as far as it goes, and returns how many children it has to wait for.
// When there are none, the owner is let go, unless it has finalizers of others. There is nothing to do, and no error, for an
// owner that is gone, that is not being deleted, or whose policy is Background.
//
// With Foreground, the owner waits for the children that it controls and that have no other owner. A child that it controls
// and that has other owners is released. A child that it owns without control stays as it is: as in Kubernetes without
// blockOwnerDeletion, the owner does not wait for it. A [Collector] decides about both once the owner is gone. With
// Orphan, the owner is taken off all its children, whether it controls them or not.
//
// Reconcile does not block until a child that is being deleted is gone. Repeat the call when a child disappears, as a
// controller does that watches the children with [ControlledBy]. Errors of several children are joined, and one does not
// keep the others from being looked at. Every error is worth another attempt. The preconditions, store.IfTerm for one, are
// those of all the writes.
func (c *Cascade[T]) Reconcile(ctx context.Context, key string, pre ...store.Precondition) (left int, err error) {
	o, err := c.owners.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, c.fail(key, err)
	}
	how := policyOf(o.Finalizers)
	if o.Deleting.IsZero() || how == Background {
		return 0, nil
	}
	var errs []error
	for _, d := range c.dependents {
		n, err := d.part(ctx, o.Ref(c.owners.Kind()), how, pre)
		left += n
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return left, c.fail(key, err)
	}
	if left > 0 {
		return left, nil
	}
	only := append([]store.Precondition{store.IfUID(o.UID)}, pre...)
	_, err = store.Patch(ctx, c.owners, key, func(o *store.Object[T]) error {
		o.Finalizers = Background.among(o.Finalizers)
		return nil
	}, only...)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, c.fail(key, err)
	}
	return 0, nil
}

func (c *Cascade[T]) fail(key string, err error) error {
	return fmt.Errorf("owner: delete %s %q and its children: %w", c.owners.Kind(), key, err)
}

// Dependents are the objects of one kind among which a [Cascade] looks for children. [DependentsIn] makes them.
type Dependents struct {
	// part deletes or releases the children of an owner, and returns how many are not gone.
	part func(ctx context.Context, of store.OwnerRef, how Policy, pre []store.Precondition) (left int, err error)
}

// DependentsIn returns the objects of a store. They are read freshly, since a child that a cache does not show would be
// lost with its owner: all of them each time, unless among says which can be children of an owner, by their labels or by a
// prefix of their keys. Among may be nil. DependentsIn panics if the store is nil.
func DependentsIn[C any](children store.Store[C], among func(of store.OwnerRef) store.Selector) Dependents {
	if children == nil {
		panic("owner: DependentsIn called with a nil store")
	}
	return Dependents{func(
		ctx context.Context, of store.OwnerRef, how Policy, pre []store.Precondition,
	) (left int, err error) {
		var sel store.Selector
		if among != nil {
			sel = among(of)
		}
		list, err := children.Select(ctx, sel)
		if err != nil {
			return 0, err
		}
		var errs []error
		for _, child := range list.Items {
			controller, _ := ControllerOf(child)
			others := len(disown(child, func(ref store.OwnerRef) bool { return ref.UID == of.UID }))
			switch {
			case others == len(child.Owners): // not a child of this owner
				continue
			case how == Orphan:
				err = release(ctx, children, child, of.UID, pre)
			case controller.UID != of.UID: // left to a Collector
				continue
			case others > 0 && child.Deleting.IsZero():
				err = release(ctx, children, child, of.UID, pre)
			case child.Deleting.IsZero():
				only := []store.Precondition{store.IfUID(child.UID), store.IfVersion(child.Version)}
				if _, err = children.Delete(ctx, child.Key, append(only, pre...)...); err == nil && len(child.Finalizers) > 0 {
					left++
				}
			default:
				left++
				continue
			}
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				left++
				errs = append(errs, err)
			}
		}
		return left, errors.Join(errs...)
	}}
}
