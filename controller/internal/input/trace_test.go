package input_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

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
				if got := w.takeTraces(); len(got) != 0 {
					t.Errorf("an initial list is not a change: w.takeTraces() = %v, want none", got)
				}
				w.source.Put(object{"a", "y"})
				if got, want := w.takeTraces(), ([]string{"x by write of y", "y by write of y"}); !slices.Equal(got, want) {
					t.Errorf("w.takeTraces() = %q, want %q", got, want)
				}
				w.source.Put(object{"b", "z"})
				if got, want := w.takeTraces(), ([]string{"z by write of z"}); !slices.Equal(got, want) {
					t.Errorf("w.takeTraces() = %q, want %q", got, want)
				}
				w.source.Delete("b")
				if got, want := w.takeTraces(), ([]string{"z by write of z"}); !slices.Equal(got, want) {
					t.Errorf("w.takeTraces() = %q, want %q", got, want)
				}
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
		if got, want := w.takeTraces(), ([]string{"a by write of x"}); !slices.Equal(got, want) {
			t.Errorf("w.takeTraces() = %q, want %q", got, want)
		}
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
		if got, want := w.takeTraces(), ([]string{"b by write of y"}); !slices.Equal(got, want) {
			t.Errorf("w.takeTraces() = %q, want %q", got, want)
		}
		if got := w.take(); len(got) != 2 {
			t.Errorf("len(w.take()) = %d, want 2: %v", len(got), got)
		}
	})
}

func TestTraceContextIsNotReadWithoutHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.run(t, input.Own(w.origin, input.Rules[object]{}, w.inf))()
		w.source.Put(object{"a", "x"})
		if got := w.takeTraces(); len(got) != 0 {
			t.Errorf("w.takeTraces() = %v, want none", got)
		}
		if got := w.take(); len(got) != 1 {
			t.Errorf("len(w.take()) = %d, want 1: %v", len(got), got)
		}
	})
}

func TestObjectsWithoutTraceContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.origin.To.Traces = true
		source := informertest.NewSource(func(s string) string { return s })
		inf, err := informer.New(source, func(s string) string { return s }, informer.Config{Name: "texts"})
		if err != nil {
			t.Fatal(err)
		}
		w.inf = nil
		f := input.Own(w.origin, input.Rules[string]{}, inf)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- inf.Run(ctx) }()
		_, err = f.Start(ctx)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		source.Put("a")
		if got := w.takeTraces(); len(got) != 0 {
			t.Errorf("w.takeTraces() = %v, want none", got)
		}
		if got := w.take(); len(got) != 1 {
			t.Errorf("len(w.take()) = %d, want 1: %v", len(got), got)
		}
		cancel()
		f.Stop()
		if err := <-ended; err != nil {
			t.Fatalf("<-ended: %v", err)
		}
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
		if got, want := w.takeTraces(), ([]string{"x by write of x"}); !slices.Equal(got, want) {
			t.Errorf("w.takeTraces() = %q, want %q", got, want)
		}
		m.failFor("x", "y")
		w.source.Put(object{"a", "y"})
		if got := w.takeTraces(); len(got) != 0 {
			t.Errorf("w.takeTraces() = %v, want none", got)
		}
		m.failFor()
		time.Sleep(time.Minute)
		if got, want := w.takeTraces(), ([]string{"x by write of y", "y by write of y"}); !slices.Equal(got, want) {
			t.Errorf("w.takeTraces() = %q, want %q", got, want)
		}

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
		if got := w.takeTraces(); !slices.Contains(got, "q by write of q") {
			t.Errorf("w.takeTraces() = %v, want it to contain %v", got, "q by write of q")
		}
	})
}
