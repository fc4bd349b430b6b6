package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errBoom = errors.New("boom")

type object struct{ Key, Owner string }

func keyOf(o object) string { return o.Key }

// world is an informer of a source that a test commands, and what a feed of it has added.
type world struct {
	source *informertest.Source[string, object]
	inf    *informer.Informer[string, object]
	origin origin[string]
	added  []string
	traces []string
}

func newWorld(t *testing.T) *world {
	w := &world{source: informertest.NewSource(keyOf)}
	var err error
	w.inf, err = informer.New(w.source, keyOf, informer.Config{Name: "things"})
	require.NoError(t, err)
	c, err := New("test", func(context.Context, string) (Result, error) { return Result{}, nil }, Config[string]{
		Background: -7, Reasons: true, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	w.origin = origin[string]{of: c, add: func(key string, a addition) {
		w.added = append(w.added, fmt.Sprint(key, ": ", a.Priority, ", ", a.Reason, ", ", a.news))
		if a.Trace != "" {
			w.traces = append(w.traces, key+" by "+a.Trace)
		}
	}, name: "things", priority: 3}
	return w
}

// run runs the informer and a feed until stop is called.
func (w *world) run(t *testing.T, f *feed[string]) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		assert.NoError(t, w.inf.Run(ctx))
	}()
	_, err := f.start(ctx)
	require.NoError(t, err)
	synctest.Wait()
	return func() {
		cancel()
		f.stop()
		<-ended
	}
}

// take returns what was added since the last call.
func (w *world) take() []string {
	synctest.Wait()
	added := w.added
	w.added = nil
	return added
}

func ownerOf(o object) (string, bool) { return o.Owner, o.Owner != "" }

func TestFeedReportsKeysReasonsAndNews(t *testing.T) {
	for name, make := range map[string]func(w *world) *feed[string]{
		"pointing": func(w *world) *feed[string] {
			return ownsFeed(w.origin, rules[object]{}, w.inf, ownerOf)
		},
		"mapped": func(w *world) *feed[string] {
			return watchesFeed(w.origin, rules[object]{}, w.inf, func(_ context.Context, o object) (keys []string, err error) {
				if key, ok := ownerOf(o); ok {
					keys = append(keys, key)
				}
				return keys, nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.source.Put(object{"a", "x"})
				w.source.Put(object{"b", ""})
				f := make(w)
				assert.Equal(t, "things", f.informer.Name())
				stop := w.run(t, f)
				assert.Equal(t, []string{"x: -7, things listed, false"}, w.take())
				w.source.Put(object{"b", "y"})
				assert.Equal(t, []string{"y: 3, things updated, true"}, w.take())
				w.source.Put(object{"b", "x"})
				assert.Equal(t, []string{"y: 3, things updated, true", "x: 3, things updated, true"}, w.take())
				w.source.Put(object{"b", "x"})
				assert.Equal(t, []string{"x: 3, things updated, true"}, w.take(), "once")
				w.source.Put(object{"c", "z"})
				assert.Equal(t, []string{"z: 3, things added, true"}, w.take())
				w.source.Delete("c")
				assert.Equal(t, []string{"z: 3, things deleted, true"}, w.take())
				w.source.Put(object{"b", ""})
				assert.Equal(t, []string{"x: 3, things updated, true"}, w.take(), "the former owner")
				var present []string
				f.present(t.Context(), noSlot, func(key string) { present = append(present, key) })
				assert.Equal(t, []string{"x"}, present)
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				f.present(ended, noSlot, func(key string) { t.Error(key) })
				stop()
			})
		})
	}
	t.Run("own", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.origin.priority = -9
			w.source.Put(object{"a", ""})
			stop := w.run(t, forFeed(w.origin, rules[object]{}, w.inf))
			assert.Equal(t, []string{"a: -9, things listed, false"}, w.take(), "a non-event has no higher priority")
			w.source.Put(object{"a", "x"})
			assert.Equal(t, []string{"a: -9, things updated, true"}, w.take())
			w.source.Delete("a")
			assert.Equal(t, []string{"a: -9, things deleted, true"}, w.take())
			stop()
		})
	})
	t.Run("handled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.origin.of.cfg.Reasons = false
			w.source.Put(object{"a", ""})
			f := handlesFeed(w.origin, rules[object]{}, w.inf, func(add func(string)) informer.Handler[string, object] {
				return informer.Handler[string, object]{OnAdd: func(o object, _ bool) { add("of " + o.Key) }}
			})
			stop := w.run(t, f)
			assert.Equal(t, []string{"of a: 3, , true"}, w.take())
			f.present(t.Context(), noSlot, func(key string) { t.Error(key) })
			assert.Zero(t, f.unmapped())
			stop()
		})
	})
}

func TestStopWaitsForRetriedMapper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		calls := 0
		var running atomic.Bool
		f := watchesFeed(w.origin, rules[object]{}, w.inf, func(context.Context, object) ([]string, error) {
			if calls++; calls == 1 {
				return nil, errBoom
			}
			running.Store(true)
			time.Sleep(time.Minute)
			running.Store(false)
			return []string{"k"}, nil
		})
		stop := w.run(t, f)
		w.source.Put(object{"a", ""})
		time.Sleep(time.Second)
		assert.True(t, running.Load())
		assert.Equal(t, 1, f.unmapped(), "until it is mapped")
		stop()
		assert.False(t, running.Load())
		assert.Zero(t, f.unmapped())
	})
}

func TestPanickingErrorMethodIsMapperPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		calls := 0
		f := watchesFeed(w.origin, rules[object]{}, w.inf, func(_ context.Context, o object) ([]string, error) {
			if calls++; calls == 1 {
				return nil, (*failure)(nil)
			}
			return []string{o.Owner}, nil
		})
		w.source.Put(object{"a", "x"})
		stop := w.run(t, f)
		assert.Equal(t, 1, f.unmapped())
		time.Sleep(time.Second)
		assert.Equal(t, []string{"x: -7, things listed, false"}, w.take())
		stop()
	})
}

// failure is an error that must not be nil.
type failure struct{ text string }

func (f *failure) Error() string { return f.text }

func TestDuplicateKeyOfEventIsAddedOnce(t *testing.T) {
	for _, test := range []struct {
		name     string
		old, new []string
		want     []string
	}{
		{"the same key", []string{"a"}, []string{"a"}, []string{"a"}},
		{"the same keys", []string{"a", "b"}, []string{"a", "b"}, []string{"a", "b"}},
		{"another key", []string{"a"}, []string{"b"}, []string{"a", "b"}},
		{"keys in common", []string{"a", "b"}, []string{"b", "c", "c"}, []string{"a", "b", "c"}},
		{"only the old", []string{"a"}, nil, []string{"a"}},
		{"only the new", nil, []string{"b"}, []string{"b"}},
		{"none", nil, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var added []string
			addAll(func(key string) { added = append(added, key) }, test.old, test.new)
			assert.Equal(t, test.want, added)
		})
	}
}

// TraceContext makes an object one that knows its last write.
func (o object) TraceContext() string { return "write of " + o.Owner }

// withTraces makes the feeds read trace contexts.
func (w *world) withTraces() {
	w.origin.of.cfg.Hooks.Trace = func(ctx context.Context, _ string, _ []string) (context.Context, func(Report[string])) {
		return ctx, nil
	}
}

// takeTraces returns the trace contexts of what was added since the last call.
func (w *world) takeTraces() []string {
	synctest.Wait()
	traces := w.traces
	w.traces = nil
	return traces
}

func TestChangeHasTraceContextOfItsWrite(t *testing.T) {
	for name, make := range map[string]func(w *world) *feed[string]{
		"pointing": func(w *world) *feed[string] {
			return ownsFeed(w.origin, rules[object]{}, w.inf, ownerOf)
		},
		"mapped": func(w *world) *feed[string] {
			return watchesFeed(w.origin, rules[object]{}, w.inf, (&mapper{}).to)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.withTraces()
				w.source.Put(object{"a", "x"})
				defer w.run(t, make(w))()
				assert.Empty(t, w.takeTraces(), "an initial list is not a change")
				w.source.Put(object{"a", "y"})
				assert.Equal(t, []string{"x by write of y", "y by write of y"}, w.takeTraces())
				w.source.Put(object{"b", "z"})
				assert.Equal(t, []string{"z by write of z"}, w.takeTraces())
				w.source.Delete("b")
				assert.Equal(t, []string{"z by write of z"}, w.takeTraces())
			})
		})
	}
}

func TestDeletionWithUnknownFinalStateHasNoTraceContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.withTraces()
		defer w.run(t, forFeed(w.origin, rules[object]{}, w.inf))()
		w.source.Put(object{"a", "x"})
		w.source.Put(object{"b", "x"})
		w.takeTraces()
		w.take()
		w.source.FailWatches(errBoom)
		w.source.Break(errBoom)
		synctest.Wait()
		w.source.Delete("a")
		w.source.Put(object{"b", "y"})
		w.source.Compact()
		w.source.FailWatches(nil)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"b by write of y"}, w.takeTraces())
		assert.Len(t, w.take(), 2)
	})
}

func TestTraceContextIsNotReadWithoutHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.run(t, forFeed(w.origin, rules[object]{}, w.inf))()
		w.source.Put(object{"a", "x"})
		assert.Empty(t, w.takeTraces())
		assert.Len(t, w.take(), 1)
	})
}

func TestObjectsWithoutTraceContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.withTraces()
		source := informertest.NewSource(func(s string) string { return s })
		inf, err := informer.New(source, func(s string) string { return s }, informer.Config{Name: "texts"})
		require.NoError(t, err)
		w.inf = nil
		f := forFeed(w.origin, rules[string]{}, inf)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- inf.Run(ctx) }()
		_, err = f.start(ctx)
		require.NoError(t, err)
		synctest.Wait()
		source.Put("a")
		assert.Empty(t, w.takeTraces())
		assert.Len(t, w.take(), 1)
		cancel()
		f.stop()
		require.NoError(t, <-ended)
	})
}

func TestRetriedMappingKeepsLastTraceContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m, f := newMapped(t)
		w.withTraces()
		defer w.run(t, f)()
		m.failFor("x", "y")
		w.source.Put(object{"a", "x"})
		synctest.Wait()
		m.failFor("y")
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"x by write of x"}, w.takeTraces())
		m.failFor("x", "y")
		w.source.Put(object{"a", "y"})
		assert.Empty(t, w.takeTraces())
		m.failFor()
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"x by write of y", "y by write of y"}, w.takeTraces())

		// The same while a retry is in progress.
		m.failFor("p", "q")
		w.source.Put(object{"a", "p"})
		synctest.Wait() // the handler has called the mapper, so the next call is one that tries again
		leave := m.blockNext()
		time.Sleep(time.Minute)
		w.takeTraces()
		w.source.Put(object{"a", "q"})
		synctest.Wait()
		close(leave)
		synctest.Wait()
		m.failFor()
		time.Sleep(time.Hour)
		assert.Contains(t, w.takeTraces(), "q by write of q")
	})
}

// newFeeds returns the informer of w, which runs until the test ends, with two feeds of it.
func newFeeds(t *testing.T, w *world) *inputs[string] {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		assert.NoError(t, w.inf.Run(ctx))
	}()
	t.Cleanup(func() { cancel(); <-ended })
	var mu sync.Mutex // two handlers add keys
	add := w.origin.add
	w.origin.add = func(key string, a addition) {
		mu.Lock()
		defer mu.Unlock()
		add(key, a)
	}
	return newInputs([]*feed[string]{
		forFeed(w.origin, rules[object]{}, w.inf),
		ownsFeed(w.origin, rules[object]{}, w.inf, ownerOf),
	}, []Informer{w.inf})
}

// present returns the keys that Present adds.
func present(fs *inputs[string]) (keys []string) {
	fs.present(noSlot, func(key string) { keys = append(keys, key) })
	slices.Sort(keys)
	return keys
}

func TestFeedsStartAndStopTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.source.Put(object{"a", "x"})
		fs := newFeeds(t, w)
		assert.Equal(t, []Informer{w.inf}, fs.informers, "once")
		for range 2 {
			assert.False(t, fs.started())
			assert.False(t, fs.synced())
			assert.Empty(t, present(fs))
			beside := make(chan string, 2)
			syncers, stop, err := fs.start(t.Context(), func(ctx context.Context, syncers []informer.Syncer) {
				beside <- fmt.Sprint(len(syncers))
				<-ctx.Done()
				time.Sleep(time.Second)
				beside <- "ended"
			})
			require.NoError(t, err)
			assert.Len(t, syncers, 3, "the informer and two handlers")
			synctest.Wait()
			assert.True(t, fs.started())
			assert.True(t, fs.synced())
			assert.Equal(t, "3", <-beside)
			assert.Equal(t, []string{"a", "x"}, present(fs))
			stop()
			assert.Len(t, beside, 1, "the stop has waited for it")
			assert.Equal(t, "ended", <-beside)
			w.take()
			w.source.Put(object{"a", "x"})
			assert.Empty(t, w.take(), "the handlers are removed")
		}
	})
}

func TestFeedsSyncAfterTheirInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fs := newInputs([]*feed[string]{forFeed(w.origin, rules[object]{}, w.inf)}, nil)
		_, stop, err := fs.start(t.Context(), nil)
		defer stop()
		require.NoError(t, err)
		synctest.Wait()
		assert.True(t, fs.started())
		assert.False(t, fs.synced())
	})
}

func TestStopWaitsForReadersOfPresentObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.source.Put(object{"a", ""})
		w.source.Put(object{"b", ""})
		fs := newFeeds(t, w)
		_, stop, err := fs.start(t.Context(), nil)
		require.NoError(t, err)
		synctest.Wait()
		var added []string
		began := make(chan struct{})
		go func() {
			fs.present(noSlot, func(key string) {
				if added == nil {
					close(began)
				}
				time.Sleep(time.Second)
				added = append(added, key)
			})
		}()
		<-began
		stop()
		assert.Len(t, added, 1, "the stop has waited for the key that was being added, and the second one was left out")
	})
}

func TestStartWithEndedInformerLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ended := newWorld(t), newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, ended.inf.Run(ctx))
		fs := newInputs([]*feed[string]{
			forFeed(w.origin, rules[object]{}, w.inf), forFeed(ended.origin, rules[object]{}, ended.inf),
		}, nil)
		_, stop, err := fs.start(t.Context(), nil)
		require.ErrorIs(t, err, informer.ErrEnded)
		assert.Contains(t, err.Error(), "watch things: ")
		assert.False(t, fs.started())
		assert.Nil(t, stop)
		assert.Zero(t, w.inf.Stats().Handlers, "the handler that had been added is removed")
	})
}

func TestWaitMappedWaitsForNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.source.Put(object{"a", ""})
		fs := newFeeds(t, w)
		waited := make(chan error, 1)
		go func() { waited <- fs.waitMapped(t.Context()) }()
		synctest.Wait()
		assert.Empty(t, waited)
		_, stop, err := fs.start(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, <-waited)
		assert.NotEmpty(t, w.added)
		stop()

		why := fmt.Errorf("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		require.ErrorIs(t, fs.waitMapped(ctx), why)
		require.NoError(t, newInputs[string](nil, nil).waitMapped(ctx), "there is nothing to wait for")
	})
}

// mapper maps an object to its owner. It fails for some owners.
type mapper struct {
	mu sync.Mutex
	// mu guards the following.
	fails map[string]bool // by owner
	calls []string
	block chan struct{} // the next call waits until it is closed; nil for no wait
}

func (m *mapper) to(_ context.Context, o object) ([]string, error) {
	m.mu.Lock()
	m.calls = append(m.calls, o.Owner)
	fails, block := m.fails[o.Owner], m.block
	m.block = nil
	m.mu.Unlock()
	if block != nil {
		<-block
	}
	if fails {
		return nil, errBoom
	}
	return []string{o.Owner}, nil
}

// failFor makes it fail for these owners alone.
func (m *mapper) failFor(owners ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails = map[string]bool{}
	for _, o := range owners {
		m.fails[o] = true
	}
}

// blockNext makes the next call wait until the channel is closed.
func (m *mapper) blockNext() chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.block = make(chan struct{})
	return m.block
}

// take returns the calls since the last take.
func (m *mapper) take() []string {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := m.calls
	m.calls = nil
	return calls
}

// newMapped returns a world with a feed of the mapper.
func newMapped(t *testing.T) (*world, *mapper, *feed[string]) {
	w, m := newWorld(t), &mapper{}
	return w, m, watchesFeed(w.origin, rules[object]{}, w.inf, m.to)
}

func TestEachStateIsRemappedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m, f := newMapped(t)
		defer w.run(t, f)()
		m.failFor("x", "y", "z")
		w.source.Put(object{"a", "x"})
		time.Sleep(5 * time.Millisecond)
		assert.Equal(t, []string{"x", "x"}, m.take(), "at once, and after a backoff")
		w.source.Put(object{"a", "y"})
		assert.Equal(t, []string{"y"}, m.take(), "the old state waits for its retry")
		w.source.Put(object{"a", "z"})
		assert.Equal(t, []string{"z"}, m.take())

		// The same while a retry is in progress.
		leave := m.blockNext()
		time.Sleep(time.Minute)
		m.take()
		w.source.Put(object{"a", "y"})
		assert.Equal(t, []string{"y"}, m.take())
		close(leave)
		m.take()
		m.failFor()
		w.source.Put(object{"a", "last"})
		assert.Equal(t, []string{"last", "x", "y", "z", "y"}, m.take(), "then the others, each once, the oldest first")
	})
}

// In an outage, the number of calls does not grow with the square of the number of changes, and when it ends, all that waits is mapped soon.
func TestChangesDuringOutageDoNotMultiplyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const changes, outage = 150, 3 * time.Second
		w, m, f := newMapped(t)
		defer w.run(t, f)()
		owners := make([]string, changes)
		for i := range owners {
			owners[i] = fmt.Sprint(i)
		}
		m.failFor(owners...)
		for _, o := range owners {
			w.source.Put(object{"a", o})
			time.Sleep(outage / changes)
		}
		m.failFor()
		time.Sleep(outage)
		calls := len(m.take())
		assert.Zero(t, f.unmapped())
		assert.LessOrEqual(t, calls, changes+10*100, "each change, and ten retries of at most 100 states")
		assert.GreaterOrEqual(t, calls, changes+100)
	})
}

func TestBackoffGrowsToOneMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m, f := newMapped(t)
		defer w.run(t, f)()
		m.failFor("x")
		w.source.Put(object{"a", "x"})
		time.Sleep(time.Hour)
		m.take()
		time.Sleep(time.Hour)
		assert.InDelta(t, 60, len(m.take()), 1)
		assert.Equal(t, 1, f.unmapped())
	})
}

func TestRetriedMappingIsNewsIfAnyStateWas(t *testing.T) {
	t.Run("an initial object changes while its mapping is retried", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, m, f := newMapped(t)
			m.failFor("x", "y")
			w.source.Put(object{"a", "x"})
			stop := w.run(t, f)
			defer stop()
			leave := m.blockNext()
			time.Sleep(time.Second)
			w.source.Put(object{"a", "y"})
			synctest.Wait()
			close(leave)
			synctest.Wait()
			m.failFor()
			time.Sleep(time.Minute)
			assert.Subset(t, w.take(), []string{"x: 3, things updated, true", "y: 3, things updated, true"})
			assert.Zero(t, f.unmapped())
		})
	})
	t.Run("a resync maps an object whose first mapping failed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			const period = 10 * time.Minute
			var err error
			w.inf, err = informer.New(w.source, keyOf, informer.Config{Name: "things", ResyncPeriod: period})
			require.NoError(t, err)
			m := &mapper{}
			defer w.run(t, watchesFeed(w.origin, rules[object]{}, w.inf, m.to))()
			m.failFor("x")
			w.source.Put(object{"a", "x"})
			time.Sleep(period - time.Nanosecond)
			synctest.Wait()
			m.failFor()
			time.Sleep(time.Nanosecond)
			assert.Equal(t, []string{"x: -7, things listed again, false", "x: 3, things added, true"}, w.take())
		})
	})
	t.Run("an existing object is not news", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, m, f := newMapped(t)
			w.source.Put(object{"a", "x"})
			defer w.run(t, f)()
			w.take()
			m.failFor("x")
			f.present(t.Context(), noSlot, func(key string) { t.Error(key) })
			assert.Equal(t, 1, f.unmapped())
			m.failFor()
			time.Sleep(time.Second)
			assert.Equal(t, []string{"x: -7, things listed again, false"}, w.take())
		})
	})
}
