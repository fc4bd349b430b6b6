package informertest

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
)

// vanishCases are about an object that is deleted without an event.
func vanishCases[T any]() []testCase[T] {
	return []testCase[T]{
		{"an open watch reports an object that has vanished, or expires", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.canVanish()
			w.put("a")
			w.put("b")
			watch := w.watch(w.listsTruth())
			watch.sees(w.put("b")) // it has begun
			w.vanish("a")
			watch.missesVanished("a")
			w.listsTruth()
		}},

		{"a watch that begins after an object has vanished reports it, or expires", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.canVanish()
			w.put("a")
			w.put("b")
			version := w.listsTruth()
			w.vanish("a")
			w.watch(version).missesVanished("a")
		}},

		{"an object that has vanished leaves a cache, also while others change", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.canVanish()
			w.put("a")
			w.put("b")
			in := w.inform()
			w.vanish("a")
			for range 10 {
				w.put("b")
			}
			in.reaches(w.truth)
			w.put("a")
			in.reaches(w.truth)
		}},
	}
}

// restartCases are about a source that gets a new history.
func restartCases[T any]() []testCase[T] {
	return []testCase[T]{
		{"an open watch ends when a new history begins", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.canRestart()
			w.story()
			watch := w.watch(w.listsTruth())
			watch.sees(w.put("a")) // it has begun
			w.restart()
			err := watch.end()
			if !errors.Is(err, informer.ErrExpired) { // it broke: there was no source for a moment
				err = w.watch(watch.last).end()
			}
			if !errors.Is(err, informer.ErrNewHistory) {
				t.Fatalf("the watch ends with %v, want %v", err, informer.ErrNewHistory)
			}
		}},

		{"a watch from a version of an earlier history ends with ErrNewHistory", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.canRestart()
			var versions []informer.Version
			for range 3 {
				w.put("a")
				versions = append(versions, w.listsTruth())
			}
			w.restart()
			for range 5 { // the numbers of the old versions are used again
				for _, version := range versions {
					if err := w.watch(version).end(); !errors.Is(err, informer.ErrNewHistory) {
						t.Fatalf("a watch from version %d ends with %v, want %v", version, err, informer.ErrNewHistory)
					}
				}
				w.put("a")
			}
		}},

		{"a cache follows the source into a new history", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.canRestart()
			w.story()
			in := w.inform()
			for range 2 {
				w.restart()
				in.reaches(w.truth)
				w.put("new")
				in.reaches(w.truth)
				w.delete("new")
				in.reaches(w.truth)
			}
		}},
	}
}

// canVanish skips the case if the subject has no Vanish.
func (w *world[T]) canVanish() {
	w.t.Helper()
	if w.Vanish == nil {
		w.t.Skip("in the source no object vanishes without an event")
	}
}

// vanish deletes an object without an event.
func (w *world[T]) vanish(name string) {
	w.t.Helper()
	w.must(w.Vanish(name))
	delete(w.truth, name)
}

// missesVanished fails unless the watch yields the deletion of an object, or ends with ErrExpired. The deletion may have the version of the
// event before it, because nothing gave the source another one.
func (r *watcher[T]) missesVanished(name string) {
	r.t.Helper()
	r.vanishing = true
	got, err := r.next()
	if errors.Is(err, informer.ErrExpired) || err == nil && got.what == informer.Deleted && got.name == name {
		return
	}
	r.t.Fatalf("the watch yields %v (%v) after %s has vanished, want its deletion, or %v", got, err, name, informer.ErrExpired)
}

// canRestart skips the case if the subject has no Restart.
func (w *world[T]) canRestart() {
	w.t.Helper()
	if w.Restart == nil {
		w.t.Skip("the source never gets a new history")
	}
}

// restart begins a new history. The state with which it begins is the truth from then on.
func (w *world[T]) restart() {
	w.t.Helper()
	w.must(w.Restart())
	w.truth, _ = w.list()
}

// informed is an informer of the source, and what its handler has seen.
type informed[T any] struct {
	w       *world[T]
	in      *informer.Informer[string, T]
	changed chan struct{} // has room for one
}

// inform starts an informer, which ends with the test.
func (w *world[T]) inform() *informed[T] {
	w.t.Helper()
	name := func(obj T) string { n, _ := w.Read(obj); return n }
	in, err := informer.New(w.Source, name, informer.Config{OnError: func(error) {}})
	w.must(err)
	i := &informed[T]{w, in, make(chan struct{}, 1)}
	signal := func() {
		select {
		case i.changed <- struct{}{}:
		default:
		}
	}
	_, err = in.AddHandler(informer.Handler[string, T]{
		OnAdd:    func(T, bool) { signal() },
		OnUpdate: func(_, _ T) { signal() },
		OnDelete: func(cache.Tombstone[string, T]) { signal() },
	})
	w.must(err)
	ctx, stop := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() { // ends with stop; the cleanup waits for it
		defer close(ended)
		_ = in.Run(ctx)
	}()
	w.t.Cleanup(func() { stop(); <-ended })
	i.reaches(w.truth)
	return i
}

// reaches waits until the cache has this state.
func (i *informed[T]) reaches(want state) {
	t := i.w.t
	t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	for {
		got := state{}
		for name, obj := range i.in.All() {
			_, got[name] = i.w.Read(obj)
		}
		if maps.Equal(got, want) {
			return
		}
		select {
		case <-i.changed:
		case <-timer.C:
			t.Fatalf("the cache has %v after %v, want %v", got, Patience, want)
		}
	}
}
