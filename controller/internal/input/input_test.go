package input_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller/internal/input"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

var errBoom = errors.New("boom")

type object struct{ Key, Owner string }

func keyOf(o object) string { return o.Key }

// world is an informer of a source that a test commands, and what a feed of it has added.
type world struct {
	source *informertest.Source[string, object]
	inf    *informer.Informer[string, object]
	origin input.Origin[string]
	added  []string
	traces []string
}

func newWorld(t *testing.T) *world {
	w := &world{source: informertest.NewSource(keyOf)}
	var err error
	w.inf, err = informer.New(w.source, keyOf, informer.Config{Name: "things"})
	require.NoError(t, err)
	w.origin = input.Origin[string]{To: &input.Target[string]{
		Name: "test", Background: -7, Reasons: true, Logger: slog.New(slog.DiscardHandler), Check: func(err error) { _ = err.Error() },
		Add: func(key string, a input.Addition) {
			w.added = append(w.added, fmt.Sprint(key, ": ", a.Priority, ", ", a.Reason, ", ", a.News))
			if a.Trace != "" {
				w.traces = append(w.traces, key+" by "+a.Trace)
			}
		},
	}, Name: "things", Priority: 3}
	return w
}

// run runs the informer and a feed until stop is called.
func (w *world) run(t *testing.T, f *input.Feed[string]) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		assert.NoError(t, w.inf.Run(ctx))
	}()
	_, err := f.Start(ctx)
	require.NoError(t, err)
	synctest.Wait()
	return func() {
		cancel()
		f.Stop()
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

func owner(o object) (string, bool) { return o.Owner, o.Owner != "" }

func TestFeedReportsKeysReasonsAndNews(t *testing.T) {
	for name, make := range map[string]func(w *world) *input.Feed[string]{
		"pointing": func(w *world) *input.Feed[string] {
			return input.Pointing(w.origin, input.Rules[object]{}, w.inf, owner)
		},
		"mapped": func(w *world) *input.Feed[string] {
			return input.Mapped(w.origin, input.Rules[object]{}, w.inf, func(_ context.Context, o object) (keys []string, err error) {
				if key, ok := owner(o); ok {
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
				assert.Equal(t, "things", f.Informer().Name())
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
				f.Present(t.Context(), func(key string) { present = append(present, key) })
				assert.Equal(t, []string{"x"}, present)
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				f.Present(ended, func(key string) { t.Error(key) })
				stop()
			})
		})
	}
	t.Run("own", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.origin.Priority = -9
			w.source.Put(object{"a", ""})
			stop := w.run(t, input.Own(w.origin, input.Rules[object]{}, w.inf))
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
			w.origin.To.Reasons = false
			w.source.Put(object{"a", ""})
			f := input.Handled(w.origin, input.Rules[object]{}, w.inf, func(add func(string)) informer.Handler[string, object] {
				return informer.Handler[string, object]{OnAdd: func(o object, _ bool) { add("of " + o.Key) }}
			})
			stop := w.run(t, f)
			assert.Equal(t, []string{"of a: 3, , true"}, w.take())
			f.Present(t.Context(), func(key string) { t.Error(key) })
			assert.Zero(t, f.Unmapped())
			stop()
		})
	})
}

func TestStopWaitsForRetriedMapper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		calls := 0
		var running atomic.Bool
		f := input.Mapped(w.origin, input.Rules[object]{}, w.inf, func(context.Context, object) ([]string, error) {
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
		assert.Zero(t, f.Unmapped(), "it is in flight")
		stop()
		assert.False(t, running.Load())
	})
}

func TestFeedOfEndedInformerDoesNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		f := input.Own(w.origin, input.Rules[object]{}, w.inf)
		w.run(t, f)()
		_, err := f.Start(t.Context())
		require.ErrorIs(t, err, informer.ErrEnded)
		f.Stop()
	})
}

func TestPanickingErrorMethodIsMapperPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		calls := 0
		f := input.Mapped(w.origin, input.Rules[object]{}, w.inf, func(_ context.Context, o object) ([]string, error) {
			if calls++; calls == 1 {
				return nil, (*failure)(nil)
			}
			return []string{o.Owner}, nil
		})
		w.source.Put(object{"a", "x"})
		stop := w.run(t, f)
		assert.Equal(t, 1, f.Unmapped())
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
			input.AddAll(func(key string) { added = append(added, key) }, test.old, test.new)
			assert.Equal(t, test.want, added)
		})
	}
}
