package informer

import (
	"context"
	"fmt"
	"slices"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/wait"
)

// maxBatch is the number of keys that are applied to the cache before the handlers are told of them.
const maxBatch = 256

// step applies what waits to the cache, then tells the handlers, then lets new handlers join. All of this is done by
// Run's goroutine alone, so that there is no change of which a handler that joins has heard twice, or not at all.
func (in *Informer[K, T]) step(start func(*listener[K, T])) {
	if in.apply() {
		in.poke()
	}
	in.tell()
	in.progress.reach(Version(in.deltas.Version()))
	if !in.HasSynced() && in.deltas.HasSynced() {
		close(in.synced)
	}
	if in.HasSynced() {
		in.join(start)
	}
}

// apply applies what waits to the cache. It reports whether it has left something, for handlers not to wait for too
// long. A list is never left half applied, so that no handler is told of one object of a list when the cache does not
// hold another.
func (in *Informer[K, T]) apply() (more bool) {
	for n := 0; n < maxBatch || in.deltas.Version() < in.reflector.listing.Load(); n++ {
		popped, err := in.deltas.TryPop(in.process)
		if err != nil {
			in.cfg.OnError(err)
		}
		if !popped {
			return false
		}
	}
	return true
}

// process applies what happened to a key. The code of the user in it is that of indexes. When it panics, the cache
// stays as it was, and its version too.
func (in *Informer[K, T]) process(key K, deltas []cache.Delta[T], _ bool) error {
	err := wait.Call(context.Background(), func(context.Context) error {
		for _, d := range deltas {
			in.applyDelta(key, d)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("informer: apply %v to the cache of %s: %w", key, in.cfg.Name, err)
	}
	return nil
}

func (in *Informer[K, T]) applyDelta(key K, d cache.Delta[T]) {
	c := change[K, T]{key: key}
	if d.Type == cache.Deleted {
		c.old.object, c.old.present = in.indexer.Delete(key)
		c.tombstone = cache.Tombstone[K, T]{Key: key, Object: d.Object, FinalStateUnknown: d.FinalStateUnknown}
	} else {
		c.old.object, c.old.present = in.indexer.Upsert(d.Object)
		c.new = state[T]{d.Object, true}
	}
	in.changes = append(in.changes, c)
}

// resync tells the handlers of every object once more. Where a change waits, nothing comes of it: both lead to what the
// cache holds.
func (in *Informer[K, T]) resync() {
	for key, obj := range in.indexer.All() {
		same := state[T]{obj, true}
		in.changes = append(in.changes, change[K, T]{key: key, old: same, new: same})
	}
	in.tell()
}

// tell tells the handlers of the changes, and forgets them.
func (in *Informer[K, T]) tell() {
	if len(in.changes) == 0 {
		return
	}
	in.mu.Lock()
	listeners := in.listeners
	in.mu.Unlock()
	for _, l := range listeners {
		l.tell(in.changes)
	}
	clear(in.changes)
	in.changes = in.changes[:0]
	if cap(in.changes) > 2*maxBatch {
		in.changes = nil // the room for a whole list is not needed often
	}
}

// join tells the handlers that are new of everything in the cache, and starts them.
func (in *Informer[K, T]) join(start func(*listener[K, T])) {
	in.mu.Lock()
	joining := in.joining
	in.joining = nil
	if len(joining) > 0 {
		in.listeners = slices.Concat(in.listeners, joining)
	}
	for _, l := range joining {
		l.started = true
	}
	in.mu.Unlock()

	for _, l := range joining {
		l.join(in.indexer.All())
		start(l)
	}
}

// remove makes sure that no callback of l runs, or will run.
func (in *Informer[K, T]) remove(l *listener[K, T]) {
	in.mu.Lock()
	in.joining = without(in.joining, l)
	in.listeners = without(in.listeners, l)
	started := l.started
	in.mu.Unlock()

	l.dismiss()
	if started {
		<-l.done
	}
}

// without returns a copy of list that lacks elem, or list when it does not hold it.
func without[E comparable](list []E, elem E) []E {
	i := slices.Index(list, elem)
	if i < 0 {
		return list
	}
	return slices.Concat(list[:i], list[i+1:])
}
