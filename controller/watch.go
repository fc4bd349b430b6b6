package controller

import (
	"context"
	"slices"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
)

// Watch makes c reconcile the keys to which mapper maps the objects of inf: all that are there when a Run of c begins,
// and from then on each one that appears, changes or disappears. For a change the keys of the old and of the new object
// are added, each once; for a deletion those of the last state that was known.
//
// The informer is run by somebody else. Run of c waits until it has synced, and until its objects have been mapped. What
// is deleted while no Run is under way is not reported by the next one, as it is not after a restart of the process: work
// that a deletion asks for needs a mark on the object, such as a finalizer, or a comparison with what is there.
//
// mapper must not block for long: it holds up the other events of this watch. If it panics, the informer reports it, and
// the event is lost to c. Watch panics while Run is under way.
func Watch[K, S comparable, T any](c *Controller[K], inf *informer.Informer[S, T], mapper func(key S, obj T) []K) {
	if mapper == nil {
		panic("controller: Watch called with a nil mapper")
	}
	WatchHandler(c, inf, func(add func(K)) informer.Handler[S, T] {
		return informer.Handler[S, T]{
			OnAdd: func(obj T, _ bool) {
				addAll(add, mapper(inf.Key(obj), obj), nil)
			},
			OnUpdate: func(old, new T) {
				key := inf.Key(new)
				addAll(add, mapper(key, old), mapper(key, new))
			},
			OnDelete: func(t cache.Tombstone[S, T]) {
				addAll(add, mapper(t.Key, t.Object), nil)
			},
		}
	})
}

// OwnKey is the mapper of a controller whose keys are those of the objects that it watches.
func OwnKey[K comparable, T any](key K, _ T) []K { return []K{key} }

// WatchHandler is the general form of [Watch]: at the beginning of each Run of c, handler is called with a function that
// adds a key to c, and what it returns is added to inf; at the end of the Run it is removed. So the handler decides which
// events matter and for which keys. WatchHandler panics while Run is under way.
func WatchHandler[K, S comparable, T any](
	c *Controller[K], inf *informer.Informer[S, T], handler func(add func(K)) informer.Handler[S, T],
) {
	if handler == nil {
		panic("controller: WatchHandler called with a nil handler")
	}
	c.addFeed(&handlerFeed{name: inf.Name(), join: func(context.Context) (*informer.Registration, error) {
		return inf.AddHandler(handler(c.Add))
	}})
}

// handlerFeed is a handler of an informer.
type handlerFeed struct {
	name string // of the informer
	join func(ctx context.Context) (*informer.Registration, error)
	reg  *informer.Registration // while it is started
}

func (f *handlerFeed) Name() string { return f.name }

func (f *handlerFeed) start(ctx context.Context) (informer.Syncer, error) {
	reg, err := f.join(ctx)
	f.reg = reg
	return reg, err
}

func (f *handlerFeed) stop() { f.reg.Remove() }

// addAll adds the keys of a and of b, each once: a second add while a worker has the key would bring it back for nothing.
func addAll[K comparable](add func(K), a, b []K) {
	keys := a
	if !slices.Equal(a, b) {
		keys = slices.Concat(a, b)
	}
	if len(keys) == 1 { // by far the most frequent
		add(keys[0])
		return
	}
	added := make(map[K]struct{}, len(keys))
	for _, key := range keys {
		if _, ok := added[key]; !ok {
			added[key] = struct{}{}
			add(key)
		}
	}
}
