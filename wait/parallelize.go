package wait

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
)

// Parallelize calls piece(ctx, i) for i from 0 to n-1, on as many goroutines as workers says: at least 1, at most n.
// Workers defaults to runtime.GOMAXPROCS(0) if it is 0 or less. Pieces are begun in order, each at most once. Parallelize
// returns after all workers have ended.
//
// A piece that fails, or panics, stops no other. When ctx ends no further piece is begun; those that are running have the
// same ctx to notice. The result is nil if all pieces have succeeded. Else it joins the errors of the pieces, in the order
// of the pieces, and the error of ctx if pieces were left.
func Parallelize(ctx context.Context, workers, n int, piece func(ctx context.Context, i int) error) error {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var (
		group  Group
		failed failures
		begun  atomic.Int64 // the next piece; may pass n
	)
	for range min(workers, n) {
		group.Start(ctx, func(ctx context.Context) error {
			for ended(ctx) == nil {
				i := int(begun.Add(1)) - 1
				if i >= n {
					break
				}
				panicked, err := try(ctx, func(ctx context.Context) error { return piece(ctx, i) })
				if panicked != nil {
					err = fmt.Errorf("wait: run piece %d: %w", i, panicked)
				}
				failed.add(i, err)
			}
			return nil
		})
	}
	broken := group.Wait() // nil but for a piece that has ended its goroutine
	errs := []error{failed.join(), broken}
	if left := n - int(begun.Load()); left > 0 {
		if err := ended(ctx); err != nil {
			errs = append(errs, fmt.Errorf("wait: %d of %d pieces not begun: %w", left, n, err))
		}
	}
	return errors.Join(errs...)
}
