package storetest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// Interceptor is a store in front of another one. It passes every call on, but those that a [Rule] says something else
// about, and remembers what was called. In front of store.Memory it takes the place of the fake clients and reactors of
// client-go:
//
//	apps := storetest.NewInterceptor(memory)
//	lost := apps.Inject(storetest.Rule{Op: store.OpUpdate, Key: "web", Nth: 3, Fault: storetest.LoseReply()})
//	// run the controller against apps
//	assert.Equal(t, 1, lost.Hits())
//
// Without rules it is as good a store as the one behind it. Its methods may be called by several goroutines at once.
type Interceptor[T any] struct {
	to store.Store[T]

	mu sync.Mutex

	// mu guards the following.

	rules   []*Injection
	calls   []*Call
	watches map[*Call]context.CancelCauseFunc // those that are under way
}

// Call is a call of an [Interceptor].
type Call struct {
	Op  string // one of the Op constants of package store; OpList is that of Select and ListPages, OpWatch that of WatchSelected, too
	Key string // empty for a list or a watch

	// Done is false while the call is under way, as one that hangs is.
	Done bool

	// Err is what the caller got. With [LoseReply] that is not what the store has done.
	Err error

	// Hit says that a rule hit the call.
	Hit bool
}

// NewInterceptor returns an interceptor without rules in front of a store. It panics if the store is nil.
func NewInterceptor[T any](to store.Store[T]) *Interceptor[T] {
	if to == nil {
		panic("storetest: NewInterceptor: the store is nil")
	}
	return &Interceptor[T]{to: to, watches: make(map[*Call]context.CancelCauseFunc)}
}

// Inject puts a rule in force. Each rule counts all calls that it matches, also those that another one hits; of several
// that would hit a call, the one that was injected first does. A rule that can never hit panics: an unknown operation, a key
// for a list, no fault.
func (i *Interceptor[T]) Inject(r Rule) *Injection {
	in := newInjection(r)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rules = append(i.rules, in)
	return in
}

// Reset removes all rules.
func (i *Interceptor[T]) Reset() {
	i.mu.Lock()
	rules := i.rules
	i.rules = nil
	i.mu.Unlock()
	for _, in := range rules {
		in.Remove()
	}
}

// BreakWatches ends all watches that are under way with err, as by [Fail].
func (i *Interceptor[T]) BreakWatches(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, cancel := range i.watches {
		cancel(i.wrap(store.OpWatch, "", err))
	}
}

// Calls returns a copy of all calls since the last ForgetCalls, in the order in which they began.
func (i *Interceptor[T]) Calls() []Call { return i.callsOf(func(string) bool { return true }) }

// Writes returns those of Calls that are a Create, Update, UpdateStatus or Delete, also the ones that failed. That it is empty
// means that nobody even tried to write.
func (i *Interceptor[T]) Writes() []Call {
	return i.callsOf(func(op string) bool { return op != store.OpGet && op != store.OpList && op != store.OpWatch })
}

// ForgetCalls makes Calls and Writes begin anew. Rules go on counting.
func (i *Interceptor[T]) ForgetCalls() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.calls = nil
}

func (i *Interceptor[T]) callsOf(wanted func(op string) bool) []Call {
	i.mu.Lock()
	defer i.mu.Unlock()
	var all []Call
	for _, c := range i.calls {
		if wanted(c.Op) {
			all = append(all, *c)
		}
	}
	return all
}

// Kind implements [store.Store].
func (i *Interceptor[T]) Kind() string { return i.to.Kind() }

// Equal implements [store.Store].
func (i *Interceptor[T]) Equal(a, b store.Object[T]) bool { return i.to.Equal(a, b) }

// Stats implements [store.Store].
func (i *Interceptor[T]) Stats() store.Stats { return i.to.Stats() }

// Get implements [store.Reader].
func (i *Interceptor[T]) Get(ctx context.Context, key string) (store.Object[T], error) {
	return intercept(ctx, i, store.OpGet, key, func() (store.Object[T], error) { return i.to.Get(ctx, key) })
}

// List implements [store.Reader].
func (i *Interceptor[T]) List(ctx context.Context) (informer.List[store.Object[T]], error) {
	return intercept(ctx, i, store.OpList, "", func() (informer.List[store.Object[T]], error) { return i.to.List(ctx) })
}

// Select implements [store.Reader].
func (i *Interceptor[T]) Select(ctx context.Context, sel store.Selector) (informer.List[store.Object[T]], error) {
	return intercept(ctx, i, store.OpList, "", func() (informer.List[store.Object[T]], error) { return i.to.Select(ctx, sel) })
}

// ListPages implements [store.Reader]. A rule hits all of it, before the first page.
func (i *Interceptor[T]) ListPages(ctx context.Context) iter.Seq2[informer.List[store.Object[T]], error] {
	return func(yield func(informer.List[store.Object[T]], error) bool) {
		pages, err := intercept(ctx, i, store.OpList, "", func() (pages []informer.List[store.Object[T]], err error) {
			for page, err := range i.to.ListPages(ctx) {
				if err != nil {
					return nil, err
				}
				pages = append(pages, page)
			}
			return pages, nil
		})
		if err != nil {
			yield(informer.List[store.Object[T]]{}, err)
			return
		}
		for _, page := range pages {
			if !yield(page, nil) {
				return
			}
		}
	}
}

// Create implements [store.Writer].
func (i *Interceptor[T]) Create(
	ctx context.Context, obj store.Object[T], pre ...store.Precondition,
) (store.Object[T], error) {
	return intercept(ctx, i, store.OpCreate, obj.Key, func() (store.Object[T], error) {
		return i.to.Create(ctx, obj, pre...)
	})
}

// Update implements [store.Writer].
func (i *Interceptor[T]) Update(
	ctx context.Context, obj store.Object[T], pre ...store.Precondition,
) (store.Object[T], error) {
	return intercept(ctx, i, store.OpUpdate, obj.Key, func() (store.Object[T], error) {
		return i.to.Update(ctx, obj, pre...)
	})
}

// UpdateStatus implements [store.Writer].
func (i *Interceptor[T]) UpdateStatus(
	ctx context.Context, obj store.Object[T], pre ...store.Precondition,
) (store.Object[T], error) {
	return intercept(ctx, i, store.OpUpdateStatus, obj.Key, func() (store.Object[T], error) {
		return i.to.UpdateStatus(ctx, obj, pre...)
	})
}

// Delete implements [store.Writer].
func (i *Interceptor[T]) Delete(ctx context.Context, key string, pre ...store.Precondition) (store.Object[T], error) {
	return intercept(ctx, i, store.OpDelete, key, func() (store.Object[T], error) { return i.to.Delete(ctx, key, pre...) })
}

// Watch implements [store.Reader].
func (i *Interceptor[T]) Watch(
	ctx context.Context, after informer.Version,
) iter.Seq2[informer.Event[store.Object[T]], error] {
	return i.watch(ctx, func(ctx context.Context) iter.Seq2[informer.Event[store.Object[T]], error] {
		return i.to.Watch(ctx, after)
	})
}

// WatchSelected implements [store.Reader].
func (i *Interceptor[T]) WatchSelected(
	ctx context.Context, sel store.Selector, after informer.Version,
) iter.Seq2[informer.Event[store.Object[T]], error] {
	return i.watch(ctx, func(ctx context.Context) iter.Seq2[informer.Event[store.Object[T]], error] {
		return i.to.WatchSelected(ctx, sel, after)
	})
}

func (i *Interceptor[T]) watch(
	ctx context.Context, to func(context.Context) iter.Seq2[informer.Event[store.Object[T]], error],
) iter.Seq2[informer.Event[store.Object[T]], error] {
	return func(yield func(informer.Event[store.Object[T]], error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		c, in := i.begin(store.OpWatch, "", cancel)
		var last error
		defer func() { i.end(c, last) }()
		fail := func(err error) {
			last = err
			i.end(c, err) // before the consumer hears of it
			yield(informer.Event[store.Object[T]]{}, err)
		}
		left := 0 // events until the fault
		if in != nil {
			left = in.rule.After
		}
		strike := func() error {
			if in == nil || left > 0 || in.removed.Err() != nil {
				return nil
			}
			struck := in
			in = nil
			return i.suffer(ctx, struck, c)
		}
		if err := strike(); err != nil {
			fail(err)
			return
		}
		for e, err := range to(ctx) {
			if err != nil {
				fail(err)
				return
			}
			if !yield(e, nil) {
				return
			}
			if e.Type != informer.Bookmark {
				left--
			}
			if err := strike(); err != nil {
				fail(err)
				return
			}
		}
	}
}

// intercept does a call other than Watch.
func intercept[T, R any](ctx context.Context, i *Interceptor[T], op, key string, do func() (R, error)) (result R, err error) {
	c, in := i.begin(op, key, nil)
	defer func() { i.end(c, err) }()
	if in == nil {
		return do()
	}
	if in.rule.Fault.kind == loseReply {
		_, _ = do()
		i.hit(in, c)
		return result, i.wrap(op, key, in.rule.Fault.err)
	}
	if err := i.suffer(ctx, in, c); err != nil {
		return result, err
	}
	return do()
}

// suffer does what the fault says, and returns the error that the call ends with, or nil when it goes on.
func (i *Interceptor[T]) suffer(ctx context.Context, in *Injection, c *Call) error {
	i.hit(in, c)
	switch fault := in.rule.Fault; fault.kind {
	case before:
		if err := fault.f(ctx); err != nil {
			return i.wrap(c.Op, c.Key, err)
		}
		return nil
	case hang:
		select {
		case <-in.removed.Done():
			return nil
		case <-ctx.Done():
		}
		if c.Op == store.OpWatch {
			return context.Cause(ctx)
		}
		return i.wrap(c.Op, c.Key, context.Cause(ctx))
	default:
		return i.wrap(c.Op, c.Key, fault.err)
	}
}

// begin notes a call, and returns the rule that is to hit it, or nil. Cancel is that of a watch.
func (i *Interceptor[T]) begin(op, key string, cancel context.CancelCauseFunc) (*Call, *Injection) {
	i.mu.Lock()
	defer i.mu.Unlock()
	c := &Call{Op: op, Key: key}
	i.calls = append(i.calls, c)
	if cancel != nil {
		i.watches[c] = cancel
	}
	i.rules = slices.DeleteFunc(i.rules, func(in *Injection) bool { return in.removed.Err() != nil })
	var first *Injection
	for _, in := range i.rules {
		if in.matchesLocked(op, key) && first == nil {
			first = in
		}
	}
	return c, first
}

func (i *Interceptor[T]) hit(in *Injection, c *Call) {
	in.hits.Add(1)
	i.mu.Lock()
	defer i.mu.Unlock()
	c.Hit = true
}

func (i *Interceptor[T]) end(c *Call, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	c.Done, c.Err = true, err
	delete(i.watches, c)
}

// wrap makes err what a store returns.
func (i *Interceptor[T]) wrap(op, key string, err error) error {
	var e *store.Error
	if errors.As(err, &e) {
		return err
	}
	return &store.Error{Op: op, Kind: i.to.Kind(), Key: key, Err: err}
}
