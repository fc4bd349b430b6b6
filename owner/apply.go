package owner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
)

// attempts is how often Apply tries to write a child, with a fresh read in between, when others change it concurrently.
const attempts = 4

// Apply makes the children that by controls match want, by key: it creates missing children, updates the Value of those that differ, and
// deletes the rest. It returns the children of want as they are afterward, in order of key.
//
// BLAST RADIUS: each child that by controls and that is not in want is deleted. An empty or nil want deletes all of them. If want could not
// be computed, for example because a read failed, do not call Apply.
//
// Apply writes nothing for a child that equals its wanted Value, by reflect.DeepEqual. (If the codec changes a value, such as an empty
// slice to nil, Apply calls the store each time, and the store writes nothing.) The status is left alone: fields with the tag
// store:"status" are not compared, and an update keeps them. An update also keeps labels, owners, and finalizers. A new child has by as its
// controller.
//
// Apply decides by the cache, which may be stale. So each write has a precondition: the store rejects it if the child has changed since.
// Apply then reads the child and decides again. An unwanted child that the cache does not show yet is deleted by the next call: when it
// appears, controller.Owns adds the key of its owner.
//
// What Apply does not do:
//
//   - It never touches an object that another owner controls. If the key of a wanted child has such an object, the error wraps [ErrOwned]
//     and names the other owner. An earlier life of the owner is another owner: [Children.Collect] deletes its children.
//   - It does not adopt. If the key has an object without a controller, that is an error too, which wraps store.ErrExists; see
//     [Children.Claim].
//   - It does not wait. A child that is being deleted, because it has finalizers, is not among the results, whether it is wanted or not. If
//     it is wanted, a call after it is gone creates it again. So compare the number of results with that of want.
//   - It does not check whether by still exists. Do not call it for an owner that is being deleted, which has a time in Deleting: Cascade
//     leaves a child that is created too late to Collect. Nor call it for an owner that is gone, which the cache may still show. Collect
//     would delete the children, and the deletion would trigger the reconcile again, for as long as the cache lags. So read the owner from
//     the store, as [Finalizer.Reconcile] and [Cascade] do.
//
// An error for one child does not keep the others from being applied: the errors are joined, and the results are the children without an
// error. Apply stops early only if ctx ends, or if a write is fenced off. If by lacks kind, key, or UID, Apply does nothing and returns an
// error.
func (c *Children[C]) Apply(ctx context.Context, by store.Ref, want map[string]C) ([]store.Object[C], error) {
	if err := complete(by); err != nil {
		return nil, fmt.Errorf("owner: apply children: %w", err)
	}
	var (
		have   []store.Object[C]
		errs   []error
		fenced bool
	)
	note := func(key string, err error) {
		if err != nil {
			errs = append(errs, c.failed("apply", key, err))
			fenced = fenced || errors.Is(err, store.ErrFenced)
		}
	}
	stop := func() bool {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("owner: apply children of %s %q: %w", by.Kind, by.Key, context.Cause(ctx)))
		}
		return ctx.Err() != nil || fenced
	}
	surplus := slices.DeleteFunc(c.Of(by), func(child store.Object[C]) bool { _, wanted := want[child.Key]; return wanted })
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if stop() {
			return have, errors.Join(errs...)
		}
		child, err := c.settle(ctx, by, key, want[key])
		if err == nil && child.Deleting.IsZero() {
			have = append(have, child)
		}
		note(key, err)
	}
	for _, child := range surplus {
		if stop() {
			return have, errors.Join(errs...)
		}
		note(child.Key, c.remove(ctx, by, child))
	}
	return have, errors.Join(errs...)
}

// settle makes the child under key match value, and returns it. The child may be one that is being deleted.
func (c *Children[C]) settle(ctx context.Context, by store.Ref, key string, value C) (store.Object[C], error) {
	child, found := c.seen.Get(key)
	for n := 1; ; n++ {
		written, err := c.write(ctx, by, key, value, child, found)
		// Only a fresh read shows whose child it is.
		stale := retry.IsConflict(err) || errors.Is(err, store.ErrNotFound) || n == 1 && errors.Is(err, ErrOwned) ||
			errors.Is(err, store.ErrExists) && (n == 1 || !found)
		if !stale || n == attempts {
			return written, err
		}
		child, err = c.store.Get(ctx, key)
		if found = err == nil; !found && !errors.Is(err, store.ErrNotFound) {
			return child, err
		}
	}
}

// write creates the child, or updates the existing one if necessary.
func (c *Children[C]) write(
	ctx context.Context, by store.Ref, key string, value C, child store.Object[C], found bool,
) (store.Object[C], error) {
	if !found {
		owners := []store.OwnerRef{{Ref: by, Controller: true}}
		return c.store.Create(ctx, store.Object[C]{Key: key, Value: value, Owners: owners})
	}
	if has, ok := ControllerOf(child); !ok {
		return child, fmt.Errorf("%w, and has no controller: adopt it with Claim", store.ErrExists)
	} else if has != by {
		return child, fmt.Errorf("%w: %s", ErrOwned, name(has))
	}
	if !child.Deleting.IsZero() || c.same(value, child.Value) {
		return child, nil
	}
	child.Value = value
	return c.store.Update(ctx, child)
}

// same reports whether value and there are equal, except for their status.
func (c *Children[C]) same(value, there C) bool {
	c.status.Set(reflect.ValueOf(&value), reflect.ValueOf(&there))
	return reflect.DeepEqual(&value, &there)
}

// remove deletes an unwanted child, unless by no longer controls it.
func (c *Children[C]) remove(ctx context.Context, by store.Ref, child store.Object[C]) error {
	uid := child.UID
	for n := 1; ; n++ {
		if child.UID != uid || !controlledBy(child, by) || !child.Deleting.IsZero() {
			return nil
		}
		_, err := c.store.Delete(ctx, child.Key, store.IfUID(uid), store.IfVersion(child.Version))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if !retry.IsConflict(err) || n == attempts {
			return err
		}
		if child, err = c.store.Get(ctx, child.Key); errors.Is(err, store.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// Claim returns the children of by that match, in order of key: those that it controls, also if they are being deleted, and the objects
// without a controller, which it adopts. It releases those that it controls and that no longer match. It touches neither the children of
// another owner nor objects without a controller that are being deleted.
//
// Claim decides by the cache, and writes an object only if it is still as the cache shows it; otherwise the error is a conflict. Before the
// first write, it reads by once, from the [Owners] of its kind. If by is gone or is being deleted, Claim writes nothing and returns no
// error for that. If by cannot be read, or lacks kind, key, or UID, Claim writes nothing and returns an error.
//
// An error for one child does not stop the others: the errors are joined, and the results are the children that certainly belong to by. A
// child that is gone is not an error.
func (c *Children[C]) Claim(
	ctx context.Context, by store.Ref, owners Owners, match func(store.Object[C]) bool,
) (mine []store.Object[C], err error) {
	if err := complete(by); err != nil {
		return nil, fmt.Errorf("owner: claim children: %w", err)
	}
	var (
		errs       []error
		asked, may bool
	)
	mayWrite := func() bool {
		if !asked {
			asked = true
			exists, deleting, err := read(ctx, by, []Owners{owners})
			if err != nil {
				errs = append(errs, fmt.Errorf("owner: claim children: read their owner %s: %w", name(by), err))
			}
			may = err == nil && exists && !deleting
		}
		return may
	}
	for _, child := range c.Of(by) {
		if match(child) {
			mine = append(mine, child)
		} else if mayWrite() {
			if err := c.release(ctx, child, by); err != nil {
				errs = append(errs, c.failed("release", child.Key, err))
			}
		}
	}
	orphan := func(child store.Object[C]) bool { return child.Deleting.IsZero() && match(child) }
	for _, child := range c.indexed(noController, orphan) {
		if !mayWrite() {
			break
		}
		err := SetController(&child, by)
		var adopted store.Object[C]
		if err == nil {
			adopted, err = c.store.Update(ctx, child)
		}
		if err == nil {
			mine = append(mine, adopted)
		} else if !errors.Is(err, store.ErrNotFound) {
			errs = append(errs, c.failed("adopt", child.Key, err))
		}
	}
	slices.SortFunc(mine, func(a, b store.Object[C]) int { return strings.Compare(a.Key, b.Key) })
	return mine, errors.Join(errs...)
}

// release removes an owner from a child. A child that is gone, or was created again, counts as released.
func (c *Children[C]) release(ctx context.Context, child store.Object[C], by store.Ref) error {
	err := c.disown(ctx, child, by)
	if errors.Is(err, store.ErrConflict) {
		now, getErr := c.store.Get(ctx, child.Key)
		if errors.Is(getErr, store.ErrNotFound) || getErr == nil && now.UID != child.UID {
			return nil
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// disown removes an owner from exactly this state of a child.
func (c *Children[C]) disown(ctx context.Context, child store.Object[C], by store.Ref) error {
	child.Owners = disown(child, func(ref store.OwnerRef) bool { return ref.Ref == by })
	_, err := c.store.Update(ctx, child)
	return err
}
