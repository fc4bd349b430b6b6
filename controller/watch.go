package controller

import (
	"context"
	"reflect"
	"slices"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// WatchKeys makes c reconcile the keys of the objects of inf: it is [Watch] for a controller whose keys are those of what it
// watches. It needs no goroutine, and no allocation for a change.
func WatchKeys[K comparable, T any](c *Controller[K], inf *informer.Informer[K, T], filters ...Filter[T]) {
	needWatch("WatchKeys", c, inf)
	o := origin[K]{c, inf.Name()}
	watch(o, inf, nil, func(key K, e event[T]) { o.add(key, e.low, e.what) }, filters)
}

// Watch makes c reconcile the keys to which mapper maps the objects of inf: all that are there when a Run of c begins,
// and from then on each one that appears, changes or disappears. For a change the keys of the old and of the new object
// are added, each once; for a deletion those of the last state that was known. Only changes that pass all filters count.
//
// What is there when a Run begins, and updates that change nothing, as those of a resync, have Config.LowPriority.
//
// The informer is run by somebody else. Run of c waits until it has synced, and until its objects have been mapped. What
// is deleted while no Run is under way is not reported by the next one, as it is not after a restart of the process: work
// that a deletion asks for needs a mark on the object, such as a finalizer, or a comparison with what is there.
//
// mapper must not block for long: it holds up the other events of this watch. If it panics, the change is mapped again
// after a backoff, as with [WatchMap]. Watch panics while Run is under way.
func Watch[K, S comparable, T any](
	c *Controller[K], inf *informer.Informer[S, T], mapper func(key S, obj T) []K, filters ...Filter[T],
) {
	needWatch("Watch", c, inf)
	if mapper == nil {
		panic("controller: Watch called with a nil mapper")
	}
	WatchMap(c, inf, func(_ context.Context, key S, obj T) ([]K, error) { return mapper(key, obj), nil }, filters...)
}

// WatchOwned makes c reconcile the owners of the objects of inf: for each child that appears, changes or disappears the key of
// the object that controls it, if that is of the given kind; for one that passes to another owner the keys of both. It is
// [Watch] with [owner.ControlledBy].
func WatchOwned[T any](
	c *Controller[string], inf *informer.Informer[string, store.Object[T]], kind string, filters ...Filter[store.Object[T]],
) {
	keys := owner.ControlledBy[T](kind)
	Watch(c, inf, func(_ string, child store.Object[T]) []string { return keys(child) }, filters...)
}

// WatchMap is [Watch] with a mapper that may fail, because it asks a database for the keys, say.
//
// A change that could not be mapped, because the mapper returned an error or panicked, is not lost: it is mapped again
// after a backoff that grows from 5 ms to a minute, until it succeeds. So is each state that the object takes on
// meanwhile, so that all are told who have lost the object since, and who has it now; of more than 100 states those in the
// middle are left out. What was not mapped when a Run ends is mapped by the next one, also of an object that is gone.
//
// The context ends when Run has to stop. The mapper is called by two goroutines at most.
func WatchMap[K, S comparable, T any](
	c *Controller[K], inf *informer.Informer[S, T], mapper func(ctx context.Context, key S, obj T) ([]K, error),
	filters ...Filter[T],
) {
	needWatch("WatchMap", c, inf)
	if mapper == nil {
		panic("controller: WatchMap called with a nil mapper")
	}
	m := newMapping(c, inf.Name(), mapper)
	watch(m.origin, inf, m, func(key S, e event[T]) { m.told(key, e) }, filters)
}

// WatchHandler is the general form of [Watch]: at the beginning of each Run of c, handler is called with a function that
// adds a key to c, and what it returns is added to inf; at the end of the Run it is removed. So the handler decides which
// events matter and for which keys. WatchHandler panics while Run is under way.
func WatchHandler[K, S comparable, T any](
	c *Controller[K], inf *informer.Informer[S, T], handler func(add func(K)) informer.Handler[S, T],
) {
	needWatch("WatchHandler", c, inf)
	if handler == nil {
		panic("controller: WatchHandler called with a nil handler")
	}
	c.addFeed(&handlerFeed{source: inf, join: func(context.Context) (*informer.Registration, error) {
		return inf.AddHandler(handler(c.Add))
	}})
}

// needWatch panics if the controller or the informer of a call is nil.
func needWatch(call string, controller, inf any) {
	if isNil(controller) {
		panic("controller: " + call + " called with a nil controller")
	}
	if isNil(inf) {
		panic("controller: " + call + " called with a nil informer")
	}
}

// watch adds a feed that calls told for each change that passes all filters. What tries again, if told may fail, is retries.
func watch[K, S comparable, T any](
	o origin[K], inf *informer.Informer[S, T], retries retrier, told func(key S, e event[T]), filters []Filter[T],
) {
	if slices.ContainsFunc(filters, func(f Filter[T]) bool { return f == nil }) {
		panic("controller: Watch called with a nil filter")
	}
	filters = slices.Clone(filters)
	o.controller.addFeed(&handlerFeed{source: inf, retries: retries, join: func(ctx context.Context) (*informer.Registration, error) {
		return inf.AddHandler(watchHandler(inf, func(key S, e event[T]) {
			if passes(ctx, o, key, e.change, filters) {
				told(key, e)
			}
		}))
	}})
}

// handlerFeed is a handler of an informer.
type handlerFeed struct {
	source  Cache   // the informer
	retries retrier // nil if nothing can fail
	join    func(context.Context) (*informer.Registration, error)
	reg     *informer.Registration // while it is started; nil if join failed
}

// retrier is a mapping, to which no type matters.
type retrier interface {
	start(ctx context.Context)
	wait()
	unmapped() int
}

func (f *handlerFeed) Name() string { return f.source.Name() }
func (f *handlerFeed) cache() Cache { return f.source }

func (f *handlerFeed) start(ctx context.Context) (informer.Syncer, error) {
	if f.retries != nil {
		f.retries.start(ctx)
	}
	reg, err := f.join(ctx)
	f.reg = reg
	return reg, err
}

func (f *handlerFeed) stop() {
	if f.reg != nil {
		<-f.reg.Remove()
	}
	if f.retries != nil {
		f.retries.wait()
	}
}

func (f *handlerFeed) unmapped() int {
	if f.retries == nil {
		return 0
	}
	return f.retries.unmapped()
}

// watchHandler returns a handler that calls told for each change.
func watchHandler[S comparable, T any](inf *informer.Informer[S, T], told func(key S, e event[T])) informer.Handler[S, T] {
	var states [2]T // here, because they would be allocated for each comparison
	same := func(old, new T) bool {
		states[0], states[1] = old, new
		equal := reflect.DeepEqual(&states[0], &states[1])
		clear(states[:])
		return equal
	}
	return informer.Handler[S, T]{
		// Who has seen an object in a state that is merged away would not hear that it has left that state.
		EveryEvent: true,
		OnAdd: func(obj T, initial bool) {
			e := event[T]{change: Change[T]{Type: informer.Added, New: obj}, low: initial, what: " added"}
			if initial {
				e.what = " listed"
			}
			told(inf.Key(obj), e)
		},
		OnUpdate: func(old, new T) {
			e := event[T]{change: Change[T]{Type: informer.Modified, Old: old, New: new}, what: " updated"}
			if same(old, new) {
				e.low, e.what = true, " listed again"
			}
			told(inf.Key(new), e)
		},
		OnDelete: func(t cache.Tombstone[S, T]) {
			told(t.Key, event[T]{change: Change[T]{Type: informer.Deleted, Old: t.Object}, what: " deleted"})
		},
	}
}
