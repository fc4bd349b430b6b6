package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

func TestConfigErrorsNameTheField(t *testing.T) {
	type config = workqueue.Config[string]
	for want, cfg := range map[string]config{
		"Config.MaxAttempts is -1, must not be negative":                                                {MaxAttempts: -1},
		"Config.MaxElapsed is -1ns, must not be negative":                                               {MaxElapsed: -1},
		"Config.GroupLimit is -1, must not be negative":                                                 {GroupLimit: -1, Group: byLetter},
		"Config.GroupLimit is set without Config.Group":                                                 {GroupLimit: 1},
		"Config.Debounce is -1s, must not be negative":                                                  {Debounce: -time.Second},
		"Config.DebounceLimit is -1ns, must not be negative":                                            {DebounceLimit: -1, Debounce: 1},
		"Config.DebounceLimit is set without Config.Debounce":                                           {DebounceLimit: 1},
		"Config.DebounceLimit is 1s, less than Config.Debounce, which is 2s":                            {DebounceLimit: time.Second, Debounce: 2 * time.Second},
		"Config.MaxAttempts is -3, must not be negative; Config.GroupLimit is set without Config.Group": {MaxAttempts: -3, GroupLimit: 1},
	} {
		q, err := workqueue.New(cfg)
		require.EqualError(t, err, "workqueue: new queue: "+want)
		require.Nil(t, q, want)
	}
}

func TestConfigAtItsBoundsIsAccepted(t *testing.T) {
	for what, cfg := range map[string]workqueue.Config[string]{
		"zero":                     {},
		"no aging":                 {Aging: -1},
		"a limit for groups":       {Group: byLetter, GroupLimit: 1},
		"groups without a limit":   {Group: byLetter},
		"debounce without a limit": {Debounce: 1},
		"debounce and limit equal": {Debounce: 2, DebounceLimit: 2},
		"the longest debounce":     {Debounce: 1<<63 - 1},
		"one attempt, one instant": {MaxAttempts: 1, MaxElapsed: 1},
	} {
		_, err := workqueue.New(cfg)
		require.NoError(t, err, what)
	}
}

// broken is a limiter whose methods panic.
type broken struct{}

func (broken) When(string) time.Duration { panic("boom") }

func (broken) Forget(string) { panic("boom") }

func (broken) NumRequeues(string) int { panic("boom") }

// A panic of a function in the Config is logged, wherever it is called, and no key is lost.
func TestPanicOfFunctionInConfigIsLogged(t *testing.T) {
	for name, cfg := range map[string]workqueue.Config[string]{
		"Group":              {Group: func(string) string { panic("boom") }},
		"RateLimiter.When":   {RateLimiter: broken{}},
		"RateLimiter.Forget": {RateLimiter: broken{}},
		"RateLimiter.When ":  {RateLimiter: workqueue.NewItemJitteredRateLimiter[string](5*time.Millisecond, time.Second, func() float64 { panic("boom") })},
		"Hooks.Added":        {Hooks: workqueue.Hooks[string]{Added: func(string, int) { panic("boom") }}},
		"Hooks.Dispatched":   {Hooks: workqueue.Hooks[string]{Dispatched: func(string, int, time.Duration) { panic("boom") }}},
		"Hooks.Done":         {Hooks: workqueue.Hooks[string]{Done: func(string, time.Duration) { panic("boom") }}},
		"Hooks.Delayed":      {Hooks: workqueue.Hooks[string]{Delayed: func(string, time.Duration) { panic("boom") }}},
		"Hooks.Parked":       {Hooks: workqueue.Hooks[string]{Parked: func(string, int) { panic("boom") }}},
		"Hooks.StrayDone":    {Hooks: workqueue.Hooks[string]{StrayDone: func(string) { panic("boom") }}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log text
				cfg.MaxAttempts, cfg.Logger, cfg.Debounce = 2, log.logger(), time.Millisecond
				q := must(workqueue.New(cfg))
				ends := map[string][]error{}
				stop := start(t, q, func(_ context.Context, item workqueue.Item[string]) error {
					var err error
					if item.Key == "bad" {
						err = errors.New("bad")
					}
					ends[item.Key] = append(ends[item.Key], err)
					return err
				})
				q.Add("bad")
				q.AddAfter("late", time.Minute) // the timer calls hooks too
				q.Add("good")
				q.Done("none")
				time.Sleep(time.Hour)
				synctest.Wait()
				assert.Len(t, ends["bad"], 2)
				assert.Len(t, ends["good"], 1)
				assert.Len(t, ends["late"], 1)
				assert.Equal(t, []string{"bad"}, q.Parked())
				q.Add("good")
				time.Sleep(time.Second)
				synctest.Wait()
				assert.Len(t, ends["good"], 2)
				assert.Contains(t, log.String(), fmt.Sprintf(
					`level=ERROR msg="a function of the Config panicked" queue=workqueue function=%s error="panic: boom" stack="goroutine`, strings.TrimSpace(name)))
				assert.Contains(t, log.String(), "config_test.go", "the stack")
				stop()
				require.NoError(t, q.CheckInvariants())
			})
		})
	}
}

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
		Added:      func(string, int) { o.added.Add(1) },
		Dispatched: func(_ string, _ int, d time.Duration) { o.latency = append(o.latency, d) },
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
		q := observed(&m, workqueue.Config[string]{RateLimiter: limiterOf[string](11 * time.Second)})
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
		q.Done("a") // after 4 s; ready from now on, and waiting since it was added, 4 s ago
		sleep(11 * time.Second)
		// b is due, and is ready since now: what it waited for before is not the fault of the workers.
		want.adds, want.depth, want.retries, want.unfinished, want.longest = 4, 2, 1, 0, 0
		want.work = []time.Duration{7 * time.Second, 4 * time.Second}
		require.Equal(t, want, m.collect(q))

		sleep(time.Second)
		q.Get() // a, after 16 s, for b has a priority that is worth only 10 s
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
		want.latency = append(want.latency, 16*time.Second, time.Second, time.Second, 0)
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

// Hooks are called without locks, so they may call the queue.
func TestHooksMayCallTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q *workqueue.Queue[string]
		var calls atomic.Int32
		look := func(string) { calls.Add(1); q.Stats(); q.Snapshot(); q.Len() }
		q = must(workqueue.New(workqueue.Config[string]{MaxAttempts: 1, Debounce: 1, Hooks: workqueue.Hooks[string]{
			Added: func(k string, _ int) { look(k) }, StrayDone: look,
			Dispatched: func(k string, _ int, _ time.Duration) { look(k) },
			Done:       func(k string, _ time.Duration) { look(k) },
			Delayed:    func(k string, _ time.Duration) { look(k) },
			Parked:     func(k string, _ int) { look(k) },
		}}))
		q.AddAfter("k", 1) // delayed,
		sleep(1)           // added,
		tryGet(q)          // dispatched,
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
			Added:      func(string, int) { <-slow; calls = append(calls, "added") },
			Dispatched: func(string, int, time.Duration) { calls = append(calls, "dispatched") },
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

// blocking is a limiter whose Forget calls a function.
type blocking struct {
	workqueue.RateLimiter[string]
	forget func()
}

func (b blocking) Forget(string) { b.forget() }

// Nobody else can wait for the goroutine of a timer, so a hook that it calls must not come after the end of the queue.
func TestDrainWaitsForHooksOfKeysThatWereDue(t *testing.T) {
	for name, test := range map[string]struct {
		config func(block func()) workqueue.Config[string]
		add    func(q *workqueue.Queue[string])
	}{
		"a wake-up": {
			func(block func()) workqueue.Config[string] {
				return workqueue.Config[string]{Hooks: workqueue.Hooks[string]{Added: func(string, int) { block() }}}
			},
			func(q *workqueue.Queue[string]) { q.AddAfter("a", time.Second) },
		},
		"a quiet time": {
			func(block func()) workqueue.Config[string] {
				return workqueue.Config[string]{Debounce: time.Second, Hooks: workqueue.Hooks[string]{Added: func(string, int) { block() }}}
			},
			func(q *workqueue.Queue[string]) { q.Add("a") },
		},
		"a failure that is forgotten": {
			func(block func()) workqueue.Config[string] {
				return workqueue.Config[string]{RememberFailures: time.Second / 2, RateLimiter: blocking{limiterOf[string](time.Second / 2), block}}
			},
			func(q *workqueue.Queue[string]) { q.AddRateLimited("a") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				called, free := make(chan struct{}, 9), make(chan struct{})
				proceed := sync.OnceFunc(func() { close(free) })
				defer proceed()
				q := must(workqueue.New(test.config(func() {
					called <- struct{}{}
					<-free
				})))
				go func() {
					for key, shutdown := q.Get(); !shutdown; key, shutdown = q.Get() {
						q.Done(key)
					}
				}()
				test.add(q)
				<-called
				synctest.Wait()
				require.Zero(t, q.Stats().Ready+q.Stats().InProcess, "the key is done")

				short, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.ErrorIs(t, q.Drain(short), context.DeadlineExceeded)
				drained := make(chan error, 2)
				for range 2 {
					go func() { drained <- q.Drain(t.Context()) }()
				}
				synctest.Wait()
				require.Empty(t, drained)
				require.NoError(t, q.CheckInvariants())
				proceed()
				require.NoError(t, <-drained)
				require.NoError(t, <-drained)
			})
		})
	}
}

func TestShutDownDoesNotWaitForHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		called, free := make(chan struct{}), make(chan struct{})
		q := must(workqueue.New(workqueue.Config[string]{Hooks: workqueue.Hooks[string]{Added: func(string, int) {
			close(called)
			<-free
		}}}))
		q.AddAfter("a", time.Second)
		<-called
		drained := make(chan error, 1)
		go func() { drained <- q.Drain(t.Context()) }()
		synctest.Wait()
		q.ShutDown()
		require.ErrorIs(t, <-drained, workqueue.ErrShutDown)
		close(free)
	})
}

func TestDrainWaitsForHooksOfAnotherDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		q := must(workqueue.New(workqueue.Config[string]{
			Debounce: time.Hour, Hooks: workqueue.Hooks[string]{Added: func(string, int) { <-free }},
		}))
		q.Add("a")
		drained := make(chan error, 2)
		go func() { drained <- q.Drain(t.Context()) }()
		synctest.Wait()
		item, ok := q.TryTake()
		require.True(t, ok, "its quiet time has ended")
		item.Done()
		go func() { drained <- q.Drain(t.Context()) }()
		synctest.Wait()
		require.Empty(t, drained)
		close(free)
		require.NoError(t, <-drained)
		require.NoError(t, <-drained)
	})
}

func TestRaisedReportsReadyAndDirtyKeys(t *testing.T) {
	var log strings.Builder
	var calls []string
	q := must(workqueue.New(workqueue.Config[string]{Logger: slog.New(slog.NewTextHandler(&log, nil)), Hooks: workqueue.Hooks[string]{
		Raised: func(key string, from, to int) {
			calls = append(calls, fmt.Sprint(key, " ", from, " to ", to))
			panic("boom")
		},
	}}))
	q.AddWith("k", prio(-1)) // new
	q.Add("k")               // ready
	q.TryTake()
	q.AddWith("k", prio(2)) // in process, and becomes dirty with this
	q.AddWith("k", workqueue.AddOptions{RateLimited: true, Priority: 3})
	q.AddWith("k", prio(3))
	q.Done("k")
	q.AddWith("k", workqueue.AddOptions{After: time.Hour, Priority: 5})
	q.Cancel("k")
	q.AddWith("k", workqueue.AddOptions{After: time.Hour, Priority: 6})
	q.AddWith("k", workqueue.AddOptions{After: time.Hour, Priority: 7}) // neither
	assert.Equal(t, []string{"k -1 to 0", "k 2 to 3", "k 3 to 5"}, calls)
	assert.Contains(t, log.String(), "function=Hooks.Raised")
}
