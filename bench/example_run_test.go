package bench_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgo "k8s.io/client-go/util/workqueue"

	"github.com/setpoint-go/setpoint/workqueue"
)

// runBefore is how a controller on client-go works.
func runBefore(ctx context.Context, queue clientgo.TypedRateLimitingInterface[string], sync func(context.Context, string) error) {
	for range 4 {
		go wait.UntilWithContext(ctx, func(ctx context.Context) {
			for processNextWorkItem(ctx, queue, sync) {
			}
		}, time.Second)
	}
	<-ctx.Done()
	queue.ShutDown()
}

func processNextWorkItem(
	ctx context.Context, queue clientgo.TypedRateLimitingInterface[string], sync func(context.Context, string) error,
) bool {
	key, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(key)
	if err := sync(ctx, key); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Sync failed", "key", key)
		queue.AddRateLimited(key)
		return true
	}
	queue.Forget(key)
	return true
}

// runAfter is the same with Run.
func runAfter(ctx context.Context, queue *workqueue.Queue[string], sync func(context.Context, string) error) error {
	return queue.Run(ctx, 4, func(ctx context.Context, item workqueue.Item[string]) error {
		return sync(ctx, item.Key) // Run logs an error, and adds the key again after a backoff
	})
}

// The queue runs in the old loop and in the new one.
func Example_run() {
	for _, run := range []func(context.Context, *workqueue.Queue[string], func(context.Context, string) error) error{
		func(ctx context.Context, queue *workqueue.Queue[string], sync func(context.Context, string) error) error {
			runBefore(ctx, queue, sync)
			return nil
		},
		runAfter,
	} {
		queue, err := workqueue.New(workqueue.Config[string]{
			RateLimiter: clientgo.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second),
			Logger:      slog.New(slog.DiscardHandler),
		})
		if err != nil {
			panic(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		queue.Add("berlin")
		failed := false
		if err := run(ctx, queue, func(context.Context, string) error {
			if !failed {
				failed = true
				return errors.New("not yet")
			}
			cancel()
			return nil
		}); err != nil {
			panic(err)
		}
		fmt.Println("done, failures:", queue.NumRequeues("berlin") > 1)
	}
	// Output:
	// done, failures: false
	// done, failures: false
}
