package controller

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// Input adds keys to a [Controller] while it runs. [New] takes inputs; [For], [Owns], [Watches], and [Handles] make them. For a
// webhook or a channel, call [Controller.Add].
type Input[K comparable] interface {
	// feed returns the feed of one controller. New calls it once per controller.
	feed(c *Controller[K]) *feed[K]
}

// Watch is an [Input]: the objects of an informer, and how they map to keys. It is a value: its methods return a modified copy, and several
// controllers may share one. [For], [Owns], [Watches], and [Handles] make watches.
//
// When a Run of the controller begins, a watch adds the keys of all objects that are present. From then on it adds the keys of
// each object that is added, updated, or deleted. An update adds the keys of both the old and the new state, each once; a
// deletion adds those of the last state in the cache and of the final one, which differ if one write changes an object and
// deletes it. A watch sees each change in the cache and merges none: a reconcile may have acted on a state that lasted only for
// a moment. With [Handles], all this is up to the handler, such as its field EveryEvent.
//
// For [For] and [Owns], the informer itself adds the keys, right after the cache shows the change and its version: see
// [informer.Handler.Inline]. So the functions of [Watch.Where] and [Watch.When] must be fast then, and must not wait for anything: the cache
// waits for them, and with it each controller that has the informer. [Controller.Check] finds one that does not return, and so does
// Applying of [informer.Stats]. A mapper of [Watches], and its Where and When, may be slower: they delay only that watch.
//
// These methods change a watch:
//
//   - [Watch.Where] selects objects. Defaults to all.
//   - [Watch.When] selects updates. Other updates add no key. Defaults to all.
//   - [Watch.Priority] is the priority of changes. Defaults to 0. Initial lists and resyncs have the priority Config.Background: see
//     there. If a key has both, the higher one counts.
//   - [Watch.ChangedBy] and [Watch.Lane] let each change decide where its keys wait: so a bulk change does not delay others.
//   - [Watch.UnreadToo] reconciles objects that cannot be read.
//
// After a gap, a list counts as an update of every object, unless the source is an [informer.Equaler], as every store is.
//
// A manager runs the informer: see [Controller.Informers]. As after a restart of the process, a Run gets no event of objects that
// were deleted before it began. If a deletion requires work, use a mark on the object, such as a finalizer, or compare with the
// actual state.
//
// If a filter function of a watch panics, the change passes, and the panic is logged. The functions that make a watch, and its methods,
// panic if an argument is nil.
type Watch[K comparable, T any] struct {
	rules     rules[T]
	priority  int
	changedBy func(T) string // sets the lane, unless that is set; nil for nobody
	informer  sourced
	make      func(o origin[K], r rules[T]) *feed[K]
}

// sourced is what a Watch needs of an informer, without its types.
type sourced interface {
	informer.Syncer
	Source() any
}

// For returns the watch of the objects that the controller reconciles. Each adds its own key. The key function of the informer, and the
// functions of Where and When, must be fast: see [Watch].
//
// If an object exists and cannot be read, or may exist, its key is held until the object is read or deleted: see
// [informer.Informer.Unread]. Otherwise a reconcile would take it for deleted, or act on an old state. [Watch.UnreadToo] changes that.
func For[K comparable, T any](inf *informer.Informer[K, T]) Watch[K, T] {
	mustHave("For", "informer", inf == nil)
	return Watch[K, T]{informer: inf, make: func(o origin[K], r rules[T]) *feed[K] {
		return forFeed(o, r, inf)
	}}
}

// Owns returns the watch of children of the objects that the controller reconciles. A child adds the key of the object that
// controls it, if that object is of the given kind, which is the one given to store.Open. A child that changes its owner adds the keys of
// both owners.
//
// New returns an error if kind differs from the kind of an informer of the controller only in upper and lower case, and no informer has this
// kind. It cannot know more: the keys of a kind that no informer mirrors may come from another source. A child whose owner is of another kind
// adds no key. The first such child is logged as a warning if the two kinds differ only in upper and lower case, or if the owner is of a kind
// that a [For] of the controller has, and no informer of the controller has the given kind.
//
// The functions of Where and When must be fast: see [Watch].
func Owns[C any](inf *store.Informer[C], kind string) Watch[string, store.Object[C]] {
	mustHave("Owns", "informer", inf == nil)
	return Watch[string, store.Object[C]]{informer: inf, make: func(
		o origin[string], r rules[store.Object[C]],
	) *feed[string] {
		var logged atomic.Bool
		f := ownsFeed(o, r, inf, func(child store.Object[C]) (key string, ok bool) {
			by, ok := owner.ControllerOf(child)
			if ok && by.Kind != kind && !logged.Load() && o.of.mistakes(by.Kind, kind) && logged.CompareAndSwap(false, true) {
				o.of.cfg.Logger.LogAttrs(context.Background(), slog.LevelWarn, "Owns ignores children: the kind of their owner is another",
					slog.String("controller", o.of.name), slog.String("watch", o.name), slog.String("kind", kind),
					slog.String("owner_kind", by.Kind), slog.String("object", child.Key))
			}
			return by.Key, ok && by.Kind == kind
		})
		f.owner = kind
		return f
	}}
}

// Watches returns the watch of other objects that matter to the keys of the controller: keysOf returns those of an object. It may
// query a database, but it should be fast, because it delays the other changes of this watch.
//
// If keysOf returns an error or panics, it is called again after a backoff from 5 ms to a minute, until it succeeds, or when it succeeds for a
// later state of the object. A change does not wait for the backoff: keysOf is called for the new state at once. Each state that the object takes
// on in the meantime is mapped too, so every owner that has had the object is reconciled. If there are more than 100 states, those in the
// middle are dropped. The next Run retries mappings that have not succeeded when a Run ends, even for objects that have been deleted
// since.
//
// The context of keysOf ends when Run must stop. Each controller that has the watch calls keysOf from up to two goroutines, from a third one with
// Config.Resync, and from callers of [Controller.Acquired] and of Resync of an [Inspector].
func Watches[K, S comparable, T any](
	inf *informer.Informer[S, T], keysOf func(ctx context.Context, obj T) ([]K, error),
) Watch[K, T] {
	mustHave("Watches", "informer", inf == nil)
	mustHave("Watches", "function", keysOf == nil)
	return Watch[K, T]{informer: inf, make: func(o origin[K], r rules[T]) *feed[K] {
		return watchesFeed(o, r, inf, keysOf)
	}}
}

// Handles returns a watch with your own handler, which decides which events add which keys. When a Run begins, the watch calls handler with
// a function that adds a key, and adds the returned handler to inf. When the Run ends, it removes the handler. The keys have the priority
// of changes. Objects and updates that do not pass Where and When do not reach the handler.
//
// Config.Resync does not apply to keys that only a handler knows; set the ResyncPeriod of the handler.
func Handles[K, S comparable, T any](
	inf *informer.Informer[S, T], handler func(add func(K)) informer.Handler[S, T],
) Watch[K, T] {
	mustHave("Handles", "informer", inf == nil)
	mustHave("Handles", "handler", handler == nil)
	return Watch[K, T]{informer: inf, make: func(o origin[K], r rules[T]) *feed[K] {
		return handlesFeed(o, r, inf, handler)
	}}
}

// Where restricts the watch to objects for which pass returns true. An object that begins to pass counts as an addition, and one that no
// longer passes as a deletion. pass must be deterministic and fast, and must not call runtime.Goexit: see [Watch]. It must be safe for concurrent use if several controllers have the watch, and
// with Config.Resync, [Controller.Share], or Resync of an [Inspector]. If Where is called several times, an object must pass all of them.
func (w Watch[K, T]) Where(pass func(T) bool) Watch[K, T] {
	mustHave("Where", "function", pass == nil)
	if before := w.rules.where; before != nil {
		w.rules.where = func(obj T) bool { return before(obj) && pass(obj) }
	} else {
		w.rules.where = pass
	}
	return w
}

// When restricts the watch to updates for which news returns true, such as [store.GenerationChanged] or a comparison of the fields
// that matter. It does not apply to initial lists, additions, deletions, and resyncs, which always add keys. news must be fast, and must not
// call runtime.Goexit: see [Watch]. If When is called several times, an update must pass all of them.
func (w Watch[K, T]) When(news func(old, new T) bool) Watch[K, T] {
	mustHave("When", "function", news == nil)
	if before := w.rules.when; before != nil {
		w.rules.when = func(old, new T) bool { return before(old, new) && news(old, new) }
	} else {
		w.rules.when = news
	}
	return w
}

// Priority sets the priority of changes. Keys with a higher priority are reconciled first. Defaults to 0.
func (w Watch[K, T]) Priority(p int) Watch[K, T] {
	w.priority = p
	return w
}

// Lane is where the keys of a change wait.
type Lane struct {
	// Priority is the priority of the keys, as in [AddOptions].
	Priority int

	// Group is the name of the group of the keys, as in [AddOptions]. Groups take turns.
	Group string
}

// merge returns the lane of a key that was added in two lanes. It is the one of higher priority, or the later one if the priorities are equal; if it
// has no group, it gets that of the other.
func (l Lane) merge(later Lane) Lane {
	if l.Priority > later.Priority {
		l, later = later, l
	}
	return Lane{later.Priority, cmp.Or(later.Group, l.Group)}
}

// Lane sets where the keys of each change wait, instead of [Watch.Priority]. of gets the old and the new state. Of an object that was added, both
// are the new one, and of one that was deleted, both are the last known one. It does not apply to initial lists and resyncs, which have the
// priority Config.Background, and no group. of must be fast, and must not call runtime.Goexit: see [Watch]. If it panics, the change has the
// priority of the watch. A later call of Lane or ChangedBy replaces it.
//
// While all keys wait in one lane, a bulk change of 50,000 objects delays all later changes. To tell a bulk change from others, of needs something in
// the object: a column that names who has changed a row, a priority that the job writes, or a field that only a job changes.
func (w Watch[K, T]) Lane(of func(old, new T) Lane) Watch[K, T] {
	mustHave("Lane", "function", of == nil)
	w.rules.lane, w.changedBy = of, nil
	return w
}

// ChangedBy makes those who change objects take turns: the group of the keys of a change is the text that who returns for the new state, or, of a
// deletion, for the last known one: a user, or the name of a job. So a change by one of them does not wait behind the thousands of another one, and a
// job goes on while others change objects all the time. An empty text is no group. It has the priority of the watch, and is otherwise like
// [Watch.Lane].
func (w Watch[K, T]) ChangedBy(who func(T) string) Watch[K, T] {
	mustHave("ChangedBy", "function", who == nil)
	w.rules.lane, w.changedBy = nil, who
	return w
}

// UnreadToo makes the controller reconcile also those keys of a [For] whose objects exist and cannot be read: such a key is not held, and it is
// added when its object becomes unread. For such a key, Get of the informer returns the last state that was read, or nothing, and its method
// Unread an error. UnreadToo has no effect on other watches.
func (w Watch[K, T]) UnreadToo() Watch[K, T] {
	w.rules.unreadToo = true
	return w
}

func (w Watch[K, T]) feed(c *Controller[K]) *feed[K] {
	if w.make == nil {
		panic("controller: New called with a zero Watch")
	}
	rules := w.rules
	if who := w.changedBy; who != nil {
		rules.lane = func(_, new T) Lane { return Lane{Priority: w.priority, Group: who(new)} }
	}
	clock, _ := reconcile.ClockOf(w.informer.Source())
	f := w.make(origin[K]{of: c, add: c.addFrom, name: w.informer.Name(), priority: w.priority, clock: clock}, rules)
	f.lanes = rules.lane != nil
	return f
}

// Informer is an [informer.Informer] without its types. Another type with these methods fills a cache in its own way. If it has a method
// Check() error, the manager calls it.
type Informer interface {
	informer.Syncer

	// Run blocks until ctx ends. A manager calls it once, unless the informer fails and the manager starts it again.
	Run(ctx context.Context) error
}

// Informers returns the informers of the inputs of c, and Config.Reads, each once. A manager runs them. Without a manager, the
// program calls Run of each. Run of c does not run them: it is called once per term, an informer runs only once, and two
// controllers may watch the same informer.
func (c *Controller[K]) Informers() []Informer {
	return slices.Clone(c.inputs.informers)
}

// mustHave panics if an argument of a call is nil.
func mustHave(call, argument string, isNil bool) {
	if isNil {
		panic("controller: " + call + " called with a nil " + argument)
	}
}

// NewCollector returns a controller that deletes children when all their owners are gone: background collection, for children
// whose owners are in one store. Its keys are those of the children, and its name is their kind and " collector". It reconciles
// each child when it starts, when the child changes, and when an owner is deleted, or deleted and created again. If the store has an owner that
// seen does not show, it reconciles the child again after 10 seconds. seen mirrors the owners.
//
// For owners of several kinds, call [owner.Children.Collect] in a reconcile, with [owner.Watched] for each kind, and with the inputs of this
// function: the children by [For], and the owners of each kind by [Watches], mapped with [owner.Children.Keys]. Do not filter out updates that
// change the UID: an owner that is deleted and created again may arrive as one update.
//
// NewCollector panics if children, owners, or seen is nil.
func NewCollector[C, T any](
	children *owner.Children[C], owners store.Store[T], seen *store.Informer[T], cfg Config[string],
) (*Controller[string], error) {
	mustHave("NewCollector", "children", children == nil)
	mustHave("NewCollector", "informer", seen == nil)
	of := owner.Watched(owners, seen)
	return New(children.Kind()+" collector", func(ctx context.Context, key string) (Result, error) {
		_, err := children.Collect(ctx, key, of)
		return Result{}, err
	}, cfg, For(children.Informer()), Watches(seen, func(_ context.Context, o store.Object[T]) ([]string, error) {
		return children.Keys(o.Ref()), nil
	}).When(func(old, new store.Object[T]) bool { return old.UID != new.UID })) // a list may merge a deletion with a later creation
}
