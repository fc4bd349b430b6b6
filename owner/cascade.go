package owner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/setpoint-go/setpoint/store"
)

// Policy says what becomes of the children of an owner that is deleted. It is the name of the finalizer that stands for it at the
// owner. If an owner has it from its creation, each deletion that chooses no other policy follows it.
//
//	policy         the owner                      its children                       carried out by
//	[Background]   goes at once                   go after it                        [Children.Collect] for each kind of children
//	[Foreground]   stays until they are gone      go first                           [Cascade], when the owner is reconciled
//	[Orphan]       stays until all are released   stay, and have this owner no more  [Cascade], when the owner is reconciled
//
// A child with several owners goes with the last of them. With Foreground, such a child is released instead of deleted. Unlike in
// Kubernetes, there is no blockOwnerDeletion: with Foreground, an owner waits exactly for the children that it controls.
//
// A child may have children of its own: the policy among its own finalizers decides about them. To delete a tree from its leaves,
// create each object with Foreground.
//
// With Background, a child is deleted when its key is collected, some time after its owner. The same happens to a child that is
// created after its owner is gone. So after a lost event or a crash, one pass over all children finds every orphan.
//
// To delete objects of several kinds together, make them children of a root: an object that is empty and exists for nothing else.
// Create it first. Then everything that was created before a crash is its child already. Delete it with Foreground. Then it goes
// last, and its key is not used again while something is left. See the example.
type Policy string

const (
	// Background lets the owner go at once. Its children follow one by one, by [Children.Collect].
	Background Policy = ""

	// Foreground first deletes the children that the owner controls. The owner is there, being deleted, until the last of
	// them is gone. A child that has another owner stays.
	Foreground Policy = "setpoint/foreground"

	// Orphan keeps the children. The owner goes once none of them refers to it any more.
	Orphan Policy = "setpoint/orphan"
)

// Delete deletes the owner under key and says what becomes of its children: [Cascade] carries that out for Foreground and Orphan,
// [Children.Collect] for Background. The choice holds whatever policy the owner had before. It comes too late for an owner that is
// already being deleted: then nothing happens.
//
// These are two writes: the choice is stored, and then the deletion. If the process stops in between, the owner lives on, and the
// next deletion finds the choice. An error of the store is returned wrapped, such as store.ErrNotFound if there is no such owner.
func Delete[T any](ctx context.Context, owners store.Store[T], key string, how Policy) error {
	if how != Background && !how.known() {
		panic(fmt.Sprintf("owner: there is no policy %q", how))
	}
	o, err := store.Patch(ctx, owners, key, func(o *store.Object[T]) error {
		if o.Deleting.IsZero() {
			o.Finalizers = how.among(o.Finalizers)
		}
		return nil
	})
	if err == nil && o.Deleting.IsZero() {
		_, err = owners.Delete(ctx, key, store.IfUID(o.UID))
	}
	if err != nil {
		return fmt.Errorf("owner: delete %s %q: %w", owners.Kind(), key, err)
	}
	return nil
}

// Cascade takes the deletion of the owner under key as far as it goes, by its [Policy], and returns how many children it has to
// wait for. When there are none, it lets the owner go, unless the owner has finalizers of others. There is nothing to do, and no
// error, for an owner that is gone, that is not being deleted, or whose policy is Background.
//
// With Foreground, the owner waits for the children that it controls and that have no other owner. A child that it controls
// and that has other owners is released, unless it is already being deleted: then the owner waits for it too. A child that it owns without control stays as it is: as in Kubernetes without
// blockOwnerDeletion, the owner does not wait for it. [Children.Collect] decides about both once the owner is gone. With Orphan,
// the owner is taken off all its children, whether it controls them or not.
//
// Cascade does not wait until a child that is being deleted is gone. Repeat the call when a child disappears, as a controller
// does that has the children as an input of controller.Owns. Errors of several children are joined, and one does not keep the
// others from being looked at. Every error is worth another attempt.
//
// The children are read from their stores, since a child that a cache does not show would be lost with its owner; see
// [Children.Among]. A kind of children that is missing in the call is not looked at: Collect deletes them, whatever the policy was.
func Cascade[T any](ctx context.Context, owners store.Store[T], key string, children ...Dependents) (left int, err error) {
	failed := func(err error) error {
		return fmt.Errorf("owner: delete %s %q and its children: %w", owners.Kind(), key, err)
	}
	o, err := owners.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, failed(err)
	}
	how := policyOf(o.Finalizers)
	if o.Deleting.IsZero() || how == Background {
		return 0, nil
	}
	var errs []error
	for _, d := range children {
		n, err := d.part(ctx, o.Ref(), how)
		left += n
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return left, failed(err)
	}
	if left > 0 {
		return left, nil
	}
	_, err = store.Patch(ctx, owners, key, func(o *store.Object[T]) error {
		o.Finalizers = Background.among(o.Finalizers)
		return nil
	}, store.IfUID(o.UID))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, failed(err)
	}
	return 0, nil
}

// Dependents are [Children] of any type.
type Dependents interface {
	// part deletes or releases the children of an owner, and returns how many are not gone.
	part(ctx context.Context, by store.Ref, how Policy) (left int, err error)
}

func (c *Children[C]) part(ctx context.Context, by store.Ref, how Policy) (left int, err error) {
	var among store.Selector
	if c.Among != nil {
		among = c.Among(by)
	}
	list, err := c.store.Select(ctx, among)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, child := range list.Items {
		others := len(disown(child, func(ref store.OwnerRef) bool { return ref.UID == by.UID }))
		switch {
		case others == len(child.Owners): // not a child of this owner
			continue
		case how == Orphan:
			err = c.disown(ctx, child, by.UID)
		case !controlledBy(child, by.UID): // left to Collect
			continue
		case others > 0 && child.Deleting.IsZero():
			err = c.disown(ctx, child, by.UID)
		case child.Deleting.IsZero():
			_, err = c.store.Delete(ctx, child.Key, store.IfUID(child.UID), store.IfVersion(child.Version))
			if err == nil && len(child.Finalizers) > 0 {
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
}

// policyOf returns the policy that stands among the finalizers. When there are two, the one that keeps the children.
func policyOf(finalizers []string) Policy {
	for _, p := range []Policy{Orphan, Foreground} {
		if slices.Contains(finalizers, string(p)) {
			return p
		}
	}
	return Background
}

// known reports whether p has a finalizer.
func (p Policy) known() bool { return p == Foreground || p == Orphan }

// among returns finalizers with that of p, and of no other policy.
func (p Policy) among(finalizers []string) []string {
	finalizers = slices.DeleteFunc(finalizers, func(name string) bool { return name != string(p) && Policy(name).known() })
	if p != Background && !slices.Contains(finalizers, string(p)) {
		finalizers = append(finalizers, string(p))
	}
	return finalizers
}
