package bench_test

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	clientgo "k8s.io/client-go/util/workqueue"

	"github.com/setpoint-go/setpoint/workqueue"
)

// BenchmarkQueueHooks measures the cycle of BenchmarkQueueCycle with and without the seven metrics of client-go. With them, each event is
// counted, each time is observed, and the keys in process are read twice a second, as in client-go. The floor shows the minimum cost: a
// call reads the clock and counts, and knows nothing about keys.
func BenchmarkQueueHooks(b *testing.B) {
	const size = 100
	keys := makeKeys(size)
	for _, impl := range []struct {
		name string
		new  func() (q queue, stop func())
	}{
		{"setpoint", unobserved(implementations[0])},
		{"setpoint-hooks", func() (queue, func()) { return observed(new(metrics)) }},
		{"clientgo", unobserved(implementations[1])},
		{"clientgo-metrics", func() (queue, func()) { return observedClientgo(new(metrics)) }},
		{"floor", unobserved(implementations[3])},
		{"floor-hooks", func() (queue, func()) { return observedFloor(new(metrics)) }},
	} {
		b.Run(fmt.Sprintf("size=%d/impl=%s", size, impl.name), func(b *testing.B) {
			b.ReportAllocs()
			q, stop := impl.new()
			defer stop()
			fill(q, keys)
			for b.Loop() {
				cycle(q)
			}
			if n := q.Len(); n != size {
				b.Fatalf("%d keys wait, want %d", n, size)
			}
		})
	}
}

func TestHooksAndMetricsSeeTheSame(t *testing.T) {
	count := func(make func(*metrics) (queue, func())) [4]int64 {
		var m metrics
		q, stop := make(&m)
		fill(q, makeKeys(10))
		for range 100 {
			cycle(q)
		}
		stop()
		return [4]int64{m.adds.n.Load(), m.latency.n.Load(), m.work.n.Load(), m.retries.n.Load()}
	}
	assert.Equal(t, [4]int64{110, 100, 100, 0}, count(observed))
	assert.Equal(t, [4]int64{110, 100, 100, 0}, count(observedClientgo))
	assert.Equal(t, [4]int64{110, 100, 100, 0}, count(observedFloor))
}

func unobserved(impl implementation) func() (queue, func()) {
	return func() (queue, func()) {
		q := impl.new()
		return q, q.ShutDown
	}
}

// observed returns a queue with all hooks, and a function that shuts it down and stops the goroutine that reads its Stats.
func observed(m *metrics) (queue, func()) {
	q := must(workqueue.New(workqueue.Config[string]{Hooks: workqueue.Hooks[string]{
		Added:      func(string, int) { m.adds.Inc() },
		Dispatched: func(_ string, _ int, waited time.Duration) { m.latency.Observe(waited.Seconds()) },
		Done:       func(_ string, took time.Duration) { m.work.Observe(took.Seconds()) },
		Delayed:    func(string, time.Duration) { m.retries.Inc() },
		Parked:     func(string, int) { m.parked.Inc() },
		StrayDone:  func(string) { m.stray.Inc() },
	}}))
	stopped := make(chan struct{})
	var looker sync.WaitGroup
	// The goroutine that reads Stats. It ends when stop is called, which waits for it.
	looker.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s := q.Stats()
				m.depth.Set(float64(s.Ready + s.Dirty))
				m.unfinished.Set(s.Unfinished.Seconds())
				m.longest.Set(s.LongestRunning.Seconds())
			case <-stopped:
				return
			}
		}
	})
	return q, func() {
		q.ShutDown()
		close(stopped)
		looker.Wait()
	}
}

func observedClientgo(m *metrics) (queue, func()) {
	q := clientgo.NewTypedRateLimitingQueueWithConfig(clientgo.DefaultTypedControllerRateLimiter[string](),
		clientgo.TypedRateLimitingQueueConfig[string]{Name: "observed", MetricsProvider: m})
	return q, q.ShutDown
}

func observedFloor(m *metrics) (queue, func()) {
	f := &lookingFloor{floor: newFloor(), m: m, start: time.Now()}
	return f, f.ShutDown
}

// lookingFloor is a floor that reads the clock and counts as often as any implementation of the metrics must. It is for one goroutine.
type lookingFloor struct {
	*floor
	m      *metrics
	start  time.Time
	looked time.Duration // the last time
}

// look returns the time since the last look.
func (f *lookingFloor) look() time.Duration {
	now := time.Since(f.start)
	d := now - f.looked
	f.looked = now
	return d
}

func (f *lookingFloor) Add(key string) {
	f.floor.Add(key)
	f.look()
	f.m.adds.Inc()
}

func (f *lookingFloor) Get() (key string, shutdown bool) {
	key, shutdown = f.floor.Get()
	f.m.latency.Observe(f.look().Seconds())
	return key, shutdown
}

func (f *lookingFloor) Done(key string) {
	f.floor.Done(key)
	f.m.work.Observe(f.look().Seconds())
}

// metrics are the cheapest possible ones: one or two atomic operations each.
type metrics struct {
	depth, adds, latency, work, unfinished, longest, retries, parked, stray metric
}

func (m *metrics) NewDepthMetric(string) clientgo.GaugeMetric            { return &m.depth }
func (m *metrics) NewAddsMetric(string) clientgo.CounterMetric           { return &m.adds }
func (m *metrics) NewLatencyMetric(string) clientgo.HistogramMetric      { return &m.latency }
func (m *metrics) NewWorkDurationMetric(string) clientgo.HistogramMetric { return &m.work }
func (m *metrics) NewRetriesMetric(string) clientgo.CounterMetric        { return &m.retries }
func (m *metrics) NewUnfinishedWorkSecondsMetric(string) clientgo.SettableGaugeMetric {
	return &m.unfinished
}
func (m *metrics) NewLongestRunningProcessorSecondsMetric(string) clientgo.SettableGaugeMetric {
	return &m.longest
}

type metric struct {
	n    atomic.Int64
	last atomic.Uint64
}

func (m *metric) Inc()          { m.n.Add(1) }
func (m *metric) Dec()          { m.n.Add(-1) }
func (m *metric) Set(v float64) { m.last.Store(math.Float64bits(v)) }
func (m *metric) Observe(v float64) {
	m.n.Add(1)
	m.Set(v)
}
