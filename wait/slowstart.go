package wait

import (
	"context"
	"fmt"
	"sync/atomic"
)

// SlowStart calls piece(ctx, i) for i from 0 to n-1 in batches that double: 1 piece, then 2, then 4 and so on. The pieces
// of a batch run beside each other, on a goroutine each. The next batch begins when all of them have succeeded. So what
// fails for every piece, such as a quota that is used up, is tried once and not n times, and yet many pieces are soon done.
//
// The first batch in which a piece fails, or panics, is the last; its other pieces are not stopped. When ctx ends no
// further piece is begun. SlowStart returns after all pieces that were begun have ended:
//
//	done                    pieces that have succeeded
//	skipped                 pieces that were never begun: those from n-skipped to n-1
//	n - done - skipped      pieces that have failed
//
// What was expected of the pieces that were skipped has to be taken back. The error is nil if all pieces have succeeded.
// Else it joins the errors of the last batch, in the order of the pieces, and the error of ctx if that kept pieces back.
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
