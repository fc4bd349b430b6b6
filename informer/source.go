package informer

import (
	"context"
	"iter"
)

// Version is a point in the history of a source. It grows with every change of the source: etcd's revision, NATS'
// sequence, a commit-ordered counter in SQL. Zero is the time before the first change. Versions of one source can be
// compared, so that "has the cache seen at least what I wrote" can be asked; versions of two sources cannot.
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
}

// ListWatcher is a source: what it holds now, and what changes from then on. Its methods may be called by several
// goroutines at once.
type ListWatcher[T any] interface {
	// List returns every object and the version at which the list is current. Neither the slice nor the objects may change
	// afterwards.
	List(ctx context.Context) (List[T], error)

	// Watch yields every change after the given version, in order of version. It yields a last error, alone, when
	// it has to end: [ErrExpired] when the version was compacted, the cause of ctx when ctx ends, any other error
	// when the watch broke and may be taken up again from the last version seen. A watch that simply stops may be
	// taken up again too. The consumer ends it by leaving its loop.
	Watch(ctx context.Context, after Version) iter.Seq2[Event[T], error]
}
