package owner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/setpoint-go/setpoint/store"
)

// Policy determines what happens to the children of a deleted owner. Its value is the name of the owner's finalizer for it. If an owner is
// created with that finalizer, every deletion that chooses no other policy follows it.
//
//	policy       the owner                      its children              carried out by
//	Background   goes at once                   go after it               Children.Collect, for each kind of children
//	Foreground   stays until they are gone      go first                  Cascade, when the owner is reconciled
//	Orphan       stays until all are released   stay, without this owner  Cascade, when the owner is reconciled
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
// To delete objects of several kinds together, make them children of a root: an empty object that exists only for this. Create it first.
// Then everything that was created before a crash is already its child. Delete it with Foreground. Then it goes last, and its key is not
// reused while something is left. See the example.
type Policy string

const (
	// Background lets the owner go at once. [Children.Collect] then deletes its children one by one.
	Background Policy = ""

	// Foreground first deletes the children that the owner controls. The owner stays, being deleted, until the last of them is gone. A
	// child that has another owner stays.
	Foreground Policy = "setpoint/foreground"

	// Orphan keeps the children. The owner goes once none of them refers to it anymore.
	Orphan Policy = "setpoint/orphan"
)

// Delete deletes the owner under key with a policy for its children: [Cascade] carries out Foreground and Orphan, [Children.Collect]
// Background. The policy replaces the one that the owner had before. If the owner is already being deleted, nothing happens.
//
// These are two writes: first the policy, then the deletion. If the process stops in between, the owner lives on, and the next deletion
// finds the policy. An error of the store is returned wrapped, such as store.ErrNotFound if there is no such owner. Delete panics if how is
// none of the three policies.
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

// Cascade advances the deletion of the owner under key, according to its [Policy], and returns the number of children that are left to wait
// for. When there are none, it lets the owner go, unless the owner has other finalizers. There is nothing to do, and no error, for an owner
// that is gone, that is not being deleted, or whose policy is Background.
//
// With Foreground, the owner waits for the children that it controls and that have no other owner. A child that it controls and that has
// other owners is released, unless it is already being deleted: then the owner waits for it too. A child that it owns without control stays
// as it is: as in Kubernetes without blockOwnerDeletion, the owner does not wait for it. [Children.Collect] decides about both once the
// owner is gone. With Orphan, the owner is removed from all its children, whether it controls them or not.
//
// Cascade does not wait until a child that is being deleted is gone. Repeat the call when a child disappears, as a controller with
// controller.Owns for the children does. Errors for several children are joined, and an error for one child does not stop the others. Every
// error may be retried.
//
// A watch that was interrupted reports nothing of an owner that was created and deleted in the meantime. So if the owner is made from something
// else, such as a row, do not rely on an event to make it again: look at the row once more after Cascade has let the owner go.
//
// The children are read from their stores, since a child that a cache does not show would be lost with its owner; see [Children.Among]. If
// one of these objects does not decode, it may be a child. So the owner stays, and the error wraps store.ErrDecode and names the object. A
// kind of children that is missing in the call is ignored: Collect deletes them, regardless of the policy.
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
	for _, unread := range list.Unread {
		left++
		errs = append(errs, fmt.Errorf("it may be a child: %w", unread.Err))
	}
	for _, child := range list.Items {
		others := len(disown(child, func(ref store.OwnerRef) bool { return ref.Ref == by }))
		switch {
		case others == len(child.Owners): // not a child of this owner
			continue
		case how == Orphan:
			err = c.disown(ctx, child, by)
		case !controlledBy(child, by): // left to Collect
			continue
		case others > 0 && child.Deleting.IsZero():
			err = c.disown(ctx, child, by)
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

// policyOf returns the policy among the finalizers. If there are two, it returns the one that keeps the children.
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

// among returns finalizers with that of p, and without those of other policies.
func (p Policy) among(finalizers []string) []string {
	finalizers = slices.DeleteFunc(finalizers, func(name string) bool { return name != string(p) && Policy(name).known() })
	if p != Background && !slices.Contains(finalizers, string(p)) {
		finalizers = append(finalizers, string(p))
	}
	return finalizers
}
