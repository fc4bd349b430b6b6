package informer

import (
	"math"
	"slices"
	"time"
)

// never is the delay of a timer that is not needed.
const never = time.Duration(math.MaxInt64)

// step lets new handlers join, then applies inputs, the next ones of the buffer, to the cache, and passes the changes to the handlers. One
// goroutine does all of this, so a handler that joins gets each change exactly once.
//
// The caller takes the inputs before handlers join. So a handler that was added before a change was made has joined before the
// change is applied. The first handlers join between the first list and the inputs after it.
//
// step reports whether it has applied, joined, or scanned anything.
func (in *Informer[K, T]) step(inputs []input[K, T], start func(*listener[K, T])) (did bool) {
	did = len(inputs) > 0 || len(in.scans)+len(in.late) > 0
	in.progress.begin(len(inputs) > 0)
	defer in.progress.end()
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
	in.callNew()
	in.placeFlushes()
	if len(in.scans) > 0 {
		in.scan()
	}
	return did
}

// apply applies inputs to the cache, and passes the changes to the handlers: to those with a backlog before it raises the version, since
// the changes are pending by then, and to inline handlers after that, so that what they start sees the version. It calls the functions of OnVersion
// last: a caller that waits for a version also finds the keys that inline handlers have added.
func (in *Informer[K, T]) apply(inputs []input[K, T]) {
	for _, it := range inputs {
		if it.list != nil && it.list.starts {
			callObservers(in.progress.restart(), 0, "OnVersion", in.cfg.Name, in.cfg.OnError)
		}
	}
	listeners := in.joined()
	in.applier.records = len(listeners) > 0
	in.applier.apply(inputs)
	changes := in.applier.changes
	for _, l := range listeners {
		if !l.direct {
			l.add(changes)
		}
	}
	v := in.applier.version()
	observers := in.progress.raise(v)
	for _, l := range listeners {
		if l.direct {
			l.call(changes)
		}
	}
	in.applier.forget()
	callObservers(observers, v, "OnVersion", in.cfg.Name, in.cfg.OnError)
	fresh, added := in.unread.takeFresh()
	for _, key := range fresh {
		callObservers(added, key, "OnUnread", in.cfg.Name, in.cfg.OnError)
	}
	callObservers(in.unread.takeObservers(), struct{}{}, "OnReadable", in.cfg.Name, in.cfg.OnError)
	in.catchUps.resets.Store(in.applier.served.resets)
	if len(in.applier.failed) == 0 {
		in.catchUps.lists.serve(in.applier.served.lists)
		in.catchUps.holds.serve(in.applier.served.holds)
	}
}

// joined returns the handlers that have joined.
func (in *Informer[K, T]) joined() []*listener[K, T] {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.listeners
}

// join gives new handlers everything that is in the cache, and every change from now on. It reports whether there were any.
func (in *Informer[K, T]) join(start func(*listener[K, T])) bool {
	joined := in.joinAll()
	if len(joined) == 0 {
		return false
	}
	snapshot := in.indexer.Snapshot()
	for _, l := range joined {
		if l.period > 0 {
			l.due = time.Now().Add(l.period)
			in.rescheduled = true
		}
		l.join(snapshot)
		if l.handler.Inline {
			l.release()
			in.late = append(in.late, l)
		} else {
			start(l)
		}
	}
	return true
}

// callNew makes the next calls of inline handlers that are not direct yet, and leaves the rest to later steps.
func (in *Informer[K, T]) callNew() {
	in.late = slices.DeleteFunc(in.late, func(l *listener[K, T]) bool { return !l.callPending(in.piece) })
	if len(in.late) > 0 {
		in.signal()
	}
}

// joinAll moves the new handlers to those that have joined, and returns them.
func (in *Informer[K, T]) joinAll() (joined []*listener[K, T]) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.joining) == 0 {
		return nil
	}
	joined, in.joining = in.joining, nil
	for _, l := range joined {
		l.acquire() // for start; it cannot fail, since Remove takes the listener from joining before it stops it
	}
	in.listeners = slices.Concat(in.listeners, joined)
	return joined
}

// remove removes l from the handlers.
func (in *Informer[K, T]) remove(l *listener[K, T]) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.joining = without(in.joining, l)
	in.listeners = without(in.listeners, l)
}

// placeFlushes passes new calls of WaitIdle the changes that they wait for. Their handlers have joined, or were removed.
func (in *Informer[K, T]) placeFlushes() {
	if in.flushing.Swap(false) {
		for _, l := range in.joined() {
			l.placeFlushes()
		}
	}
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
	t.in.reflector.request(&t.in.reflector.relist)
}

func (t *timers[K, T]) stop() {
	if t.resync != nil {
		t.resync.Stop()
	}
	if t.retry != nil {
		t.retry.Stop()
	}
}
