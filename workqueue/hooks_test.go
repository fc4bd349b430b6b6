package workqueue_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

// metrics are the seven of client-go's workqueue, made of hooks and Stats.
type metrics struct {
	adds, depth, retries int
	latency, work        []time.Duration
	unfinished, longest  time.Duration
}

// observer collects them.
type observer struct {
	metrics
	added atomic.Int32 // the timer calls that hook as well
}

func observed(o *observer, cfg workqueue.Config[string]) *workqueue.Queue[string] {
	cfg.Logger = discard
	cfg.Hooks = workqueue.Hooks[string]{
		Added:      func(string) { o.added.Add(1) },
		Dispatched: func(_ string, d time.Duration) { o.latency = append(o.latency, d) },
		Done:       func(_ string, d time.Duration) { o.work = append(o.work, d) },
		Delayed:    func(string, time.Duration) { o.retries++ },
	}
	return must(workqueue.New(cfg))
}

func (o *observer) collect(q *workqueue.Queue[string]) metrics {
	s := q.Stats()
	o.adds, o.depth, o.unfinished, o.longest = int(o.added.Load()), s.Ready+s.Dirty, s.Unfinished, s.LongestRunning
	return o.metrics
}

func TestHooksAndStatsProvideClientGoMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m observer
		q := observed(&m, workqueue.Config[string]{RateLimiter: limiterOf(11 * time.Second)})
		q.Add("a")
		q.Add("b")
		q.Add("a") // one too many
		sleep(time.Second)
		q.AddWith("b", prio(1)) // does not begin the wait of b anew, nor that of a
		require.Equal(t, metrics{adds: 2, depth: 2}, m.collect(q))

		sleep(time.Second)
		q.Get() // b, after 2 s
		sleep(3 * time.Second)
		q.Get()    // a, after 5 s
		q.Add("a") // dirty
		q.Add("a") // one too many
		sleep(4 * time.Second)
		want := metrics{
			adds: 3, depth: 1, latency: []time.Duration{2 * time.Second, 5 * time.Second},
			unfinished: 11 * time.Second, longest: 7 * time.Second,
		}
		require.Equal(t, want, m.collect(q))

		q.AddRateLimited("b")
		q.Done("b") // after 7 s
		q.Done("a") // after 4 s; ready from now on
		sleep(11 * time.Second)
		// b is due, and is ready since now: what it waited for before is not the fault of the workers.
		want.adds, want.depth, want.retries, want.unfinished, want.longest = 4, 2, 1, 0, 0
		want.work = []time.Duration{7 * time.Second, 4 * time.Second}
		require.Equal(t, want, m.collect(q))

		sleep(time.Second)
		q.Get() // a, after 12 s, for b has a priority that is worth only 10 s
		q.Done("a")
		q.Get() // b, after 1 s
		q.Done("b")
		q.AddAfter("c", 0) // client-go counts it as well
		q.AddAfter("d", time.Second)
		q.AddAfter("d", time.Minute) // later: changes nothing, but it was called
		sleep(time.Second)
		tryGet(q)
		tryGet(q)
		q.Done("c")
		q.Done("d")
		want.adds, want.depth, want.retries = 6, 0, 4
		want.latency = append(want.latency, 12*time.Second, time.Second, time.Second, 0)
		want.work = append(want.work, 0, 0, 0, 0)
		require.Equal(t, want, m.collect(q))
		q.Done("d")
		q.ShutDown()
		q.Add("e")
		q.AddAfter("e", 1)
		q.AddRateLimited("e")
		require.Equal(t, want, m.collect(q), "nothing of that has happened")
	})
}

// A debounced Add counts once.
func TestDebouncedAddIsCountedOnceWhenItTakesEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m observer
		q := observed(&m, workqueue.Config[string]{Debounce: quiet})
		q.Add("k")
		q.Add("k")
		require.Zero(t, m.added.Load())
		sleep(quiet)
		require.Equal(t, metrics{adds: 1, depth: 1}, m.collect(q))
		sleep(time.Minute)
		q.Get()
		q.Done("k")
		require.Equal(t, metrics{adds: 1, latency: []time.Duration{time.Minute}, work: []time.Duration{0}}, m.collect(q))
		q.Add("k")
		q.ShutDown()
		require.EqualValues(t, 2, m.added.Load())
	})
}

// The depth that a caller computes from Added and Dispatched equals that of Stats, so it is never negative.
func TestDepthIsAddedMinusDispatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m observer
		q := observed(&m, workqueue.Config[string]{MaxAttempts: 2})
		steps := []func(k string){
			q.Add, func(string) { tryGet(q) }, q.Done, q.AddRateLimited, func(k string) { q.AddAfter(k, 3) },
			func(string) { sleep(2) }, func(k string) { q.DropParked(k) },
		}
		for i := range 5000 {
			steps[i*i*7%31%len(steps)](fmt.Sprint(i * 13 % 11 % 3))
			depth := m.collect(q).depth
			require.Equal(t, m.adds-len(m.latency), depth, "step %d", i)
			require.GreaterOrEqual(t, depth, 0)
			require.NoError(t, q.CheckInvariants())
		}
		require.Greater(t, len(m.work), 100)
		q.ShutDown()
	})
}

func TestHooksReceiveDelaysAndAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log []string
		say := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, fmt.Sprintf(format, args...))
		}
		q := must(workqueue.New(workqueue.Config[string]{MaxAttempts: 2, Hooks: workqueue.Hooks[string]{
			Added:      func(k string) { say("added %s", k) },
			Dispatched: func(k string, d time.Duration) { say("handed out %s after %v", k, d) },
			Done:       func(k string, d time.Duration) { say("done %s after %v", k, d) },
			Delayed:    func(k string, d time.Duration) { say("delayed %s by %v", k, d) },
			Parked:     func(k string, n int) { say("parked %s after %d", k, n) },
			StrayDone:  func(k string) { say("stray %s", k) },
		}}))
		q.AddWith("k", workqueue.AddOptions{At: time.Now().Add(-time.Hour)})
		q.Get()
		q.AddRateLimited("k")
		q.Done("k")
		sleep(time.Second)
		q.Get()
		q.AddRateLimited("k") // the last: nothing is delayed
		q.Done("k")
		q.Done("k")
		q.AddRateLimited("k") // of a key that is parked: nothing
		q.Add("k")
		q.AddWith("k", workqueue.AddOptions{})
		q.AddRateLimited("other")
		q.AddRateLimited("other")
		require.Equal(t, []string{
			"delayed k by 0s", "added k", "handed out k after 0s", "delayed k by 5ms", "done k after 0s",
			"added k", "handed out k after 995ms", "done k after 0s", "parked k after 2", "stray k",
			"added k", "delayed other by 5ms", "parked other after 2",
		}, log)
	})
}

// Hooks are called without locks, so they may call the queue.
func TestHooksMayCallTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q *workqueue.Queue[string]
		var calls atomic.Int32
		look := func(string) { calls.Add(1); q.Stats(); q.Snapshot(); q.Len() }
		q = must(workqueue.New(workqueue.Config[string]{MaxAttempts: 1, Debounce: 1, Hooks: workqueue.Hooks[string]{
			Added: look, StrayDone: look,
			Dispatched: func(k string, _ time.Duration) { look(k) },
			Done:       func(k string, _ time.Duration) { look(k) },
			Delayed:    func(k string, _ time.Duration) { look(k) },
			Parked:     func(k string, _ int) { look(k) },
		}}))
		q.AddAfter("k", 1) // delayed,
		sleep(1)           // added,
		tryGet(q)          // handed out,
		q.AddRateLimited("k")
		q.Done("k") // done, parked,
		q.Done("k") // stray,
		q.Add("k")
		q.ShutDown() // added
		require.EqualValues(t, 7, calls.Load())
	})
}

// A hook runs after the call has taken effect, so another goroutine may be faster.
func TestDispatchedMayPrecedeAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		slow := make(chan struct{})
		q := must(workqueue.New(workqueue.Config[string]{Hooks: workqueue.Hooks[string]{
			Added:      func(string) { <-slow; calls = append(calls, "added") },
			Dispatched: func(string, time.Duration) { calls = append(calls, "dispatched") },
		}}))
		added := make(chan struct{})
		go func() { q.Add("k"); close(added) }()
		synctest.Wait()
		item, ok := q.TryTake()
		require.True(t, ok)
		close(slow)
		<-added
		require.Equal(t, []string{"dispatched", "added"}, calls)
		item.Done()
	})
}

// A failure that spends the budget has no delay, even if the key is not parked, because it is ready.
func TestSpentFailureIsNotReportedAsDelayed(t *testing.T) {
	delayed, parked := 0, 0
	q := must(workqueue.New(workqueue.Config[string]{MaxAttempts: 1, Hooks: workqueue.Hooks[string]{
		Delayed: func(string, time.Duration) { delayed++ },
		Parked:  func(string, int) { parked++ },
	}}))
	q.Add("k")
	require.False(t, q.AddWith("k", workqueue.AddOptions{RateLimited: true, After: time.Second}))
	require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
	require.Zero(t, delayed)
	require.Zero(t, parked)
	require.Zero(t, q.Totals().Delayed)
}

func TestStrayDoneOfItemIsNotReported(t *testing.T) {
	stray := 0
	q := must(workqueue.New(workqueue.Config[string]{Hooks: workqueue.Hooks[string]{StrayDone: func(string) { stray++ }}}))
	q.Add("k")
	item, _ := q.TryTake()
	item.Done()
	item.Done()
	require.Zero(t, stray)
	q.Done("k")
	require.Equal(t, 1, stray)
}
