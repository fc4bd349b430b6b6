package workqueue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
)

// errGoexit is the failure of work that did not return.
var errGoexit = errors.New("work called runtime.Goexit")

// Run works with as many workers as given: each takes an item, calls work, and does what follows from its error. After nil
// the key is forgotten. After an error it is added again with a backoff, or parked, and the error is logged. But if ctx
// has ended and the error wraps its cause or its Err, work was only stopped: the key is added again, and that is no
// failure. The context of work is ctx.
//
// Run returns when the workers have ended, which they do after ctx, or when the queue is shut down and drained; always with
// nil. It panics if workers is not positive or work is nil. A panic of work is not captured. A runtime.Goexit is a failure
// of the key, and does not cost a worker.
func (q *Queue[K]) Run(ctx context.Context, workers int, work func(ctx context.Context, item Item[K]) error) error {
	if workers <= 0 {
		panic("workqueue: Run: the number of workers is not positive")
	}
	if work == nil {
		panic("workqueue: Run: work is nil")
	}
	var running sync.WaitGroup
	var worker func()
	worker = func() {
		for {
			item, err := q.Take(ctx)
			if err != nil {
				return
			}
			// After a Goexit, which nothing can stop, another worker takes the place of this one.
			q.runOne(ctx, item, work, func() { running.Go(worker) })
		}
	}
	for range workers {
		// A worker. It ends with ctx, or with the queue; Run waits for it.
		running.Go(worker)
	}
	running.Wait()
	return nil
}

// runOne works on item. If work ends the goroutine, it calls replace after the Done.
func (q *Queue[K]) runOne(ctx context.Context, item Item[K], work func(context.Context, Item[K]) error, replace func()) {
	returned, exits := false, false
	defer func() {
		if exits {
			replace()
		}
	}()
	defer item.Done()
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			panic(v) // it was only to be told from a Goexit
		}
		exits = true
		q.failed(ctx, item, errGoexit)
	}()
	err := work(ctx, item)
	returned = true
	switch {
	case err == nil:
		q.Forget(item.Key)
	case isStop(ctx, err):
		q.addNow(item.Key, item.Priority)
	default:
		q.failed(ctx, item, err)
	}
}

// isStop reports whether err says that ctx has ended.
func isStop(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err()))
}

// failed counts and logs a failure.
func (q *Queue[K]) failed(ctx context.Context, item Item[K], err error) {
	level, message := slog.LevelWarn, "workqueue: work failed"
	if !q.AddWith(item.Key, AddOptions{RateLimited: true, Reason: err.Error()}) {
		level, message = slog.LevelError, "workqueue: work failed, not tried again"
	}
	q.cfg.Logger.LogAttrs(ctx, level, message,
		slog.String("queue", q.cfg.Name), slog.Any("key", item.Key), slog.Int("attempt", item.Attempt), slog.Any("error", err))
}
