package wait_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

func TestEachPieceRunsExactlyOnce(t *testing.T) {
	for _, workers := range []int{-1, 0, 1, 2, 7, 1000, 2000} {
		pieces := make([]atomic.Int32, 1000)
		if err := wait.Parallelize(t.Context(), workers, len(pieces), func(_ context.Context, i int) error {
			pieces[i].Add(1)
			return nil
		}); err != nil {
			t.Fatalf("wait.Parallelize: %v", err)
		}
		for i := range pieces {
			if got := pieces[i].Load(); got != 1 {
				t.Fatalf("piece %d with %d workers: pieces[i].Load() = %v, want 1", i, workers, got)
			}
		}
	}
}

func TestParallelizeRunsOnePiecePerWorker(t *testing.T) {
	for workers, want := range map[int]time.Duration{1: 10 * time.Second, 3: 4 * time.Second, 10: time.Second, 99: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			if err := wait.Parallelize(t.Context(), workers, 10, func(context.Context, int) error {
				time.Sleep(time.Second)
				return nil
			}); err != nil {
				t.Fatalf("wait.Parallelize: %v", err)
			}
			if got := time.Since(start); got != want {
				t.Errorf("%d workers: time.Since(start) = %v, want %v", workers, got, want)
			}
		})
	}
}

func TestParallelizeJoinsErrorsInPieceOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Int32
		err := wait.Parallelize(t.Context(), 4, 8, func(_ context.Context, i int) error {
			time.Sleep(time.Duration(8-i) * time.Second)
			done.Add(1)
			if i%3 == 0 {
				return fmt.Errorf("piece %d: %w", i, io.EOF)
			}
			return nil
		})
		if got := done.Load(); got != 8 {
			t.Errorf("done.Load() = %v, want 8", got)
		}
		if got, want := fmt.Sprint(err), "piece 0: EOF\npiece 3: EOF\npiece 6: EOF"; got != want {
			t.Fatalf("err = %q, want %q", got, want)
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("err = %v, want %v", err, io.EOF)
		}
	})
}

// In client-go, a worker that panics disappears silently, and its remaining pieces are never done.
func TestPanicsAreReportedAndSkipNoPiece(t *testing.T) {
	var done atomic.Int32
	err := wait.Parallelize(t.Context(), 2, 100, func(_ context.Context, i int) error {
		if i < 2 {
			return explode(fmt.Errorf("piece %d is bad", i))
		}
		done.Add(1)
		return nil
	})
	if got := done.Load(); got != 98 {
		t.Errorf("done.Load() = %v, want 98", got)
	}
	if got, want := fmt.Sprint(err), "wait: run piece 0: wait: recover from panic: piece 0 is bad\n"+
		"wait: run piece 1: wait: recover from panic: piece 1 is bad"; got != want {
		t.Fatalf("err = %q, want %q", got, want)
	}
	var p *wait.PanicError
	if !errors.As(err, &p) {
		t.Fatalf("err = %v, want one of type *wait.PanicError", err)
	}
	if got := string(p.Stack); !strings.Contains(got, "explode") {
		t.Errorf("string(p.Stack) = %q, want it to contain %q", got, "explode")
	}
}

func TestNoPieceStartsAfterContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(1500*time.Millisecond, func() { cancel(errStop) })
		start := time.Now()
		var begun, ended atomic.Int32
		err := wait.Parallelize(ctx, 3, 100, func(ctx context.Context, i int) error {
			begun.Add(1)
			time.Sleep(time.Second)
			ended.Add(1)
			return nil
		})
		if got := begun.Load(); got != 6 {
			t.Errorf("begun.Load() = %v, want 6", got)
		}
		if got := ended.Load(); got != 6 {
			t.Errorf("Parallelize has leaked a worker: ended.Load() = %v, want 6", got)
		}
		if got := time.Since(start); got != 2*time.Second {
			t.Errorf("time.Since(start) = %v, want %v", got, 2*time.Second)
		}
		if !errors.Is(err, errStop) {
			t.Fatalf("err = %v, want %v", err, errStop)
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v, want %v", err, context.Canceled)
		}
		if got, want := fmt.Sprint(err), "wait: 94 of 100 pieces not begun: context canceled: shutting down"; got != want {
			t.Errorf("err = %q, want %q", got, want)
		}
	})
}

func TestEndedContextRunsNoPiece(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := wait.Parallelize(ctx, 3, 5, func(context.Context, int) error { t.Error("run"); return nil })
	if got, want := fmt.Sprint(err), "wait: 5 of 5 pieces not begun: context canceled"; got != want {
		t.Errorf("err = %q, want %q", got, want)
	}
}

func TestParallelizeReportsLastPieceNotStarted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := wait.Parallelize(ctx, 1, 3, func(_ context.Context, i int) error {
		if i == 1 {
			cancel()
		}
		return nil
	})
	if got, want := fmt.Sprint(err), "wait: 1 of 3 pieces not begun: context canceled"; got != want {
		t.Errorf("err = %q, want %q", got, want)
	}
}

func TestNoMoreWorkersThanPieces(t *testing.T) {
	allocs := testing.AllocsPerRun(10, func() {
		_ = wait.Parallelize(t.Context(), 10_000, 3, func(context.Context, int) error { return nil })
	})
	if allocs >= 100.0 {
		t.Errorf("allocs = %v, want less than 100.0", allocs)
	}
}

func TestParallelizeIgnoresCancelDuringLastPiece(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := wait.Parallelize(ctx, 1, 3, func(_ context.Context, i int) error {
		if i == 2 {
			cancel()
		}
		return nil
	}); err != nil {
		t.Errorf("wait.Parallelize: %v", err)
	}
}

func TestParallelizeWithoutPieces(t *testing.T) {
	for _, n := range []int{0, -1} {
		if err := wait.Parallelize(t.Context(), 3, n, func(context.Context, int) error { return io.EOF }); err != nil {
			t.Errorf("wait.Parallelize: %v", err)
		}
	}
}

func TestGoexitInPieceIsAnError(t *testing.T) {
	err := wait.Parallelize(t.Context(), 3, 1, func(context.Context, int) error { runtime.Goexit(); return nil })
	if got := fmt.Sprint(err); !strings.Contains(got, "Goexit") {
		t.Errorf("err = %q, want an error that contains %q", got, "Goexit")
	}
}
