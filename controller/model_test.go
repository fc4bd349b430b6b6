package controller_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/retry/gate"
	"github.com/setpoint-go/setpoint/wait"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// world is what the reconciles of the model test bring about.
type world struct {
	t    *testing.T
	rand *rand.Rand // guarded by mu

	mu sync.Mutex
	// mu guards the following.
	desired  map[string]int  // what was asked for last
	observed map[string]int  // what was asked for when the last reconcile of the key began
	done     map[string]int  // what the last reconcile that succeeded or was given up has brought about
	inFlight map[string]bool // keys that are being reconciled
	trouble  bool            // reconciles may fail

	limit *gate.Limiter // of the reconciles, if not nil

	shared  bool                      // the keys are in one slot
	foreign bool                      // another replica owns it
	cancels []context.CancelCauseFunc // end the work in it

	leads *leaderelect.Leadership // of the last reconcile that had one
}

// Reconcile is a reconcile function. It ends in any way, after any time.
func (w *world) Reconcile(ctx context.Context, key string) (controller.Result, error) {
	w.mu.Lock()
	assert.False(w.t, w.inFlight[key], "%s is reconciled twice at once", key)
	w.inFlight[key] = true
	if l, ok := leaderelect.FromContext(ctx); ok {
		assert.Positive(w.t, time.Until(l.Deadline()), "%s is reconciled after the deadline of the leadership", key)
		w.leads = l
	}
	seen := w.desired[key]
	w.observed[key] = seen
	ending, pause := w.rand.IntN(11), time.Duration(w.rand.IntN(3000))*time.Millisecond
	if !w.trouble {
		ending = 0
	}
	w.mu.Unlock()
	defer w.leave(key)

	if w.limit != nil {
		if err := w.limit.Do(ctx, func(context.Context) error { return nil }); err != nil {
			return controller.Result{}, err
		}
	}
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return controller.Result{}, context.Cause(ctx)
	}
	switch ending {
	case 1:
		return controller.Result{}, errBoom
	case 2:
		panic("oh")
	case 3:
		return controller.Result{}, delayed{pause}
	case 8:
		return controller.Result{}, retry.NotYet(errBoom, pause)
	case 9:
		return controller.Result{}, fmt.Errorf("put: %w", errConflict)
	case 10:
		return controller.Result{}, errors.Join(errBoom, retry.NotYet(errBoom, time.Hour))
	case 4:
		<-ctx.Done() // the timeout, or the end of a drain
		return controller.Result{}, ctx.Err()
	}
	w.mu.Lock()
	w.done[key] = seen
	w.mu.Unlock()
	switch ending {
	case 5:
		return controller.Result{}, retry.Permanent(errBoom)
	case 6:
		return controller.Result{RequeueAfter: pause}, nil
	}
	return controller.Result{}, nil
}

// leave records that no reconcile or GaveUp of the key is in flight any more.
func (w *world) leave(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight[key] = false
}

// GaveUp is a Config.GaveUp. It ends in any way, after any time.
func (w *world) GaveUp(ctx context.Context, key string, _ error) error {
	w.mu.Lock()
	assert.False(w.t, w.inFlight[key], "%s is given up during a reconcile", key)
	w.inFlight[key] = true
	ending, pause := w.rand.IntN(8), time.Duration(w.rand.IntN(2000))*time.Millisecond
	if !w.trouble {
		ending = 0
	}
	w.mu.Unlock()
	defer w.leave(key)
	_ = wait.Sleep(ctx, pause)
	switch ending {
	case 1:
		return errBoom
	case 2:
		panic("oh")
	case 3:
		runtime.Goexit()
	case 4:
		return fenced(true)
	}
	return ctx.Err()
}

// Slot and Begin make w a controller.Slots with one slot, which the replica owns now and then.
func (w *world) Slot(string) int { return 0 }

func (w *world) Begin(ctx context.Context, _ string) (work context.Context, done func(), ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.foreign {
		return ctx, func() {}, false
	}
	work, cancel := context.WithCancelCause(ctx)
	w.cancels = append(w.cancels, cancel)
	return work, func() { cancel(nil) }, true
}

// own makes the replica own the slot, or not, if the keys are shared.
func (w *world) own(c *controller.Controller[string], owned bool) {
	w.mu.Lock()
	if !w.shared || owned == !w.foreign {
		w.mu.Unlock()
		return
	}
	if w.foreign = !owned; w.foreign {
		for _, cancel := range w.cancels {
			cancel(errBoom)
		}
		w.cancels = nil
	}
	w.mu.Unlock()
	if owned { // the keys are not all in the caches
		for key := range w.desired {
			c.Add(key)
		}
	}
}

// suspended has the process resume at the deadline of its leadership, if it has one: whatever wakes then may be ahead of
// the timer that ends it.
func (w *world) suspended(store *memlease.Store) {
	w.mu.Lock()
	l := w.leads
	w.mu.Unlock()
	if l == nil {
		return
	}
	cut(store, true)
	if left := time.Until(l.Deadline()); left > 0 {
		time.Sleep(left)
	}
}

// ask changes what is desired for key and then tells c.
func (w *world) ask(c *controller.Controller[string], key string) {
	w.mu.Lock()
	w.desired[key]++
	w.mu.Unlock()
	c.Add(key)
}

// TestNoKeyIsLostInRandomRuns adds keys at random times to a controller whose reconciles and GaveUp end in every way, and which is stopped,
// started, and resumed after a suspend at random times, with and without enough time to drain. Meanwhile, resyncs and callers of
// WaitReconciled add keys, and the slot of the keys is lost and acquired. When all has come to rest, the last
// reconcile of each key must have begun after the last add of the key, and must have succeeded.
func TestNoKeyIsLostInRandomRuns(t *testing.T) {
	for seed := range effort(18, 300) {
		synctest.Test(t, func(t *testing.T) { model(t, uint64(seed)) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func model(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &world{
		t: t, rand: rand.New(rand.NewPCG(seed, 2)), trouble: true,
		desired: map[string]int{}, observed: map[string]int{}, done: map[string]int{}, inFlight: map[string]bool{},
	}
	s := newSource()
	inf := newInformer("things", s)
	looptest.Start(t, inf.Run)
	exp := newAwaited()
	cfg := controller.Config[string]{
		Workers: 1 + r.IntN(4), Timeout: 5 * time.Second, DrainTimeout: 2 * time.Second, Logger: quiet,
		Queue: workqueue.Config[string]{
			RateLimiter: &limiter{delay: time.Second}, MaxAttempts: r.IntN(5), MaxElapsed: time.Duration(r.IntN(3)) * 10 * time.Second,
			Debounce: time.Duration(r.IntN(3)) * 200 * time.Millisecond,
			Group:    func(key string) string { return key[1:] }, GroupLimit: r.IntN(3),
		},
		Reads:        []controller.Informer{inf},
		Expectations: []controller.Expectations[string]{exp}, CancelSuperseded: r.IntN(2) == 0,
	}
	if r.IntN(2) == 0 {
		cfg.GaveUp = w.GaveUp
	}
	if r.IntN(2) == 0 {
		w.limit = gate.NewLimiter(5, 2)
	}
	c, err := controller.New("model", w.Reconcile, cfg, controller.Watches(inf, pure(func(o object) []string {
		if o.Value%2 == 0 {
			return nil
		}
		return []string{o.Key}
	})))
	require.NoError(t, err)
	if w.shared = r.IntN(3) == 0; w.shared {
		c.Share(w)
	}
	store := newLeases()
	running := looptest.Start(t, c.Run)
	for range 120 {
		switch key := fmt.Sprint("k", r.IntN(8)); r.IntN(23) {
		default:
			w.ask(c, key)
		case 0, 1:
			// An event does for an add while its handler is there. It is there after the Wait, if c runs.
			synctest.Wait()
			w.mu.Lock()
			w.desired[key]++
			w.mu.Unlock()
			s.set(object{Key: key, Value: 1})
			synctest.Wait()
			if !c.Stats().Running {
				c.Add(key)
			}
		case 2:
			running.Stop()
			c.CheckInvariants(t)
			cut(store, false)
			if running = looptest.Start(t, c.Run); r.IntN(2) == 0 {
				running.Stop()
				running = lead(t, store, c.Run)
			}
		case 3:
			cut(store, r.IntN(2) == 0)
		case 4:
			time.Sleep(time.Duration(r.IntN(20)) * time.Second)
		case 5, 6:
			time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
		case 7:
			synctest.Wait() // nothing is just being released
			c.CheckInvariants(t)
		case 12:
			c.Pause()
		case 13:
			c.Resume()
		case 14:
			c.PauseKey(key)
		case 15:
			c.ResumeKey(key)
		case 16:
			c.SetWorkers(1 + r.IntN(4))
		case 19:
			c.Inspect().Resync()
		case 20:
			w.own(c, false)
		case 21:
			w.own(c, true)
		case 22:
			w.mu.Lock()
			w.desired[key] += 0 // it is known
			w.mu.Unlock()
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(key[1]-'0')*time.Second)
				defer cancel()
				_ = c.WaitReconciled(ctx, key)
			}()
		case 18:
			w.suspended(store)
			w.ask(c, key)
		case 17:
			exp.expect(key, time.Now().Add(time.Duration(r.IntN(20))*time.Second))
			if r.IntN(2) == 0 {
				time.Sleep(time.Duration(r.IntN(5)) * time.Second)
				exp.meet(key)
			}
		}
	}
	w.own(c, true)
	c.Resume()
	for i := range 8 {
		c.ResumeKey(fmt.Sprint("k", i))
	}
	w.mu.Lock()
	w.trouble = false
	w.mu.Unlock()
	cut(store, false)
	if c.Stats().Running {
		require.NoError(t, c.WaitIdle(t.Context()))
	}
	time.Sleep(10 * time.Minute)
	for key := range c.Inspect().Keys() {
		if key.HeldBy == "next run" { // after a fenced write
			c.Add(key.Key)
		}
	}
	time.Sleep(10 * time.Minute)
	for _, key := range c.Parked() {
		c.Add(key)
	}
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	c.CheckInvariants(t)
	assert.Equal(t, w.desired, w.observed, "the last reconcile of a key began after its last add")
	assert.Equal(t, w.desired, w.done, "and succeeded")
	stats := c.Stats()
	assert.True(t, stats.Running)
	assert.Zero(t, stats.Queue)
	assert.Zero(t, stats.Held)
	assert.Empty(t, c.Snapshot(), "no state remains for finished keys")
	running.Stop()
}
