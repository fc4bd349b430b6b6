package owner

import (
	"context"
	"fmt"
	"slices"

	"github.com/setpoint-go/setpoint/store"
)

// Policy says what becomes of the children of an owner that is deleted. It is the name of the finalizer that stands for it
// at the owner: one that has it from its creation is deleted in this way by every deletion that does not choose another.
type Policy string

const (
	// Background lets the owner go at once. Its children follow one by one, when a [Collector] comes to them.
	Background Policy = ""

	// Foreground first deletes the children that the owner controls. The owner is there, being deleted, until the last of
	// them is gone. A child that has another owner stays.
	Foreground Policy = "setpoint/foreground"

	// Orphan keeps the children. The owner goes once none of them refers to it any more.
	Orphan Policy = "setpoint/orphan"
)

// Delete deletes the owner under key and says what becomes of its children: [Cascade] carries that out for Foreground and
// Orphan, [Collector] for Background. The choice holds whatever policy the owner had before. It comes too late for an owner
// that is already being deleted: then nothing happens.
//
// These are two writes: the choice is stored, and then the deletion. If the process stops in between, the owner lives on,
// and the choice is what the next deletion finds. The preconditions are those of both writes, so store.IfTerm and
// store.IfUID are fine, but store.IfVersion and store.Once hold for one write only, and have no place here. An error of the
// store is returned wrapped, such as store.ErrNotFound when there is no such owner.
func Delete[T any](
	ctx context.Context, owners store.Store[T], key string, how Policy, pre ...store.Precondition,
) error {
	if how != Background && !how.known() {
		panic(fmt.Sprintf("owner: there is no policy %q", how))
	}
	o, err := store.Patch(ctx, owners, key, func(o *store.Object[T]) error {
		if o.Deleting.IsZero() {
			o.Finalizers = how.among(o.Finalizers)
		}
		return nil
	}, pre...)
	if err == nil && o.Deleting.IsZero() {
		_, err = owners.Delete(ctx, key, append([]store.Precondition{store.IfUID(o.UID)}, pre...)...)
	}
	if err != nil {
		return fmt.Errorf("owner: delete %s %q: %w", owners.Kind(), key, err)
	}
	return nil
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

// known says whether p has a finalizer.
func (p Policy) known() bool { return p == Foreground || p == Orphan }

// among returns finalizers with that of p, and of no other policy.
func (p Policy) among(finalizers []string) []string {
	finalizers = slices.DeleteFunc(finalizers, func(name string) bool { return name != string(p) && Policy(name).known() })
	if p != Background && !slices.Contains(finalizers, string(p)) {
		finalizers = append(finalizers, string(p))
	}
	return finalizers
}
