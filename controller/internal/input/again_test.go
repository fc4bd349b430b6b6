package input_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		assert.Equal(t, []string{"y: 3, things updated, true"}, w.take(), "x cannot be mapped")
		w.source.Put(object{"a", "z"})
		assert.Equal(t, []string{"y: 3, things updated, true", "z: 3, things updated, true"}, w.take())
		m.failFor()
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"x: 3, things updated, true"}, w.take())
	})
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
		assert.Equal(t, []string{"x", "x", "y"}, m.take(), "a retried mapping does not know the newest state")
		w.source.Put(object{"a", "z"})
		assert.Equal(t, []string{"x", "x", "y", "z"}, m.take())

		// The same while a retry is in progress.
		leave := m.blockNext()
		time.Sleep(time.Minute)
		m.take()
		w.source.Put(object{"a", "y"})
		assert.Equal(t, []string{"z", "y"}, m.take())
		close(leave)
		m.take()
		m.failFor()
		w.source.Put(object{"a", "last"})
		calls := m.take()
		require.GreaterOrEqual(t, len(calls), 2)
		assert.Equal(t, []string{"y", "last"}, calls[len(calls)-2:])
		assert.NotEqual(t, "y", calls[len(calls)-3], "once")
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
		assert.Equal(t, 1, f.Unmapped())
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
			assert.Zero(t, f.Unmapped())
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
			defer w.run(t, input.Mapped(w.origin, input.Rules[object]{}, w.inf, m.to))()
			m.failFor("x")
			w.source.Put(object{"a", "x"})
			time.Sleep(period - time.Nanosecond)
			synctest.Wait()
			m.failFor()
			time.Sleep(time.Nanosecond)
			assert.Equal(t, []string{"x: 3, things added, true"}, w.take())
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
			assert.Equal(t, 1, f.Unmapped())
			m.failFor()
			time.Sleep(time.Second)
			assert.Equal(t, []string{"x: -7, things listed again, false"}, w.take())
		})
	})
}
