// Package priorityqueue takes the place of controller-runtime's package in a copy of that module: its own tests then run on a queue of setpoint.
// See .ci/peers. Fields that only those tests touch are here so that they compile.
package priorityqueue

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/setpoint-go/setpoint/workqueue"
	"k8s.io/apimachinery/pkg/util/sets"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/internal/metrics"
)

// The types of the package.
type (
	AddOpts struct {
		After       time.Duration
		RateLimited bool
		Priority    *int
	}
	PriorityQueue[T comparable] interface {
		clientgo.TypedRateLimitingInterface[T]
		AddWithOpts(o AddOpts, items ...T)
		GetWithPriority() (item T, priority int, shutdown bool)
	}
	Opts[T comparable] struct {
		RateLimiter    clientgo.TypedRateLimiter[T]
		MetricProvider clientgo.MetricsProvider
		Log            logr.Logger
	}
	Opt[T comparable] func(*Opts[T])
)

// priorityqueue is the adapter of bench/example_priorityqueue_test.go.
type priorityqueue[T comparable] struct {
	*workqueue.Queue[T]

	rateLimiter    clientgo.TypedRateLimiter[T]
	ready, waiting bTree[*item[T]]
	locked         sets.Set[T]
	lockedLock     sync.Mutex
	now            func() time.Time
	tick           func(time.Duration) <-chan time.Time
	ticked         atomic.Bool
}

// New returns a queue of setpoint, whose hooks feed the metrics.
func New[T comparable](name string, options ...Opt[T]) PriorityQueue[T] {
	var o Opts[T]
	for _, option := range options {
		option(&o)
	}
	w := &priorityqueue[T]{rateLimiter: o.RateLimiter, locked: sets.Set[T]{}, now: time.Now, tick: time.Tick}
	if w.rateLimiter == nil {
		w.rateLimiter = clientgo.NewTypedItemExponentialFailureRateLimiter[T](5*time.Millisecond, 1000*time.Second)
	}
	cfg := workqueue.Config[T]{Name: name, RateLimiter: limiter[T]{w}}
	if mp, ok := o.MetricProvider.(metrics.MetricsProviderWithPriority); ok && name != "" {
		depth, adds, retries := mp.NewDepthMetricWithPriority(name), mp.NewAddsMetric(name), mp.NewRetriesMetric(name)
		latency, work := mp.NewLatencyMetric(name), mp.NewWorkDurationMetric(name)
		cfg.Hooks = workqueue.Hooks[T]{
			Added: func(_ T, priority int) {
				adds.Inc()
				depth.Inc(priority)
			},
			Raised: func(_ T, from, to int) {
				depth.Dec(from)
				depth.Inc(to)
			},
			Dispatched: func(_ T, priority int, waited time.Duration) {
				depth.Dec(priority)
				latency.Observe(waited.Seconds())
			},
			Done: func(_ T, took time.Duration) { work.Observe(took.Seconds()) },
			Delayed: func(_ T, d time.Duration) {
				if d > 0 {
					retries.Inc()
				}
			},
		}
	}
	var err error
	if w.Queue, err = workqueue.New(cfg); err != nil {
		panic(err)
	}
	return w
}

func (w *priorityqueue[T]) AddWithOpts(o AddOpts, items ...T) {
	if o.After > 0 && !w.ticked.Swap(true) {
		w.tick(o.After) // for a test that waits for the call
	}
	opts := workqueue.AddOptions{After: o.After, RateLimited: o.RateLimited, PrioritySet: true}
	if o.Priority != nil {
		opts.Priority = *o.Priority
	}
	for _, item := range items {
		w.AddWith(item, opts)
	}
}

func (w *priorityqueue[T]) Add(item T)            { w.AddWithOpts(AddOpts{}, item) }
func (w *priorityqueue[T]) AddRateLimited(item T) { w.AddWithOpts(AddOpts{RateLimited: true}, item) }

func (w *priorityqueue[T]) GetWithPriority() (key T, priority int, shutdown bool) {
	item, shutdown := w.GetItem()
	return item.Key, item.Priority, shutdown
}

func (w *priorityqueue[T]) ShutDown() {
	w.Pause()
	w.Queue.ShutDown()
}

// limiter is the present limiter of a queue: a test replaces it.
type limiter[T comparable] struct{ of *priorityqueue[T] }

func (l limiter[T]) When(key T) time.Duration { return l.of.rateLimiter.When(key) }
func (l limiter[T]) Forget(key T)             { l.of.rateLimiter.Forget(key) }
func (l limiter[T]) NumRequeues(key T) int    { return l.of.rateLimiter.NumRequeues(key) }

type bTree[T any] interface {
	ReplaceOrInsert(item T) (T, bool)
	Delete(item T) (T, bool)
	Len() int
}

type item[T comparable] struct {
	Key          T
	AddedCounter uint64
	Priority     int
	ReadyAt      *time.Time
}

func (i *item[T]) clone() item[T] { return *i }
