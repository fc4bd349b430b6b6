package informertest

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
)

// Source is an [informer.ListWatcher] in memory. Its methods may be called by several goroutines at once.
type Source[K comparable, T any] struct {
	key cache.KeyFunc[K, T]

	mu sync.Mutex
	// mu guards the following.
	objects map[K]T
	order   []K // the keys of objects in the order in which they came
	version informer.Version
	history []informer.Event[T] // the last events, one for each version; the last one has version
	failure error               // of every List and Watch
	breaks  int                 // how often watches were broken
	broken  error               // what the last break gave them
	changed chan struct{}       // closed, with mu held, and replaced, when something a watch cares about has changed
}

// NewSource returns an empty source at version 0, whose objects have the key that key returns.
func NewSource[K comparable, T any](key cache.KeyFunc[K, T]) *Source[K, T] {
	if key == nil {
		panic("informertest: NewSource needs a key function")
	}
	return &Source[K, T]{key: key, objects: make(map[K]T), changed: make(chan struct{})}
}

// Key returns the key of an object.
func (s *Source[K, T]) Key(obj T) K { return s.key(obj) }

// Version returns the version of the last change.
func (s *Source[K, T]) Version() informer.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Put adds obj, or replaces the object with the same key. It returns the version of that change.
func (s *Source[K, T]) Put(obj T) informer.Version {
	key := s.key(obj)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := informer.Modified
	if _, exists := s.objects[key]; !exists {
		t = informer.Added
		s.order = append(s.order, key)
	}
	s.objects[key] = obj
	return s.recordLocked(t, obj)
}

// Delete deletes the object with the given key. It returns the version of that change, or the present one when there is
// no such object.
func (s *Source[K, T]) Delete(key K) informer.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, exists := s.objects[key]
	if !exists {
		return s.version
	}
	delete(s.objects, key)
	s.order = slices.DeleteFunc(s.order, func(k K) bool { return k == key })
	return s.recordLocked(informer.Deleted, obj)
}

// Bookmark lets a version pass without a change, as in a database in which something else has changed, and returns it.
func (s *Source[K, T]) Bookmark() informer.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	var none T
	return s.recordLocked(informer.Bookmark, none)
}

// Break ends every watch that is open, with err, or without a word if err is nil. What it has not yielded is not lost: the
// next watch may start from there.
func (s *Source[K, T]) Break(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breakLocked(err)
}

// Compact forgets the history: a watch that starts before the present version, or is behind it, gets
// [informer.ErrExpired].
func (s *Source[K, T]) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = nil
	s.changedLocked()
}

// Fail breaks every watch that is open and lets every List and Watch fail with err from now on. Fail(nil) ends that.
func (s *Source[K, T]) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
	if err != nil {
		s.breakLocked(err)
	}
}

// List implements [informer.ListWatcher].
func (s *Source[K, T]) List(ctx context.Context) (informer.List[T], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := context.Cause(ctx); err != nil {
		return informer.List[T]{}, err
	}
	if s.failure != nil {
		return informer.List[T]{}, s.failure
	}
	list := informer.List[T]{Version: s.version}
	for _, key := range s.order {
		list.Items = append(list.Items, s.objects[key])
	}
	return list, nil
}

// Watch implements [informer.ListWatcher].
func (s *Source[K, T]) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[T], error] {
	return func(yield func(informer.Event[T], error) bool) {
		breaks := s.open()
		for {
			events, changed, end, err := s.since(after, breaks)
			switch {
			case err != nil:
				yield(informer.Event[T]{}, err)
				return
			case end:
				return
			}
			for _, ev := range events {
				if !yield(ev, nil) {
					return
				}
				after = ev.Version
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

// open returns how often watches were broken before.
func (s *Source[K, T]) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.breaks
}

// since returns the events after a version, and a channel that is closed when there is more; or that the watch is to
// end, and the error that it ends with. breaks is what open has returned.
func (s *Source[K, T]) since(after informer.Version, breaks int) (events []informer.Event[T], changed <-chan struct{}, end bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := informer.Version(len(s.history))
	switch {
	case s.failure != nil:
		return nil, nil, true, s.failure
	case breaks != s.breaks:
		return nil, nil, true, s.broken
	case after > s.version || after < s.version-n:
		return nil, nil, true, informer.ErrExpired
	}
	return s.history[n-(s.version-after):], s.changed, false, nil
}

// recordLocked adds an event to the history.
func (s *Source[K, T]) recordLocked(t informer.EventType, obj T) informer.Version {
	s.version++
	s.history = append(s.history, informer.Event[T]{Type: t, Object: obj, Version: s.version})
	s.changedLocked()
	return s.version
}

func (s *Source[K, T]) breakLocked(err error) {
	s.breaks++
	s.broken = err
	s.changedLocked()
}

func (s *Source[K, T]) changedLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}
