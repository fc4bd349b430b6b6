package controller_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mirrored is a source that mirrors a kind, and whose watches are behind.
type mirrored struct {
	lagging
	kind string
}

func (m mirrored) Clock() reconcile.Clock { return reconcile.Clock{Kind: m.kind} }

// wrote is what a write has returned.
type wrote struct {
	kind    string
	version informer.Version
}

func (w wrote) At() (string, informer.Version) { return w.kind, w.version }

func TestWaitReconciledReturnsAfterWriteIsReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(object{Key: "a", Value: 1})
		inf := must(informer.New(informer.ListWatcher[object](mirrored{lagging{s, time.Minute}, "Thing"}), keyOf, informer.Config{Name: "things"}))
		looptest.Start(t, inf.Run)
		var applied atomic.Int64 // of a
		c, reports := newController(t, controller.Config[string]{}, func(_ context.Context, key string) (controller.Result, error) {
			o, _ := inf.Get(key)
			time.Sleep(time.Second)
			if key == "a" {
				applied.Store(int64(o.Value))
			}
			return controller.Result{}, nil
		}, controller.For(inf))
		looptest.Start(t, c.Run)
		time.Sleep(time.Hour)

		reports.Take()
		began := time.Now()
		s.set(object{Key: "a", Value: 2}) // version 2
		c.Add("a")                        // begins before the cache has seen it
		require.NoError(t, c.WaitReconciled(t.Context(), "a", wrote{"Thing", 2}))
		assert.Equal(t, time.Minute+time.Second, time.Since(began))
		assert.EqualValues(t, 2, applied.Load())
		time.Sleep(time.Minute)
		assert.Len(t, reports.Take(), 2, "before, and for the event")

		began = time.Now()
		require.NoError(t, c.WaitReconciled(t.Context(), "a", wrote{"Thing", 2}), "once more")
		assert.Equal(t, time.Second, time.Since(began))
		assert.Len(t, reports.Take(), 1)
		require.NoError(t, c.WaitReconciled(t.Context(), "never added", wrote{"Thing", 1}))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := c.WaitReconciled(ctx, "a", wrote{"Thing", 99})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Contains(t, err.Error(), `controller: wait for "test" to reconcile a: `)
		assert.Contains(t, err.Error(), "things")
		assert.Zero(t, c.Waiters(), "no waiter is left")
	})
}

// The reconcile of the event answers the caller, who adds none. This holds in each order of the goroutines, so they run in parallel.
func TestWaitReconciledAddsNoReconcileToThatOfEvent(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		inf := must(informer.New(informer.ListWatcher[object](mirrored{lagging{s, 0}, "Thing"}), keyOf, informer.Config{Name: "things"}))
		looptest.Start(t, inf.Run)
		c, reports := newController(t, controller.Config[string]{Workers: 2}, noop, controller.For(inf))
		looptest.Start(t, c.Run)
		const writes = 1000
		for i := range writes {
			waited := make(chan error, 1)
			go func() { waited <- c.WaitReconciled(t.Context(), "a", wrote{"Thing", informer.Version(i + 1)}) }()
			synctest.Wait()
			s.set(object{Key: "a", Value: i})
			require.NoError(t, <-waited)
			synctest.Wait()
		}
		assert.Equal(t, writes, len(reports.Take()))
		assert.Zero(t, c.Waiters())
	})
}

func TestWaitReconciledFindsCachesOfWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		sites := must(store.Open[int](db, "Site", store.Config[int]{}))
		servers := must(store.Open[int](db, "Server", store.Config[int]{}))
		seenSites := must(informer.New(late{sites, time.Minute}, store.Key, informer.Config{Name: "sites"}))
		behind := must(informer.New(late{sites, 2 * time.Minute}, store.Key, informer.Config{Name: "sites, later"}))
		seenServers := must(informer.New(late{servers, time.Hour}, store.Key, informer.Config{Name: "servers"}))
		polled := newInformer("no store", newSource(object{Key: "a"}))
		for _, inf := range []controller.Informer{seenSites, behind, seenServers, polled} {
			looptest.Start(t, inf.Run)
		}
		for _, stale := range []bool{false, true} {
			c, _ := newController(t, controller.Config[string]{Reads: []controller.Informer{behind}, StaleReads: stale}, noop,
				controller.For(seenSites), controller.For(seenServers), controller.For(polled))
			r := looptest.Start(t, c.Run)
			synctest.Wait()
			key := fmt.Sprint("a", stale)
			site := must(sites.Create(t.Context(), store.Object[int]{Key: key}))
			server := must(servers.Create(t.Context(), store.Object[int]{Key: key}))
			shown := func() (n int) {
				for _, inf := range []*store.Informer[int]{seenSites, behind, seenServers} {
					if _, ok := inf.Get(key); ok {
						n++
					}
				}
				return n
			}
			require.NoError(t, c.WaitReconciled(t.Context(), key))
			assert.Zero(t, shown(), "no cache is asked")
			require.NoError(t, c.WaitReconciled(t.Context(), key, site))
			assert.Equal(t, 2, shown(), "every informer of the kind, also one that is only read")
			require.NoError(t, c.WaitReconciled(t.Context(), key, site, server))
			assert.Equal(t, 3, shown())
			deleted := must(sites.Delete(t.Context(), key))
			require.NoError(t, c.WaitReconciled(t.Context(), key, deleted))
			assert.Equal(t, 1, shown())

			err := c.WaitReconciled(t.Context(), key, store.Object[int]{Kind: "Disk", Version: 1})
			require.EqualError(t, err, `controller: wait for "test" to reconcile `+key+`: no informer of the controller mirrors a store of kind "Disk"`)
			require.NoError(t, r.Stop())
		}
	})
}

func TestWaitReconciledErrorForEachOutcome(t *testing.T) {
	for _, e := range endings {
		bubble(t, e.name, func(t *testing.T) {
			n := 0
			cfg := controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: 7 * time.Second}}, Timeout: 10 * time.Second}
			c, _ := newController(t, cfg, func(ctx context.Context, key string) (controller.Result, error) {
				if n++; n == 1 {
					return e.end(ctx, key)
				}
				return controller.Result{}, nil
			})
			looptest.Start(t, c.Run)
			synctest.Wait()
			if e.outcome == controller.Unfinished && e.again == 0 {
				time.AfterFunc(time.Hour, func() { c.Add("a") })
			}
			err := c.WaitReconciled(t.Context(), "a")
			switch e.outcome {
			case controller.Succeeded:
				require.NoError(t, err)
				assert.Equal(t, 1, n)
			case controller.Parked:
				require.ErrorIs(t, err, e.err)
				require.ErrorIs(t, err, controller.ErrParked)
				assert.Equal(t, 1, n)
			default:
				require.NoError(t, err)
				assert.Equal(t, 2, n, "it was tried again")
			}
		})
	}
	bubble(t, "parked", func(t *testing.T) {
		c, _ := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 3}}, func(context.Context, string) (controller.Result, error) {
			return controller.Result{}, errBoom
		})
		looptest.Start(t, c.Run)
		for range 2 { // a key that is parked is revived
			err := c.WaitReconciled(t.Context(), "a")
			require.ErrorIs(t, err, controller.ErrParked)
			require.ErrorIs(t, err, errBoom)
		}
		assert.EqualValues(t, 2, c.Stats().Outcomes[controller.Parked])
	})
	bubble(t, "a stop: the next run does it", func(t *testing.T) {
		c, _ := newController(t, controller.Config[string]{DrainTimeout: time.Second}, func(ctx context.Context, _ string) (controller.Result, error) {
			select {
			case <-time.After(time.Minute):
				return controller.Result{}, nil
			case <-ctx.Done():
				return controller.Result{}, ctx.Err()
			}
		})
		r := looptest.Start(t, c.Run)
		waited := make(chan error, 1)
		go func() { waited <- c.WaitReconciled(context.Background(), "a") }()
		synctest.Wait()
		require.Error(t, r.Stop())
		looptest.Start(t, c.Run)
		time.Sleep(59 * time.Second)
		synctest.Wait()
		assert.Empty(t, waited)
		require.NoError(t, <-waited)
	})
	bubble(t, "an informer that has ended", func(t *testing.T) {
		inf := must(informer.New(informer.ListWatcher[object](mirrored{lagging{newSource(), 0}, "Thing"}), keyOf, informer.Config{}))
		r := looptest.Start(t, inf.Run)
		c, _ := newController(t, controller.Config[string]{}, noop, controller.For(inf))
		synctest.Wait()
		require.NoError(t, r.Stop())
		require.ErrorIs(t, c.WaitReconciled(t.Context(), "a", wrote{"Thing", 5}), informer.ErrEnded)
	})
}

func TestWaitIdleReturnsWhenNothingIsReadyInFlightOrHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exp := newAwaited()
		var after atomic.Int64
		c, reports := newController(t, controller.Config[string]{Expectations: []controller.Expectations[string]{exp}},
			func(ctx context.Context, key string) (controller.Result, error) {
				_, err := slow(ctx, key)
				return controller.Result{RequeueAfter: time.Duration(after.Load())}, err
			})
		r := looptest.Start(t, c.Run)
		require.NoError(t, c.WaitIdle(t.Context()))
		for i := range 5 {
			c.Add(fmt.Sprint("k", i))
		}
		began := time.Now()
		require.NoError(t, c.WaitIdle(t.Context()))
		assert.Equal(t, 5*time.Second, time.Since(began))
		assert.Len(t, reports.Take(), 5)

		exp.expect("a", time.Time{})
		c.PauseKey("b")
		c.Add("a")
		c.Add("b")
		idle := make(chan error, 1)
		go func() { idle <- c.WaitIdle(context.Background()) }()
		time.Sleep(time.Hour)
		assert.Empty(t, idle, "two are held")
		exp.meet("a")
		time.Sleep(time.Hour)
		assert.Empty(t, idle, "one is held")
		after.Store(int64(time.Hour))
		c.ResumeKey("b")
		began = time.Now()
		require.NoError(t, <-idle)
		assert.Equal(t, time.Second, time.Since(began), "delayed keys do not count")

		c.Pause()
		c.Add("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.WaitIdle(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Contains(t, err.Error(), `controller: wait for "test" to be idle: `)
		c.Resume()
		synctest.Wait()
		r.Cancel() // while a is in flight
		synctest.Wait()
		c.Add("late")
		go func() { idle <- c.WaitIdle(context.Background()) }()
		require.NoError(t, r.Stop())
		time.Sleep(time.Hour)
		assert.Empty(t, idle, "a key added during a drain must be done")
		after.Store(0)
		looptest.Start(t, c.Run)
		require.NoError(t, <-idle)
		ctx, cancel = context.WithCancel(t.Context())
		c.PauseKey("z")
		c.Add("z")
		synctest.Wait()
		cancel()
		require.ErrorIs(t, c.WaitIdle(ctx), context.Canceled, "while a key is held")
	})
}

func TestKeyIsParkedBeforeErrParkedIsReturned(t *testing.T) {
	c, _ := newController(t, controller.Config[string]{Workers: 2, Queue: workqueue.Config[string]{MaxAttempts: 1}, Logger: quiet},
		func(context.Context, string) (controller.Result, error) { return controller.Result{}, errBoom })
	r := looptest.Start(t, c.Run)
	for range 3000 {
		require.ErrorIs(t, c.WaitReconciled(t.Context(), "a"), controller.ErrParked)
		require.True(t, c.Inspect().Forget("a"))
	}
	require.NoError(t, r.Stop())
}

// boundedIdle calls WaitIdle, and does not hang if that never returns.
func boundedIdle(c *controller.Controller[string]) error {
	ctx, cancel := context.WithTimeout(context.Background(), 24*time.Hour)
	defer cancel()
	return c.WaitIdle(ctx)
}

// waitIdle calls WaitIdle in a goroutine.
func waitIdle(c *controller.Controller[string]) <-chan error {
	idle := make(chan error, 1)
	go func() { idle <- boundedIdle(c) }()
	return idle
}

func TestWaitIdleWaitsUntilCachesAreReconciled(t *testing.T) {
	// The scheduler decides whether a WaitIdle that is wrong returns early, so each case runs several times.
	for range 20 {
		bubble(t, "a slow mapper", func(t *testing.T) {
			inf := newInformer("things", newSource(object{Key: "a"}, object{Key: "b"}, object{Key: "c"}))
			looptest.Start(t, inf.Run)
			c, reports := newController(t, controller.Config[string]{}, slow, controller.Watches(inf, slowly))
			looptest.Start(t, c.Run)
			require.NoError(t, informer.WaitForSync(t.Context(), inf))
			require.NoError(t, boundedIdle(c))
			assert.Len(t, reports.Take(), 3)
		})
		bubble(t, "several watches", func(t *testing.T) {
			things, others := newInformer("things", newSource(object{Key: "a"})), newInformer("others", newSource(object{Key: "b"}))
			held := newSource(object{Key: "c"})
			held.hold = make(chan struct{})
			late := newInformer("late", held)
			c, reports := newController(t, controller.Config[string]{}, slow,
				controller.For(late), controller.For(things), controller.For(others))
			for _, inf := range []*informer.Informer[string, object]{late, things, others} {
				looptest.Start(t, inf.Run)
			}
			looptest.Start(t, c.Run)
			require.NoError(t, informer.WaitForSync(t.Context(), things, others))
			idle := waitIdle(c)
			time.Sleep(time.Minute)
			assert.Empty(t, idle, "one informer has not synced")
			close(held.hold)
			require.NoError(t, <-idle)
			assert.ElementsMatch(t, []string{"a", "b", "c"}, keysOf(reports.Take()))
		})
		bubble(t, "a handler added later", func(t *testing.T) {
			inf := newInformer("things", newSource(object{Key: "a"}))
			looptest.Start(t, inf.Run)
			require.NoError(t, informer.WaitForSync(t.Context(), inf))
			c, reports := newController(t, controller.Config[string]{}, slow, controller.For(inf))
			idle := waitIdle(c)
			time.Sleep(time.Minute)
			assert.Empty(t, idle, "no Run has connected the watch")
			looptest.Start(t, c.Run)
			require.NoError(t, <-idle)
			assert.Equal(t, []string{"a"}, keysOf(reports.Take()))
		})
		bubble(t, "a change not yet delivered to the handler", func(t *testing.T) {
			s := newSource(object{Key: "a"})
			inf := newInformer("things", s)
			looptest.Start(t, inf.Run)
			c, reports := newController(t, controller.Config[string]{}, slow, controller.For(inf))
			looptest.Start(t, c.Run)
			require.NoError(t, boundedIdle(c))
			reports.Take()
			s.set(object{Key: "b"})
			require.NoError(t, inf.WaitForVersion(t.Context(), 2))
			require.NoError(t, boundedIdle(c))
			assert.Equal(t, []string{"b"}, keysOf(reports.Take()))
		})
	}
}

func TestWaitIdleRestartsWhenRunEndsBeforeHandlersFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := newInformer("things", newSource(object{Key: "a"}, object{Key: "b"}))
		looptest.Start(t, inf.Run)
		c, reports := newController(t, controller.Config[string]{}, noop, controller.Watches(inf, slowly))
		first := looptest.Start(t, c.Run)
		synctest.Wait()
		idle := waitIdle(c)
		synctest.Wait()
		require.NoError(t, first.Stop())
		time.Sleep(time.Hour)
		assert.Empty(t, idle, "b was not mapped")
		looptest.Start(t, c.Run)
		require.NoError(t, <-idle)
		assert.Subset(t, keysOf(reports.Take()), []string{"a", "b"})
		c.CheckInvariants(t)
	})
}

func TestWaitIdleEndsWithContextOrInformer(t *testing.T) {
	expired := func(t *testing.T, c *controller.Controller[string]) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := c.WaitIdle(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Contains(t, err.Error(), `controller: wait for "test" to be idle: `)
		c.CheckInvariants(t)
	}
	bubble(t, "no Run", func(t *testing.T) {
		inf := newInformer("things", newSource())
		c, _ := newController(t, controller.Config[string]{}, noop)
		require.NoError(t, boundedIdle(c), "it watches nothing")
		c, _ = newController(t, controller.Config[string]{}, noop, controller.For(inf))
		expired(t, c)
		looptest.Start(t, inf.Run)
		r := looptest.Start(t, c.Run)
		require.NoError(t, boundedIdle(c))
		require.NoError(t, r.Stop())
		expired(t, c)
	})
	bubble(t, "an informer that does not sync", func(t *testing.T) {
		s := newSource()
		s.hold = make(chan struct{})
		inf := newInformer("things", s)
		looptest.Start(t, inf.Run)
		c, _ := newController(t, controller.Config[string]{}, noop, controller.For(inf))
		looptest.Start(t, c.Run)
		expired(t, c)
		idle := waitIdle(c)
		time.Sleep(time.Minute - time.Nanosecond)
		assert.Empty(t, idle)
		time.Sleep(time.Nanosecond) // the sync has taken too long
		synctest.Wait()
		assert.Empty(t, idle, "another Run may do it")
		close(s.hold)
		looptest.Start(t, c.Run)
		require.NoError(t, <-idle)
	})
	bubble(t, "a mapper that blocks", func(t *testing.T) {
		inf := newInformer("things", newSource(object{Key: "a"}))
		looptest.Start(t, inf.Run)
		gate := make(chan struct{})
		c, _ := newController(t, controller.Config[string]{}, noop, controller.Watches(inf, pure(func(object) []string { <-gate; return nil })))
		looptest.Start(t, c.Run)
		expired(t, c)
		close(gate)
		require.NoError(t, boundedIdle(c))
	})
	bubble(t, "an informer that has ended", func(t *testing.T) {
		inf := newInformer("things", newSource(object{Key: "a"}))
		ran := looptest.Start(t, inf.Run)
		c, _ := newController(t, controller.Config[string]{}, noop, controller.For(inf))
		looptest.Start(t, c.Run)
		require.NoError(t, boundedIdle(c))
		require.NoError(t, ran.Stop())
		err := boundedIdle(c)
		require.ErrorIs(t, err, informer.ErrEnded)
		assert.Contains(t, err.Error(), "things")
	})
}

// firstValue is the highest value at the beginning of a schedule.
const firstValue = 100

// book notes what happens to keys, and what reconciles have seen.
type book struct {
	mu sync.Mutex
	// mu guards the following.
	now   int            // counts what was noted
	seen  map[string]int // for each key the highest value that an ended reconcile has found in the cache
	began map[string]int // for each key when the last of the reconciles that have ended began
	last  map[string]int // for each key the last value after the beginning
	gone  map[string]int // for each key the last value that was deleted
	none  map[string]int // for each key when the last reconcile that has ended had found it absent
}

// set notes that key gets a value.
func (b *book) set(key string, value int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last[key] = value
}

// deleted notes that key is deleted.
func (b *book) deleted(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone[key] = max(b.last[key], firstValue)
}

// wasDeleted reports whether key was deleted since it had value.
func (b *book) wasDeleted(key string, value int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gone[key] >= value
}

// tick returns the present, which is after everything that was noted before.
func (b *book) tick() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now++
	return b.now
}

// ended notes that a reconcile of key has ended. Between the times began and found, it found value in the cache, or no object if
// value is zero.
func (b *book) ended(key string, began, found, value int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen[key] = max(b.seen[key], value)
	if value == 0 {
		b.none[key] = max(b.none[key], found)
	}
	b.began[key] = max(b.began[key], began)
}

// has reports whether a reconcile of key has ended that found value or its successor, which may be no object. The cache held value
// at a time between from and to.
func (b *book) has(key string, value, from, to int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen[key] >= value || b.none[key] > from || b.began[key] > to
}

func TestWaitIdleIsPreciseInEverySchedule(t *testing.T) {
	for seed := range effort(150, 2000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { idleSchedule(t, rand.New(rand.NewPCG(uint64(seed), 38))) })
		})
	}
}

// idleSchedule lets sources change, runs of the controller come and go, and callers wait. When WaitIdle returns, each key of
// an object that was in a cache when it was called must have been reconciled since that version of the object was applied.
func idleSchedule(t *testing.T, r *rand.Rand) {
	pick := func(upTo int) time.Duration { return time.Duration(r.IntN(upTo)) * time.Millisecond }
	infs := make([]*informer.Informer[string, object], 1+r.IntN(3))
	sources := make([]*source, len(infs))
	name := func(i int) string { return fmt.Sprint(i, "k", r.IntN(4)) }
	for i := range infs {
		sources[i] = newSource()
		for range r.IntN(4) {
			sources[i].set(object{Key: name(i), Value: 1 + r.IntN(firstValue)})
		}
		infs[i] = newInformer(fmt.Sprint("things", i), sources[i])
	}
	done := book{seen: map[string]int{}, began: map[string]int{}, last: map[string]int{}, gone: map[string]int{}, none: map[string]int{}}
	reconciles := pick(20)
	var inputs []controller.Input[string]
	for i, inf := range infs {
		if mapping := pick(30); i%2 == 0 {
			to := pure(func(o object) []string { time.Sleep(mapping); return []string{o.Key} })
			inputs = append(inputs, controller.Watches(inf, to))
		} else {
			inputs = append(inputs, controller.For(inf))
		}
	}
	c, _ := newController(t, controller.Config[string]{Workers: 1 + r.IntN(3)},
		func(_ context.Context, key string) (controller.Result, error) {
			began := done.tick()
			o, _ := infs[key[0]-'0'].Get(key)
			found := done.tick()
			time.Sleep(reconciles)
			done.ended(key, began, found, o.Value)
			return controller.Result{}, nil
		}, inputs...)
	var waiting sync.WaitGroup
	var turns atomic.Int64 // begins and ends of a Run: odd while one hears of every deletion
	check := func() {
		turn := turns.Load()
		from := done.tick()
		held := map[string]int{}
		for _, inf := range infs {
			for key, o := range inf.Indexer().All() {
				held[key] = o.Value
			}
		}
		to := done.tick()
		assert.NoError(t, boundedIdle(c))
		steady := turn%2 == 1 && turns.Load() == turn
		for key, value := range held {
			if !steady && done.wasDeleted(key, value) {
				continue // no Run hears of a deletion between two of them
			}
			assert.True(t, done.has(key, value, from, to), "%s with value %d was not reconciled", key, value)
		}
	}
	value := firstValue
	var run *looptest.Running
	unstarted := infs
	for range 30 {
		switch i := r.IntN(len(infs)); r.IntN(8) {
		case 0:
			if len(unstarted) > 0 {
				looptest.Start(t, unstarted[0].Run)
				unstarted = unstarted[1:]
			}
		case 1, 2:
			value++ // so a higher one is newer, also of a key that was deleted
			key := name(i)
			done.set(key, value)
			sources[i].set(object{Key: key, Value: value})
		case 3:
			if key := name(i); sources[i].has(key) {
				done.deleted(key)
				sources[i].delete(key)
			}
		case 4:
			if run == nil {
				run = looptest.Start(t, c.Run)
				synctest.Wait() // so it has connected its watches
				turns.Add(1)
			} else if r.IntN(3) == 0 {
				turns.Add(1)
				require.NoError(t, run.Stop())
				run = nil
			}
		case 5, 6:
			waiting.Go(check)
		case 7:
			time.Sleep(pick(20))
		}
	}
	for _, inf := range unstarted {
		looptest.Start(t, inf.Run)
	}
	if run == nil {
		looptest.Start(t, c.Run)
	}
	waiting.Go(check)
	waiting.Wait()
	c.CheckInvariants(t)
}
