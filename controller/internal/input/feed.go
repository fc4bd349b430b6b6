package input

import (
	"context"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
)

// Informer is an [informer.Informer] without its types.
type Informer interface {
	informer.Syncer
	Run(ctx context.Context) error
}

// Feed is one input of one controller.
type Feed[K comparable] struct {
	informer Informer
	retries  retrier // nil if nothing can fail
	join     func(context.Context) (*informer.Registration, error)
	present  func(ctx context.Context, add func(K)) // nil if only a handler knows the keys

	reg *informer.Registration // while it is started; nil if join failed
}

// retrier is a mapping, without its types.
type retrier interface {
	start(ctx context.Context)
	wait()
	unmapped() int
}

// Rules select the changes that count. A nil function passes everything.
type Rules[T any] struct {
	Where func(T) bool          // which objects
	When  func(old, new T) bool // which updates
}

// Own returns the feed of objects whose own keys are added.
func Own[K comparable, T any](o Origin[K], r Rules[T], inf *informer.Informer[K, T]) *Feed[K] {
	return feed(o, r, inf, nil,
		func(key K, e event[T]) { o.add(key, e.what, e.trace) },
		func(key K, _ T, add func(K)) { add(key) })
}

// Pointing returns the feed of objects that each point to one key, or to none, which to returns.
func Pointing[K, S comparable, T any](o Origin[K], r Rules[T], inf *informer.Informer[S, T], to func(T) (key K, ok bool)) *Feed[K] {
	return feed(o, r, inf, nil, func(_ S, e event[T]) {
		var old, now K
		var had, has bool
		if e.had() {
			if old, had = to(e.old); had {
				o.add(old, e.what, e.trace)
			}
		}
		// A second add while a worker has the key would bring it back for nothing.
		if e.has() {
			if now, has = to(e.new); has && !(had && now == old) {
				o.add(now, e.what, e.trace)
			}
		}
	}, func(_ S, obj T, add func(K)) {
		if key, ok := to(obj); ok {
			add(key)
		}
	})
}

// Mapped returns the feed of objects that to maps to keys. If to fails, it is called again.
func Mapped[K, S comparable, T any](
	o Origin[K], r Rules[T], inf *informer.Informer[S, T], to func(ctx context.Context, obj T) ([]K, error),
) *Feed[K] {
	m := newMapping[K, S](o, to)
	return feed(o, r, inf, m, m.told, m.keys)
}

// Handled returns a feed with a handler of the user. The function given to make adds a key, as news.
func Handled[K, S comparable, T any](
	o Origin[K], r Rules[T], inf *informer.Informer[S, T], handler func(add func(K)) informer.Handler[S, T],
) *Feed[K] {
	return &Feed[K]{informer: inf, join: func(ctx context.Context) (*informer.Registration, error) {
		return inf.AddHandler(restrict(ctx, o, r, inf, handler(func(key K) { o.add(key, told, "") })))
	}}
}

// feed returns the feed whose handler calls tell for each change that counts. keys adds the keys of one object.
func feed[K, S comparable, T any](
	o Origin[K], r Rules[T], inf *informer.Informer[S, T], retries retrier,
	tell func(key S, e event[T]), keys func(key S, obj T, add func(K)),
) *Feed[K] {
	present := func(ctx context.Context, add func(K)) {
		for key, obj := range inf.Indexer().All() {
			if ctx.Err() != nil {
				return
			}
			if r.Where == nil || o.ask(ctx, "Where", func() any { return key }, func() bool { return r.Where(obj) }) {
				keys(key, obj, add)
			}
		}
	}
	return &Feed[K]{informer: inf, retries: retries, present: present, join: func(ctx context.Context) (*informer.Registration, error) {
		return inf.AddHandler(restrict(ctx, o, r, inf, informer.Handler[S, T]{
			// If a state were merged away, a reconcile that acted on it would not learn that it is gone.
			EveryEvent: true,
			OnAdd: func(obj T, initial bool) {
				e := event[T]{what: added, new: obj}
				if initial {
					e.what = listed
				} else {
					e.trace = traceOf(o, obj)
				}
				tell(inf.Key(obj), e)
			},
			OnUpdate: func(old, new T) { tell(inf.Key(new), event[T]{updated, old, new, traceOf(o, new)}) },
			OnResync: func(obj T) { tell(inf.Key(obj), event[T]{what: repeated, new: obj}) },
			OnDelete: func(t cache.Tombstone[S, T]) {
				e := event[T]{what: deleted, old: t.Object}
				if !t.FinalStateUnknown { // else the object is that of an earlier write
					e.trace = traceOf(o, t.Object)
				}
				tell(t.Key, e)
			},
		}))
	}}
}

// traceOf returns the trace context of the last write of an object. It is empty if there is none, or without Target.Traces.
func traceOf[K comparable, T any](o Origin[K], obj T) string {
	if o.To.Traces {
		if t, ok := any(obj).(interface{ TraceContext() string }); ok {
			return t.TraceContext()
		}
	}
	return ""
}

// restrict returns h, limited to the changes that pass the rules.
func restrict[K, S comparable, T any](
	ctx context.Context, o Origin[K], r Rules[T], inf *informer.Informer[S, T], h informer.Handler[S, T],
) informer.Handler[S, T] {
	if r.Where != nil {
		filter := h.Filter
		h.Filter = func(obj T) bool {
			return o.ask(ctx, "Where", func() any { return inf.Key(obj) }, func() bool { return r.Where(obj) }) &&
				(filter == nil || filter(obj))
		}
	}
	if update := h.OnUpdate; r.When != nil && update != nil {
		if h.OnResync == nil {
			h.OnResync = func(obj T) { update(obj, obj) }
		}
		h.OnUpdate = func(old, new T) {
			if o.ask(ctx, "When", func() any { return inf.Key(new) }, func() bool { return r.When(old, new) }) {
				update(old, new)
			}
		}
	}
	return h
}

// Informer returns the informer.
func (f *Feed[K]) Informer() Informer { return f.informer }

// Start joins the informer, until Stop is called, and retries mappings that failed earlier, until ctx ends.
func (f *Feed[K]) Start(ctx context.Context) (*informer.Registration, error) {
	if f.retries != nil {
		f.retries.start(ctx)
	}
	reg, err := f.join(ctx)
	f.reg = reg
	return reg, err
}

// Stop returns when everything that Start has started has ended, and no key will be added. Call it after each Start, even one that returned
// an error, when its ctx has ended.
func (f *Feed[K]) Stop() {
	if f.reg != nil {
		<-f.reg.Remove()
	}
	if f.retries != nil {
		f.retries.wait()
	}
}

// Present adds the keys of all present objects that count, until ctx ends. It adds none if only a handler of the user knows them. It is
// called between Start and Stop.
func (f *Feed[K]) Present(ctx context.Context, add func(K)) {
	if f.present != nil {
		f.present(ctx, add)
	}
}

// Unmapped returns the number of objects that could not be mapped yet.
func (f *Feed[K]) Unmapped() int {
	if f.retries == nil {
		return 0
	}
	return f.retries.unmapped()
}
