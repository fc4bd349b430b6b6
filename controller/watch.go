package controller

import (
	"context"

	"github.com/setpoint-go/setpoint/controller/internal/input"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// Input adds keys to a [Controller] while it runs. [New] takes inputs; [For], [Owns], [Watches], and [Handles] make them. For a
// webhook or a channel, call [Controller.Add].
type Input[K comparable] interface {
	// feed returns the feed of one controller. New calls it once per controller.
	feed(to *input.Target[K]) *input.Feed[K]
}

// Watch is an [Input]: the objects of an informer, and how they map to keys. It is a value: its methods return a modified copy, and several
// controllers may share one. [For], [Owns], [Watches], and [Handles] make watches.
//
// When a Run of the controller begins, a watch adds the keys of all objects that are present. From then on it adds the keys of
// each object that is added, updated, or deleted. An update adds the keys of both the old and the new state, each once; a
// deletion adds those of the last known state. A watch sees each change in the cache and merges none: a reconcile may have
// acted on a state that lasted only for a moment. With [Handles], all this is up to the handler, such as its field EveryEvent.
//
// Three methods restrict a watch:
//
//   - [Watch.Where] selects objects. Defaults to all.
//   - [Watch.When] selects updates. Other updates add no key. Defaults to all.
//   - [Watch.Priority] is the priority of changes. Defaults to 0. Initial lists and resyncs have the priority Config.Background: see
//     there. If a key has both, the higher one counts.
//
// After a gap, a list counts as an update of every object, unless the source is an [informer.Equaler], as every store is.
//
// A manager runs the informer: see [Controller.Informers]. As after a restart of the process, a Run does not learn of objects that
// were deleted before it began. If a deletion requires work, use a mark on the object, such as a finalizer, or compare with the
// actual state.
//
// If a filter function of a watch panics, the change passes, and the panic is logged. The functions that make a watch, and its methods,
// panic if an argument is nil.
type Watch[K comparable, T any] struct {
	rules    input.Rules[T]
	priority int
	informer informer.Syncer
	make     func(o input.Origin[K], r input.Rules[T]) *input.Feed[K]
}

// For returns the watch of the objects that the controller reconciles. Each adds its own key.
func For[K comparable, T any](inf *informer.Informer[K, T]) Watch[K, T] {
	mustHave("For", "informer", inf == nil)
	return Watch[K, T]{informer: inf, make: func(o input.Origin[K], r input.Rules[T]) *input.Feed[K] {
		return input.Own(o, r, inf)
	}}
}

// Owns returns the watch of children of the objects that the controller reconciles. A child adds the key of the object that
// controls it, if that object is of the given kind. A child that changes its owner adds the keys of both owners.
func Owns[C any](inf *store.Informer[C], kind string) Watch[string, store.Object[C]] {
	mustHave("Owns", "informer", inf == nil)
	return Watch[string, store.Object[C]]{informer: inf, make: func(
		o input.Origin[string], r input.Rules[store.Object[C]],
	) *input.Feed[string] {
		return input.Pointing(o, r, inf, func(child store.Object[C]) (key string, ok bool) {
			by, ok := owner.ControllerOf(child)
			return by.Key, ok && by.Kind == kind
		})
	}}
}

// Watches returns the watch of other objects that matter to the keys of the controller: the mapper to returns the keys of an object. It may
// query a database, but it should be fast, because it delays the other changes of this watch.
//
// If to returns an error or panics, it is called again after a backoff from 5 ms to a minute, until it succeeds. Each state that the object
// takes on in the meantime is mapped too, so every owner that has had the object is reconciled. If there are more than 100 states, those in
// the middle are dropped. The next Run retries mappings that have not succeeded when a Run ends, even for objects that have been deleted
// since.
//
// The context of to ends when Run must stop. Each controller that has the watch calls to from up to two goroutines, from a third one with
// Config.Resync, and from callers of [Controller.Acquired] and of Resync of an [Inspector].
func Watches[K, S comparable, T any](
	inf *informer.Informer[S, T], to func(ctx context.Context, obj T) ([]K, error),
) Watch[K, T] {
	mustHave("Watches", "informer", inf == nil)
	mustHave("Watches", "function", to == nil)
	return Watch[K, T]{informer: inf, make: func(o input.Origin[K], r input.Rules[T]) *input.Feed[K] {
		return input.Mapped(o, r, inf, to)
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
	return Watch[K, T]{informer: inf, make: func(o input.Origin[K], r input.Rules[T]) *input.Feed[K] {
		return input.Handled(o, r, inf, handler)
	}}
}

// Where restricts the watch to objects for which pass returns true. An object that begins to pass counts as an addition, and one that no
// longer passes as a deletion. pass must be deterministic. It must be safe for concurrent use if several controllers have the watch, and
// with Config.Resync, [Controller.Share], or Resync of an [Inspector]. If Where is called several times, an object must pass all of them.
func (w Watch[K, T]) Where(pass func(T) bool) Watch[K, T] {
	mustHave("Where", "function", pass == nil)
	if before := w.rules.Where; before != nil {
		w.rules.Where = func(obj T) bool { return before(obj) && pass(obj) }
	} else {
		w.rules.Where = pass
	}
	return w
}

// When restricts the watch to updates for which news returns true, such as [store.GenerationChanged] or a comparison of the fields
// that matter. It does not apply to initial lists, additions, deletions, and resyncs, which always add keys. If When is called
// several times, an update must pass all of them.
func (w Watch[K, T]) When(news func(old, new T) bool) Watch[K, T] {
	mustHave("When", "function", news == nil)
	if before := w.rules.When; before != nil {
		w.rules.When = func(old, new T) bool { return before(old, new) && news(old, new) }
	} else {
		w.rules.When = news
	}
	return w
}

// Priority sets the priority of changes. Keys with a higher priority are reconciled first. Defaults to 0.
func (w Watch[K, T]) Priority(p int) Watch[K, T] {
	w.priority = p
	return w
}

func (w Watch[K, T]) feed(to *input.Target[K]) *input.Feed[K] {
	if w.make == nil {
		panic("controller: New called with a zero Watch")
	}
	return w.make(input.Origin[K]{To: to, Name: w.informer.Name(), Priority: w.priority}, w.rules)
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
	informers := make([]Informer, len(c.inputs.Informers()))
	for i, in := range c.inputs.Informers() {
		informers[i] = in
	}
	return informers
}

// mustHave panics if an argument of a call is nil.
func mustHave(call, argument string, isNil bool) {
	if isNil {
		panic("controller: " + call + " called with a nil " + argument)
	}
}

// NewCollector returns a controller that deletes children when all their owners are gone: background collection, for children
// whose owners are in one store. Its keys are those of the children, and its name is their kind and " collector". It reconciles
// each child when it starts, when the child changes, and when an owner is deleted, or deleted and created again. seen mirrors the
// owners.
//
// For owners of several kinds, call [owner.Children.Collect] in a reconcile, with the inputs of this function: the children by
// [For], and the owners of each kind by [Watches], mapped with [owner.Children.Keys]. Do not filter out updates that change the
// UID: an owner that is deleted and created again may arrive as one update.
//
// NewCollector panics if children, owners, or seen is nil.
func NewCollector[C, T any](
	children *owner.Children[C], owners store.Store[T], seen *store.Informer[T], cfg Config[string],
) (*Controller[string], error) {
	mustHave("NewCollector", "children", children == nil)
	mustHave("NewCollector", "informer", seen == nil)
	of := owner.In(owners)
	return New(children.Kind()+" collector", func(ctx context.Context, key string) (Result, error) {
		_, err := children.Collect(ctx, key, of)
		return Result{}, err
	}, cfg, For(children.Informer()), Watches(seen, func(_ context.Context, o store.Object[T]) ([]string, error) {
		return children.Keys(o.Ref()), nil
	}).When(func(old, new store.Object[T]) bool { return old.UID != new.UID })) // a list may merge a deletion with a later creation
}
