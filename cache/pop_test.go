package cache_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPop(t *testing.T) {
	ctx := context.Background()
	nothing := func(string, cache.Deltas[*pod], bool) error { return nil }

	for what, call := range map[string]func(*fifo) error{
		"Add":     func(f *fifo) error { return f.Add(a(2), 2) },
		"Replace": func(f *fifo) error { return f.Replace([]*pod{a(2)}, 2) },
		"Resync":  func(f *fifo) error { f.Resync(); return nil },
	} {
		t.Run("it waits for a change, here by "+what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newPods()
				f := newFIFO(x)
				var got string
				var wg sync.WaitGroup
				// Pops once; the test waits for it.
				wg.Go(func() {
					err := f.Pop(ctx, func(key string, _ cache.Deltas[*pod], _ bool) error { got = key; return nil })
					assert.NoError(t, err)
				})
				require.NoError(t, f.Delete(b(1), 1)) // wakes it, but is not told
				synctest.Wait()
				require.Empty(t, got)
				x.Upsert(a(1))
				require.NoError(t, call(f))
				wg.Wait()
				require.Equal(t, "a", got)
			})
		})
	}
	t.Run("it ends with the cause of the context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFIFO(newPods())
			ctx, cancel := context.WithCancelCause(ctx)
			cause := errors.New("cause")
			var wg sync.WaitGroup
			// Pops until ctx ends; the test waits for it.
			wg.Go(func() { assert.Equal(t, cause, f.Pop(ctx, nothing)) })
			synctest.Wait()
			cancel(cause)
			wg.Wait()
			require.NoError(t, f.Add(a(1), 1))
			require.Equal(t, cause, f.Pop(ctx, nothing), "even with pending keys")
			require.Equal(t, 1, f.Len())
		})
	})
	t.Run("after Close it returns the pending keys, and then ErrClosed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x := newPods()
			x.Upsert(b(1))
			f := newFIFO(x)
			require.NoError(t, f.Add(a(1), 1))
			f.Close()
			f.Close()
			require.Equal(t, cache.ErrClosed, f.Add(b(1), 2))
			require.Equal(t, cache.ErrClosed, f.Replace(nil, 2))
			f.Resync()
			require.NoError(t, f.Pop(ctx, nothing))
			require.Equal(t, cache.ErrClosed, f.Pop(ctx, nothing))
			popped, err := f.TryPop(nothing)
			require.False(t, popped)
			require.Equal(t, cache.ErrClosed, err)
		})
	})
	t.Run("Close wakes it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFIFO(newPods())
			var wg sync.WaitGroup
			// Pops until the queue is closed; the test waits for it.
			wg.Go(func() { assert.Equal(t, cache.ErrClosed, f.Pop(ctx, nothing)) })
			synctest.Wait()
			f.Close()
			wg.Wait()
		})
	})
	t.Run("a second consumer panics", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFIFO(newPods())
			var wg sync.WaitGroup
			// Pops once; the test waits for it.
			wg.Go(func() { assert.NoError(t, f.Pop(ctx, nothing)) })
			synctest.Wait()
			require.Panics(t, func() { _ = f.Pop(ctx, nothing) })
			require.Panics(t, func() { _, _ = f.TryPop(nothing) })
			require.NoError(t, f.Add(a(1), 1))
			wg.Wait()
			require.NoError(t, f.Add(b(1), 1))
			popped, err := f.TryPop(func(string, cache.Deltas[*pod], bool) error {
				require.Panics(t, func() { _, _ = f.TryPop(nothing) })
				return nil
			})
			require.True(t, popped)
			require.NoError(t, err)
		})
	})
	t.Run("an error from process is returned, and nothing is requeued", func(t *testing.T) {
		f := newFIFO(newPods())
		require.NoError(t, f.Add(a(1), 1))
		bad := errors.New("bad")
		require.Equal(t, bad, f.Pop(ctx, func(string, cache.Deltas[*pod], bool) error { return bad }))
		require.Zero(t, f.Len())
	})
	t.Run("a panic in process leaves the queue usable and holds back the version", func(t *testing.T) {
		x := newPods()
		f := newFIFO(x)
		require.NoError(t, f.Replace([]*pod{a(1)}, 5))
		require.Panics(t, func() { _ = f.Pop(ctx, func(string, cache.Deltas[*pod], bool) error { panic("bad") }) })
		require.True(t, f.HasSynced())
		require.Zero(t, f.Version())
		require.NoError(t, f.Update(a(2), 6))
		require.Equal(t, []string{"a: Updated 2"}, drain(t, f, x))
		require.EqualValues(t, 6, f.Version())
	})
}
