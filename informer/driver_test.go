package informer

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/informer/internal/delivery"
)

// Driver looks inside an informer that its Steps drive. It numbers the handlers from 0, as they joined.
type Driver[K comparable, T any] struct {
	In *Informer[K, T]

	steps     *steps[K, T]
	listeners []*listener[K, T] // that have joined, also those that were removed
	resyncs   int
}

// Steps returns the steps of the informer. They end with Stop.
func (d *Driver[K, T]) Steps() *steps[K, T] {
	if d.steps == nil {
		s, err := d.In.Steps(context.Background())
		if err != nil {
			panic(err)
		}
		d.steps = s.(*steps[K, T])
	}
	return d.steps
}

// Reflect reads until the source has no more to say: so a source that is driven must not block. It returns how many things
// it has read.
func (d *Driver[K, T]) Reflect(ctx context.Context) (read int) {
	for wasListing := !d.In.reflector.current; d.Steps().Read(ctx); {
		if read++; wasListing {
			break
		}
	}
	return read
}

// Seen returns the version up to which the reflector has read the source, and whether it watches from there or must list.
func (d *Driver[K, T]) Seen() (v Version, watches bool) {
	return d.In.reflector.seen, d.In.reflector.current
}

// Idle reports that Run would sleep.
func (d *Driver[K, T]) Idle() bool { return len(d.In.wake) == 0 }

// Apply applies all that waits, as Run does.
func (d *Driver[K, T]) Apply() {
	select {
	case <-d.In.wake:
	default:
	}
	d.In.step(d.In.feed.take(d.In.spare), (*listener[K, T]).Leave)
	d.note()
}

// ApplyOne applies one thing that waits.
func (d *Driver[K, T]) ApplyOne() (applied bool) {
	applied = d.Steps().Apply()
	d.note()
	return applied
}

// note records which handlers have joined.
func (d *Driver[K, T]) note() {
	for _, l := range d.In.listeners {
		if !slices.Contains(d.listeners, l) {
			d.listeners = append(d.listeners, l)
		}
	}
}

// Stop ends the steps.
func (d *Driver[K, T]) Stop() { d.Steps().Stop() }

// Resync lets the time of every resync come that has not.
func (d *Driver[K, T]) Resync() {
	d.resyncs++
	d.In.resync(time.Now().Add(time.Duration(d.resyncs) * 1000 * time.Hour))
}

// Handlers returns the number of handlers that have joined ever.
func (d *Driver[K, T]) Handlers() int { return len(d.listeners) }

// Deliver makes the oldest pending calls of handler i. It returns false if there are none.
func (d *Driver[K, T]) Deliver(i int) bool {
	l := d.listeners[i]
	delivered := d.Steps().Deliver(l.reg)
	for l.Owes() && d.Steps().Deliver(l.reg) {
	}
	return delivered
}

// Waits reports whether handler i could be called.
func (d *Driver[K, T]) Waits(i int) bool {
	for range d.Backlog(i) {
		return true
	}
	return false
}

// Backlog yields the pending calls of handler i, oldest first.
func (d *Driver[K, T]) Backlog(i int) iter.Seq2[K, delivery.Item[T]] { return d.listeners[i].Pending() }
