package informer

import (
	"time"

	"github.com/setpoint-go/setpoint/cache"
)

// Handler is what an informer calls for each object that appears, changes or disappears. Every field may be nil. What is
// said here holds for each [Registration] by itself: a Handler that is added twice is two handlers.
//
// For one key the calls are OnAdd, any number of OnUpdate, OnDelete, and then OnAdd again; old is what the call before
// gave as the new state. The calls are made one after the other by one goroutine, so a Handler that is added once needs
// no locks of its own. They may take their time: what happens in between waits, merged, so that the next call for a key
// takes it from what it was last told to what is true then. An object that came and went in between is never mentioned.
// An object that went, and one that came under its key in between, are told as OnDelete and OnAdd, never as an update.
//
// Objects are shared with the cache and all other handlers and must not be changed. A call that panics is reported, and counts
// as made. A call must not end its goroutine by runtime.Goexit, as the FailNow of a test does: the handler is reported and
// called no more.
type Handler[K comparable, T any] struct {
	// OnAdd is told of an object that the handler does not know. inInitialList says that it was in the cache already
	// when the handler joined.
	OnAdd func(obj T, inInitialList bool)

	// OnUpdate is told that old has become new. It cannot know whether they differ: in a resync, and after a new list if
	// the states cannot be compared, it is called for objects that are as they were. See [Equaler].
	OnUpdate func(old, new T)

	// OnDelete is told that an object is gone. The tombstone holds the last state under the key, or, if FinalStateUnknown,
	// the last that was seen before the deletion was missed. The handler may not have been told of that state. It may even
	// be that of another object, which took the place of the one that was told while no watch was open. If Filter does not
	// pass that state, the object has left the filter before it was deleted, and the tombstone holds the last state that
	// was told.
	OnDelete func(cache.Tombstone[K, T])

	// Filter chooses the objects that the handler is told of, and the handler is given no others. Defaults to all. An update
	// into the filter is an OnAdd, one out of it an OnDelete with the last state that was told, and FinalStateUnknown
	// unset. Filter must answer the same for the same object each time: what the handler was told is not remembered but
	// asked again. Filter is called by the goroutine of the handler. A panic counts as false.
	Filter func(T) bool

	// ResyncPeriod is the time after which the handler is given every object again, as an update from itself to itself.
	// The first period begins when the handler joins. Defaults to that of the Config; negative is never.
	ResyncPeriod time.Duration

	// EveryEvent is for those who count: each change is told by a call of its own, in the order of the source, and nothing
	// that waits is merged. So what waits for a handler that is too slow grows without bound. What nobody saw is not
	// told, even so: a list after a gap is one change of each object that it brings in another state, or lacks. Defaults to
	// false.
	EveryEvent bool
}
