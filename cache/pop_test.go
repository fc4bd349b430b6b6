package cache_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/setpoint-go/setpoint/cache"
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
					if err != nil {
						t.Error(err)
					}
				})
				if err := f.Delete(b(1), 1); err != nil {
					t.Fatalf("f.Delete(b(1), 1): %v", err)
				} // wakes it, but is not told
				synctest.Wait()
				if got != "" {
					t.Fatalf(`got = %q, want ""`, got)
				}
				x.Upsert(a(1))
				if err := call(f); err != nil {
					t.Fatalf("call(f): %v", err)
				}
				wg.Wait()
				if got != "a" {
					t.Fatalf("got = %q, want %q", got, "a")
				}
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
			wg.Go(func() {
				if got := f.Pop(ctx, nothing); got != cause {
					t.Errorf("f.Pop(ctx, nothing) = %v, want %v", got, cause)
				}
			})
			synctest.Wait()
			cancel(cause)
			wg.Wait()
			if err := f.Add(a(1), 1); err != nil {
				t.Fatalf("f.Add(a(1), 1): %v", err)
			}
			if got := f.Pop(ctx, nothing); got != cause {
				t.Fatalf("even with pending keys: f.Pop(ctx, nothing) = %v, want %v", got, cause)
			}
			if got := f.Len(); got != 1 {
				t.Fatalf("f.Len() = %v, want 1", got)
			}
		})
	})
	t.Run("after Close it returns the pending keys, and then ErrClosed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x := newPods()
			x.Upsert(b(1))
			f := newFIFO(x)
			if err := f.Add(a(1), 1); err != nil {
				t.Fatalf("f.Add(a(1), 1): %v", err)
			}
			f.Close()
			f.Close()
			if got := f.Add(b(1), 2); got != cache.ErrClosed {
				t.Fatalf("f.Add(b(1), 2) = %v, want %v", got, cache.ErrClosed)
			}
			if got := f.Replace(nil, 2); got != cache.ErrClosed {
				t.Fatalf("f.Replace(nil, 2) = %v, want %v", got, cache.ErrClosed)
			}
			f.Resync()
			if err := f.Pop(ctx, nothing); err != nil {
				t.Fatalf("f.Pop(ctx, nothing): %v", err)
			}
			if got := f.Pop(ctx, nothing); got != cache.ErrClosed {
				t.Fatalf("f.Pop(ctx, nothing) = %v, want %v", got, cache.ErrClosed)
			}
			popped, err := f.TryPop(nothing)
			if popped {
				t.Fatal("popped is true")
			}
			if err != cache.ErrClosed {
				t.Fatalf("err = %v, want %v", err, cache.ErrClosed)
			}
		})
	})
	t.Run("Close wakes it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFIFO(newPods())
			var wg sync.WaitGroup
			// Pops until the queue is closed; the test waits for it.
			wg.Go(func() {
				if got := f.Pop(ctx, nothing); got != cache.ErrClosed {
					t.Errorf("f.Pop(ctx, nothing) = %v, want %v", got, cache.ErrClosed)
				}
			})
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
			wg.Go(func() {
				if err := f.Pop(ctx, nothing); err != nil {
					t.Errorf("f.Pop(ctx, nothing): %v", err)
				}
			})
			synctest.Wait()
			if panicOf(func() { _ = f.Pop(ctx, nothing) }) == nil {
				t.Fatal("no panic")
			}
			if panicOf(func() { _, _ = f.TryPop(nothing) }) == nil {
				t.Fatal("no panic")
			}
			if err := f.Add(a(1), 1); err != nil {
				t.Fatalf("f.Add(a(1), 1): %v", err)
			}
			wg.Wait()
			if err := f.Add(b(1), 1); err != nil {
				t.Fatalf("f.Add(b(1), 1): %v", err)
			}
			popped, err := f.TryPop(func(string, cache.Deltas[*pod], bool) error {
				if panicOf(func() { _, _ = f.TryPop(nothing) }) == nil {
					t.Fatal("no panic")
				}
				return nil
			})
			if !popped {
				t.Fatal("popped is false")
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("an error from process is returned, and nothing is requeued", func(t *testing.T) {
		f := newFIFO(newPods())
		if err := f.Add(a(1), 1); err != nil {
			t.Fatalf("f.Add(a(1), 1): %v", err)
		}
		bad := errors.New("bad")
		if got := f.Pop(ctx, func(string, cache.Deltas[*pod], bool) error { return bad }); got != bad {
			t.Fatalf("f.Pop = %v, want %v", got, bad)
		}
		if got := f.Len(); got != 0 {
			t.Fatalf("f.Len() = %v, want 0", got)
		}
	})
	t.Run("a panic in process leaves the queue usable and holds back the version", func(t *testing.T) {
		x := newPods()
		f := newFIFO(x)
		if err := f.Replace([]*pod{a(1)}, 5); err != nil {
			t.Fatalf("f.Replace([]*pod{a(1)}, 5): %v", err)
		}
		if panicOf(func() { _ = f.Pop(ctx, func(string, cache.Deltas[*pod], bool) error { panic("bad") }) }) == nil {
			t.Fatal("no panic")
		}
		if !f.HasSynced() {
			t.Fatal("f.HasSynced() is false")
		}
		if got := f.Version(); got != 0 {
			t.Fatalf("f.Version() = %v, want 0", got)
		}
		if err := f.Update(a(2), 6); err != nil {
			t.Fatalf("f.Update(a(2), 6): %v", err)
		}
		if got, want := drain(t, f, x), ([]string{"a: Updated 2"}); !slices.Equal(got, want) {
			t.Fatalf("drain(t, f, x) = %q, want %q", got, want)
		}
		if got := f.Version(); got != 6 {
			t.Fatalf("f.Version() = %v, want 6", got)
		}
	})
}
