package wait

import (
	"context"
	"fmt"
	"sync/atomic"
)

// SlowStart calls piece(ctx, i) for i from 0 to n-1 in batches that double: 1 piece, then 2, then 4, and so on. The pieces of
// a batch run concurrently, on as many goroutines. The next batch starts when all of them have succeeded. So if every
// piece would fail, because of an exhausted quota for example, only one is tried. If none fails, many soon run concurrently.
//
// If a piece fails or panics, its batch is the last; the other pieces of the batch are not stopped. When ctx ends, no further
// piece starts. SlowStart returns after all pieces that it started have ended:
//
//	done                    pieces that succeeded
//	skipped                 pieces that never started: those from n-skipped to n-1
//	n - done - skipped      pieces that failed
//
// If the caller has recorded expectations for the skipped pieces, it must withdraw them. The error is nil if all pieces succeed.
// Otherwise, it joins the errors of the last batch, in the order of the pieces. If pieces were skipped because ctx ended, it also joins
// the error of ctx.
//
// The algorithm is that of the replica controllers of Kubernetes, slowStartBatch in
// https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/replicaset/replica_set.go.
func SlowStart(ctx context.Context, n int, piece func(ctx context.Context, i int) error) (done, skipped int, err error) {
	var begun, succeeded atomic.Int64
	for first, size := 0, 1; first < n && err == nil; first, size = first+size, 2*size {
		size = min(size, n-first)
		err = Parallelize(ctx, size, size, func(ctx context.Context, i int) error {
			begun.Add(1)
			panicked, err := try(ctx, func(ctx context.Context) error { return piece(ctx, first+i) })
			if panicked != nil {
				return fmt.Errorf("wait: run piece %d: %w", first+i, panicked)
			}
			if err == nil {
				succeeded.Add(1)
			}
			return err
		})
	}
	return int(succeeded.Load()), max(n, 0) - int(begun.Load()), err
}
