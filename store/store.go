package store

import (
	"context"
	"iter"

	"github.com/setpoint-go/setpoint/informer"
)

// Store is a system of record for the objects of one kind. Every Store is an informer.ListWatcher, Pager and Equaler of its
// objects. [Open] makes one of any backend.
//
// What goes in and what comes out are deep copies: nothing that a caller does to an object, before or after, changes
// the store or what another caller holds. All methods may be called by several goroutines at once. Every error but the
// cause of a context that ended a Watch is an [*Error].
type Store[T any] interface {
	// Kind is the name of the kind of object that this is a store of.
	Kind() string
	Reader[T]
	Writer[T]

	// Equal reports whether a and b are the same version of the same object. It makes the store an informer.Equaler, whose
	// informers tell nothing about what a new list brings unchanged.
	Equal(a, b Object[T]) bool

	// Stats returns what the store has to tell about its records.
	Stats() Stats
}

// Reader is the half of a [Store] that reads. Reads are fresh: they see every write that was accepted before them.
type Reader[T any] interface {
	// Get returns the object under key, or [ErrNotFound], or [ErrDecode].
	Get(ctx context.Context, key string) (Object[T], error)

	// List returns all objects, in order of key, and the version at which the list is current. Objects that do not decode
	// are among the Unread ones of the list, with nothing but their Key and Version.
	List(ctx context.Context) (informer.List[Object[T]], error)

	// ListPages yields what List returns in pages, as the backend has them.
	ListPages(ctx context.Context) iter.Seq2[informer.List[Object[T]], error]

	// Select returns the objects that sel selects, in order of key, and the version at which the list is current. With
	// the zero Selector it is List.
	Select(ctx context.Context, sel Selector) (informer.List[Object[T]], error)

	// Watch yields every change after the given version, in order of version, and goes on until the consumer leaves
	// the loop or ctx ends. Zero stands for the time before the first change. The version of an event is that of its
	// object; a deletion carries the last state of the object under the version of the deletion. Bookmarks say that
	// nothing happened to this kind up to a version. There is one at least every [backend.BookmarkInterval], also when
	// nothing happens at all.
	//
	// Where the backend Skips, a write that another write of the same key has followed may be left out. Deletions never
	// are.
	//
	// The last pair that it yields, when it has to end, is an error alone: [ErrExpired] when the changes after the
	// version are not all known any more (also in the middle, to a consumer that is too slow) or when the store has
	// not reached that version, [context.Cause] of ctx when ctx ends.
	Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[Object[T]], error]

	// WatchSelected is Watch of the objects that sel selects. An object that enters the selection is told as Added, and one
	// that leaves it as Deleted, in the state with which it left. Where the backend Skips, the deletion of an object that
	// was not in the selection may be told too. See [Selected] for an informer of a selection.
	WatchSelected(ctx context.Context, sel Selector, after informer.Version) iter.Seq2[informer.Event[Object[T]], error]
}

// Writer is the half of a [Store] that writes. A write is refused with [ErrInvalid], [ErrFenced], [ErrExists] or
// [ErrNotFound], or [ErrConflict], looked for in this order; a write that is refused changes nothing. A write that was
// accepted before under the same [Once] is not applied again.
//
// Each write carries the fence of its context: see [WithFence].
type Writer[T any] interface {
	// Create stores a new object and returns it as stored. The store sets UID, Version, Generation and Created; what the caller
	// wrote there and in Deleting is ignored. [ErrExists] when the key is taken. To a precondition, an object that is
	// not there has version 0 and no UID.
	Create(ctx context.Context, obj Object[T], pre ...Precondition) (Object[T], error)

	// Update replaces Value, Labels, Owners and Finalizers of an object and returns it as stored. It is a compare-and-swap:
	// obj.Version has to be the version that is stored, and obj.UID, unless empty, the UID; else [ErrConflict]. What
	// the caller wrote in Generation, Created and Deleting is ignored, and so is the status in Value, when the type has
	// one: it stays what it is.
	//
	// An Update that changes nothing writes nothing: it makes no event and returns the object with the version that
	// it had. An Update that leaves an object without finalizers whose Deleting is set removes it, and returns its
	// last state.
	Update(ctx context.Context, obj Object[T], pre ...Precondition) (Object[T], error)

	// UpdateStatus replaces the status in Value and nothing else; all other fields of obj but those that Update compares
	// are ignored. It is the same compare-and-swap as Update. [ErrNoStatus] when the type has no status: see [Statused].
	UpdateStatus(ctx context.Context, obj Object[T], pre ...Precondition) (Object[T], error)

	// Delete removes an object, whatever its version, when no precondition says otherwise. It returns the last state of the
	// object, with the version of the deletion. An object with finalizers stays, with Deleting set, until an Update has
	// removed the last of them, and is returned so; deleting it again does nothing.
	Delete(ctx context.Context, key string, pre ...Precondition) (Object[T], error)
}
