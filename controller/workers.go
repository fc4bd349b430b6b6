package controller

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/leaderelect"
)

// workers are the workers of one Run. Their number can change while they work:
//
//  1. It is the one that was last requested, as soon as excess workers have finished their current work. The cost of ending a worker does
//     not depend on the number of workers.
//  2. A worker that calls runtime.Goexit is replaced.
//  3. When wait has returned after close, all workers have ended.
//
// All methods are safe for concurrent use, and only wait blocks.
type workers[K comparable] struct {
	ctx     context.Context         // of the work: all workers end when it does
	stop    context.CancelCauseFunc // ends ctx
	work    func(*worker[K])        // returns when worker.stay returns false
	leads   *leaderelect.Leadership // without it no reconcile may begin; nil if the work belongs to none
	began   time.Time
	pace    func(reconcile context.Context) // of a simulation: returns when a reconcile may begin; nil outside a simulation
	running sync.WaitGroup

	mu sync.Mutex
	// mu guards the following. Invariant: each worker of all has its index there as its place.
	want   int
	closed bool
	all    []*worker[K] // that run
}

// worker reconciles one key at a time.
type worker[K comparable] struct {
	of       *workers[K]
	current  atomic.Pointer[attempt[K]] // the reconcile in flight, or nil
	since    atomic.Int64               // when the worker took its key, in nanoseconds since the controller was made; 0 without a key
	attempts []attempt[K]               // unused ones; only the worker reads and writes them

	place     int             // guarded by workers.mu
	take      context.Context // bounds the wait for a key: it ends when the worker must call stay. Written by the worker, with workers.mu held
	interrupt context.CancelFunc
	goroutine atomic.Int64 // the number of the worker's

	stacks sync.Mutex
	// stacks guards the following. It is held while a stack is taken, so that two callers take one.
	stackOf *attempt[K] // whose stack was taken last
	stack   []byte
	stackAt time.Time
}

// stackPeriod is the time for which a stack is good enough, because taking one stops all goroutines.
const stackPeriod = 5 * time.Second

// attemptsAtOnce is how many attempts a worker allocates together. A reference to one context keeps all of them in memory.
const attemptsAtOnce = 16

// newAttempt returns an attempt. Each is used once, since its context may outlive the reconcile. w may be nil.
func (w *worker[K]) newAttempt() *attempt[K] {
	if w == nil {
		return new(attempt[K])
	}
	if len(w.attempts) == 0 {
		w.attempts = make([]attempt[K], attemptsAtOnce)
	}
	a := &w.attempts[0]
	w.attempts = w.attempts[1:]
	return a
}

// resize sets the number of workers to n. Excess workers end after their current work.
func (ws *workers[K]) resize(n int) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.resizeLocked(n)
}

func (ws *workers[K]) resizeLocked(n int) {
	if ws.closed {
		return
	}
	ws.want = n
	for len(ws.all) < n && ws.ctx.Err() == nil {
		w := &worker[K]{of: ws, place: len(ws.all)}
		w.take, w.interrupt = context.WithCancel(ws.ctx)
		ws.all = append(ws.all, w)
		ws.start(w)
	}
	if len(ws.all) > n {
		for _, w := range ws.all {
			w.interrupt()
		}
	}
}

// close makes all workers end after their current work. No new worker starts.
func (ws *workers[K]) close() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.resizeLocked(0)
	ws.closed = true
}

// wait waits until all workers have ended. Call it after close.
func (ws *workers[K]) wait() { ws.running.Wait() }

// list returns the workers that run.
func (ws *workers[K]) list() []*worker[K] {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return slices.Clone(ws.all)
}

// start starts w. It is called before close, or by a running worker, so it never races with wait.
func (ws *workers[K]) start(w *worker[K]) {
	// It ends when stay returns false, and wait waits for it.
	ws.running.Go(func() {
		w.goroutine.Store(goroutineID())
		returned := false
		defer func() {
			if !returned { // a Goexit cannot be stopped, so another goroutine takes its place
				ws.start(w)
			}
		}()
		ws.work(w)
		returned = true
	})
}

// stay reports whether w should continue. Only w calls it. If it returns false, w is no longer among the workers.
func (w *worker[K]) stay() bool {
	if w.take.Err() == nil { // the most common case; no lock is needed, because only the worker changes take
		return true
	}
	ws := w.of
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.ctx.Err() == nil && len(ws.all) <= ws.want {
		w.take, w.interrupt = context.WithCancel(ws.ctx)
		return true
	}
	last := ws.all[len(ws.all)-1]
	ws.all[w.place], last.place = last, w.place
	ws.all[len(ws.all)-1] = nil
	ws.all = ws.all[:len(ws.all)-1]
	return false
}

// stackIn returns the stack of w, which runs a, or nil if w has ended. If the last stack is of the same reconcile, and less than five seconds
// old, stackIn returns it. Otherwise it dumps all goroutines of the process.
func (w *worker[K]) stackIn(a *attempt[K]) []byte {
	w.stacks.Lock()
	defer w.stacks.Unlock()
	if w.stackOf != a || time.Since(w.stackAt) >= stackPeriod {
		w.stackOf, w.stack, w.stackAt = a, w.dump(), time.Now()
	}
	return bytes.Clone(w.stack)
}

// dump takes the stack of the worker. Profiler labels would also identify the worker, but not if the work sets its own labels.
func (w *worker[K]) dump() []byte {
	const most = 64 << 20
	buf := make([]byte, 1<<16)
	n := runtime.Stack(buf, true)
	for n == len(buf) && n < most {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	head := fmt.Appendf(nil, "goroutine %d ", w.goroutine.Load())
	for stack := range bytes.SplitSeq(buf[:n], []byte("\n\n")) {
		if bytes.HasPrefix(stack, head) {
			return bytes.Clone(stack)
		}
	}
	return nil
}

// goroutineID returns the number of the goroutine that calls it. The runtime reveals it only in the stack of the goroutine.
func goroutineID() int64 {
	var buf [64]byte
	stack := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	id, _, _ := bytes.Cut(stack, []byte(" "))
	n, err := strconv.ParseInt(string(id), 10, 64)
	if err != nil {
		return 0 // no goroutine has this number
	}
	return n
}

// startWorkers starts the workers. They and their work end with ctx, which stop ends.
func (c *Controller[K]) startWorkers(ctx context.Context, stop context.CancelCauseFunc) *workers[K] {
	leads, _ := leaderelect.FromContext(ctx)
	ws := &workers[K]{ctx: ctx, stop: stop, leads: leads, began: time.Now(), pace: reconcile.PaceOf(ctx)}
	ws.work = func(w *worker[K]) { c.work(ctx, w) }
	c.mu.Lock()
	defer c.mu.Unlock()
	c.working = ws
	ws.resize(c.workers)
	return ws
}

// drain waits until no key is ready or in flight, ctx ends, or the controller is paused. Then each worker ends after its current
// reconcile.
func (c *Controller[K]) drain(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.mu.Lock()
	if c.stopDrain = cancel; c.paused {
		cancel()
	}
	c.mu.Unlock()
	// An error means that ctx has ended, and there is nothing left to wait for.
	_ = c.queue.WaitIdle(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.working.close()
	c.stopDrain = nil
}

// work is what w does: it reconciles keys of the queue until w must end. The context of the reconciles is derived from ctx.
func (c *Controller[K]) work(ctx context.Context, w *worker[K]) {
	for w.stay() {
		item, err := c.queue.Take(w.take)
		if err != nil {
			continue
		}
		if ctx.Err() != nil { // it ended just as the key arrived
			c.pending.makeReady(item.Key)
			item.Skip()
			continue
		}
		c.process(ctx, item, w)
	}
}

// Pause makes c begin no reconcile until [Controller.Resume]. Reconciles in flight continue, and so do watches, retries, and
// resyncs, which add keys. A Run that ends while c is paused leaves its keys to the next Run. A controller stays paused between
// Runs.
func (c *Controller[K]) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = true
	c.queue.Pause()
	if c.stopDrain != nil {
		c.stopDrain()
	}
}

// Resume ends a [Controller.Pause].
func (c *Controller[K]) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = false
	c.queue.Resume()
}

// SetWorkers changes the number of keys that are reconciled concurrently, for this Run and later ones. Excess workers end after
// their current reconcile. SetWorkers panics if n is not positive; to stop all work, call [Controller.Pause].
func (c *Controller[K]) SetWorkers(n int) {
	if n <= 0 {
		panic(fmt.Sprintf("controller: SetWorkers called with %d, must be positive", n))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers = n
	if c.working != nil {
		c.working.resize(n)
	}
}
