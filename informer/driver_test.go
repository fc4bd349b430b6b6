package informer

import (
	"context"
	"time"
)

// Driver takes the steps of an informer one by one, in place of Run and its goroutines. A step of the reflector ends when
// the source has no more to say, so a source that is driven must not block.
type Driver[K comparable, T any] struct {
	In *Informer[K, T]

	listeners []*listener[K, T] // that were started
}

// Item is what waits for a handler under a key.
type Item[T any] struct {
	Known, Now    T
	Knows, Is     bool // there is a Known, and a Now
	Gone, Unknown bool // Known was deleted; how is not known
	Initial       bool
}

// Reflect takes one step of the reflector, and returns how long it wants to wait after it.
func (d *Driver[K, T]) Reflect(ctx context.Context) time.Duration { return d.In.reflector.step(ctx) }

// Seen returns up to where the reflector has heard the source, and whether it watches on from there or is to list.
func (d *Driver[K, T]) Seen() (v Version, watches bool) {
	return d.In.reflector.seen, d.In.reflector.current
}

// Idle reports that Run would sleep.
func (d *Driver[K, T]) Idle() bool { return len(d.In.wake) == 0 }

// Apply lets the cache take what waits for it.
func (d *Driver[K, T]) Apply() {
	select {
	case <-d.In.wake:
	default:
	}
	d.In.step(func(l *listener[K, T]) {
		close(l.done) // Remove need not wait for a goroutine
		d.listeners = append(d.listeners, l)
	})
}

// Resync does what the ticker of Run does.
func (d *Driver[K, T]) Resync() {
	if len(d.In.listeners) > 0 {
		d.In.scanFor(newScan(d.In.indexer, d.In.listeners, false), true)
	}
}

// Handlers returns the number of handlers that have joined ever; they are numbered from 0.
func (d *Driver[K, T]) Handlers() int { return len(d.listeners) }

// Deliver takes one item from the backlog of handler i and makes its calls. It returns false when nothing waits.
func (d *Driver[K, T]) Deliver(_ context.Context, i int) bool {
	l := d.listeners[i]
	return l.workOnce()
}

// Waits reports whether something waits for handler i.
func (d *Driver[K, T]) Waits(i int) bool { return d.listeners[i].backlog.first != nil }

// Backlog yields what waits for handler i, the first one first.
func (d *Driver[K, T]) Backlog(i int) func(yield func(K, Item[T]) bool) {
	return func(yield func(K, Item[T]) bool) {
		for it := d.listeners[i].backlog.first; it != nil; it = it.after {
			item := Item[T]{
				Known: it.known.object, Knows: it.known.present, Now: it.now.object, Is: it.now.present,
				Gone: it.gone, Unknown: it.tombstone.FinalStateUnknown, Initial: it.initial,
			}
			if !yield(it.key, item) {
				return
			}
		}
	}
}

// workOnce makes the calls of one item.
func (l *listener[K, T]) workOnce() bool {
	it := l.next(false)
	if it == nil {
		return false
	}
	l.deliver(it)
	if l.owes {
		l.owes = false
		l.handler.OnAdd(it.now.object, it.initial)
	}
	l.next(true)
	return true
}
