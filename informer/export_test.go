package informer

import (
	"context"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/internal/broadcast"
)

// MaxBatch is the number of inputs after which changes go to the handlers.
const MaxBatch = maxBatch

// PieceSize is the number of objects of the cache that are read at once.
const PieceSize = pieceSize

// Pending returns the size of the backlog of each handler that has joined.
func Pending[K comparable, T any](in *Informer[K, T]) (sizes []int) {
	for _, l := range in.joined() {
		sizes = append(sizes, l.pending())
	}
	return sizes
}

// SetPiece makes a resync report n objects at a time. Call it before Run.
func SetPiece[K comparable, T any](in *Informer[K, T], n int) { in.piece = n }

// Joining returns the number of handlers that wait for the first list.
func Joining[K comparable, T any](in *Informer[K, T]) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.joining)
}

// Waiters returns the number of calls that wait for a version.
func Waiters[K comparable, T any](in *Informer[K, T]) int {
	in.progress.mu.Lock()
	defer in.progress.mu.Unlock()
	return len(in.progress.waiters)
}

// Flushes returns the number of calls of WaitIdle that are kept.
func Flushes[K comparable, T any](in *Informer[K, T]) (n int) {
	for _, l := range in.joined() {
		n += l.Flushes()
	}
	return n
}

// Reach sets the version of in to v.
func Reach[K comparable, T any](in *Informer[K, T], v Version) {
	in.progress.raise(v)
	in.progress.end()
}

// CheckInvariants returns the first invariant that is broken.
func CheckInvariants[K comparable, T any](in *Informer[K, T]) error {
	for _, l := range in.joined() {
		if err := l.CheckInvariants(); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}

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
	d.In.step(d.In.buffer.take(d.In.spare), (*listener[K, T]).release)
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

// Registration returns handler i.
func (d *Driver[K, T]) Registration(i int) Registration { return d.listeners[i] }

// Deliver makes the oldest pending calls of handler i. It returns false if there are none.
func (d *Driver[K, T]) Deliver(i int) bool {
	l := d.listeners[i]
	delivered := d.Steps().Deliver(l)
	for l.addNext && d.Steps().Deliver(l) {
	}
	return delivered
}

// HasPending reports whether handler i could be called.
func (d *Driver[K, T]) HasPending(i int) bool {
	for range d.Pending(i) {
		return true
	}
	return false
}

// Pending yields the pending items of handler i, in order.
func (d *Driver[K, T]) Pending(i int) iter.Seq2[K, Item[T]] { return d.listeners[i].Pending() }

// Item is the pending change of a key for a handler.
type Item[T any] struct {
	Reported, Now *T // nil if there is no object
	Initial       bool
}

func exported[K comparable, T any](it *item[K, T]) (i Item[T]) {
	if it.reported.present {
		i.Reported = &it.reported.object
	}
	if it.now.present {
		i.Now = &it.now.object
	}
	return i
}

// Change is a change of the cache.
type Change[K comparable, T any] = change[K, T]

// Put stores an object in the cache of in, which does not run, and returns the change.
func Put[K comparable, T any](in *Informer[K, T], obj T) Change[K, T] {
	return applied(in, input[K, T]{kind: Modified, key: in.key(obj), object: obj})[0]
}

// Delete deletes the key of final from the cache of in, which does not run, and returns the change, if there is one.
func Delete[K comparable, T any](in *Informer[K, T], final T, missed bool) []Change[K, T] {
	return applied(in, input[K, T]{kind: Deleted, key: in.key(final), object: final, missed: missed})
}

func applied[K comparable, T any](in *Informer[K, T], it input[K, T]) []Change[K, T] {
	in.applier.records = true
	in.applier.apply([]input[K, T]{it})
	defer in.applier.forget()
	return slices.Clone(in.applier.changes)
}

// Resyncs yields the changes of a resync, n at a time.
func Resyncs[K comparable, T any](in *Informer[K, T], n int) iter.Seq[[]Change[K, T]] {
	return resyncs(in.indexer.All(), in.applier.seed, n)
}

// NewListener returns a listener for a handler of in, which does not run: the test passes it the changes, and makes its calls.
func NewListener[K comparable, T any](in *Informer[K, T], h Handler[K, T]) *listener[K, T] {
	return newListener(in, "test handler", h)
}

// Join makes all objects of the cache initial.
func (l *listener[K, T]) Join() {
	if l.acquire() {
		l.join(l.in.indexer.Snapshot())
		l.release()
	}
}

// Add passes l changes that were made after Join.
func (l *listener[K, T]) Add(changes ...Change[K, T]) { l.add(changes) }

// Deliver makes a call.
func (l *listener[K, T]) Deliver() bool { return l.deliver() }

// Waiting returns the number of changes in the backlog.
func (l *listener[K, T]) Waiting() int { return l.pending() }

// AddNext reports whether the next call is OnAdd, for the current item. The caller makes all calls.
func (l *listener[K, T]) AddNext() bool { return l.addNext }

// AddFlush adds a flush that waits for all that is pending.
func (l *listener[K, T]) AddFlush() (done chan struct{}) {
	defer l.placeFlushes()
	return l.addFlush()
}

// DropFlush removes a flush.
func (l *listener[K, T]) DropFlush(done chan struct{}) { l.dropFlush(done) }

// Flushes returns the number of flushes that are not done.
func (l *listener[K, T]) Flushes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.backlog.flushes)
}

// Pending yields the pending items, in order. The caller makes all calls.
func (l *listener[K, T]) Pending() iter.Seq2[K, Item[T]] {
	return func(yield func(K, Item[T]) bool) {
		if broadcast.IsClosed(l.stopped) {
			return
		}
		initial := make(map[*item[K, T]]bool)
		for _, o := range l.initial.all() {
			it := Item[T]{Now: &o.obj, Initial: true}
			if later := l.backlog.find(maphash.Comparable(l.in.applier.seed, o.key), o.key); later != nil {
				initial[later] = true
				if it.Now = exported(later).Now; later.deleted {
					continue
				}
			}
			if !yield(o.key, it) {
				return
			}
		}
		for it := l.backlog.first; it != nil; it = it.after {
			item := exported(it)
			if initial[it] {
				if !it.deleted || !it.now.present {
					continue
				}
				item.Reported = nil
			}
			if !yield(it.key, item) {
				return
			}
		}
	}
}

// all returns the objects whose turn is still to come.
func (o *initial[K, T]) all() []object[K, T] {
	for o.next != nil {
		piece, ok := o.next()
		if o.piece = slices.Concat(o.piece, piece); !ok {
			o.next = nil
		}
	}
	return o.piece
}

// CheckInvariants returns the first invariant that is broken.
func (l *listener[K, T]) CheckInvariants() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if broadcast.IsClosed(l.stopped) && l.backlog.n > 0 {
		return fmt.Errorf("it is stopped, and something is pending")
	}
	return l.backlog.check()
}

func (b *backlog[K, T]) check() error {
	n := 0
	items := make(map[*item[K, T]]bool)
	var before *item[K, T]
	for it := b.first; it != nil; before, it = it, it.after {
		n++
		items[it] = true
		switch {
		case !b.every && b.find(it.hash, it.key) != it:
			return fmt.Errorf("key %v: the list has an item that the table has not", it.key)
		case it.before != before:
			return fmt.Errorf("key %v: the list is broken", it.key)
		case !it.reported.present && !it.now.present:
			return fmt.Errorf("key %v: there is nothing to report", it.key)
		case it.deleted && !it.reported.present:
			return fmt.Errorf("key %v: an object was deleted that was not reported", it.key)
		case it.reported.present && !it.now.present && !it.deleted:
			return fmt.Errorf("key %v: the reported object is missing, and was not deleted", it.key)
		case it.initial && it.reported.present && !it.deleted:
			return fmt.Errorf("key %v: it is initial, and was reported", it.key)
		case it.dropped && !it.deleted:
			return fmt.Errorf("key %v: it was dropped, and did not leave", it.key)
		}
	}
	for _, f := range b.flushes {
		if f.last != nil && !items[f.last] {
			return fmt.Errorf("key %v: a flush waits for an item that is not pending", f.last.key)
		}
	}
	switch {
	case b.last != before:
		return fmt.Errorf("the last item is not the last")
	case n != b.n:
		return fmt.Errorf("%d items in the list, %d counted", n, b.n)
	}
	return nil
}

// Kept returns the number of items that l keeps for use again, and the size of its table.
func (l *listener[K, T]) Kept() (items, chains int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for it := l.backlog.free; it != nil; it = it.chain {
		items++
	}
	return max(items, l.backlog.nfree), len(l.backlog.chains)
}

// FillAndDrain lets n keys wait for a handler, and takes them.
func FillAndDrain(n int) {
	var b backlog[int, int]
	for key := range n {
		b.add(&change[int, int]{key: key, hash: uint64(key), new: state[int]{key, true}})
	}
	for it := b.take(); it != nil; it = b.take() {
		b.release(it)
	}
}

// Merger compares a list with keys.
type Merger struct{ m merger[int, int] }

// NewMerger returns a Merger of a list with these keys, by page. The object of a key is its place in the list.
func NewMerger(pages [][]int) *Merger {
	var m merger[int, int]
	n := 0
	for _, keys := range pages {
		p := page[int, int]{keys: keys}
		for range keys {
			p.items = append(p.items, n)
			n++
		}
		m.pages = append(m.pages, p)
	}
	return &Merger{m}
}

// Find returns the place of a key among the next objects of the list.
func (m *Merger) Find(key int) (place int, ok bool) { return m.m.find(key) }

// Skipped yields the keys that were skipped, with their places.
func (m *Merger) Skipped() iter.Seq2[int, int] { return m.m.skipped() }
