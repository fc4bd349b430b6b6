package informer

import (
	"context"
	"iter"
)

// Version is a position in the history of a source. It increases with every change to the source. Zero is the time before
// the first change. Versions of one source can be compared, so a caller can ask whether a cache has seen at least its own
// write. Versions of two sources cannot be compared.
//
// A version must increase in the order of commits: once a reader has seen version v, no change may appear at v or below.
// Caches resume from the last version that they saw, so a change that appears behind it is lost until the next list.
//
// In SQL, a sequence (nextval, bigserial, AUTO_INCREMENT), a timestamp (now(), updated_at), and xmin by itself do not
// qualify. A transaction draws its number before it commits: T1 draws 100, T2 draws 101 and commits, a reader advances to
// 101, T1 commits, and no reader ever sees 100. These ways are right:
//
//   - One counter row for the whole database, locked last in each transaction until it commits. It is simple, and any
//     database can do it. All writers commit one after another.
//   - The transaction id (in Postgres, pg_current_xact_id()) as version, while readers stop below the oldest transaction
//     that is still open (pg_snapshot_xmin(pg_current_snapshot())). Writers do not wait for each other. Every open writing
//     transaction in the cluster delays all readers.
//   - Logical decoding, which delivers transactions in commit order. It needs wal_level=logical and a privilege, and a slot
//     that nobody reads fills the disk.
//
// etcd's revision and the sequence of a NATS stream qualify as they are.
type Version uint64

// EventType says what happened to an object.
type EventType int

const (
	Added    EventType = iota + 1 // the object is new
	Modified                      // the object has changed
	Deleted                       // the object is gone; Event.Object is its last state
	Bookmark                      // nothing happened up to Event.Version; Event.Object is the zero value
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
	default:
		return "Unknown"
	}
}

// Event is one change of a source.
type Event[T any] struct {
	Type   EventType
	Object T

	// Version is that of the source right after the change. Versions do not fall from one event to the next. A watch that
	// breaks is taken up again after the version of its last event; so, when a change of several objects is one version
	// of the source, only the last of its events has that version, and the others have the one before.
	Version Version
}

// List is the whole content of a source at one version.
type List[T any] struct {
	Items   []T
	Version Version

	// Unread are objects that are there and could not be read, such as a record that does not decode. Of each, only what
	// its key is made of is set. A cache keeps what it has of them.
	Unread []T
}

// ListWatcher is a source: what it holds now, and every change after that. Its methods must be safe for concurrent use.
//
// A ListWatcher keeps one promise on which everything depends: its versions increase in the order of commits (see
// [Version]). The suite in package informertest checks it, and the rest of this contract.
type ListWatcher[T any] interface {
	// List returns every object, and the version at which the list is current: a Watch after that version yields
	// every change that the list does not show. Neither the slice nor the objects may change afterwards.
	List(ctx context.Context) (List[T], error)

	// Watch yields every change after the given version, in order of version. When it has to end, it yields a last error
	// alone: [ErrExpired] if the changes after the version are no longer known, the cause of ctx if ctx has ended, or any
	// other error if the watch broke. After another error, or if a watch just stops, a new watch may resume from the last
	// version seen. The consumer ends a watch by leaving its loop.
	//
	// A watch may skip a state of an object that a later change has replaced. It must yield the last state of each object.
	// If it skips a creation, the next state of the object may come as Modified.
	// If an object that was listed or yielded is gone, the watch must yield its deletion with its last state.
	Watch(ctx context.Context, after Version) iter.Seq2[Event[T], error]
}
