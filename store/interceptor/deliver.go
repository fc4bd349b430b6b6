package interceptor

import (
	"context"
	"iter"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// Watch implements [store.Store].
func (i *Store[T]) Watch(
	ctx context.Context, after informer.Version,
) iter.Seq2[informer.Event[store.Object[T]], error] {
	return i.watch(ctx, Args{After: after}, func(ctx context.Context) iter.Seq2[informer.Event[store.Object[T]], error] {
		return i.to.Watch(ctx, after)
	})
}

// WatchSelected implements [store.Store].
func (i *Store[T]) WatchSelected(
	ctx context.Context, sel store.Selector, after informer.Version,
) iter.Seq2[informer.Event[store.Object[T]], error] {
	args := Args{Selector: sel, After: after}
	return i.watch(ctx, args, func(ctx context.Context) iter.Seq2[informer.Event[store.Object[T]], error] {
		return i.to.WatchSelected(ctx, sel, after)
	})
}

func (i *Store[T]) watch(
	ctx context.Context, args Args, to func(context.Context) iter.Seq2[informer.Event[store.Object[T]], error],
) iter.Seq2[informer.Event[store.Object[T]], error] {
	return func(yield func(informer.Event[store.Object[T]], error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		c, in := i.begin(i.call(opWatch, ""), args, cancel)
		d := &delivery[T]{i: i, ctx: ctx, call: c, rule: in, yield: yield}
		defer func() { i.end(c, d.err) }()
		if in != nil {
			d.left = in.rule.After
		}
		if !d.strike() {
			return
		}
		for e, err := range to(ctx) {
			if err != nil {
				d.fail(err)
				return
			}
			if !d.take(e) {
				return
			}
		}
	}
}

// delivery is an open watch: every event of the store passes through take.
type delivery[T any] struct {
	i     *Store[T]
	ctx   context.Context
	call  *Call
	yield func(informer.Event[store.Object[T]], error) bool
	err   error // the error that ended it

	rule *Injection // of the watch itself; nil once it has hit
	left int        // events until then

	held   informer.Event[store.Object[T]] // an event that waits for the next one
	holder *Injection                      // the rule that holds it; nil if none is held
}

// take delivers an event or a bookmark, and applies a rule to it. False means that the watch is over.
func (d *delivery[T]) take(e informer.Event[store.Object[T]]) bool {
	var in *Injection
	if e.Type != informer.Bookmark {
		c := d.i.call(opEvent, e.Object.Key)
		c.Args = Args{Object: e.Object, Type: e.Type}
		in = d.i.match(c)
	}
	kind := faultKind(0)
	if in != nil {
		kind = in.rule.Fault.kind
	}
	switch kind {
	case fail, hang, before:
		if err := d.i.suffer(d.ctx, in, d.call); err != nil {
			d.fail(err)
			return false
		}
	}
	if d.holder == nil {
		return d.deliver(e, in, kind)
	}
	held, holder := d.held, d.holder
	d.holder = nil
	if holder.rule.Fault.kind == reorder {
		d.i.hit(holder, d.call)
		return d.send(e) && d.send(held) // no other rule for e, which is already out of order
	}
	if e.Type != informer.Bookmark && e.Object.Key == held.Object.Key {
		d.i.hit(holder, d.call)
	} else if !d.send(held) {
		return false
	}
	return d.deliver(e, in, kind)
}

func (d *delivery[T]) deliver(e informer.Event[store.Object[T]], in *Injection, kind faultKind) bool {
	switch {
	case kind == drop:
		d.i.hit(in, d.call)
		return true
	case kind == repeat:
		d.i.hit(in, d.call)
		first := d.send(e)
		return first && d.send(e)
	case kind == reorder, kind == skip && e.Type != informer.Deleted:
		d.held, d.holder = e, in
		return true
	default:
		return d.send(e)
	}
}

func (d *delivery[T]) send(e informer.Event[store.Object[T]]) bool {
	if !d.yield(e, nil) {
		return false
	}
	if e.Type != informer.Bookmark {
		d.left--
	}
	return d.strike()
}

// strike applies the rule of the watch, once, when it is due. False means that the watch is over.
func (d *delivery[T]) strike() bool {
	if d.rule == nil || d.left > 0 || d.rule.removed.Err() != nil {
		return true
	}
	struck := d.rule
	d.rule = nil
	if err := d.i.suffer(d.ctx, struck, d.call); err != nil {
		d.fail(err)
		return false
	}
	return true
}

// fail ends the watch.
func (d *delivery[T]) fail(err error) {
	d.err = err
	d.i.end(d.call, err) // before the consumer gets it
	d.yield(informer.Event[store.Object[T]]{}, err)
}
