package controller

import (
	"context"

	"github.com/setpoint-go/setpoint/controller/internal/input"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// Input adds keys to a [Controller] while it runs. [New] takes inputs; [For], [Owns], [Watches] and [Handles] make them. What is
// no informer, such as a webhook or a channel, calls [Controller.Add].
type Input[K comparable] interface {
	// feed returns what feeds a controller. It is called by New, once for each controller.
	feed(to *input.Target[K]) *input.Feed[K]
}

// Watch is an [Input]: the objects of an informer, and how they become keys. It is a value. Its methods return a changed copy,
// and several controllers may share one. [For], [Owns], [Watches] and [Handles] make watches.
//
// A watch adds the keys of all objects that are there when a Run of the controller begins, and from then on the keys of each
// object that appears, changes, or disappears. For an update, the keys of both the old and the new state are added, each once.
// For a deletion, those of the last known state are. Each change in the cache is looked at, and none is merged with another: a
// reconcile may have acted on a state that lasted for a moment only.
//
// Three questions have three answers:
//
//   - Which objects count? Those that pass [Watch.Where]. Defaults to all.
//   - Which updates are news? Those that pass [Watch.When]. Others add no key. Defaults to all.
//   - Whose turn is it? News has [Watch.Priority], which defaults to 0. What is no news has Config.Background: the objects that
//     are there when a Run begins, and those that a resync repeats. If a key has both, the higher counts.
//
// Whether an update is one, or repeats an object, the informer knows: nothing is compared. A list after a gap is an update of
// every object, unless the source is an [informer.Equaler], as every store is.
//
// A manager runs the informer: see [Controller.Sources]. No Run hears of an object that was deleted before it began, as no
// process does. Work that a deletion asks for needs a mark on the object, such as a finalizer, or a comparison with what is there.
//
// If a function that was given to a watch panics, the change counts, and the panic is logged.
type Watch[K comparable, T any] struct {
	rules    input.Rules[T]
	priority int
	source   informer.Syncer
	make     func(o input.Origin[K], r input.Rules[T]) *input.Feed[K]
}

// For returns the watch of the objects whose keys are reconciled: each adds its own key.
func For[K comparable, T any](inf *informer.Informer[K, T]) Watch[K, T] {
	mustHave("For", "informer", inf == nil)
	return Watch[K, T]{source: inf, make: func(o input.Origin[K], r input.Rules[T]) *input.Feed[K] {
		return input.Own(o, r, inf)
	}}
}

// Owns returns the watch of objects that are owned by those whose keys are reconciled. A child adds the key of the object that
// controls it, if that is of the given kind. For a child that passes to another owner, the keys of both are added.
func Owns[C any](inf *store.Informer[C], kind string) Watch[string, store.Object[C]] {
	mustHave("Owns", "informer", inf == nil)
	return Watch[string, store.Object[C]]{source: inf, make: func(
		o input.Origin[string], r input.Rules[store.Object[C]],
	) *input.Feed[string] {
		return input.Pointing(o, r, inf, func(child store.Object[C]) (key string, ok bool) {
			by, ok := owner.ControllerOf(child)
			return by.Key, ok && by.Kind == kind
		})
	}}
}

// Watches returns the watch of objects that have to do with those whose keys are reconciled: to returns the keys of an object. It
// may ask a database for them, say, but it should be quick, because it holds up the other changes of this watch.
//
// A change that to could not map is not lost. If to returns an error or panics, it is called again after a backoff that grows
// from 5 ms to a minute, until it succeeds. So is each state that the object takes on meanwhile: all owners that have lost the
// object since hear of it, and the one that has it now. Of more than 100 states, those in the middle are left out. What was not
// mapped when a Run ends, the next Run maps, also if the object is gone by then.
//
// The context of to ends when Run has to stop. Two goroutines at most call to, another one for Config.Resync, and whoever calls Acquired.
func Watches[K, S comparable, T any](
	inf *informer.Informer[S, T], to func(ctx context.Context, obj T) ([]K, error),
) Watch[K, T] {
	mustHave("Watches", "informer", inf == nil)
	mustHave("Watches", "function", to == nil)
	return Watch[K, T]{source: inf, make: func(o input.Origin[K], r input.Rules[T]) *input.Feed[K] {
		return input.Mapped(o, r, inf, to)
	}}
}

// Handles returns the watch that has a handler of its own, which decides which events matter, and for which keys. When a Run
// begins, handler is called with the function that adds a key, and what it returns is added to inf. When the Run ends, it is
// removed. Keys that it adds are news. Objects and updates that do not pass Where and When are not told.
//
// Config.Resync does not reach keys that only a handler knows: it has a ResyncPeriod of its own.
func Handles[K, S comparable, T any](
	inf *informer.Informer[S, T], handler func(add func(K)) informer.Handler[S, T],
) Watch[K, T] {
	mustHave("Handles", "informer", inf == nil)
	mustHave("Handles", "handler", handler == nil)
	return Watch[K, T]{source: inf, make: func(o input.Origin[K], r input.Rules[T]) *input.Feed[K] {
		return input.Handled(o, r, inf, handler)
	}}
}

// Where makes only those objects count that pass. An update into them is an addition, and one out of them is a deletion. pass must
// answer the same for the same object each time, and with Config.Resync it must be safe for concurrent use. Of several Where, an
// object must pass all.
func (w Watch[K, T]) Where(pass func(T) bool) Watch[K, T] {
	mustHave("Where", "function", pass == nil)
	if before := w.rules.Where; before != nil {
		w.rules.Where = func(obj T) bool { return before(obj) && pass(obj) }
	} else {
		w.rules.Where = pass
	}
	return w
}

// When makes only those updates add keys that are news, such as those with store.GenerationChanged, or those in which a
// field that matters differs. It is not asked of an object that is there when a Run begins, of an addition, a deletion, or a resync:
// these always add keys. Of several When, an update must pass all.
func (w Watch[K, T]) When(news func(old, new T) bool) Watch[K, T] {
	mustHave("When", "function", news == nil)
	if before := w.rules.When; before != nil {
		w.rules.When = func(old, new T) bool { return before(old, new) && news(old, new) }
	} else {
		w.rules.When = news
	}
	return w
}

// Priority is the priority of news: keys of a higher one are reconciled first. Defaults to 0.
func (w Watch[K, T]) Priority(p int) Watch[K, T] {
	w.priority = p
	return w
}

func (w Watch[K, T]) feed(to *input.Target[K]) *input.Feed[K] {
	if w.make == nil {
		panic("controller: New called with a zero Watch")
	}
	return w.make(input.Origin[K]{To: to, Name: w.source.Name(), Priority: w.priority}, w.rules)
}

// Source fills a cache, and continues until its context ends. An *informer.Informer is a source.
//
// If a source has a method Check() error, the manager calls it.
type Source interface {
	informer.Syncer

	// Run blocks until ctx ends. A manager calls it once, unless the source fails and the manager starts it again.
	Run(ctx context.Context) error
}

// Sources returns the informers of the inputs of c, and Config.Reads, each once. A manager runs them. Without a manager, the
// program calls Run of each: Run of c does not, because it is called once for each term, an informer runs once, and two
// controllers may watch one informer.
func (c *Controller[K]) Sources() []Source {
	sources := make([]Source, len(c.inputs.Sources()))
	for i, s := range c.inputs.Sources() {
		sources[i] = s
	}
	return sources
}

// mustHave panics if an argument of a call is nil.
func mustHave(call, argument string, isNil bool) {
	if isNil {
		panic("controller: " + call + " called with a nil " + argument)
	}
}

// NewCollector returns a controller that deletes children when all their owners are gone: background collection, for children
// whose owners are in one store. Its keys are those of the children, and its name is their kind and " collector". It looks at
// each child when it starts, when the child changes, and when its owner disappears or is another life of the same key. seen mirrors
// the owners.
//
// For owners of several kinds, call [owner.Children.Collect] in a reconcile, with the inputs that this function has: the children,
// by [For], and the owners of each kind, by [Watches], mapped with [owner.Children.Keys]. Do not filter out updates that change the
// UID: an owner that is deleted and created again may arrive as one update.
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
	}).When(func(old, new store.Object[T]) bool { return old.UID != new.UID })) // a list may merge a deletion with what follows
}
