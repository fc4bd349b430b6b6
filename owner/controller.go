package owner

import (
	"fmt"
	"slices"

	"github.com/setpoint-go/setpoint/store"
)

// SetController makes ref the controlling owner of child. It changes child alone: write it to the store yourself. Other
// owners stay. To set the same controller again changes nothing; an owner that was none yet becomes it. What ref says in
// Controller is ignored.
//
// It returns an error that wraps [ErrOwned] and names both when another object controls the child. An earlier life of the
// same key, with another UID, is another object: its children are not inherited but collected. It is also an error if ref
// lacks kind, key or UID, as does a reference to an object that was never stored.
func SetController[T any](child *store.Object[T], ref store.OwnerRef) error {
	if ref.Kind == "" || ref.Key == "" || ref.UID == "" {
		return fmt.Errorf("owner: set controller of %q: a reference needs kind, key and UID, this one is to %s", child.Key, name(ref))
	}
	ref.Controller = true
	if has, ok := ControllerOf(*child); ok {
		if has != ref {
			return fmt.Errorf("owner: set controller of %q to %s: %w: %s", child.Key, name(ref), ErrOwned, name(has))
		}
		return nil
	}
	// The list may be shared with the object that child was copied from.
	owners := slices.Clone(child.Owners)
	plain := ref
	plain.Controller = false
	if i := slices.Index(owners, plain); i >= 0 {
		owners[i] = ref
	} else {
		owners = append(owners, ref)
	}
	child.Owners = owners
	return nil
}

// ControllerOf returns the controlling owner of child, if it has one.
func ControllerOf[T any](child store.Object[T]) (store.OwnerRef, bool) {
	i := slices.IndexFunc(child.Owners, func(r store.OwnerRef) bool { return r.Controller })
	if i < 0 {
		return store.OwnerRef{}, false
	}
	return child.Owners[i], true
}

// ControlledBy returns a function that gives the key of the controlling owner of a child, if that is of the given kind:
// one key or none. It serves as the mapping of controller.WatchOwned, and as the values of an index of children by the key of
// their owner. A key says nothing about the life of the owner: index by [ControllerUID] where that matters.
func ControlledBy[T any](kind string) func(child store.Object[T]) []string {
	return func(child store.Object[T]) []string {
		if ref, ok := ControllerOf(child); ok && ref.Kind == kind {
			return []string{ref.Key}
		}
		return nil
	}
}

// ControllerUID returns the UID of the controlling owner of a child, or nothing: the values of an index of children by
// the owner that decides about them, as in cache.AddIndex(replicas.Indexer(), owner.ControllerUID[Replica]).
func ControllerUID[T any](child store.Object[T]) []string {
	if ref, ok := ControllerOf(child); ok {
		return []string{ref.UID}
	}
	return nil
}

// OwnerUIDs returns the UIDs of all owners of a child: the values of an index of children by owner. A [Collector] looks at
// all of them, so it is this index that finds the keys to collect when an owner is gone.
func OwnerUIDs[T any](child store.Object[T]) []string {
	uids := make([]string, 0, len(child.Owners))
	for _, ref := range child.Owners {
		uids = append(uids, ref.UID)
	}
	return uids
}

// disown returns the owners of child without those that match.
func disown[T any](child store.Object[T], gone func(store.OwnerRef) bool) []store.OwnerRef {
	return slices.DeleteFunc(slices.Clone(child.Owners), gone) // the list may be shared with other copies of child
}

// name shows ref in a message.
func name(ref store.OwnerRef) string {
	return fmt.Sprintf("%s %q (UID %q)", ref.Kind, ref.Key, ref.UID)
}
