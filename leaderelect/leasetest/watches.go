package leasetest

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
)

var watchCases = []testCase{
	{"a watch begins with the record as it is", func(t testing.TB, b Backend) {
		w := watcher(t, b)
		if e := first(t, w, key); e.Version != "" {
			t.Fatalf("a watch of a missing record begins with %+v", e)
		}
		have := create(t, b.Store, entry("a"))
		e := first(t, w, key)
		stored(t, "Watch", e, have)
		if e.Version != have.Version {
			t.Fatalf("a watch begins with version %q, want %q", e.Version, have.Version)
		}
		if e := first(t, w, "other"); e.Version != "" || e.Key != "other" {
			t.Fatalf("a watch of a missing record begins with %+v", e)
		}
	}},

	{"a watch reports changes in order, and always the last one", func(t testing.TB, b Backend) {
		w := watcher(t, b)
		events := watch(t, w, key)
		events.absent(t)
		have := create(t, b.Store, entry("0"))
		events.holds(t, have)
		create(t, b.Store, leaderelect.Entry{Key: "other", Value: []byte("1000"), Term: 1})
		for i := range 50 {
			have = update(t, b.Store, have, strconv.Itoa(i+1))
		}
		at := 0
		for at < 50 {
			e := events.next(t)
			n, err := strconv.Atoi(string(e.Value))
			if err != nil || e.Key != key || n < at {
				t.Fatalf("a watch of %q reports %q with %q after %d", key, e.Key, e.Value, at)
			}
			at = n
			if at == 50 && e.Version != have.Version {
				t.Fatalf("a watch reports version %q, want %q", e.Version, have.Version)
			}
		}
		events.stop(t)
	}},

	{"a watch reports a change soon", func(t testing.TB, b Backend) {
		w := watcher(t, b)
		have := create(t, b.Store, entry("0"))
		events := watch(t, w, key)
		events.holds(t, have)
		var took []time.Duration
		for i := range 100 {
			begin := time.Now()
			have = update(t, b.Store, have, strconv.Itoa(i+1))
			events.holds(t, have)
			took = append(took, time.Since(begin))
		}
		slices.Sort(took)
		t.Logf("from the call of Update to the event: p50 %v, p99 %v", took[49], took[98])
		events.stop(t)
	}},

	{"a watch reports that a record was deleted", func(t testing.TB, b Backend) {
		w := watcher(t, b)
		if b.Delete == nil {
			t.Skip("the backend has no Delete")
		}
		have := create(t, b.Store, entry("a"))
		events := watch(t, w, key)
		events.holds(t, have)
		b.Delete(key)
		events.absent(t)
		have = create(t, b.Store, entry("b"))
		events.holds(t, have)
		events.stop(t)
	}},

	{"a watch does not lag behind acknowledged writes", func(t testing.TB, b Backend) {
		w := watcher(t, b)
		have := create(t, b.Store, entry("0"))
		for i := range 50 {
			have = update(t, b.Store, have, strconv.Itoa(i+1))
			if e := first(t, w, key); e.Version != have.Version {
				t.Fatalf("a watch begins with version %q, value %q; version %q was acknowledged", e.Version, e.Value, have.Version)
			}
		}
	}},

	{"an ended watch leaves nothing behind", func(t testing.TB, b Backend) {
		w := watcher(t, b)
		have := create(t, b.Store, entry("a"))
		first(t, w, key) // leftovers of the first watch, such as a connection in a pool, may stay
		before := runtime.NumGoroutine()
		for range 20 {
			first(t, w, key)
			events := watch(t, w, key)
			events.holds(t, have)
			events.stop(t)
		}
		for end := time.Now().Add(Patience); runtime.NumGoroutine() > before+5; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("there were %d goroutines before 40 watches, and %d after", before, runtime.NumGoroutine())
			}
		}
	}},
}

// watcher returns the store as a Watcher, or skips the case.
func watcher(t testing.TB, b Backend) leaderelect.Watcher {
	t.Helper()
	w, ok := b.Store.(leaderelect.Watcher)
	if !ok {
		t.Skip("the store does not implement Watcher")
	}
	return w
}

// first returns the first state that a watch reports. It breaks out of the loop of the watch.
func first(t testing.TB, w leaderelect.Watcher, key string) leaderelect.Entry {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for e, err := range w.Watch(ctx, key) {
		if err != nil {
			t.Fatalf("Watch: %v", err)
		}
		return e
	}
	t.Fatalf("a watch reports nothing for %v", Patience)
	return leaderelect.Entry{}
}

// watched is a watch that runs.
type watched struct {
	cancel  context.CancelFunc
	entries chan leaderelect.Entry
	done    chan error
}

// watch begins a watch of a key.
func watch(t testing.TB, w leaderelect.Watcher, key string) *watched {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	events := &watched{cancel: cancel, entries: make(chan leaderelect.Entry), done: make(chan error, 1)}
	// The consumer of the watch. It ends with it, and stop waits for it.
	go func() {
		for e, err := range w.Watch(ctx, key) {
			if err != nil {
				events.done <- err
				return
			}
			select {
			case events.entries <- e:
			case <-ctx.Done():
			}
		}
		events.done <- nil
	}()
	return events
}

// next returns the next state that the watch reports.
func (w *watched) next(t testing.TB) leaderelect.Entry {
	t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case e := <-w.entries:
		return e
	case err := <-w.done:
		t.Fatalf("the watch ends: error %v", err)
	case <-timer.C:
		t.Fatalf("the watch has reported nothing for %v", Patience)
	}
	return leaderelect.Entry{}
}

// holds requires that the watch reports want as its last state.
func (w *watched) holds(t testing.TB, want leaderelect.Entry) {
	t.Helper()
	e := w.next(t)
	for e.Version != want.Version {
		e = w.next(t)
	}
	stored(t, "Watch", e, want)
}

// absent requires that the watch reports a missing record as its last state.
func (w *watched) absent(t testing.TB) {
	t.Helper()
	e := w.next(t)
	for e.Version != "" {
		e = w.next(t)
	}
	if e.Value != nil || e.Term != 0 {
		t.Fatalf("the watch reports a missing record as %+v", e)
	}
}

// stop ends the watch, and requires that it ends.
func (w *watched) stop(t testing.TB) {
	t.Helper()
	w.cancel()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C:
		t.Fatalf("the watch continues for %v after its context has ended", Patience)
	}
}
