package bench_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/setpoint-go/setpoint/workqueue"
)

var _ priorityqueue.PriorityQueue[string] = PriorityQueue[string]{}

// newQueueFunc is controller.TypedOptions.NewQueue.
type newQueueFunc[T comparable] = func(string, clientgo.TypedRateLimiter[T]) clientgo.TypedRateLimitingInterface[T]

func newPlainQueue[T comparable](name string, limiter clientgo.TypedRateLimiter[T]) clientgo.TypedRateLimitingInterface[T] {
	return must(workqueue.New(workqueue.Config[T]{Name: name, RateLimiter: limiter}))
}

// A controller that is stopped while 2,000 keys are ready begins as many more reconciles as with the queue that setpoint's replaces: with
// controller-runtime's own, which it uses by default, hardly any; with client-go's, all.
func TestAStopBeginsNoMoreReconcilesThanWithTheQueueThatWasReplaced(t *testing.T) {
	const keys, workers, before = 2000, 4, 100
	for _, c := range []struct {
		name     string
		priority bool
		queue    newQueueFunc[string]
		most     int64
		least    int64
	}{
		{"controller-runtime's default", true, nil, 2 * workers, 0},
		{"setpoint's in its place", true, NewQueue[string], workers, 0},
		{"client-go's", false, nil, keys, keys - before - workers},
		{"setpoint's in its place, as it is", false, newPlainQueue[string], keys, keys - before - workers},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var began, late atomic.Int64
				ctrl, err := controller.NewTypedUnmanaged("stop", controller.TypedOptions[string]{
					SkipNameValidation: new(true), MaxConcurrentReconciles: workers, UsePriorityQueue: &c.priority, NewQueue: c.queue,
					Reconciler: reconcile.TypedFunc[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
						if ctx.Err() != nil {
							late.Add(1)
						}
						if began.Add(1) == before {
							cancel()
						}
						time.Sleep(time.Millisecond)
						return reconcile.Result{}, nil
					}),
				})
				require.NoError(t, err)
				require.NoError(t, ctrl.Watch(source.TypedFunc[string](
					func(_ context.Context, q clientgo.TypedRateLimitingInterface[string]) error {
						for i := range keys {
							q.Add(strconv.Itoa(i))
						}
						return nil
					})))
				require.NoError(t, ctrl.Start(ctx))
				t.Logf("%d reconciles began after the context had ended", late.Load())
				assert.LessOrEqual(t, late.Load(), c.most)
				assert.GreaterOrEqual(t, late.Load(), c.least)
			})
		})
	}
}

// prioStep is a step of a history of one key.
type prioStep struct {
	what     string // "add", "get", or "done"
	opts     priorityqueue.AddOpts
	priority any // for people
}

func (s prioStep) String() string {
	if s.what != "add" {
		return s.what
	}
	return fmt.Sprintf("add %v after %v limited %v", s.priority, s.opts.After, s.opts.RateLimited)
}

// prioPlay plays a history on a queue, and returns the priority of each dispatch, and when it was. It also reports whether a wake-up outlived a
// dispatch.
func prioPlay(q priorityqueue.PriorityQueue[string], history []prioStep) (got []string, outlived bool) {
	start := time.Now()
	var mu sync.Mutex // guards the following, and the results
	waits, inProcess := false, false
	is := func(state *bool) bool {
		mu.Lock()
		defer mu.Unlock()
		return *state
	}
	get := func() {
		mu.Lock()
		waits = true
		mu.Unlock()
		go func() { // ends with a key, or with the shutdown
			_, priority, shutdown := q.GetWithPriority()
			if shutdown {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprintf("%d after %v", priority, time.Since(start)))
			waits, inProcess = false, true
			if ours, ok := q.(PriorityQueue[string]); ok {
				info, _ := ours.Info("k")
				outlived = outlived || !info.Next.IsZero()
			}
		}()
		synctest.Wait()
	}
	done := func() {
		mu.Lock()
		inProcess = false
		mu.Unlock()
		q.Done("k")
	}
	dispatches := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(got)
	}
	for _, s := range history {
		switch {
		case s.what == "add":
			q.AddWithOpts(s.opts, "k")
		case s.what == "get" && !is(&waits):
			get()
		case s.what == "done" && is(&inProcess):
			done()
		}
		synctest.Wait()
	}
	n := dispatches()
	if is(&inProcess) {
		done()
	}
	synctest.Wait()
	if dispatches() == n && !is(&waits) { // the next dispatch
		get()
	}
	time.Sleep(time.Second)
	synctest.Wait()
	q.ShutDown()
	synctest.Wait()
	return got, outlived
}

// A key leaves setpoint's queue with the priority with which it would leave controller-runtime's, whatever its state was when it was added,
// and with which priority and delay. One difference: there, a dispatch drops the delay of an earlier addition, and its priority. Here, that
// wake-up stays, and its priority still counts after the Done.
func TestPrioritiesMergeAsInControllerRuntime(t *testing.T) {
	limiter := func() clientgo.TypedRateLimiter[string] {
		return clientgo.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute)
	}
	steps := []prioStep{{what: "get"}, {what: "done"}}
	for _, p := range []*int{nil, new(-100), new(0), new(10)} {
		for _, o := range []priorityqueue.AddOpts{{}, {After: time.Second}, {RateLimited: true}} {
			o.Priority = p
			s := prioStep{what: "add", opts: o, priority: "none"}
			if p != nil {
				s.priority = *p
			}
			steps = append(steps, s)
		}
	}
	low, high := steps[5], steps[11] // without a delay
	n, kept, differ := 0, 0, 0
	var every func(history []prioStep, more int)
	every = func(history []prioStep, more int) {
		if more > 0 {
			for _, s := range steps {
				every(append(slices.Clone(history), s), more-1)
			}
			return
		}
		var theirs, ours []string
		var outlived bool
		synctest.Test(t, func(t *testing.T) {
			theirs, _ = prioPlay(priorityqueue.New("", func(o *priorityqueue.Opts[string]) { o.RateLimiter = limiter() }), history)
			ours, outlived = prioPlay(NewQueue("", limiter()).(PriorityQueue[string]), history)
		})
		n++
		switch {
		case !outlived:
			assert.Equal(t, theirs, ours, "%v", history)
		case slices.Equal(theirs, ours):
			kept++
		default:
			kept++
			differ++
		}
	}
	for _, begun := range [][]prioStep{{}, {low, steps[0]}, {high, steps[0]}, {high, steps[0], low}, {steps[12], high, steps[0]}} {
		every(begun, 3)
	}
	t.Logf("%d histories; in %d, setpoint keeps a wake-up that is dropped there, and in %d of these, the next dispatch differs", n, kept, differ)
}
