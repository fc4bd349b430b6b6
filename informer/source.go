package informer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"time"
)

// Version is a position in the history of a source. It increases with every change to the source. Zero is before the first change. Versions
// of one source can be compared, so a caller can check whether a cache has seen its own write. Versions of different sources cannot be
// compared.
//
// A version must increase in the order of commits: once a reader has seen version v, no change may appear at v or below.
// Caches resume from the last version that they saw, so a change that appears below it is lost until the next list.
//
// In SQL, a sequence (nextval, bigserial, AUTO_INCREMENT), a timestamp (now(), updated_at), and xmin by itself do not qualify. A
// transaction draws its number before it commits: T1 draws 100, T2 draws 101 and commits, a reader advances to 101, T1 commits, and no
// reader ever sees 100. These are correct:
//
//   - One counter row for the whole database, locked last in each transaction until it commits. It is simple and works in any database, but
//     all writers commit one after another.
//   - The transaction id (in Postgres, pg_current_xact_id()) as version, while readers stop below the oldest transaction that is still open
//     (pg_snapshot_xmin(pg_current_snapshot())). Writers do not wait for each other, but every open writing transaction in the cluster
//     delays all readers.
//   - Logical decoding, which delivers transactions in commit order. It needs wal_level=logical and a privilege, and a slot
//     without a reader fills the disk.
//
// etcd's revision and the sequence of a NATS stream qualify as is.
type Version uint64

// EventType says what happened to an object.
type EventType int

const (
	Added      EventType = iota + 1 // the object is new
	Modified                        // the object has changed
	Deleted                         // the object was deleted; Event.Object is its last state, unless Event.KeyOnly
	Bookmark                        // nothing happened up to Event.Version; Event.Object is the zero value
	Unreadable                      // the object exists, but its new state cannot be read; Event.Object has only its key
)

// String returns the name of t.
func (t EventType) String() string {
	switch t {
	case Added:
		return "Added"
	case Modified:
		return "Modified"
	case Deleted:
		return "Deleted"
	case Bookmark:
		return "Bookmark"
	case Unreadable:
		return "Unreadable"
	default:
		return "Unknown"
	}
}

// Event is one change in a source.
type Event[T any] struct {
	Type   EventType
	Object T

	// KeyOnly says of a Deleted event that only the fields that make up the key are set in Object, because the source does not have the last
	// state, or whether there was one. An [Informer] takes the state from its cache. The handler gets a tombstone with FinalStateUnknown.
	KeyOnly bool

	// Err says why the object of an Unreadable event cannot be read. It is nil for other events. See [Informer.Unread].
	Err error

	// Version is the version of the source right after the change. It never decreases from one event to the next. After a
	// watch breaks, the next one begins after the version of the last event. So if one version of the source changes several
	// objects, only the last event has that version. The others have the version before.
	Version Version
}

// List is the whole content of a source at one version.
type List[T any] struct {
	Items   []T
	Version Version

	// Unread is the objects that exist but could not be read, such as records that do not decode. A cache keeps its states of these
	// objects, or takes the last state that could be read, if Items has that. See [Informer.Unread].
	Unread []Unread[T]

	// Missing has an error for each record of which not even the keys could be read, such as a file that does not parse. Any object that
	// the list lacks may be in one of them, so a cache deletes nothing because of this list.
	Missing []error
}

// Unread is an object of a list that exists, and could not be read.
type Unread[T any] struct {
	Object T     // only the fields that make up the key are set
	Err    error // why the object could not be read
}

// ListWatcher is a source: it lists all objects, and reports every change after that. Its methods must be safe for concurrent
// use.
//
// Everything depends on one promise of a ListWatcher: its versions increase in the order of commits (see [Version]). The suite
// in package informertest checks that, and the rest of this contract.
type ListWatcher[T any] interface {
	// List returns every object, and the version at which the list is current: a Watch after that version yields
	// every change that the list does not show. Neither the slice nor the objects may change afterward. If several objects have the same
	// key, an [Informer] keeps the last of them, and reports the key.
	List(ctx context.Context) (List[T], error)

	// Watch yields every change after the given version, in order of version. When the watch must end, it yields an error, with a zero
	// Event. The error is [ErrExpired] if the source no longer has the changes after the version, [ErrNewHistory] if the version is of an
	// earlier history, and the cause of ctx if ctx has ended. Any
	// other error means that the watch broke. After another error, or if a watch just ends, a new watch may resume from the last version
	// seen. The consumer ends a watch by leaving its loop.
	//
	// If an error, or one that it wraps, has a method Continues() bool that returns true, the watch goes on after it. So a watch can report a
	// read that has failed, such as a poll, and try again by itself. The consumer may read on, or leave its loop. An [Informer] reads on.
	//
	// A watch may skip a state of an object that a later change has replaced. It must yield the last state of each object. If
	// it skips a creation, it may yield the next state of the object as Modified. If an object that was listed or yielded is
	// gone, the watch must yield its deletion, with its last state or with KeyOnly. If it has vanished in a way that has no version, the
	// deletion has the version of the event before it. If the new state of an object cannot be read, the
	// watch yields Unreadable, and goes on.
	//
	// A list that begins after an event was yielded shows the change of that event.
	Watch(ctx context.Context, after Version) iter.Seq2[Event[T], error]
}

// Pager is an optional interface of a [ListWatcher]: a source that lists in pages, because it holds too many objects for one slice. An
// [Informer] lists a Pager page by page. It holds the pages until the last one has arrived, so that an error in between leaves the cache as
// it was.
type Pager[T any] interface {
	// ListPages yields what List returns, in pages. Every object is on one page. All pages have the same version, at which the whole list
	// is current. There is at least one page; a page may be empty. If ListPages cannot continue, it yields an error with a zero List, such
	// as the cause of ctx when ctx ends. If it ends without an error, the list is complete. Pages and their objects must not change
	// afterward. The consumer may end it early by leaving its loop.
	ListPages(ctx context.Context) iter.Seq2[List[T], error]
}

// Collect returns all pages as one list. It implements List for a source that has ListPages:
//
//	func (s *Sites) List(ctx context.Context) (informer.List[Site], error) { return informer.Collect(s.ListPages(ctx)) }
//
// It returns an error if the pages have different versions, or if there is no page.
func Collect[T any](pages iter.Seq2[List[T], error]) (List[T], error) {
	var whole List[T]
	var items [][]T // of the pages; copied once, when their number is known
	n := 0
	for page, err := range pages {
		if err != nil {
			return List[T]{}, err
		}
		if err := samePages(n, whole.Version, page.Version); err != nil {
			return List[T]{}, fmt.Errorf("informer: collect pages: %w", err)
		}
		n++
		whole.Version = page.Version
		if len(items) == 0 || len(page.Items) > 0 {
			items = append(items, page.Items)
		}
		whole.Unread = append(whole.Unread, page.Unread...)
		whole.Missing = append(whole.Missing, page.Missing...)
	}
	switch {
	case n == 0:
		return List[T]{}, fmt.Errorf("informer: collect pages: %w", errNoPage)
	case len(items) == 1:
		whole.Items = slices.Clip(items[0]) // the capacity belongs to the page
	default:
		whole.Items = slices.Concat(items...)
	}
	return whole, nil
}

// errNoPage is the error of a list without pages: it has no version.
var errNoPage = errors.New("the list has no page")

// samePages returns an error if the version of a page is not first, that of the n pages before it.
func samePages(n int, first, version Version) error {
	if n > 0 && version != first {
		return fmt.Errorf("page %d of the list is of version %d, the first one of version %d", n+1, version, first)
	}
	return nil
}

// pagesOf returns the ListPages of a source. For a source without pages, it yields the result of List.
func pagesOf[T any](src ListWatcher[T]) func(context.Context) iter.Seq2[List[T], error] {
	if pager, ok := src.(Pager[T]); ok {
		return pager.ListPages
	}
	return func(ctx context.Context) iter.Seq2[List[T], error] {
		return func(yield func(List[T], error) bool) { yield(src.List(ctx)) }
	}
}

// Equaler is an optional interface of a [ListWatcher]: a source that can tell whether two states of an object are the same, such as a
// database whose rows carry a version. If a new list brings an object that the cache already has, an [Informer] asks the source. If the
// states are the same, the cache keeps the object that it has, and no handler is called. So a list after a gap costs almost nothing for
// unchanged objects.
//
// Without an Equaler, objects are the same if they are equal by ==. That is exact for plain values such as numbers and
// strings. A pointer is equal only to itself. An object that is not comparable, or that contains an interface, is never
// the same.
//
// The informer asks only about lists: it always reports an event. To compare the objects of a source that is not an Equaler, embed the
// source in a type that has Equal.
//
// A change that was undone between two lists is no change. That is harmless to a reconcile that decides by the cache. One that reads the source
// itself may have acted on the state in between: it has to come back until the cache shows what it has read, or the states need a version.
type Equaler[T any] interface {
	// Equal reports whether two states of one object, by key, are the same. Several goroutines may call it concurrently. If
	// it panics, the informer reports the panic and treats the states as different.
	//
	// The informer does not call Equal across an [Informer.Reset]: in another history a version may stand for another state.
	Equal(a, b T) bool
}

// equalOf returns the equality of the objects of src, or nil if there is none.
func equalOf[T any](src ListWatcher[T]) func(a, b T) bool {
	if e, ok := src.(Equaler[T]); ok {
		return e.Equal
	}
	if isPlain(reflect.TypeFor[T]()) {
		return func(a, b T) bool { return any(a) == any(b) }
	}
	return nil
}

// isPlain reports whether values of t can be compared by ==, which never panics.
func isPlain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface:
		return false
	case reflect.Array:
		return isPlain(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !isPlain(t.Field(i).Type) {
				return false
			}
		}
		return true
	default:
		return t.Comparable()
	}
}

// Bookmarker is an optional interface of a [ListWatcher]: a source that promises to yield something at regular intervals. So an [Informer]
// can tell a dead connection from an idle source: see [Informer.Stale].
type Bookmarker interface {
	// BookmarkPeriod returns the longest time for which an open watch of a healthy source yields nothing. If nothing happens, the watch
	// yields a [Bookmark]. The time includes what the source needs to read its data. Zero promises nothing. Several goroutines may call it
	// concurrently. Its result may change, such as with the time that a list takes: an [Informer] asks whenever it needs to know.
	BookmarkPeriod() time.Duration
}

// Versioner is an optional interface of a [ListWatcher]: a source that can tell its latest version without a list. [Informer.CatchUp] asks
// for it. A source that has a method Source() any, as those of [Filter] and [Map], has the versions of that source.
type Versioner interface {
	// LatestVersion returns a version that a cache has reached only if it has every change that was committed before the call. The version
	// must be one that watches reach by themselves, soon after the call: usually that of the last change. It must be as recent as a read
	// after the last write, so it must not come from a replica that lags.
	LatestVersion(ctx context.Context) (Version, error)
}

// Delayer is an optional interface of a [ListWatcher]: a source in which something can keep watches from reporting what is committed, such as a
// transaction that stays open. [Stats] has what it says. A source that has a method Source() any, as those of [Filter] and [Map], is delayed as
// that source.
type Delayer interface {
	// DelayedSince returns when an open watch first saw what delays it, or zero if nothing does. Several goroutines may call it concurrently.
	DelayedSince() time.Time
}

// partOf returns src as an I, or the source that src is made from; or nil.
func partOf[I any](src any) (part I) {
	for {
		if s, ok := src.(I); ok {
			return s
		}
		made, ok := src.(interface{ Source() any })
		if !ok {
			return part
		}
		src = made.Source()
	}
}

// bookmarkPeriod returns the promise of src, or 0.
func bookmarkPeriod(src any) time.Duration {
	if b, ok := src.(Bookmarker); ok {
		return max(b.BookmarkPeriod(), 0)
	}
	return 0
}
