package workqueue_test

import (
	"context"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// must returns v. It panics if err is not nil: a test that constructs its subject from a bad Config is broken.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// next returns the key that Take returns.
func next[K comparable](q *workqueue.Queue[K], ctx context.Context) (K, error) {
	item, err := q.Take(ctx)
	return item.Key, err
}

// tryGet returns the key that TryTake returns.
func tryGet[K comparable](q *workqueue.Queue[K]) (K, bool) {
	item, ok := q.TryTake()
	return item.Key, ok
}

// limiterOf gives every key the same backoff.
type limiterOf time.Duration

func (l limiterOf) When(string) time.Duration { return time.Duration(l) }
func (limiterOf) Forget(string)               {}
func (limiterOf) NumRequeues(string) int      { return 0 }
