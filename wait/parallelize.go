package wait

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
)

// Parallelize calls piece(ctx, i) for i from 0 to n-1, on at most workers goroutines. If workers is 0 or negative, it uses
// runtime.GOMAXPROCS(0). The workers take the pieces in order, each at most once: so if some pieces do not start, these are the
// last ones. Parallelize returns after all workers have ended.
//
// A piece that fails or panics does not stop the others. When ctx ends, no further piece starts; the running pieces have the
// same ctx. The result is nil if all pieces succeed. Otherwise it joins the errors of the pieces, in the order of the pieces,
// and the error of ctx if some pieces did not start. A piece that calls runtime.Goexit has failed too, and ends its worker: if no
// worker is left, no further piece starts.
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
	broken := group.Wait() // non-nil only if a piece has ended its goroutine
	errs := []error{failed.join(), broken}
	if left := n - int(begun.Load()); left > 0 {
		if err := ended(ctx); err != nil {
			errs = append(errs, fmt.Errorf("wait: %d of %d pieces not begun: %w", left, n, err))
		}
	}
	return errors.Join(errs...)
}
