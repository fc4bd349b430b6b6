package controller

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/wait"
)

// feed is one input of one controller: a handler of an informer, the mapping from objects to keys, and the retries of that mapping. If the
// mapping cannot fail, as that of For and Owns, the informer calls the handler itself (informer.Handler.Inline): the queue merges keys, so
// nothing is gained by a second queue before it. A mapper of Watches may take its time, and has a goroutine.
//
// The route of an event: a listener of package informer calls the handler that newFeed makes, which restrict has limited to Where and When. The
// handler calls the report function of forFeed, ownsFeed, or watchesFeed (mapping.handle), and that calls addFor for each key. origin.add is
// Controller.addFrom.
//
//  1. Each change that counts is delivered, none is merged with another, and an event adds no key twice. For an update, both states are
//     mapped; for a deletion, the last known one.
//  2. The keys of an inline feed are added when the cache shows the change and its version, and before anybody who waits for that version
//     returns.
//  3. A state that could not be mapped is retried after a backoff from 5 ms to a minute. So is each state that the object takes on in the
//     meantime, up to 100 of them. If the feed stops first, the next start retries at once.
//  4. If a user function panics, nothing ends, and the change counts.
//  5. When stop has returned, the goroutines of the feed have ended, no key is added, and no user function runs.
type feed[K comparable] struct {
	informer Informer
	lanes    bool    // each change has a lane of its own
	owner    string  // the kind of the objects whose keys are added, if it is given
	retries  retrier // nil if nothing can fail
	join     func(context.Context) (informer.Registration, error)
	keys     func(ctx context.Context, slot int, add func(K)) // see present; nil if only a handler knows the keys
	contains func(key K) bool                                 // whether the object of key is present; nil unless keys are those of the objects
	unread   *unreadKeys[K]                                   // hold keys whose objects cannot be read; nil unless keys are those of the objects
	follow   func() (stop func())                             // adds the keys of such objects instead; nil unless UnreadToo

	reg      informer.Registration // while it is started; nil if join failed
	unfollow func()                // ends follow, while it is started
}

// retrier is a mapping, without its types.
type retrier interface {
	start(ctx context.Context)
	wait()
	unmapped() int
}

// rules select the changes that count. A nil function passes everything.
type rules[T any] struct {
	where func(T) bool          // which objects
	when  func(old, new T) bool // which updates

	lane func(old, new T) Lane // of a change; nil for that of the watch

	unreadToo bool // keys whose objects cannot be read are not held
}

// forFeed returns the feed of [For]: each object adds its own key.
func forFeed[K comparable, T any](o origin[K], r rules[T], inf *informer.Informer[K, T]) *feed[K] {
	f := newFeed(o, r, inf, nil,
		func(key K, e event[T]) {
			if e.what == deleted {
				o.of.dropExpectations(key) // before the add, so that nothing holds the key
			}
			addFor(o, key, key, &e)
			if e.hasNew() {
				checkSlot(o, inf, e.new, key)
			}
		},
		func(key K, _ T, add func(K)) { add(key) })
	f.contains = func(key K) bool {
		_, ok := inf.Get(key)
		return ok
	}
	if r.unreadToo {
		f.follow = func() (stop func()) {
			return followUnread(inf, func(key K) { o.add(key, o.addition(unreadable, "", o.lane())) })
		}
		readable := f.keys
		f.keys = func(ctx context.Context, slot int, add func(K)) {
			readable(ctx, slot, add)
			for key := range inf.AllUnread() {
				add(key)
			}
		}
	} else {
		f.unread = &unreadKeys[K]{name: inf.Name(), err: inf.Unread, onReadable: inf.OnReadable}
	}
	return f
}

// ownsFeed returns the feed of [Owns]: each object adds the key that ownerOf returns, if any. ownerOf must be fast.
func ownsFeed[K, S comparable, T any](o origin[K], r rules[T], inf *informer.Informer[S, T], ownerOf func(T) (key K, ok bool)) *feed[K] {
	return newFeed(o, r, inf, nil, func(src S, e event[T]) {
		var old, now K
		var hadOwner, hasOwner bool
		if e.hasOld() {
			if old, hadOwner = ownerOf(e.old); hadOwner {
				addFor(o, old, src, &e)
				checkSlot(o, inf, e.old, old)
			}
		}
		// A second add while a worker reconciles the key would bring it back for nothing.
		if e.hasNew() {
			if now, hasOwner = ownerOf(e.new); hasOwner && !(hadOwner && now == old) {
				addFor(o, now, src, &e)
				checkSlot(o, inf, e.new, now)
			}
		}
	}, func(_ S, obj T, add func(K)) {
		if key, ok := ownerOf(obj); ok {
			add(key)
		}
	})
}

// watchesFeed returns the feed of [Watches]: each object adds the keys that keysOf returns. If keysOf fails, it is called again.
func watchesFeed[K, S comparable, T any](
	o origin[K], r rules[T], inf *informer.Informer[S, T], keysOf func(ctx context.Context, obj T) ([]K, error),
) *feed[K] {
	m := newMapping[K, S](o, func(ctx context.Context, obj T) ([]K, error) {
		keys, err := keysOf(ctx, obj)
		for _, key := range keys {
			checkSlot(o, inf, obj, key)
		}
		return keys, err
	})
	return newFeed(o, r, inf, m, m.handle, m.keys)
}

// handlesFeed returns the feed of [Handles]: a handler of the user. The function that handler is given adds a key, as news.
func handlesFeed[K, S comparable, T any](
	o origin[K], r rules[T], inf *informer.Informer[S, T], handler func(add func(K)) informer.Handler[S, T],
) *feed[K] {
	return &feed[K]{informer: inf, join: func(ctx context.Context) (informer.Registration, error) {
		return inf.AddHandler(restrict(ctx, o, r, inf, handler(func(key K) { o.add(key, o.addition(handled, "", o.lane())) })))
	}}
}

// newFeed returns the feed whose handler calls report for each change that counts. keys adds the keys of one object.
func newFeed[K, S comparable, T any](
	o origin[K], r rules[T], inf *informer.Informer[S, T], retries retrier,
	report func(key S, e event[T]), keys func(key S, obj T, add func(K)),
) *feed[K] {
	present := func(ctx context.Context, slot int, add func(K)) {
		objects := inf.All()
		if slot != noSlot && inf.Divided() {
			objects = inf.InSlot(slot)
		}
		for key, obj := range objects {
			if ctx.Err() != nil {
				return
			}
			if r.where == nil || o.ask(ctx, "Where", func() any { return key }, func() bool { return r.where(obj) }) {
				keys(key, obj, add)
			}
		}
	}
	return &feed[K]{informer: inf, retries: retries, keys: present, join: func(ctx context.Context) (informer.Registration, error) {
		laneOf := func(_, _ T) Lane { return o.lane() }
		if r.lane != nil {
			laneOf = func(old, new T) (lane Lane) {
				defer func() {
					if v := recover(); v != nil {
						o.log(ctx, "Lane panicked, the change has the priority of the watch", inf.Key(new), &wait.PanicError{Value: v, Stack: debug.Stack()})
						lane = o.lane()
					}
				}()
				return r.lane(old, new)
			}
		}
		return inf.AddHandler(restrict(ctx, o, r, inf, informer.Handler[S, T]{
			// A reconcile may have acted on any state. If one were merged away, nothing would bring back the keys to which it was mapped.
			EveryEvent: true,
			Inline:     retries == nil,
			OnAdd: func(obj T, initial bool) {
				e := event[T]{what: listed, new: obj, lane: o.lane()}
				if !initial {
					e.what, e.trace, e.lane = added, traceOf(o, obj), laneOf(obj, obj)
				}
				report(inf.Key(obj), e)
			},
			OnUpdate: func(old, new T) {
				report(inf.Key(new), event[T]{what: updated, old: old, new: new, trace: traceOf(o, new), lane: laneOf(old, new)})
			},
			OnResync: func(obj T) { report(inf.Key(obj), event[T]{what: repeated, new: obj, lane: o.lane()}) },
			OnDelete: func(t cache.Tombstone[S, T]) {
				// The last write may have changed the object and ended it, so both states count, as in an update.
				e := event[T]{what: deleted, old: t.Previous, new: t.Object, finalUnknown: t.FinalStateUnknown, lane: laneOf(t.Object, t.Object)}
				if !t.FinalStateUnknown { // else the object is that of an earlier write
					e.trace = traceOf(o, t.Object)
				}
				report(t.Key, e)
			},
		}))
	}}
}

// traceOf returns the trace context of the last write of an object. It is empty if there is none, or without Hooks.Trace.
func traceOf[K comparable, T any](o origin[K], obj T) string {
	if o.of.cfg.Hooks.Trace != nil {
		if t, ok := any(obj).(interface{ TraceContext() string }); ok {
			return t.TraceContext()
		}
	}
	return ""
}

// restrict returns h, limited to the changes that pass the rules.
func restrict[K, S comparable, T any](
	ctx context.Context, o origin[K], r rules[T], inf *informer.Informer[S, T], h informer.Handler[S, T],
) informer.Handler[S, T] {
	if r.where != nil {
		filter := h.Filter
		h.Filter = func(obj T) bool {
			return o.ask(ctx, "Where", func() any { return inf.Key(obj) }, func() bool { return r.where(obj) }) &&
				(filter == nil || filter(obj))
		}
	}
	if update := h.OnUpdate; r.when != nil && update != nil {
		if h.OnResync == nil {
			h.OnResync = func(obj T) { update(obj, obj) }
		}
		h.OnUpdate = func(old, new T) {
			if o.ask(ctx, "When", func() any { return inf.Key(new) }, func() bool { return r.when(old, new) }) {
				update(old, new)
			}
		}
	}
	return h
}

// start joins the informer, until stop is called, and retries mappings that failed earlier, until ctx ends.
func (f *feed[K]) start(ctx context.Context) (informer.Registration, error) {
	if f.retries != nil {
		f.retries.start(ctx)
	}
	reg, err := f.join(ctx)
	f.reg = reg
	if f.follow != nil && err == nil {
		f.unfollow = f.follow()
	}
	return reg, err
}

// stop returns when everything that start has started has ended, and no key will be added. Call it after each start, even one that returned
// an error, when its ctx has ended.
func (f *feed[K]) stop() {
	if f.reg != nil {
		<-f.reg.Remove()
	}
	if f.unfollow != nil {
		f.unfollow()
		f.unfollow = nil
	}
	if f.retries != nil {
		f.retries.wait()
	}
}

// noSlot stands for all slots.
const noSlot = -1

// present adds the keys of all present objects that count, until ctx ends: those of a slot if the informer is divided, and slot is not noSlot. It
// adds none if only a handler of the user knows them. It is
// called between start and stop.
func (f *feed[K]) present(ctx context.Context, slot int, add func(K)) {
	if f.keys != nil {
		f.keys(ctx, slot, add)
	}
}

// unmapped returns the number of objects that could not be mapped yet.
func (f *feed[K]) unmapped() int {
	if f.retries == nil {
		return 0
	}
	return f.retries.unmapped()
}

// addition is a key that an input adds: how, why, and because of which change.
type addition struct {
	AddOptions
	news   bool
	change change // zero if its versions are not known, or do not matter
}

// change is a change of one object in a store.
type change struct {
	clock           reconcile.Clock
	object          string // its key
	before, version uint64 // before is zero for an object that was created, and if deleted is set
	deleted         bool
}

// origin is the controller and the input that keys come from.
type origin[K comparable] struct {
	of       *Controller[K]
	add      func(key K, a addition) // Controller.addFrom; only tests set another function. It does not block
	name     string
	priority int             // of its news
	clock    reconcile.Clock // of the source; zero if it is not a store
}

// addFor adds a key because of e, an event of the object under src.
func addFor[K, S comparable, T any](o origin[K], key K, src S, e *event[T]) {
	a := o.addition(e.what, e.trace, e.lane)
	if o.clock.Kind != "" && a.news && o.of.own.tracked(key) {
		a.change = changeOf(o.clock, src, e)
	}
	o.add(key, a)
}

// checkSlot reports an object of a divided informer that is mapped to a key of another slot. The replica that owns that slot does not see the
// object.
func checkSlot[K, S comparable, T any](o origin[K], inf *informer.Informer[S, T], obj T, key K) {
	if !inf.Divided() {
		return
	}
	of, shared := inf.Slot(obj)
	slots := o.of.slots.Load()
	if !shared || slots == nil {
		return
	}
	if wants, ok := o.of.slotOf(*slots, key); ok && wants != of {
		o.of.misplaced(o.name, inf.Key(obj), of, key, wants)
	}
}

// changeOf returns the change that e reports, or the zero change if the versions are not known.
func changeOf[S comparable, T any](clock reconcile.Clock, src S, e *event[T]) change {
	object, ok := any(src).(string)
	if !ok || e.what == deleted && e.finalUnknown {
		return change{}
	}
	c := change{clock: clock, object: object, deleted: e.what == deleted}
	if e.what == updated {
		c.before = versionOf(e.old)
	}
	c.version = versionOf(e.new)
	if c.version == 0 || e.what == updated && c.before == 0 {
		return change{}
	}
	return c
}

// versionOf returns the version of an object of a store, or 0 if obj is another type.
func versionOf[T any](obj T) uint64 {
	if o, ok := any(obj).(interface {
		At() (string, informer.Version)
	}); ok {
		_, v := o.At()
		return uint64(v)
	}
	return 0
}

// lane returns the lane of the watch.
func (o origin[K]) lane() Lane { return Lane{Priority: o.priority} }

// addition returns how a key is added for an event, without the change.
func (o origin[K]) addition(what eventType, trace string, lane Lane) addition {
	a := addition{AddOptions: AddOptions{Priority: lane.Priority, Group: lane.Group, Trace: trace}, news: what.isNews()}
	if !a.news {
		a.Priority = min(a.Priority, o.of.cfg.Background)
	}
	if o.of.cfg.Reasons {
		a.Reason = o.name + what.String()
	}
	return a
}

// ask returns whether a change to the object under key counts, as a user function decides. It counts if the function panics.
func (o origin[K]) ask(ctx context.Context, function string, key func() any, f func() bool) (counts bool) {
	defer func() {
		if v := recover(); v != nil {
			o.log(ctx, function+" panicked, the change counts", key(), &wait.PanicError{Value: v, Stack: debug.Stack()})
			counts = true
		}
	}()
	return f()
}

// log logs a problem with the object under a key, since no caller receives it as an error.
func (o origin[K]) log(ctx context.Context, message string, key any, err error) {
	attrs := []slog.Attr{
		slog.String("controller", o.of.name), slog.String("watch", o.name), slog.Any("object", key), slog.Any("error", err),
	}
	if p := (*wait.PanicError)(nil); errors.As(err, &p) {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	o.of.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, message, attrs...)
}

// event is a change that a feed received.
type event[T any] struct {
	what         eventType
	old, new     T      // zero if there is none
	trace        string // the trace context of the change; empty if there is none
	lane         Lane
	finalUnknown bool // the object is deleted, and new is not its final state
}

// hasOld and hasNew report whether there is an old and a new state. A deletion has the last state as its new one, if that is known.
func (e event[T]) hasOld() bool { return e.what == updated || e.what == deleted }
func (e event[T]) hasNew() bool { return e.what != deleted || !e.finalUnknown }

// eventType is what has happened to an object.
type eventType int

const (
	listed   eventType = iota // was present when the feed began
	repeated                  // is still present: a resync
	handled                   // reported by a handler of the user
	added
	updated
	deleted
	unreadable
)

// isNews reports whether something has changed.
func (h eventType) isNews() bool { return h > repeated }

// and returns the more important of two: the later one, unless only the earlier one is news.
func (h eventType) and(later eventType) eventType {
	if h.isNews() && !later.isNews() {
		return h
	}
	return later
}

// String returns the text in reasons after the name of the informer.
func (h eventType) String() string {
	return [...]string{" listed", " listed again", " handled", " added", " updated", " deleted", " unreadable"}[h]
}
