package informer

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/informer/internal/delivery"
	"github.com/setpoint-go/setpoint/wait"
)

// never is the delay of a timer that is not needed.
const never = time.Duration(math.MaxInt64)

// step lets new handlers join, then applies inputs, the next ones of the feed, to the cache, and passes the changes to the handlers. One
// goroutine does all of this, so a handler that joins gets each change exactly once.
//
// The caller takes the inputs before handlers join. So a handler that was added before a change was made has joined before the
// change is applied. The first handlers join between the first list and the inputs after it.
//
// step reports whether it has applied, joined, or scanned anything.
func (in *Informer[K, T]) step(inputs []input[K, T], start func(*listener[K, T])) (did bool) {
	did = len(inputs) > 0 || len(in.scans) > 0
	if len(inputs) > 0 {
		in.progress.hear()
	}
	applied := 0
	if !in.HasSynced() {
		applied = slices.IndexFunc(inputs, func(it input[K, T]) bool { return it.list != nil }) + 1
		in.apply(inputs[:applied])
		if applied > 0 {
			close(in.synced)
		}
	}
	if in.HasSynced() {
		did = in.join(start) || did
		in.apply(inputs[applied:])
	}
	clear(inputs)
	in.spare = inputs[:0]
	in.passAsks()
	in.scan()
	return did
}

// apply applies inputs to the cache, and passes the changes to the handlers.
func (in *Informer[K, T]) apply(inputs []input[K, T]) {
	for _, it := range inputs {
		if it.list != nil && it.list.starts {
			in.tellVersion(in.progress.restart(), 0)
		}
	}
	listeners := in.heardBy()
	in.applier.heard = len(listeners) > 0
	in.applier.apply(inputs)
	if changes := in.applier.changes; len(changes) > 0 {
		for _, l := range listeners {
			l.Tell(changes)
		}
	}
	in.applier.forget()
	v := in.applier.version()
	in.tellVersion(in.progress.reach(v), v)
}

// tellVersion calls followers with a version.
func (in *Informer[K, T]) tellVersion(followers []*follower, v Version) {
	for _, f := range followers {
		err := wait.Call(context.Background(), func(context.Context) error { f.tell(v); return nil })
		if err != nil {
			in.cfg.OnError(fmt.Errorf("informer: call OnVersion of %s: %w", in.cfg.Name, err))
		}
	}
}

// heardBy returns the handlers that have joined.
func (in *Informer[K, T]) heardBy() []*listener[K, T] {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.listeners
}

// join gives new handlers everything that is in the cache, and every change from now on. It reports whether there were any.
func (in *Informer[K, T]) join(start func(*listener[K, T])) bool {
	joined := in.joinLists()
	if len(joined) == 0 {
		return false
	}
	snapshot := in.indexer.Snapshot()
	for _, l := range joined {
		if l.period > 0 {
			l.due = time.Now().Add(l.period)
			in.rescheduled = true
		}
		l.Begin(snapshot)
		start(l)
	}
	return true
}

// joinLists moves the new handlers to those that have joined, and returns them.
func (in *Informer[K, T]) joinLists() (joined []*listener[K, T]) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.joining) == 0 {
		return nil
	}
	joined, in.joining = in.joining, nil
	for _, l := range joined {
		l.Enter() // for start; it cannot fail, since Remove takes the listener from joining before it dismisses it
	}
	in.listeners = slices.Concat(in.listeners, joined)
	return joined
}

// pieceSize is the number of objects of the cache that a resync reports together.
const pieceSize = 128

// scan is a resync in progress: it reports every object of the cache to handlers again, in pieces.
type scan[K comparable, T any] struct {
	listeners []*listener[K, T]
	next      func() ([]delivery.Change[K, T], bool)
	stop      func()
}

// newScan returns a scan of the cache of in for ls.
func newScan[K comparable, T any](in *Informer[K, T], ls []*listener[K, T]) *scan[K, T] {
	s := &scan[K, T]{listeners: ls}
	s.next, s.stop = iter.Pull(delivery.Resync(in.indexer.All(), in.applier.seed, in.piece))
	return s
}

// scanFor takes the first piece of a scan, and leaves the rest to later steps.
func (in *Informer[K, T]) scanFor(s *scan[K, T]) {
	if in.advance(s) {
		in.scans = append(in.scans, s)
		in.poke()
	}
}

// scan advances each scan by one piece.
func (in *Informer[K, T]) scan() {
	in.scans = slices.DeleteFunc(in.scans, func(s *scan[K, T]) bool { return !in.advance(s) })
	if len(in.scans) > 0 {
		in.poke()
	}
}

// advance passes the next objects of a scan to its handlers, and reports whether there is more of it.
func (in *Informer[K, T]) advance(s *scan[K, T]) (more bool) {
	changes, more := s.next()
	for _, l := range s.listeners {
		if more {
			l.Tell(changes)
		} else {
			l.resyncing = false
		}
	}
	return more
}

// stopScans ends the scans that Run leaves unfinished.
func (in *Informer[K, T]) stopScans() {
	for _, s := range in.scans {
		s.stop()
	}
}

// resync starts a scan for the handlers whose resync is due. If a change of an object is pending, the scan adds nothing to it: both lead to
// the state of the cache. A handler whose last scan is still in progress is skipped.
func (in *Informer[K, T]) resync(now time.Time) {
	in.rescheduled = true
	var due []*listener[K, T]
	for _, l := range in.heardBy() {
		if l.period == 0 || l.due.After(now) {
			continue
		}
		l.due = now.Add(l.period)
		if !l.resyncing {
			l.resyncing = true
			due = append(due, l)
		}
	}
	if len(due) > 0 {
		in.scanFor(newScan(in, due))
	}
}

// nextResync returns the time until the next resync, and whether it may have changed since it was last called.
func (in *Informer[K, T]) nextResync() (next time.Duration, changed bool) {
	if !in.rescheduled {
		return never, false
	}
	in.rescheduled = false
	in.mu.Lock()
	defer in.mu.Unlock()
	next = never
	for _, l := range in.listeners {
		if l.period > 0 {
			next = min(next, time.Until(l.due))
		}
	}
	return next, true
}

// remove prevents further callbacks of l. It returns a channel that is closed when none is running.
func (in *Informer[K, T]) remove(l *listener[K, T]) <-chan struct{} {
	in.mu.Lock()
	in.joining = without(in.joining, l)
	in.listeners = without(in.listeners, l)
	in.mu.Unlock()
	return l.Dismiss()
}

// without returns a copy of list without elem, or list if elem is not in it.
func without[E comparable](list []E, elem E) []E {
	i := slices.Index(list, elem)
	if i < 0 {
		return list
	}
	return slices.Concat(list[:i], list[i+1:])
}

// timers are the timers of an informer: for a new list when an object could not be applied, and for resyncs. Only the goroutine that
// applies inputs uses them.
type timers[K comparable, T any] struct {
	in     *Informer[K, T]
	retry  *time.Timer      // nil while nothing has failed
	again  <-chan time.Time // of retry
	resync *time.Timer      // nil before the first handler with a period
	tick   <-chan time.Time // of resync
}

// set sets the timers after each step.
func (t *timers[K, T]) set() {
	if next, changed := t.in.nextResync(); changed && t.resync != nil {
		t.resync.Reset(next)
	} else if changed {
		t.resync = time.NewTimer(next)
		t.tick = t.resync.C
	}
	t.again = nil
	if t.retry = t.in.applier.retry(t.retry, t.in.cfg.Backoff); t.retry != nil {
		t.again = t.retry.C
	}
}

// relist requests a list when retry has fired.
func (t *timers[K, T]) relist() {
	t.retry, t.again = nil, nil
	t.in.reflector.order(&t.in.reflector.relist)
}

func (t *timers[K, T]) stop() {
	if t.resync != nil {
		t.resync.Stop()
	}
	if t.retry != nil {
		t.retry.Stop()
	}
}
