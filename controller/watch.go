package controller

import (
	"context"
	"reflect"
	"slices"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
)

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
	if mapper == nil {
		panic("controller: Watch called with a nil mapper")
	}
	WatchMap(c, inf, func(_ context.Context, key S, obj T) ([]K, error) { return mapper(key, obj), nil }, filters...)
}

// OwnKey is the mapper of a controller whose keys are those of the objects that it watches.
func OwnKey[K comparable, T any](key K, _ T) []K { return []K{key} }

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
	if mapper == nil {
		panic("controller: WatchMap called with a nil mapper")
	}
	if slices.ContainsFunc(filters, func(f Filter[T]) bool { return f == nil }) {
		panic("controller: WatchMap called with a nil filter")
	}
	m := newMapping(c, inf.Name(), mapper)
	c.addFeed(&handlerFeed{source: inf, mapping: m, join: func() (*informer.Registration, error) {
		return inf.AddHandler(watchHandler(inf, m, slices.Clone(filters)))
	}})
}

// WatchHandler is the general form of [Watch]: at the beginning of each Run of c, handler is called with a function that
// adds a key to c, and what it returns is added to inf; at the end of the Run it is removed. So the handler decides which
// events matter and for which keys. WatchHandler panics while Run is under way.
func WatchHandler[K, S comparable, T any](
	c *Controller[K], inf *informer.Informer[S, T], handler func(add func(K)) informer.Handler[S, T],
) {
	if handler == nil {
		panic("controller: WatchHandler called with a nil handler")
	}
	c.addFeed(&handlerFeed{source: inf, join: func() (*informer.Registration, error) {
		return inf.AddHandler(handler(c.Add))
	}})
}

// handlerFeed is a handler of an informer.
type handlerFeed struct {
	source  Cache // the informer
	mapping interface {
		start(ctx context.Context)
		wait()
		unmapped() int
	} // nil if the handler adds keys itself
	join func() (*informer.Registration, error)
	reg  *informer.Registration // while it is started; nil if join failed
}

func (f *handlerFeed) Name() string { return f.source.Name() }
func (f *handlerFeed) cache() Cache { return f.source }

func (f *handlerFeed) start(ctx context.Context) (informer.Syncer, error) {
	if f.mapping != nil {
		f.mapping.start(ctx)
	}
	reg, err := f.join()
	f.reg = reg
	return reg, err
}

func (f *handlerFeed) stop() {
	if f.reg != nil {
		f.reg.Remove()
	}
	if f.mapping != nil {
		f.mapping.wait()
	}
}

func (f *handlerFeed) unmapped() int {
	if f.mapping == nil {
		return 0
	}
	return f.mapping.unmapped()
}

// watchHandler returns a handler that maps what passes the filters.
func watchHandler[K, S comparable, T any](
	inf *informer.Informer[S, T], m *mapping[K, S, T], filters []Filter[T],
) informer.Handler[S, T] {
	var states [2]T // here, because they would be allocated for each comparison
	same := func(old, new T) bool {
		states[0], states[1] = old, new
		equal := reflect.DeepEqual(&states[0], &states[1])
		clear(states[:])
		return equal
	}
	told := func(key S, e event[T]) {
		if m.passes(key, e.change, filters) {
			m.told(key, e)
		}
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
