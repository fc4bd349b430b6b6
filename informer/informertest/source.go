package informertest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/broadcast"
)

// Source is an in-memory [informer.ListWatcher]. Several goroutines may call its methods concurrently.
type Source[K comparable, T any] struct {
	key   cache.KeyFunc[K, T]
	clock *Clock

	changed broadcast.Signal // woken when something has changed that concerns watches

	mu *sync.Mutex // of the clock
	// mu guards the following.
	objects map[K]T
	spoiled map[K]informer.Unread[T] // which are not in objects
	order   []K                      // the keys of both in the order in which they arrived
	history []entry[T]               // what watches yield, in order
	dropped int                      // the number of forgotten entries of the history
	floor   informer.Version         // a watch may start here, or later
	mute    bool                     // no watch yields changes
	frozen  *informer.List[T]
	held    bool  // watches yield nothing from holdAt on
	holdAt  int   // a position, counted from the first entry ever
	lists   error // of every list
	after   int   // the number of pages before it
	watches error // of every Watch
	breaks  int   // how often watches were broken
	broken  error // the error of the last break
}

// entry is one event of the history.
type entry[T any] struct {
	at    informer.Version // a watch that starts here, or later, does not yield it
	event informer.Event[T]
}

// NewSource returns an empty source at version 0. key returns the key of an object. NewSource panics if key is nil.
func NewSource[K comparable, T any](key cache.KeyFunc[K, T]) *Source[K, T] {
	if key == nil {
		panic("informertest: NewSource needs a key function")
	}
	return NewSourceOn(new(Clock), key)
}

// Key returns the key of an object.
func (s *Source[K, T]) Key(obj T) K { return s.key(obj) }

// Version returns the version of the last change to this source, or to another one on the same [Clock].
func (s *Source[K, T]) Version() informer.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.version
}

// Put adds obj, or replaces the object with the same key. It returns the version of that change.
func (s *Source[K, T]) Put(obj T) informer.Version {
	key := s.key(obj)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := informer.Modified
	_, exists := s.objects[key]
	_, spoiled := s.spoiled[key]
	if !exists {
		t = informer.Added
	}
	if !exists && !spoiled {
		s.order = append(s.order, key)
	}
	delete(s.spoiled, key)
	s.objects[key] = obj
	return s.recordLocked(t, obj)
}

// Spoil makes the object with the key of obj one that exists and cannot be read, because of err, until it is put again or deleted. Only the
// fields of obj that make up the key count. It returns the version of that change.
func (s *Source[K, T]) Spoil(obj T, err error) informer.Version {
	key := s.key(obj)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, exists := s.objects[key]
	if _, spoiled := s.spoiled[key]; !exists && !spoiled {
		s.order = append(s.order, key)
	}
	delete(s.objects, key)
	s.spoiled[key] = informer.Unread[T]{Object: obj, Err: err}
	s.clock.advanceLocked(s)
	s.addLocked(informer.Event[T]{Type: informer.Unreadable, Object: obj, Err: err})
	return s.clock.version
}

// Delete deletes the object with the given key. It returns the version of that change, or the current one if there is no such object.
func (s *Source[K, T]) Delete(key K) informer.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	ev := informer.Event[T]{Type: informer.Deleted, Object: s.objects[key]}
	if _, exists := s.objects[key]; !exists {
		unread, spoiled := s.spoiled[key]
		if !spoiled {
			return s.clock.version
		}
		ev.Object, ev.KeyOnly = unread.Object, true
	}
	delete(s.objects, key)
	delete(s.spoiled, key)
	s.order = slices.DeleteFunc(s.order, func(k K) bool { return k == key })
	s.clock.advanceLocked(s)
	s.addLocked(ev)
	return s.clock.version
}

// Bookmark advances to a version without a change, as when something else in a database changes, and returns it.
func (s *Source[K, T]) Bookmark() informer.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	var none T
	return s.recordLocked(informer.Bookmark, none)
}

// Break ends every open watch with err, or without an error if err is nil. No event is lost: the next watch may resume there.
func (s *Source[K, T]) Break(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breakLocked(err)
}

// Compact forgets the history: a watch that starts before the current version, or is behind it, gets [informer.ErrExpired].
func (s *Source[K, T]) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped += len(s.history)
	s.history = nil
	s.floor = s.clock.version
	s.changed.Wake()
}

// Fail breaks every open watch, and makes every list and every Watch fail with err from now on. Fail(nil) ends that.
func (s *Source[K, T]) Fail(err error) {
	s.FailLists(err)
	s.FailWatches(err)
}

// FailLists makes every list fail with err from now on. FailLists(nil) ends that.
func (s *Source[K, T]) FailLists(err error) { s.FailListsAfter(0, err) }

// FailListsAfter makes every list fail with err after the given number of pages, or after the last page if it has fewer: see
// [Source.Paged]. FailLists(nil) ends that.
func (s *Source[K, T]) FailListsAfter(pages int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists, s.after = err, pages
}

// FailWatches breaks every open watch, and makes every Watch fail with err from now on. FailWatches(nil) ends that.
func (s *Source[K, T]) FailWatches(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches = err
	if err != nil {
		s.breakLocked(err)
	}
}

// Mute makes the source break its contract: while it is on, changes are made and versions advance, but no watch ever yields them. Only a
// list reveals them.
func (s *Source[K, T]) Mute(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute = on
}

// Freeze makes lists stale, as from a lagging replica: while it is on, lists return the content and the version of the time when Freeze was
// called. Watches still yield every change.
func (s *Source[K, T]) Freeze(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = nil
	if on {
		list := s.listLocked()
		s.frozen = &list
	}
}

// Hold makes watches lag: until Release they yield no later change. They stay open, and lists show the current state. A second Hold changes
// nothing.
func (s *Source[K, T]) Hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held {
		s.held, s.holdAt = true, s.dropped+len(s.history)
	}
}

// Release ends Hold: watches yield the changes made in the meantime, in order.
func (s *Source[K, T]) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	s.changed.Wake()
}

// Send makes open watches yield ev as is, such as an event that is repeated, has an old version, or has no type. Watches that start before
// the current version yield it too. Send changes neither the objects nor the version.
func (s *Source[K, T]) Send(ev informer.Event[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = append(s.history, entry[T]{s.clock.version, ev})
	s.changed.Wake()
}

// List implements [informer.ListWatcher].
func (s *Source[K, T]) List(ctx context.Context) (informer.List[T], error) {
	return informer.Collect(s.pages(ctx, 0))
}

// Watch implements [informer.ListWatcher].
func (s *Source[K, T]) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[T], error] {
	return func(yield func(informer.Event[T], error) bool) {
		c := s.open(after)
		for {
			events, changed, end, err := s.next(&c)
			switch {
			case err != nil:
				yield(informer.Event[T]{}, err)
				return
			case end:
				return
			}
			for _, e := range events {
				if !yield(e.event, nil) {
					return
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(informer.Event[T]{}, context.Cause(ctx))
				return
			}
		}
	}
}

// cursor is the position of a watch.
type cursor struct {
	valid    bool // the version that it starts after is in the history
	position int  // of its next entry, counted from the first ever
	breaks   int  // how often watches were broken before it
}

// open returns the cursor of a new watch.
func (s *Source[K, T]) open(after informer.Version) cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	behind := slices.IndexFunc(s.history, func(e entry[T]) bool { return e.at > after })
	if behind < 0 {
		behind = len(s.history)
	}
	return cursor{
		valid:    s.floor <= after && after <= s.clock.version,
		position: s.dropped + behind,
		breaks:   s.breaks,
	}
}

// next returns the events for a watch, and a channel that is closed when there are more. If the watch must end, it returns that and the
// error to end with.
func (s *Source[K, T]) next(c *cursor) (events []entry[T], changed <-chan struct{}, end bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.watches != nil:
		return nil, nil, true, s.watches
	case c.breaks != s.breaks:
		return nil, nil, true, s.broken
	case !c.valid || c.position < s.dropped:
		return nil, nil, true, fmt.Errorf("informertest: watch: %w", informer.ErrExpired)
	}
	events = s.history[c.position-s.dropped:]
	if s.held {
		events = events[:min(len(events), max(s.holdAt-c.position, 0))]
	}
	c.position += len(events)
	return events, s.changed.Next(), false, nil
}

// listLocked returns the current content.
func (s *Source[K, T]) listLocked() informer.List[T] {
	list := informer.List[T]{Version: s.clock.version}
	for _, key := range s.order {
		if unread, spoiled := s.spoiled[key]; spoiled {
			list.Unread = append(list.Unread, unread)
		} else {
			list.Items = append(list.Items, s.objects[key])
		}
	}
	return list
}

// recordLocked advances the clock and adds an event to the history.
func (s *Source[K, T]) recordLocked(t informer.EventType, obj T) informer.Version {
	s.clock.advanceLocked(s)
	s.addLocked(informer.Event[T]{Type: t, Object: obj})
	return s.clock.version
}

// tickLocked implements ticker.
func (s *Source[K, T]) tickLocked() {
	s.addLocked(informer.Event[T]{Type: informer.Bookmark})
}

// addLocked adds an event of the current version to the history.
func (s *Source[K, T]) addLocked(ev informer.Event[T]) {
	if !s.mute {
		ev.Version = s.clock.version
		s.history = append(s.history, entry[T]{ev.Version, ev})
		s.changed.Wake()
	}
}

func (s *Source[K, T]) breakLocked(err error) {
	s.breaks++
	s.broken = err
	s.changed.Wake()
}
