package leasetest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
)

var watchCases = []testCase{
	{"a watch begins with the record as it is", func(t testing.TB, b Backend) {
		w := watcher(t, b)
		missing(t, first(t, w, key), key)
		have := create(t, b.Store, entry("a"))
		is(t, "Watch", first(t, w, key), have)
		missing(t, first(t, w, "other"), "other")
	}},

	{"a watch of any key follows the record of that key", func(t testing.TB, b Backend) {
		w := watcher(t, b)
		have := make(map[string]leaderelect.Entry)
		for _, k := range oddKeys {
			have[k] = create(t, b.Store, leaderelect.Entry{Key: k, Value: []byte("of " + k), Term: 1})
		}
		for _, k := range oddKeys {
			events := watch(t, w, k)
			is(t, "Watch", events.next(t), have[k])
			events.holds(t, update(t, b.Store, have[k], "again"))
			events.stop(t)
		}
	}},

	{"a watch reports changes in order, and always the last one", func(t testing.TB, b Backend) {
		w := watcher(t, b)
		events := watch(t, w, key)
		events.absent(t)
		have := create(t, b.Store, entry("0"))
		events.holds(t, have)
		create(t, b.Store, leaderelect.Entry{Key: "other", Value: []byte("1000"), Term: 1})
		const last = 300 // the watch waits for its consumer meanwhile
		for i := range last {
			have = update(t, b.Store, have, strconv.Itoa(i+1))
		}
		time.Sleep(deadline) // the consumer is slower than the watch
		at := 0
		for at < last {
			e := events.next(t)
			n, err := strconv.Atoi(string(e.Value))
			if err != nil || e.Key != key || n < at {
				t.Fatalf("a watch of %q reports %q with %q after %d", key, e.Key, e.Value, at)
			}
			at = n
			if at == last && e.Version != have.Version {
				t.Fatalf("a watch reports version %q, want %q", e.Version, have.Version)
			}
		}
		events.stop(t)
	}},

	{"every watch reports the changes of every handle", func(t testing.TB, b Backend) {
		w := watcher(t, b)
		handles := []leaderelect.LeaseStore{b.Store, b.reopen()}
		have := create(t, b.Store, entry("0"))
		other := create(t, b.Store, leaderelect.Entry{Key: "other", Value: []byte("0"), Term: 1})
		first, second, elsewhere := watch(t, w, key), watch(t, w, key), watch(t, w, "other")
		first.holds(t, have)
		second.holds(t, have)
		elsewhere.holds(t, other)
		for i := range 10 {
			have = update(t, handles[i%2], have, strconv.Itoa(i+1))
			first.holds(t, have)
			second.holds(t, have)
			other = update(t, handles[(i+1)%2], other, strconv.Itoa(i+1))
			elsewhere.holds(t, other)
		}
		first.stop(t)
		have = update(t, b.Store, have, "after the first")
		second.holds(t, have)
		second.stop(t)
		elsewhere.stop(t)
	}},

	{"a watch reports a write of the same bytes", func(t testing.TB, b Backend) {
		w := watcher(t, b)
		have := create(t, b.Store, entry("a"))
		events := watch(t, w, key)
		events.holds(t, have)
		for range 3 {
			have = update(t, b.Store, have, "a")
			events.holds(t, have)
		}
		events.stop(t)
	}},

	{"a watch reports a change that its consumer makes", func(t testing.TB, b Backend) {
		w := watcher(t, b)
		have := create(t, b.Store, entry("0"))
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		n := 0
		for e, err := range w.Watch(ctx, key) {
			if err != nil {
				t.Fatalf("Watch: %v", err)
			}
			if e.Version != have.Version {
				continue // an earlier one, again
			}
			is(t, "Watch", e, have)
			if n++; n > 3 {
				return
			}
			have = update(t, b.Store, have, strconv.Itoa(n)) // while the watch waits for the body of the loop
		}
		t.Fatalf("a watch does not report change %d, which was made in the body of its loop", n)
	}},

	{"a watch reports a change between its call and its loop", func(t testing.TB, b Backend) {
		w := watcher(t, b)
		have := create(t, b.Store, entry("0"))
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		states := w.Watch(ctx, key)
		have = update(t, b.Store, have, "1")
		for e, err := range states {
			if err != nil {
				t.Fatalf("Watch: %v", err)
			}
			if e.Version == have.Version {
				is(t, "Watch", e, have)
				return
			}
		}
		t.Fatalf("a watch does not report a change that was made between its call and its loop")
	}},

	{"Get is as recent as a watch", func(t testing.TB, b Backend) {
		w, other := watcher(t, b), b.reopen()
		have := create(t, b.Store, entry("0"))
		events := watch(t, w, key)
		events.holds(t, have)
		for i := range 10 {
			have = update(t, other, have, strconv.Itoa(i+1))
			events.holds(t, have)
			holds(t, b.Store, have)
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
		if took[49] > time.Second {
			t.Fatalf("half of 100 changes took more than %v to be reported, longer than a poll", took[49])
		}
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

	{"a watch does not lag behind acknowledged writes, or reads", func(t testing.TB, b Backend) {
		w := watcher(t, b)
		have := create(t, b.Store, entry("0"))
		handles := []leaderelect.LeaseStore{b.Store, b.reopen()}
		for i := range 50 {
			have = update(t, handles[i%2], have, strconv.Itoa(i+1))
			reaches(t, b.Store, have)
			if e := first(t, w, key); e.Version != have.Version {
				t.Fatalf("a watch begins with version %q, value %q; version %q was acknowledged or read", e.Version, e.Value, have.Version)
			}
		}
	}},

	{"a watch with an ended context ends", func(t testing.TB, b Backend) {
		w := watcher(t, b)
		create(t, b.Store, entry("a"))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		watchUnder(ctx, t, w, key).stop(t)
	}},

	{"an ended watch leaves nothing behind", func(t testing.TB, b Backend) {
		started := looptest.Started(t)
		w := watcher(t, b)
		have := create(t, b.Store, entry("a"))
		first(t, w, key) // leftovers of the first watch, such as a connection in a pool, may stay
		before := started()
		for range 20 {
			first(t, w, key)
			events := watch(t, w, key)
			events.holds(t, have)
			events.stop(t)
		}
		for end := time.Now().Add(Patience); started() > before+5; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d goroutines were left before 40 watches, and %d after", before, started())
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
	key     string
	cancel  context.CancelFunc
	entries chan leaderelect.Entry
	done    chan error
}

// watch begins a watch of a key.
func watch(t testing.TB, w leaderelect.Watcher, key string) *watched {
	t.Helper()
	return watchUnder(context.Background(), t, w, key)
}

func watchUnder(ctx context.Context, t testing.TB, w leaderelect.Watcher, key string) *watched {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	events := &watched{key: key, cancel: cancel, entries: make(chan leaderelect.Entry), done: make(chan error, 1)}
	// The consumer of the watch. It ends with it, and stop waits for it.
	go func() {
		var failed error
		for e, err := range w.Watch(ctx, key) {
			switch {
			case failed != nil:
				events.done <- errGoesOn
				return
			case err != nil && (e.Key != "" || e.Value != nil || e.Version != "" || e.Term != 0 || e.Floor != 0):
				events.done <- errNotZero
				return
			case err != nil:
				failed = err
				continue
			}
			select {
			case events.entries <- e:
			case <-ctx.Done():
			}
		}
		events.done <- failed
	}()
	return events
}

var (
	errGoesOn  = errors.New("it goes on after its error")
	errNotZero = errors.New("its error comes with an entry that is not zero")
)

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
	is(t, "Watch", e, want)
}

// holdsOrEnds requires that the watch reports want as its last state, or ends.
func (w *watched) holdsOrEnds(t testing.TB, want leaderelect.Entry) {
	t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	for {
		select {
		case e := <-w.entries:
			if e.Version == want.Version {
				is(t, "Watch", e, want)
				return
			}
		case err := <-w.done:
			w.done <- err // for stop
			return
		case <-timer.C:
			t.Fatalf("the watch has not reported the newest state for %v, and has not ended", Patience)
		}
	}
}

// absent requires that the watch reports a missing record as its last state.
func (w *watched) absent(t testing.TB) {
	t.Helper()
	e := w.next(t)
	for e.Version != "" {
		e = w.next(t)
	}
	missing(t, e, w.key)
}

// missing requires that a watch has reported the missing record of key as an Entry that has only the key.
func missing(t testing.TB, e leaderelect.Entry, key string) {
	t.Helper()
	if e.Key != key || e.Value != nil || e.Term != 0 || e.Version != "" || e.Floor != 0 {
		t.Fatalf("a watch of %q reports a missing record as %+v", key, e)
	}
}

// stop ends the watch, and requires that it ends.
func (w *watched) stop(t testing.TB) {
	t.Helper()
	w.cancel()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case err := <-w.done:
		if errors.Is(err, errGoesOn) || errors.Is(err, errNotZero) {
			t.Fatalf("the watch ends with error %v", err)
		}
	case <-timer.C:
		t.Fatalf("the watch continues for %v after its context has ended", Patience)
	}
}
