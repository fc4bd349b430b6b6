package controller_test

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

// object is what the sources of the tests hold.
type object struct {
	Key   string
	Owner string
	Value int
}

func keyOf(o object) string { return o.Key }

// pure returns the function for a Watches that f is, which needs no context and does not fail.
func pure(f func(o object) []string) func(context.Context, object) ([]string, error) {
	return func(_ context.Context, o object) ([]string, error) { return f(o), nil }
}

// slowly maps an object to its key in a second.
func slowly(_ context.Context, o object) ([]string, error) {
	time.Sleep(time.Second)
	return []string{o.Key}, nil
}

// source is a ListWatcher in memory.
type source struct {
	hold chan struct{} // if not nil, List waits until it is closed

	mu sync.Mutex
	// mu guards the following.
	objects map[string]object
	events  []informer.Event[object]
	changed chan struct{} // closed, and replaced, by each change
}

func newSource(objects ...object) *source {
	s := &source{objects: map[string]object{}, changed: make(chan struct{})}
	for _, o := range objects {
		s.set(o)
	}
	return s
}

func (s *source) set(o object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := informer.Added
	if _, ok := s.objects[o.Key]; ok {
		what = informer.Modified
	}
	s.objects[o.Key] = o
	s.appendLocked(what, o)
}

func (s *source) delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[key]
	delete(s.objects, key)
	s.appendLocked(informer.Deleted, o)
}

func (s *source) has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.objects[key]
	return ok
}

func (s *source) appendLocked(what informer.EventType, o object) {
	s.events = append(s.events, informer.Event[object]{Type: what, Object: o, Version: informer.Version(len(s.events) + 1)})
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *source) List(ctx context.Context) (informer.List[object], error) {
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return informer.List[object]{}, context.Cause(ctx)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := informer.List[object]{Version: informer.Version(len(s.events))}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		list.Items = append(list.Items, s.objects[key])
	}
	return list, nil
}

func (s *source) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[object], error] {
	return func(yield func(informer.Event[object], error) bool) {
		for {
			s.mu.Lock()
			events, changed := s.events[after:], s.changed
			s.mu.Unlock()
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
				after = e.Version
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(informer.Event[object]{}, context.Cause(ctx))
				return
			}
		}
	}
}

func newInformer(name string, s *source) *informer.Informer[string, object] {
	return must(informer.New(s, keyOf, informer.Config{Name: name}))
}

func (s *source) version() informer.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	return informer.Version(len(s.events))
}
