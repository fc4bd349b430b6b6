package input_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller/internal/input"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

// TraceContext makes an object one that knows its last write.
func (o object) TraceContext() string { return "write of " + o.Owner }

// takeTraces returns the trace contexts of what was added since the last call.
func (w *world) takeTraces() []string {
	synctest.Wait()
	traces := w.traces
	w.traces = nil
	return traces
}

func TestChangeHasTraceContextOfItsWrite(t *testing.T) {
	for name, make := range map[string]func(w *world) *input.Feed[string]{
		"pointing": func(w *world) *input.Feed[string] {
			return input.Pointing(w.origin, input.Rules[object]{}, w.inf, owner)
		},
		"mapped": func(w *world) *input.Feed[string] {
			return input.Mapped(w.origin, input.Rules[object]{}, w.inf, (&mapper{}).to)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.origin.To.Traces = true
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

func TestOwnKeysHaveTraceContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.origin.To.Traces = true
		defer w.run(t, input.Own(w.origin, input.Rules[object]{}, w.inf))()
		w.source.Put(object{"a", "x"})
		assert.Equal(t, []string{"a by write of x"}, w.takeTraces())
	})
}

func TestDeletionWithUnknownFinalStateHasNoTraceContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.origin.To.Traces = true
		defer w.run(t, input.Own(w.origin, input.Rules[object]{}, w.inf))()
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
		defer w.run(t, input.Own(w.origin, input.Rules[object]{}, w.inf))()
		w.source.Put(object{"a", "x"})
		assert.Empty(t, w.takeTraces())
		assert.Len(t, w.take(), 1)
	})
}

func TestObjectsWithoutTraceContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.origin.To.Traces = true
		source := informertest.NewSource(func(s string) string { return s })
		inf, err := informer.New(source, func(s string) string { return s }, informer.Config{Name: "texts"})
		require.NoError(t, err)
		w.inf = nil
		f := input.Own(w.origin, input.Rules[string]{}, inf)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- inf.Run(ctx) }()
		_, err = f.Start(ctx)
		require.NoError(t, err)
		synctest.Wait()
		source.Put("a")
		assert.Empty(t, w.takeTraces())
		assert.Len(t, w.take(), 1)
		cancel()
		f.Stop()
		require.NoError(t, <-ended)
	})
}

func TestRetriedMappingKeepsLastTraceContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m, f := newMapped(t)
		w.origin.To.Traces = true
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
