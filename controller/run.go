package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/controller/internal/crew"
	"github.com/setpoint-go/setpoint/controller/internal/term"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Run connects the watches, waits until the caches have synced, and then reconciles what is added, until ctx ends. Then it
// drains, and returns when all its goroutines have ended and no Reconcile runs any more.
//
// The context of a reconcile has the values of ctx, but does not end with it, so work in flight is not disturbed by a stop that has
// time. If ctx belongs to a leadership (see leaderelect.FromContext), it ends at once when that is lost, and then nothing is drained.
//
// When ctx ends, Run
//
//  1. removes its handlers from the informers,
//  2. leaves to the next Run what waits for another try or for the time that a Result names, what is held, and what is added
//     from now on,
//  3. reconciles what is ready, is in flight, or was added while it was in flight, unless it is paused,
//  4. ends the contexts of its reconciles after Config.DrainTimeout, with a cause that wraps [ErrDrainTimeout]; if there is
//     a leadership, at once when it is lost or its own time to drain is over, with the cause of the leadership,
//  5. returns when every Reconcile has returned: one that ignores its context holds up everything.
//
// Run returns nil when ctx ends and all is done, or the leadership is lost; an error that names the keys that were left,
// and wraps [ErrDrainTimeout], or that of package leaderelect if the election allows less time; an error that names the
// caches that did not sync in Config.SyncTimeout; or [ErrRunning]. What was not done, and what waits for another
// try, is done first thing by the next Run.
func (c *Controller[K]) Run(ctx context.Context) error {
	if !c.enter() {
		return fmt.Errorf("controller: run %q: %w", c.name, ErrRunning)
	}
	defer c.leave()
	if err := c.run(ctx); err != nil {
		return fmt.Errorf("controller: run %q: %w", c.name, err)
	}
	return nil
}

// enter lets one Run through at a time.
func (c *Controller[K]) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running || c.connected || c.steps > 0 {
		return false
	}
	c.running = true
	return true
}

func (c *Controller[K]) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
	c.working = nil
}

// run is Run without its guard.
func (c *Controller[K]) run(ctx context.Context) error {
	syncers, stopInputs, err := c.startInputs(ctx)
	if err == nil {
		err = waitForSync(ctx, c.cfg.SyncTimeout, syncers)
	}
	if err != nil || ctx.Err() != nil {
		stopInputs()
		return err
	}

	defer c.beginWork()()
	work, stopWork := term.Context(ctx)
	defer stopWork(nil)
	workers := c.startWorkers(work, stopWork)
	select {
	case <-ctx.Done():
	case <-work.Done(): // a leadership was lost that ctx does not end with
	}

	limit, cancel := context.WithTimeoutCause(context.Background(), c.cfg.DrainTimeout, c.notDrained)
	defer cancel()
	defer term.StopWith(limit, stopWork)()
	stopInputs()
	c.holds.Divert()
	c.postpone()
	c.drain(work)
	workers.Wait()

	left, cause := c.ready(), context.Cause(work)
	c.handOver()
	if len(left) > 0 && (cause == c.notDrained || errors.Is(cause, leaderelect.ErrDrainTimeout)) {
		return fmt.Errorf("%w: %s", cause, describe(left))
	}
	return nil
}

// startInputs starts the inputs, and returns what to wait for. stop ends them; the caller calls it also after an error.
func (c *Controller[K]) startInputs(ctx context.Context) (syncers []informer.Syncer, stop func(), err error) {
	unfollow := func() {}
	if !c.cfg.StaleReads {
		unfollow = c.mirrors.Follow()
	}
	var beside func(context.Context, []informer.Syncer)
	if c.resyncs != nil {
		beside = c.resync
	}
	syncers, stopFeeds, err := c.inputs.Start(ctx, beside)
	return syncers, func() {
		stopFeeds()
		unfollow()
	}, err
}

// waitForSync waits until every one of syncers has synced, for at most limit. The end of ctx is no error.
func waitForSync(ctx context.Context, limit time.Duration, syncers []informer.Syncer) error {
	limited, cancel := context.WithTimeoutCause(ctx, limit, after(errSyncTimeout, limit))
	defer cancel()
	err := informer.WaitForSync(limited, syncers...)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	if silent := unheard(syncers); len(silent) > 0 {
		return fmt.Errorf("%w; nothing was heard from the source of %s: without a manager, call Run of the informer",
			err, strings.Join(silent, ", "))
	}
	return err
}

// unheard returns the names of those of syncers that have never heard from their source.
func unheard(syncers []informer.Syncer) (names []string) {
	for _, s := range syncers {
		if s, ok := s.(interface {
			Name() string
			LastHeard() time.Time
		}); ok && s.LastHeard().IsZero() {
			names = append(names, s.Name())
		}
	}
	return names
}

// resync adds each key again in its turn, until ctx ends: those that the inputs know, and those that are parked.
func (c *Controller[K]) resync(ctx context.Context, syncers []informer.Syncer) {
	if informer.WaitForSync(ctx, syncers...) != nil {
		return
	}
	c.resyncs.Run(ctx, func(add func(K)) {
		c.inputs.Present(add)
		for _, key := range c.queue.Parked() {
			add(key)
		}
	}, c.probe)
}

// probe adds key once more. If it is parked, it gets one attempt, not a whole budget: unless news comes before the attempt has
// failed, it is parked again then.
func (c *Controller[K]) probe(key K) {
	c.streaks.SetProbe(key, true) // before it can be taken
	if !c.queue.DropParked(key) {
		c.streaks.SetProbe(key, false)
	}
	opts := AddOptions{Priority: c.cfg.Background}
	if c.cfg.Reasons {
		opts.Reason = "resync"
	}
	c.add(key, opts, false)
}

// beginWork makes ready what steps before this have left, and has c hear of its expectations until end is called.
func (c *Controller[K]) beginWork() (end func()) {
	end = c.expected.Notify(c.released)
	c.releaseMet() // what was met when nobody heard of it
	c.readmit()
	return end
}

// workers are those of one Run.
type workers[K comparable] struct {
	*crew.Crew[hand[K]]
	stop  context.CancelCauseFunc // ends the work, and the workers
	leads *leaderelect.Leadership // without it no reconcile may begin; nil if the work belongs to none
	began time.Time
}

// hand is what one worker has.
type hand[K comparable] struct {
	of      *workers[K]
	current atomic.Pointer[try[K]] // what the worker does; nil for nothing
	tries   []try[K]               // not used yet; used by the worker only
}

// triesAtOnce is how many tries a worker allocates together. A reconcile whose context somebody keeps keeps them all.
const triesAtOnce = 16

// newTry returns a try. Each is used once, since its context may outlive the reconcile.
func (h *hand[K]) newTry() *try[K] {
	if h == nil {
		return new(try[K])
	}
	if len(h.tries) == 0 {
		h.tries = make([]try[K], triesAtOnce)
	}
	t := &h.tries[0]
	h.tries = h.tries[1:]
	return t
}

// startWorkers starts the workers. They and their work end with ctx, which stop ends.
func (c *Controller[K]) startWorkers(ctx context.Context, stop context.CancelCauseFunc) *workers[K] {
	leads, _ := leaderelect.FromContext(ctx)
	w := &workers[K]{stop: stop, leads: leads, began: time.Now()}
	w.Crew = crew.New(ctx, func(s *crew.Seat[hand[K]]) {
		s.State.of = w
		c.work(ctx, s, &s.State)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.working = w
	if !c.paused {
		w.Resize(c.workers)
	}
	return w
}

// drain waits until nothing is ready or in flight, ctx ends, or the controller is paused, and makes the workers end when
// they have done what they do.
func (c *Controller[K]) drain(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.mu.Lock()
	if c.stopDrain = cancel; c.paused {
		cancel()
	}
	c.mu.Unlock()
	// An error says that it is of no use to wait.
	_ = c.queue.WaitIdle(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.working.Close()
	c.stopDrain = nil
}

// seat is that of a worker: see [crew.Seat].
type seat interface {
	Stay() bool
	Take() context.Context
}

// work is a worker: it reconciles what the queue hands out until it is not wanted any more. The context of the work is ctx.
func (c *Controller[K]) work(ctx context.Context, s seat, h *hand[K]) {
	for s.Stay() {
		item, err := c.queue.Take(s.Take())
		if err != nil {
			continue
		}
		if ctx.Err() != nil { // it ended just as the key came
			c.putBack(item.Key)
			item.Done()
			continue
		}
		c.process(ctx, item, h)
	}
}

// readmit makes ready what steps before this Run have left to it.
func (c *Controller[K]) readmit() {
	if !c.scheduled.Load() {
		return
	}
	for _, k := range c.queue.Snapshot() {
		if k.State == workqueue.Delayed && time.Until(k.Next) > never/2 {
			c.putBack(k.Key)
		}
	}
}

// postpone leaves what is scheduled to the next Run.
func (c *Controller[K]) postpone() {
	for _, k := range c.queue.Snapshot() {
		if k.State == workqueue.Delayed {
			c.holds.Leave(k.Key, 0, "")
			c.queue.Cancel(k.Key)
		}
	}
}

// handOver makes ready, for the next Run, what is left to it. From now on keys are added to the queue again.
func (c *Controller[K]) handOver() {
	c.releaseAll()
	c.postpone()
	keys := c.holds.Undivert()
	for _, k := range keys {
		c.add(k.Key, AddOptions{k.Priority, k.Reason}, false)
	}
	c.holds.Release(len(keys))
}

// ready returns the keys that are ready.
func (c *Controller[K]) ready() (keys []K) {
	for _, k := range c.queue.Snapshot() {
		if k.State == workqueue.Ready {
			keys = append(keys, k.Key)
		}
	}
	return keys
}

// describe names the first few of keys.
func describe[K comparable](keys []K) string {
	const most = 10
	var b strings.Builder
	fmt.Fprintf(&b, "%d keys left: ", len(keys))
	for i, key := range keys[:min(most, len(keys))] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, key)
	}
	if len(keys) > most {
		b.WriteString(", ...")
	}
	return b.String()
}

// Pause makes c begin no reconciles until [Controller.Resume]. Those in flight go on. What is added meanwhile waits, and
// so does what is to be drained when a Run ends: it is left to the next. A controller stays paused from one Run to the next.
// Watches go on, and so does everything that waits for a time.
func (c *Controller[K]) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = true
	if c.working != nil {
		c.working.Resize(0)
	}
	if c.stopDrain != nil {
		c.stopDrain()
	}
}

// Resume ends a [Controller.Pause].
func (c *Controller[K]) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = false
	if c.working != nil {
		c.working.Resize(c.workers)
	}
}

// SetWorkers changes the number of keys that are reconciled at once, for this Run and those that follow. When there are
// too many workers, some end when they have done what they do. SetWorkers panics if n is not positive: see
// [Controller.Pause].
func (c *Controller[K]) SetWorkers(n int) {
	if n <= 0 {
		panic("controller: SetWorkers called with a number that is not positive")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers = n
	if c.working != nil && !c.paused {
		c.working.Resize(n)
	}
}
