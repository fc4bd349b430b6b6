package controller

import (
	"context"

	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// NewCollector returns a controller that deletes children when all their owners are gone: background collection, for children
// whose owners are in one store. Its keys are those of the children, and its name is their kind and " collector". It looks at
// each child when it starts, when the child changes, and when its owner disappears or is another life of the same key. seen mirrors
// the owners.
//
// For owners of several kinds, call [owner.Children.Collect] in a reconcile, with the inputs that this function has: the children,
// by [For], and the owners of each kind, by [Watches], mapped with [owner.Children.Keys]. Do not filter out updates that change the
// UID: an owner that is deleted and created again may arrive as one update.
func NewCollector[C, T any](
	children *owner.Children[C], owners store.Store[T], seen *store.Informer[T], cfg Config[string],
) (*Controller[string], error) {
	mustHave("NewCollector", "children", children == nil)
	mustHave("NewCollector", "informer", seen == nil)
	of := owner.In(owners)
	return New(children.Kind()+" collector", func(ctx context.Context, key string) (Result, error) {
		_, err := children.Collect(ctx, key, of)
		return Result{}, err
	}, cfg, For(children.Informer()), Watches(seen, func(_ context.Context, o store.Object[T]) ([]string, error) {
		return children.Keys(o.Ref()), nil
	}).When(func(old, new store.Object[T]) bool { return old.UID != new.UID })) // a list may merge a deletion with what follows
}
