// Package workqueue takes the place of client-go's package in a copy of that module: its own tests then run on queues and limiters of setpoint. See
// .ci/peers. client-go's metrics.go stays, for its interfaces.
package workqueue

import (
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
	"k8s.io/utils/clock"
)

// The types of the package that its tests use.
type (
	Interface                      = workqueue.Interface[any]
	DelayingInterface              = workqueue.DelayingInterface[any]
	RateLimiter                    = workqueue.RateLimiter[any]
	TypedRateLimiter[T comparable] = workqueue.RateLimiter[T]
	TypedQueueConfig[T comparable] struct {
		Name            string
		MetricsProvider MetricsProvider
		Clock           clock.WithTicker
		Queue           Queue[T]
	}
	QueueConfig                            = TypedQueueConfig[any]
	TypedDelayingQueueConfig[T comparable] struct {
		Clock clock.WithTicker
		Queue workqueue.Interface[T]
	}
	DelayingQueueConfig = TypedDelayingQueueConfig[any]
	Queue[T comparable] interface {
		Touch(item T)
		Push(item T)
		Len() int
		Pop() (item T)
	}
	Type = Typed[any]
)

// Typed is a queue of setpoint.
type Typed[T comparable] struct {
	*workqueue.Queue[T]

	order  Queue[T] // only its Touch is called
	stop   chan struct{}
	ended  sync.WaitGroup
	stopIt sync.Once
}

func New() *Type                             { return NewWithConfig(QueueConfig{}) }
func NewWithConfig(config QueueConfig) *Type { return NewTypedWithConfig(config) }
func NewTyped[T comparable]() *Typed[T]      { return NewTypedWithConfig(TypedQueueConfig[T]{}) }
func NewTypedWithConfig[T comparable](c TypedQueueConfig[T]) *Typed[T] {
	return newQueueWithConfig(c, time.Second/2)
}

// Add calls Touch for a key that is ready.
func (q *Typed[T]) Add(item T) {
	if info, ok := q.Info(item); ok && info.State == workqueue.Ready && q.order != nil {
		q.order.Touch(item)
	}
	q.Queue.Add(item)
}

func (q *Typed[T]) ShutDown() {
	q.Queue.ShutDown()
	q.end()
}

func (q *Typed[T]) ShutDownWithDrain() {
	q.Queue.ShutDownWithDrain()
	q.end()
}

func (q *Typed[T]) end() {
	q.stopIt.Do(func() { close(q.stop) })
	q.ended.Wait()
}

// newQueueWithConfig feeds the metrics from hooks and Stats.
func newQueueWithConfig[T comparable](c TypedQueueConfig[T], period time.Duration) *Typed[T] {
	var cfg workqueue.Config[T]
	if c.MetricsProvider == nil {
		return newTyped(c.Queue, cfg)
	}
	mp, name := c.MetricsProvider, c.Name
	depth, adds, retries := mp.NewDepthMetric(name), mp.NewAddsMetric(name), mp.NewRetriesMetric(name)
	latency, work := mp.NewLatencyMetric(name), mp.NewWorkDurationMetric(name)
	unfinished, longest := mp.NewUnfinishedWorkSecondsMetric(name), mp.NewLongestRunningProcessorSecondsMetric(name)
	cfg.Hooks = workqueue.Hooks[T]{
		Added: func(T, int) {
			adds.Inc()
			depth.Inc()
		},
		Dispatched: func(_ T, _ int, waited time.Duration) {
			depth.Dec()
			latency.Observe(waited.Seconds())
		},
		Done:    func(_ T, took time.Duration) { work.Observe(took.Seconds()) },
		Delayed: func(T, time.Duration) { retries.Inc() },
	}
	q := newTyped(c.Queue, cfg)
	q.every(c.Clock, period, func() {
		stats := q.Stats()
		unfinished.Set(stats.Unfinished.Seconds())
		longest.Set(stats.LongestRunning.Seconds())
	})
	return q
}

func newQueue[T comparable](c clock.WithTicker, order Queue[T], m queueMetrics[T], period time.Duration) *Typed[T] {
	q := newTyped(order, workqueue.Config[T]{})
	q.every(c, period, m.updateUnfinishedWork)
	return q
}

func newTyped[T comparable](order Queue[T], cfg workqueue.Config[T]) *Typed[T] {
	q, err := workqueue.New(cfg)
	if err != nil {
		panic(err)
	}
	return &Typed[T]{Queue: q, order: order, stop: make(chan struct{})}
}

// every calls f regularly until the shutdown.
func (q *Typed[T]) every(c clock.WithTicker, period time.Duration, f func()) {
	tick := c.NewTicker(period)
	q.ended.Go(func() {
		defer tick.Stop()
		for {
			select {
			case <-tick.C():
				f()
			case <-q.stop:
				return
			}
		}
	})
}

// DefaultQueue returns a queue whose Touch does nothing.
func DefaultQueue[T comparable]() Queue[T] { return noQueue[T]{} }

type noQueue[T comparable] struct{}

func (noQueue[T]) Touch(T)  {}
func (noQueue[T]) Push(T)   { panic("not used") }
func (noQueue[T]) Len() int { panic("not used") }
func (noQueue[T]) Pop() T   { panic("not used") }

// delayingType has a field that a test looks at.
type delayingType[T comparable] struct {
	*workqueue.Queue[T]

	waitingForAddCh chan struct{} // always empty: an addition has taken effect when the call returns
}

func NewDelayingQueueWithConfig(c DelayingQueueConfig) DelayingInterface {
	return NewTypedDelayingQueueWithConfig(c)
}

func NewTypedDelayingQueueWithConfig[T comparable](c TypedDelayingQueueConfig[T]) workqueue.DelayingInterface[T] {
	if c.Queue != nil {
		return wrapped[T]{Interface: c.Queue}
	}
	return &delayingType[T]{Queue: newTyped(nil, workqueue.Config[T]{}).Queue}
}

// wrapped wraps a queue, and has no methods of its own: tests only look whether it can pause.
type wrapped[T comparable] struct {
	workqueue.Interface[T]
	workqueue.RateLimiter[T]
}

func (wrapped[T]) AddAfter(T, time.Duration) { panic("not used") }
func (wrapped[T]) AddRateLimited(T)          { panic("not used") }

func NewItemExponentialFailureRateLimiter(base, most time.Duration) RateLimiter {
	return workqueue.NewItemExponentialFailureRateLimiter[any](base, most)
}

func NewItemFastSlowRateLimiter(fast, slow time.Duration, n int) RateLimiter {
	return workqueue.NewItemFastSlowRateLimiter[any](fast, slow, n)
}

func NewMaxOfRateLimiter(limiters ...TypedRateLimiter[any]) RateLimiter {
	return workqueue.NewMaxOfRateLimiter(limiters...)
}

func NewWithMaxWaitRateLimiter(l RateLimiter, most time.Duration) RateLimiter {
	return workqueue.NewWithMaxWaitRateLimiter(l, most)
}

// Of 0.38.
type (
	Pausable                                   = workqueue.Pausable
	TypedInterface[T comparable]               = workqueue.Interface[T]
	TypedRateLimitingQueueConfig[T comparable] struct {
		DelayingQueue workqueue.DelayingInterface[T]
	}
)

func DefaultTypedControllerRateLimiter[T comparable]() TypedRateLimiter[T] {
	return workqueue.DefaultControllerRateLimiter[T]()
}

func NewTypedDelayingQueue[T comparable]() workqueue.DelayingInterface[T] {
	return NewTypedDelayingQueueWithConfig(TypedDelayingQueueConfig[T]{})
}

func NewTypedRateLimitingQueueWithConfig[T comparable](
	_ TypedRateLimiter[T], c TypedRateLimitingQueueConfig[T],
) workqueue.RateLimitingInterface[T] {
	return wrapped[T]{Interface: c.DelayingQueue}
}

func NewTypedRateLimitingQueue[T comparable](limiter TypedRateLimiter[T]) workqueue.RateLimitingInterface[T] {
	return newTyped(nil, workqueue.Config[T]{RateLimiter: limiter}).Queue
}
