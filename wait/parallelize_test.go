package wait_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/wait"
)

func TestEachPieceRunsExactlyOnce(t *testing.T) {
	for _, workers := range []int{-1, 0, 1, 2, 7, 1000, 2000} {
		pieces := make([]atomic.Int32, 1000)
		require.NoError(t, wait.Parallelize(t.Context(), workers, len(pieces), func(_ context.Context, i int) error {
			pieces[i].Add(1)
			return nil
		}))
		for i := range pieces {
			require.EqualValues(t, 1, pieces[i].Load(), "piece %d with %d workers", i, workers)
		}
	}
}

func TestParallelizeRunsOnePiecePerWorker(t *testing.T) {
	for workers, want := range map[int]time.Duration{1: 10 * time.Second, 3: 4 * time.Second, 10: time.Second, 99: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			require.NoError(t, wait.Parallelize(t.Context(), workers, 10, func(context.Context, int) error {
				time.Sleep(time.Second)
				return nil
			}))
			assert.Equal(t, want, time.Since(start), "%d workers", workers)
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
		assert.EqualValues(t, 8, done.Load())
		require.EqualError(t, err, "piece 0: EOF\npiece 3: EOF\npiece 6: EOF")
		assert.ErrorIs(t, err, io.EOF)
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
	assert.EqualValues(t, 98, done.Load())
	require.EqualError(t, err, "wait: run piece 0: panic: piece 0 is bad\n"+
		"wait: run piece 1: panic: piece 1 is bad")
	var p *wait.PanicError
	require.ErrorAs(t, err, &p)
	assert.Contains(t, string(p.Stack), "explode")
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
		assert.EqualValues(t, 6, begun.Load())
		assert.EqualValues(t, 6, ended.Load(), "Parallelize has leaked a worker")
		assert.Equal(t, 2*time.Second, time.Since(start))
		require.ErrorIs(t, err, errStop)
		assert.ErrorIs(t, err, context.Canceled)
		assert.EqualError(t, err, "wait: 94 of 100 pieces not begun: context canceled: shutting down")
	})
}

func TestEndedContextRunsNoPiece(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := wait.Parallelize(ctx, 3, 5, func(context.Context, int) error { t.Error("run"); return nil })
	assert.EqualError(t, err, "wait: 5 of 5 pieces not begun: context canceled")
}

func TestParallelizeReportsLastPieceNotStarted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := wait.Parallelize(ctx, 1, 3, func(_ context.Context, i int) error {
		if i == 1 {
			cancel()
		}
		return nil
	})
	assert.EqualError(t, err, "wait: 1 of 3 pieces not begun: context canceled")
}

func TestNoMoreWorkersThanPieces(t *testing.T) {
	allocs := testing.AllocsPerRun(10, func() {
		_ = wait.Parallelize(t.Context(), 10_000, 3, func(context.Context, int) error { return nil })
	})
	assert.Less(t, allocs, 100.0)
}

func TestParallelizeIgnoresCancelDuringLastPiece(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	assert.NoError(t, wait.Parallelize(ctx, 1, 3, func(_ context.Context, i int) error {
		if i == 2 {
			cancel()
		}
		return nil
	}))
}

func TestParallelizeWithoutPieces(t *testing.T) {
	for _, n := range []int{0, -1} {
		assert.NoError(t, wait.Parallelize(t.Context(), 3, n, func(context.Context, int) error { return io.EOF }))
	}
}

func TestGoexitInPieceIsAnError(t *testing.T) {
	err := wait.Parallelize(t.Context(), 3, 1, func(context.Context, int) error { runtime.Goexit(); return nil })
	assert.ErrorContains(t, err, "Goexit")
}

func TestGoexitInPieceEndsItsWorker(t *testing.T) {
	for workers, want := range map[int]int32{1: 1, 2: 9} {
		var done atomic.Int32
		err := wait.Parallelize(t.Context(), workers, 9, func(_ context.Context, i int) error {
			done.Add(1)
			if i == 0 {
				runtime.Goexit()
			}
			return nil
		})
		assert.ErrorContains(t, err, "Goexit")
		assert.Equal(t, want, done.Load(), "%d workers", workers)
	}
}
