package informertest

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
)

// change is an event whose object has been read.
type change struct {
	what    informer.EventType
	name    string
	rev     int
	version informer.Version
	keyOnly bool // what is Deleted, and rev is not known
	merged  bool // what is Modified, and may stand for a creation, since the source merges
}

func (c change) String() string {
	return fmt.Sprintf("%v %s.%d at version %d", c.what, c.name, c.rev, c.version)
}

// state is what a source holds: the revision of each object.
type state map[string]int

// apply applies a change, and returns an error if it does not fit.
func (s state) apply(c change) error {
	rev, exists := s[c.name]
	switch {
	case c.what == informer.Added && exists:
		return fmt.Errorf("%v, but it is there, as %s.%d", c, c.name, rev)
	case c.what == informer.Modified && !exists && !c.merged:
		return fmt.Errorf("%v, but there is no such object", c)
	case c.keyOnly:
		delete(s, c.name)
	case c.what == informer.Deleted && !exists:
		return fmt.Errorf("%v, but there is no such object", c)
	case c.what == informer.Deleted && rev != c.rev:
		return fmt.Errorf("%v, but its last state was %s.%d", c, c.name, rev)
	case c.what == informer.Deleted:
		delete(s, c.name)
	default:
		s[c.name] = c.rev
	}
	return nil
}

// world is a subject, and its true state.
type world[T any] struct {
	Subject[T]
	t     testing.TB
	truth state
	revs  int
}

func newWorld[T any](t testing.TB, s Subject[T]) *world[T] {
	return &world[T]{Subject: s, t: t, truth: state{}}
}

// put creates or changes an object, and returns the event of the change, without its version.
func (w *world[T]) put(name string) change {
	w.t.Helper()
	c := change{what: informer.Added, name: name, rev: w.revs + 1}
	if _, exists := w.truth[name]; exists {
		c.what = informer.Modified
	}
	w.revs++
	w.must(w.Put(name, w.revs))
	w.truth[name] = w.revs
	return c
}

// delete deletes an object, and returns the event of the change, without its version.
func (w *world[T]) delete(name string) change {
	w.t.Helper()
	w.must(w.Delete(name))
	c := change{what: informer.Deleted, name: name, rev: w.truth[name]}
	delete(w.truth, name)
	return c
}

// steps returns changes of every kind, to be made in this order.
func (w *world[T]) steps() []func() change {
	put := func(name string) func() change { return func() change { return w.put(name) } }
	del := func(name string) func() change { return func() change { return w.delete(name) } }
	return []func() change{put("a"), put("b"), put("a"), del("b"), put("c"), put("b"), del("a"), put("a"), del("c")}
}

// story makes these changes, and returns their events.
func (w *world[T]) story() (told []change) {
	w.t.Helper()
	for _, step := range w.steps() {
		told = append(told, step())
	}
	return told
}

// storyChanges is the number of changes in a story.
const storyChanges = 9

// list lists, and fails unless the list is consistent.
func (w *world[T]) list() (state, informer.Version) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), Patience)
	defer cancel()
	list, err := w.Source.List(ctx)
	w.must(err)
	got, err := w.read(list)
	w.must(err)
	return got, list.Version
}

// read returns the state that a list shows, or an error if it has an object twice.
func (w *world[T]) read(list informer.List[T]) (state, error) {
	got := state{}
	for _, obj := range list.Items {
		name, rev := w.Read(obj)
		if _, twice := got[name]; twice {
			return nil, fmt.Errorf("the list of version %d has %s twice", list.Version, name)
		}
		got[name] = rev
	}
	return got, nil
}

// listsTruth fails unless a list shows the true state. It returns the version of the list.
func (w *world[T]) listsTruth() informer.Version {
	w.t.Helper()
	got, version := w.list()
	if !maps.Equal(got, w.truth) {
		w.t.Fatalf("the list of version %d holds %v, want %v", version, got, w.truth)
	}
	return version
}

// needs skips the case unless the source remembers that many changes.
func (w *world[T]) needs(history int) {
	w.t.Helper()
	if w.History < history {
		w.t.Skip("the source does not promise a history that is long enough")
	}
}

func (w *world[T]) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v", err)
	}
}
