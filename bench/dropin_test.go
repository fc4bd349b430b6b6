package bench_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/setpoint-go/setpoint/workqueue"
)

// The queue implements every interface that users of client-go's queue ask for.
var (
	_ clientgo.TypedInterface[string]             = (*workqueue.Queue[string])(nil)
	_ clientgo.TypedDelayingInterface[string]     = (*workqueue.Queue[string])(nil)
	_ clientgo.TypedRateLimitingInterface[string] = (*workqueue.Queue[string])(nil)

	_ clientgo.TypedInterface[reconcile.Request]             = (*workqueue.Queue[reconcile.Request])(nil)
	_ clientgo.TypedDelayingInterface[reconcile.Request]     = (*workqueue.Queue[reconcile.Request])(nil)
	_ clientgo.TypedRateLimitingInterface[reconcile.Request] = (*workqueue.Queue[reconcile.Request])(nil)
)

// The interfaces are equal to client-go's: each can be assigned to the other, for any key.
func _[K comparable](
	plain workqueue.Interface[K], theirPlain clientgo.TypedInterface[K],
	delaying workqueue.DelayingInterface[K], theirDelaying clientgo.TypedDelayingInterface[K],
	limiting workqueue.RateLimitingInterface[K], theirLimiting clientgo.TypedRateLimitingInterface[K],
	limiter workqueue.RateLimiter[K], theirLimiter clientgo.TypedRateLimiter[K],
) (_, _, _, _, _, _, _, _ any) {
	plain, theirPlain = theirPlain, plain
	delaying, theirDelaying = theirDelaying, delaying
	limiting, theirLimiting = theirLimiting, limiting
	limiter, theirLimiter = theirLimiter, limiter
	return plain, theirPlain, delaying, theirDelaying, limiting, theirLimiting, limiter, theirLimiter
}

// log records the reconciled keys, and their times since its creation.
type log[K comparable] struct {
	start time.Time

	mu sync.Mutex
	// mu guards the following.
	at      map[K][]time.Duration
	running map[K]bool
	overlap bool // one key was reconciled twice concurrently
}

func newLog[K comparable]() *log[K] {
	return &log[K]{start: time.Now(), at: make(map[K][]time.Duration), running: make(map[K]bool)}
}

// begin returns the number of this attempt for key, from 1, and a function that ends it.
func (l *log[K]) begin(key K) (attempt int, end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at[key] = append(l.at[key], time.Since(l.start))
	l.overlap = l.overlap || l.running[key]
	l.running[key] = true
	return len(l.at[key]), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running[key] = false
	}
}

// worker is the loop of every client-go controller, from its workqueue example: get, work, forget or retry, done.
func worker(q clientgo.TypedRateLimitingInterface[string], sync func(key string) error) {
	for {
		key, shutdown := q.Get()
		if shutdown {
			return
		}
		if err := sync(key); err == nil {
			q.Forget(key)
		} else if q.NumRequeues(key) < 5 {
			q.AddRateLimited(key)
		}
		q.Done(key)
	}
}

func TestClientGoWorkerLoopRunsOnQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{
			RateLimiter: clientgo.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute),
		}))
		log := newLog[string]()
		var workers sync.WaitGroup
		for range 3 {
			workers.Go(func() {
				worker(q, func(key string) error {
					attempt, end := log.begin(key)
					defer end()
					time.Sleep(time.Millisecond)
					if attempt < 3 {
						return errors.New("not yet")
					}
					return nil
				})
			})
		}

		for i := range 20 {
			q.Add(strconv.Itoa(i))
		}
		q.AddAfter("later", time.Hour)
		time.Sleep(2 * time.Hour)
		q.ShutDownWithDrain()
		workers.Wait()

		assert.Len(t, log.at, 21)
		assert.False(t, log.overlap)
		for key, at := range log.at {
			require.Len(t, at, 3, "attempts of %s", key)
			assert.Equal(t, time.Second+time.Millisecond, (at[1] - at[0]).Truncate(time.Millisecond), "first backoff of %s", key)
			assert.Equal(t, 2*time.Second+time.Millisecond, (at[2] - at[1]).Truncate(time.Millisecond), "second backoff of %s", key)
			assert.Zero(t, q.NumRequeues(key))
		}
		assert.Equal(t, time.Hour, log.at["later"][0])
	})
}

func TestControllerRuntimeControllerRunsOnQueue(t *testing.T) {
	t.Run("with typed requests from a func source", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			keys := []string{"a", "b", "c"}
			add := func(_ context.Context, q clientgo.TypedRateLimitingInterface[string]) error {
				for _, key := range append(keys, keys...) {
					q.Add(key)
				}
				return nil
			}
			controllerReconciles(t, keys, source.TypedFunc[string](add))
		})
	})
	t.Run("with object requests from a channel source", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var keys []reconcile.Request
			events := make(chan event.TypedGenericEvent[string], 3)
			for _, name := range []string{"a", "b", "c"} {
				keys = append(keys, requestOf(name))
				events <- event.TypedGenericEvent[string]{Object: name}
			}
			enqueue := handler.TypedFuncs[string, reconcile.Request]{GenericFunc: func(
				_ context.Context, e event.TypedGenericEvent[string], q clientgo.TypedRateLimitingInterface[reconcile.Request],
			) {
				q.Add(requestOf(e.Object))
			}}
			controllerReconciles(t, keys, source.Channel(events, enqueue))
			close(events)
			synctest.Wait()
		})
	})
}

func requestOf(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}}
}

// controllerReconciles runs a controller on src: each key fails once, is due again an hour after it succeeded, and is
// done then.
func controllerReconciles[K comparable](t *testing.T, keys []K, src source.TypedSource[K]) {
	var q *workqueue.Queue[K]
	log := newLog[K]()
	c, err := controller.NewTypedUnmanaged("dropin", controller.TypedOptions[K]{
		SkipNameValidation:      new(true),
		MaxConcurrentReconciles: 2,
		RateLimiter:             clientgo.NewTypedItemExponentialFailureRateLimiter[K](time.Second, time.Minute),
		NewQueue: func(name string, limiter clientgo.TypedRateLimiter[K]) clientgo.TypedRateLimitingInterface[K] {
			q = must(workqueue.New(workqueue.Config[K]{Name: name, RateLimiter: limiter}))
			return q
		},
		Reconciler: reconcile.TypedFunc[K](func(_ context.Context, key K) (reconcile.Result, error) {
			attempt, end := log.begin(key)
			defer end()
			switch attempt {
			case 1:
				return reconcile.Result{}, errors.New("not yet")
			case 2:
				return reconcile.Result{RequeueAfter: time.Hour}, nil
			default:
				return reconcile.Result{}, nil
			}
		}),
	})
	require.NoError(t, err)
	require.NoError(t, c.Watch(src))

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
	defer cancel()
	require.NoError(t, c.Start(ctx))

	want := make(map[K][]time.Duration)
	for _, key := range keys {
		want[key] = []time.Duration{0, time.Second, time.Second + time.Hour}
	}
	assert.Equal(t, want, log.at)
	assert.False(t, log.overlap)
	assert.True(t, q.ShuttingDown())
	for _, key := range keys {
		assert.Zero(t, q.NumRequeues(key))
	}
}
