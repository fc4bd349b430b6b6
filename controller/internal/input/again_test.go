package input_test

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/controller/internal/input"
	"github.com/setpoint-go/setpoint/informer"
)

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
func newMapped(t *testing.T) (*world, *mapper, *input.Feed[string]) {
	w, m := newWorld(t), &mapper{}
	return w, m, input.Mapped(w.origin, input.Rules[object]{}, w.inf, m.to)
}

func TestFormerOwnerIsAddedWhenEarlierOwnerIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m, f := newMapped(t)
		w.source.Put(object{"a", "x"})
		defer w.run(t, f)()
		w.take()
		m.failFor("x")
		w.source.Put(object{"a", "y"})
		if got, want := w.take(), ([]string{"y: 3, things updated, true"}); !slices.Equal(got, want) {
			t.Errorf("x cannot be mapped: w.take() = %q, want %q", got, want)
		}
		w.source.Put(object{"a", "z"})
		if diff := cmp.Diff([]string{"y: 3, things updated, true", "z: 3, things updated, true"}, w.take()); diff != "" {
			t.Errorf("w.take() mismatch (-want +got):\n%s", diff)
		}
		m.failFor()
		time.Sleep(time.Minute)
		if got, want := w.take(), ([]string{"x: 3, things updated, true"}); !slices.Equal(got, want) {
			t.Errorf("w.take() = %q, want %q", got, want)
		}
	})
}

func TestEachStateIsRemappedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m, f := newMapped(t)
		defer w.run(t, f)()
		m.failFor("x", "y", "z")
		w.source.Put(object{"a", "x"})
		time.Sleep(5 * time.Millisecond)
		if got, want := m.take(), ([]string{"x", "x"}); !slices.Equal(got, want) {
			t.Errorf("at once, and after a backoff: m.take() = %q, want %q", got, want)
		}
		w.source.Put(object{"a", "y"})
		if got, want := m.take(), ([]string{"x", "x", "y"}); !slices.Equal(got, want) {
			t.Errorf("a retried mapping does not know the newest state: m.take() = %q, want %q", got, want)
		}
		w.source.Put(object{"a", "z"})
		if got, want := m.take(), ([]string{"x", "x", "y", "z"}); !slices.Equal(got, want) {
			t.Errorf("m.take() = %q, want %q", got, want)
		}

		// The same while a retry is in progress.
		leave := m.blockNext()
		time.Sleep(time.Minute)
		m.take()
		w.source.Put(object{"a", "y"})
		if got, want := m.take(), ([]string{"z", "y"}); !slices.Equal(got, want) {
			t.Errorf("m.take() = %q, want %q", got, want)
		}
		close(leave)
		m.take()
		m.failFor()
		w.source.Put(object{"a", "last"})
		calls := m.take()
		if got := len(calls); got < 2 {
			t.Fatalf("len(calls) = %v, want at least 2", got)
		}
		if got, want := calls[len(calls)-2:], ([]string{"y", "last"}); !slices.Equal(got, want) {
			t.Errorf("calls[len(calls)-2:] = %q, want %q", got, want)
		}
		if got := calls[len(calls)-3]; got == "y" {
			t.Errorf("once: calls[len(calls)-3] = %q, want another", got)
		}
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
		if got := len(m.take()); math.Abs(float64(got-60)) > 1 {
			t.Errorf("len(m.take()) = %v, want %v ± %v", got, 60, 1)
		}
		if got := f.Unmapped(); got != 1 {
			t.Errorf("f.Unmapped() = %v, want 1", got)
		}
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
			taken := w.take()
			for _, want := range []string{"x: 3, things updated, true", "y: 3, things updated, true"} {
				if !slices.Contains(taken, want) {
					t.Errorf("w.take() = %q, want it to contain %q", taken, want)
				}
			}
			if got := f.Unmapped(); got != 0 {
				t.Errorf("f.Unmapped() = %v, want 0", got)
			}
		})
	})
	t.Run("a resync maps an object whose first mapping failed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			const period = 10 * time.Minute
			var err error
			w.inf, err = informer.New(w.source, keyOf, informer.Config{Name: "things", ResyncPeriod: period})
			if err != nil {
				t.Fatal(err)
			}
			m := &mapper{}
			defer w.run(t, input.Mapped(w.origin, input.Rules[object]{}, w.inf, m.to))()
			m.failFor("x")
			w.source.Put(object{"a", "x"})
			time.Sleep(period - time.Nanosecond)
			synctest.Wait()
			m.failFor()
			time.Sleep(time.Nanosecond)
			if got, want := w.take(), ([]string{"x: 3, things added, true"}); !slices.Equal(got, want) {
				t.Errorf("w.take() = %q, want %q", got, want)
			}
		})
	})
	t.Run("an existing object is not news", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, m, f := newMapped(t)
			w.source.Put(object{"a", "x"})
			defer w.run(t, f)()
			w.take()
			m.failFor("x")
			f.Present(t.Context(), func(key string) { t.Error(key) })
			if got := f.Unmapped(); got != 1 {
				t.Errorf("f.Unmapped() = %v, want 1", got)
			}
			m.failFor()
			time.Sleep(time.Second)
			if got, want := w.take(), ([]string{"x: -7, things listed again, false"}); !slices.Equal(got, want) {
				t.Errorf("w.take() = %q, want %q", got, want)
			}
		})
	})
}
