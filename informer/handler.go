package informer

import (
	"context"
	"time"

	"github.com/setpoint-go/setpoint/cache"
)

// Handler has the functions that an informer calls for each object that appears, changes, or disappears. Every field may be
// nil. A Handler that is added twice is two handlers.
//
// For one key, the calls are OnAdd, any number of OnUpdate and OnResync, OnDelete or OnDrop, and then OnAdd again. The old state of an update is the
// new state of the previous call. One goroutine makes the calls, one after the other, so a Handler that is added once needs no locks. A
// call may take long, unless Inline is set: changes in the meantime are merged, so that the next call for a key goes from the last reported
// state to the current one. An object that was created and deleted in between is not reported. If an object is deleted and a new one appears under its key, the
// calls are OnDelete and OnAdd, unless both happened while no watch was open: then the call is an update.
//
// Objects are shared with the cache and with other handlers, and must not be changed. A call that panics is reported to Config.OnError, and
// is not repeated. A call must not end its goroutine with runtime.Goexit, as FailNow of a test does: the informer would report the handler
// and no longer call it.
type Handler[K comparable, T any] struct {
	// OnAdd is called for an object that was not reported before. inInitialList reports whether it was in the cache when the
	// handler joined, or came with its slot: see [Informer.Hold].
	OnAdd func(obj T, inInitialList bool)

	// OnUpdate is called when old has changed to new. The two may be the same: after a new list whose objects cannot be compared (see
	// [Equaler]), when the source repeats an event, and in a resync if OnResync is nil.
	OnUpdate func(old, new T)

	// OnResync is called with each object in a resync: the object has not changed since the previous call. If a change to the object is
	// pending, only the call for that change is made, unless EveryEvent is set. Defaults to OnUpdate(obj, obj).
	OnResync func(obj T)

	// OnDelete is called when an object was deleted. The tombstone has the object's last state, or, if FinalStateUnknown, the last state that
	// was seen before the deletion was missed. The handler may never have been called for that state. It may even be the state of another
	// object, which replaced the reported one while no watch was open. If that state does not pass the Filter, the object left the filter
	// before it was deleted, and the tombstone has the last reported state. The tombstone's Previous is always the last reported state.
	OnDelete func(cache.Tombstone[K, T])

	// OnDrop is called when an object has left the cache because its slot was dropped, with the last reported state: see [Informer.Drop]. The
	// object exists. If its slot is held again, OnAdd is called again.
	OnDrop func(obj T)

	// Filter selects the objects of the handler, which gets no others. Defaults to all objects. An update into the filter is an OnAdd. An
	// update out of it is an OnDelete with the last reported state, without FinalStateUnknown. Filter must always return the same result
	// for the same object, since the informer does not store it. The goroutine of the handler calls Filter. A panic counts as false.
	Filter func(T) bool

	// ResyncPeriod is the time between two resyncs of the handler: see OnResync. The first period begins when the handler joins. Defaults
	// to the period of the Config. A negative value turns resyncs off.
	ResyncPeriod time.Duration

	// EveryEvent turns merging off, for handlers that count: each change gets its own call, in the order of the source, and so does each
	// object of a resync. So what is pending for a slow handler grows without bound. Changes that the informer did not see are still not
	// reported: a list after a gap leads to one change for each object whose state differs or that was deleted. Defaults to false.
	EveryEvent bool

	// Inline makes the goroutine of Run call the handler, right after it has applied changes to the cache and raised Version: the calls take the
	// shortest way, nothing is pending, and each change gets its own call, as with EveryEvent. The cache, and all that waits for it, waits for
	// each call. So a call must be fast, as one that adds a key to a queue is, and must wait neither for the informer nor for a lock that
	// somebody holds who does. Objects that are in the cache when the handler joins are reported in pieces of 128, between which the cache
	// changes; a change comes after them. The same is true of Filter. A call that ends its goroutine with runtime.Goexit ends Run, which is
	// reported to Config.OnError. Stats tells how long the cache has been waiting. Defaults to false.
	Inline bool
}

// Registration is a handler that was added to an informer: [Informer.AddHandler] returns it. It removes the handler, and reports its progress.
// A Registration is a [Syncer]. Several goroutines may call its methods concurrently.
type Registration interface {
	// Name returns the name of the informer and the number of the handler, counted from 1 in the order of AddHandler.
	Name() string

	// Synced returns a channel that is closed when OnAdd has returned for every object that was in the cache when the handler joined.
	// Objects that are deleted before their turn do not count. If the handler is removed or Run ends first, the channel is never closed.
	Synced() <-chan struct{}

	// HasSynced reports whether Synced is closed.
	HasSynced() bool

	// WaitIdle waits until the handler's callbacks have returned for everything that is in the cache when WaitIdle is called. It first
	// waits until the handler has joined, and so for the first list. Later changes do not delay it.
	//
	// If ctx ends first, WaitIdle returns an error that wraps the cause of ctx. If the handler is removed or Run ends first, it
	// returns an error that wraps [ErrEnded]. A callback of the handler must not call WaitIdle: it would wait for its own return.
	WaitIdle(ctx context.Context) error

	// Remove removes the handler from the informer. Its pending changes are dropped, and no further callback is called; one may be in
	// flight. Remove never waits, so it may be called anywhere. A callback that removes its own handler is the last one. A second Remove
	// has no effect.
	//
	// The channel is closed when no callback of the handler is running. Wait for it before you release anything that the callbacks use:
	//
	//	<-reg.Remove()
	//
	// A callback of the handler itself must not wait for the channel: it would wait for its own return.
	Remove() (done <-chan struct{})
}
