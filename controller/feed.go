package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

// feed is an [Input] of one controller: a handler of an informer.
type feed[K comparable] struct {
	source  Source
	retries retrier // nil if nothing can fail
	join    func(context.Context) (*informer.Registration, error)
	present func(ctx context.Context, add func(K)) // adds the keys of all objects that count; nil if only a handler knows them

	reg *informer.Registration // while it is started; nil if join failed
}

// retrier is a mapping, to which no type matters.
type retrier interface {
	start(ctx context.Context)
	wait()
	unmapped() int
}

// mapper is how a watch makes keys of objects.
type mapper[K, S comparable, T any] struct {
	retries retrier                                                  // of what could not be mapped; nil if nothing can fail
	tell    func(key S, e event[T])                                  // is called for each change that counts
	keys    func(ctx context.Context, key S, obj T, add func(key K)) // adds the keys of one object
}

// watch returns the feed of a watch whose objects m maps.
func watch[K, S comparable, T any](o origin[K], w Watch[K, T], inf *informer.Informer[S, T], m mapper[K, S, T]) *feed[K] {
	tell := m.tell
	present := func(ctx context.Context, add func(K)) {
		for key, obj := range inf.Indexer().All() {
			if ctx.Err() != nil {
				return
			}
			if w.where == nil || o.ask(ctx, "Where", func() any { return key }, func() bool { return w.where(obj) }) {
				m.keys(ctx, key, obj, add)
			}
		}
	}
	return &feed[K]{source: inf, retries: m.retries, present: present, join: func(ctx context.Context) (*informer.Registration, error) {
		return inf.AddHandler(restrict(ctx, o, w, inf, informer.Handler[S, T]{
			// Who has acted on a state that is merged away would not hear that it has gone.
			EveryEvent: true,
			OnAdd: func(obj T, initial bool) {
				what := added
				if initial {
					what = listed
				}
				tell(inf.Key(obj), event[T]{what: what, new: obj})
			},
			OnUpdate: func(old, new T) { tell(inf.Key(new), event[T]{updated, old, new}) },
			OnResync: func(obj T) { tell(inf.Key(obj), event[T]{what: repeated, new: obj}) },
			OnDelete: func(t cache.Tombstone[S, T]) { tell(t.Key, event[T]{what: deleted, old: t.Object}) },
		}))
	}}
}

// restrict returns h, which is told only of what passes Where and When of w.
func restrict[K, S comparable, T any](
	ctx context.Context, o origin[K], w Watch[K, T], inf *informer.Informer[S, T], h informer.Handler[S, T],
) informer.Handler[S, T] {
	if w.where != nil {
		filter := h.Filter
		h.Filter = func(obj T) bool {
			return o.ask(ctx, "Where", func() any { return inf.Key(obj) }, func() bool { return w.where(obj) }) &&
				(filter == nil || filter(obj))
		}
	}
	if update := h.OnUpdate; w.when != nil && update != nil {
		if h.OnResync == nil {
			h.OnResync = func(obj T) { update(obj, obj) }
		}
		h.OnUpdate = func(old, new T) {
			if o.ask(ctx, "When", func() any { return inf.Key(new) }, func() bool { return w.when(old, new) }) {
				update(old, new)
			}
		}
	}
	return h
}

func (f *feed[K]) start(ctx context.Context) (*informer.Registration, error) {
	if f.retries != nil {
		f.retries.start(ctx)
	}
	reg, err := f.join(ctx)
	f.reg = reg
	return reg, err
}

// stop returns when everything that start has started has ended, and no key will be added. It is called after each start, also
// one that returned an error.
func (f *feed[K]) stop() {
	if f.reg != nil {
		<-f.reg.Remove()
	}
	if f.retries != nil {
		f.retries.wait()
	}
}

// unmapped returns the number of objects that could not be mapped yet.
func (f *feed[K]) unmapped() int {
	if f.retries == nil {
		return 0
	}
	return f.retries.unmapped()
}

// attachment is what starting has made of the feeds: the handlers that it has added to informers.
type attachment struct {
	ctx      context.Context // of the feeds
	users    sync.WaitGroup  // who looks at what is present; Controller.mu guards Add
	handlers []*informer.Registration
}

// startFeeds starts the feeds, and returns what to wait for. stop ends them, in the case of an error too.
func (c *Controller[K]) startFeeds(ctx context.Context) (syncers []informer.Syncer, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var started []*feed[K]
	made := &attachment{ctx: ctx}
	unfollow := func() {}
	stop = func() {
		c.attach(nil) // before the handlers are removed: so who waits for one knows why it has ended
		cancel()
		made.users.Wait() // before the feeds, whose mappings they use
		for _, f := range started {
			f.stop()
		}
		unfollow()
	}
	for _, s := range c.Sources() {
		syncers = append(syncers, s)
	}
	if !c.cfg.StaleReads {
		unfollow = c.mirrors.Follow()
	}
	for _, f := range c.feeds {
		started = append(started, f)
		handler, err := f.start(ctx)
		if err != nil {
			return nil, stop, fmt.Errorf("watch %s: %w", f.source.Name(), err)
		}
		syncers = append(syncers, handler)
		made.handlers = append(made.handlers, handler)
	}
	c.attach(made)
	if c.cfg.Resync > 0 {
		// Waits for the turns of keys. It ends with ctx; stop waits for it.
		made.users.Go(func() { c.resync(ctx, syncers) })
	}
	return syncers, stop, nil
}

// attach notes that the feeds are started, or, if made is nil, that they are not.
func (c *Controller[K]) attach(made *attachment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attached = made
	if made != nil && c.attaching != nil {
		close(c.attaching)
		c.attaching = nil
	}
}

// isAttached reports whether the feeds are started.
func (c *Controller[K]) isAttached() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attached != nil
}

// attachment returns the present attachment, or nil if there is none, and a channel that is closed when there is one.
func (c *Controller[K]) attachment() (*attachment, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached == nil && c.attaching == nil {
		c.attaching = make(chan struct{})
	}
	return c.attached, c.attaching
}

// event is a change that a watch was told of.
type event[T any] struct {
	what     happening
	old, new T // zero if there is none
}

// had and has report whether there is an old and a new state.
func (e event[T]) had() bool { return e.what == updated || e.what == deleted }
func (e event[T]) has() bool { return e.what != deleted }

// happening is what has happened to an object.
type happening int

const (
	listed   happening = iota // was there when the Run began
	repeated                  // is there still: a resync
	told                      // whatever a handler of the user wants to be told of
	added
	updated
	deleted
)

// isNews reports whether something has changed.
func (h happening) isNews() bool { return h > repeated }

// and returns what to say of two: the later one, unless only the earlier one is news.
func (h happening) and(later happening) happening {
	if h.isNews() && !later.isNews() {
		return h
	}
	return later
}

// String is what stands in reasons, after the name of the informer.
func (h happening) String() string {
	return [...]string{" listed", " listed again", " told", " added", " updated", " deleted"}[h]
}

// origin is a watch, as the keys that come from it name it.
type origin[K comparable] struct {
	controller *Controller[K]
	name       string
	priority   int // of its news
}

// add adds a key, and says why.
func (o origin[K]) add(key K, what happening) {
	opts := AddOptions{Priority: o.priority}
	if !what.isNews() {
		opts.Priority = min(o.priority, o.controller.cfg.Background)
	}
	if o.controller.cfg.Reasons {
		opts.Reason = o.name + what.String()
	}
	o.controller.add(key, opts, what.isNews())
}

// ask asks a function of the user whether a change of the object under key counts. It does if the function panics.
func (o origin[K]) ask(ctx context.Context, function string, key func() any, f func() bool) (counts bool) {
	defer func() {
		if v := recover(); v != nil {
			o.log(ctx, function+" panicked, the change counts", key(), &wait.PanicError{Value: v, Stack: debug.Stack()})
			counts = true
		}
	}()
	return f()
}

// log reports what went wrong with the object under a key, since nobody receives it as an error.
func (o origin[K]) log(ctx context.Context, message string, key any, err error) {
	attrs := []slog.Attr{
		slog.String("controller", o.controller.name), slog.String("watch", o.name), slog.Any("object", key), slog.Any("error", err),
	}
	if p := (*wait.PanicError)(nil); errors.As(err, &p) {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	o.controller.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, message, attrs...)
}
