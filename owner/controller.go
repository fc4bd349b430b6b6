package owner

import (
	"errors"
	"fmt"
	"slices"

	"github.com/setpoint-go/setpoint/store"
)

// ErrOwned reports that another object controls the child.
var ErrOwned = errors.New("it is controlled by another object")

// SetController makes ref the controlling owner of child. It changes only the value child: write it to the store yourself. Other owners
// stay. Setting the same controller again changes nothing. An owner that did not control the child controls it afterward.
//
// If another object controls the child, the error wraps [ErrOwned] and names both. An earlier life of the same key, with another UID, is
// another object: its children are not inherited but collected. It is also an error if ref lacks kind, key or UID, like a reference to an
// object that was never stored.
func SetController[T any](child *store.Object[T], ref store.Ref) error {
	if err := complete(ref); err != nil {
		return fmt.Errorf("owner: set controller of %q: %w", child.Key, err)
	}
	if has, ok := ControllerOf(*child); ok {
		if has != ref {
			return fmt.Errorf("owner: set controller of %q to %s: %w: %s", child.Key, name(ref), ErrOwned, name(has))
		}
		return nil
	}
	// The list may be shared with the object that child was copied from.
	owners := slices.Clone(child.Owners)
	if i := slices.Index(owners, store.OwnerRef{Ref: ref}); i >= 0 {
		owners[i].Controller = true
	} else {
		owners = append(owners, store.OwnerRef{Ref: ref, Controller: true})
	}
	child.Owners = owners
	return nil
}

// ControllerOf returns the controlling owner of child, if it has one. As the value of an index, it finds the children of one owner. Its key
// finds those of all lives of a key.
func ControllerOf[T any](child store.Object[T]) (store.Ref, bool) {
	i := slices.IndexFunc(child.Owners, func(r store.OwnerRef) bool { return r.Controller })
	if i < 0 {
		return store.Ref{}, false
	}
	return child.Owners[i].Ref, true
}

// controlledBy reports whether by controls child. The UID alone does not tell: owners of two kinds may have the same one.
func controlledBy[T any](child store.Object[T], by store.Ref) bool {
	has, ok := ControllerOf(child)
	return ok && has == by
}

// disown returns the owners of child without those that match.
func disown[T any](child store.Object[T], gone func(store.OwnerRef) bool) []store.OwnerRef {
	return slices.DeleteFunc(slices.Clone(child.Owners), gone) // the list may be shared with other copies of child
}

// complete returns an error if ref does not refer to one life of an object.
func complete(ref store.Ref) error {
	if ref.Kind == "" || ref.Key == "" || ref.UID == "" {
		return fmt.Errorf("a reference needs kind, key and UID, this one is to %s", name(ref))
	}
	return nil
}

// name shows ref in a message.
func name(ref store.Ref) string {
	return fmt.Sprintf("%s %q (UID %q)", ref.Kind, ref.Key, ref.UID)
}
