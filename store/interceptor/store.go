package interceptor

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// Store is a store that wraps another one. It passes on every call that no [Rule] hits, and records all calls. Around a store.Memory
// it replaces the fake clients and reactors of client-go:
//
//	apps := interceptor.New(memory)
//	lost := apps.Inject(interceptor.Rule{Op: "update", Key: "web", Nth: 3, Fault: interceptor.LoseReply()})
//	// run the controller against apps
//	assert.Equal(t, 1, lost.Hits())
//
// Without rules, it keeps every promise of the wrapped store. Its methods are safe for concurrent use.
type Store[T any] struct {
	*Plan
	to     store.Store[T]
	caller string
}

// New returns an interceptor without rules around a store. It panics if the store is nil.
func New[T any](to store.Store[T]) *Store[T] {
	if to == nil {
		panic("interceptor: New: the store is nil")
	}
	return &Store[T]{Plan: new(Plan), to: to}
}

// NewWithPlan returns an interceptor that shares a plan with others: the rules, the count of each rule, and the calls. It panics
// if either is nil.
func NewWithPlan[T any](p *Plan, to store.Store[T]) *Store[T] {
	if p == nil || to == nil {
		panic("interceptor: NewWithPlan: the plan or the store is nil")
	}
	return &Store[T]{Plan: p, to: to}
}

// As returns the same interceptor under the name of a caller. Give each part of the program under test its own name: then a [Rule] can hit
// the calls of one caller, and a [Call] names its caller.
func (i *Store[T]) As(caller string) *Store[T] {
	return &Store[T]{Plan: i.Plan, to: i.to, caller: caller}
}

// BreakWatches ends the open watches of this kind with err, as by [Fail]. Under the name of a caller, it ends those of that
// caller.
func (i *Store[T]) BreakWatches(err error) {
	kind, err := i.Kind(), i.wrap(opWatch, "", err)
	i.mu.Lock()
	defer i.mu.Unlock()
	for c, cancel := range i.watches {
		if c.Kind == kind && (i.caller == "" || c.Caller == i.caller) {
			cancel(err)
		}
	}
}

// Kind implements [store.Store].
func (i *Store[T]) Kind() string { return i.to.Kind() }

// Equal implements [store.Store].
func (i *Store[T]) Equal(a, b store.Object[T]) bool { return i.to.Equal(a, b) }

// BookmarkPeriod implements [store.Store].
func (i *Store[T]) BookmarkPeriod() time.Duration { return i.to.BookmarkPeriod() }

// Stats implements [store.Store].
func (i *Store[T]) Stats() store.Stats { return i.to.Stats() }

// Get implements [store.Store].
func (i *Store[T]) Get(ctx context.Context, key string) (store.Object[T], error) {
	return intercept(ctx, i, opGet, key, Args{}, func() (store.Object[T], error) { return i.to.Get(ctx, key) })
}

// List implements [store.Store].
func (i *Store[T]) List(ctx context.Context) (informer.List[store.Object[T]], error) {
	return intercept(ctx, i, opList, "", Args{}, func() (informer.List[store.Object[T]], error) { return i.to.List(ctx) })
}

// Select implements [store.Store].
func (i *Store[T]) Select(ctx context.Context, sel store.Selector) (informer.List[store.Object[T]], error) {
	return intercept(ctx, i, opList, "", Args{Selector: sel}, func() (informer.List[store.Object[T]], error) {
		return i.to.Select(ctx, sel)
	})
}

// LatestVersion implements [store.Store].
func (i *Store[T]) LatestVersion(ctx context.Context) (informer.Version, error) {
	return intercept(ctx, i, opVersion, "", Args{}, func() (informer.Version, error) { return i.to.LatestVersion(ctx) })
}

// RaiseFence implements [store.Store].
func (i *Store[T]) RaiseFence(ctx context.Context) error {
	_, err := intercept(ctx, i, opRaiseFence, "", Args{}, func() (struct{}, error) { return struct{}{}, i.to.RaiseFence(ctx) })
	return err
}

// ListPages implements [store.Store]. A rule hits the whole list, before the first page.
func (i *Store[T]) ListPages(ctx context.Context) iter.Seq2[informer.List[store.Object[T]], error] {
	return func(yield func(informer.List[store.Object[T]], error) bool) {
		pages, err := intercept(ctx, i, opList, "", Args{}, func() (pages []informer.List[store.Object[T]], err error) {
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

// Create implements [store.Store].
func (i *Store[T]) Create(
	ctx context.Context, obj store.Object[T], pre ...store.Precondition,
) (store.Object[T], error) {
	return intercept(ctx, i, opCreate, obj.Key, Args{Object: obj, Pre: pre}, func() (store.Object[T], error) {
		return i.to.Create(ctx, obj, pre...)
	})
}

// Update implements [store.Store].
func (i *Store[T]) Update(
	ctx context.Context, obj store.Object[T], pre ...store.Precondition,
) (store.Object[T], error) {
	return intercept(ctx, i, opUpdate, obj.Key, Args{Object: obj, Pre: pre}, func() (store.Object[T], error) {
		return i.to.Update(ctx, obj, pre...)
	})
}

// UpdateStatus implements [store.Store].
func (i *Store[T]) UpdateStatus(
	ctx context.Context, obj store.Object[T], pre ...store.Precondition,
) (store.Object[T], error) {
	return intercept(ctx, i, opUpdateStatus, obj.Key, Args{Object: obj, Pre: pre}, func() (store.Object[T], error) {
		return i.to.UpdateStatus(ctx, obj, pre...)
	})
}

// Delete implements [store.Store].
func (i *Store[T]) Delete(ctx context.Context, key string, pre ...store.Precondition) (store.Object[T], error) {
	return intercept(ctx, i, opDelete, key, Args{Pre: pre}, func() (store.Object[T], error) {
		return i.to.Delete(ctx, key, pre...)
	})
}

// intercept makes a call other than Watch.
func intercept[T, R any](
	ctx context.Context, i *Store[T], op, key string, args Args, do func() (R, error),
) (result R, err error) {
	args.Fence, _ = store.FenceFrom(ctx)
	c, in := i.begin(i.call(op, key), args, nil)
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

func (i *Store[T]) call(op, key string) Call {
	return Call{Kind: i.to.Kind(), Caller: i.caller, Op: op, Key: key}
}

// suffer applies the fault of a rule to c, a call or the watch of an event. It returns the error that ends the call, or nil if the call
// continues.
func (i *Store[T]) suffer(ctx context.Context, in *Injection, c *Call) error {
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
		if c.Op == opWatch {
			return context.Cause(ctx)
		}
		return i.wrap(c.Op, c.Key, context.Cause(ctx))
	default:
		return i.wrap(c.Op, c.Key, fault.err)
	}
}

// wrap makes err an error as a store returns it.
func (i *Store[T]) wrap(op, key string, err error) error {
	var e *store.Error
	if errors.As(err, &e) {
		return err
	}
	return &store.Error{Op: op, Kind: i.to.Kind(), Key: key, Err: err}
}
