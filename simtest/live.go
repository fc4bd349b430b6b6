package simtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/manager"
)

// The modes of a [World].
const (
	stepMode = "step"
	runMode  = "run"
)

// modeFlag is a package variable because go test reads flags before any test runs.
var modeFlag = flag.String("simtest.mode", "", `how simtest drives systems: "step" or "run"; the default is that of each world`)

// leaseTime is longer than a run lasts: the kit decides when a lease is lost.
const leaseTime = 24 * time.Hour

// stopTime is how long a process may take to stop in order: the StopTimeout of its manager, and what that waits after it.
const stopTime = time.Minute + 11*time.Second

// live is what a process has in run mode: the real Manager with the real election runs its parts.
//
// The kit decides what happens when. Every call of the Env waits for its turn, every watch hears what the kit lets it hear, and
// controllers are paused: the kit resumes one of them until its workers have begun what was ready.
type live struct {
	manager *manager.Manager
	err     error         // of Run, when ended is closed
	ended   chan struct{} // closed when Run has returned
	told    chan struct{} // closed when a process that has lost its lease may know it
	quits   bool          // the process was told to stop, and drains

	// The mu of the run guards the following.
	hang    chan struct{} // of a process that hangs; closed when it goes on
	deposed bool          // another process has the lease
	noted   map[string]uint64
}

// waiting is a call that waits for its turn.
type waiting struct {
	p      *process
	by     string // controller and key, or empty
	resume chan struct{}
}

// background marks the context of a [Background] part.
type background struct{}

// await has a call wait for its turn, in run mode and in the background: there, several goroutines make calls.
func (p *process) await(ctx context.Context) {
	p.enter()
	r := p.run
	if r.mode != runMode && ctx.Value(background{}) == nil {
		return
	}
	info, ok := controller.FromContext(ctx)
	w := &waiting{p: p, resume: make(chan struct{})}
	if ok {
		w.by = info.Controller + "\x00" + info.Key
	}
	r.mu.Lock()
	r.calls = append(r.calls, w)
	r.mu.Unlock()
	r.wakeUp()
	<-w.resume
	p.enter()
	if ok && p.life != nil && p.life.begins(p, info) {
		r.note(p.name, "%s: reconcile %s%s", info.Controller, info.Key, p.seen())
		p.beginReading()
	}
}

// begins reports whether this is the first call of a reconcile.
func (l *live) begins(p *process, info controller.Info) bool {
	p.run.mu.Lock()
	defer p.run.mu.Unlock()
	name := info.Controller + "\x00" + info.Key
	was := l.noted[name]
	l.noted[name] = info.Reconcile
	return was != info.Reconcile
}

// hold parks a call that a fault hits, until the driver has done what the fault says.
func (p *process) hold(ctx context.Context, f *Fault) {
	waits := &park{p, *f, make(chan struct{})}
	switch {
	case p.run.mode == runMode || ctx.Value(background{}) != nil:
		p.run.mu.Lock()
		p.run.parks = append(p.run.parks, waits)
		p.run.mu.Unlock()
		p.run.wakeUp()
	case p.inFlight.Load():
		p.parked <- waits
	default:
		return
	}
	<-waits.resume
}

// wakeUp ends a sleep of the driver.
func (r *run) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// sleep lets time pass until something waits for the driver, or the time has come.
func (r *run) sleep(until time.Time) {
	timer := time.NewTimer(max(time.Until(until), time.Nanosecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.wake:
	}
	synctest.Wait()
}

// release has one call go on that waits for its turn, or does what a fault says about one. It returns false if there is none.
func (r *run) release() bool {
	synctest.Wait()
	r.mu.Lock()
	if n := len(r.parks); n > 0 {
		waits := r.parks[n-1]
		r.parks = r.parks[:n-1]
		r.mu.Unlock()
		if waits.p.dead.Load() {
			close(waits.resume)
			synctest.Wait()
		} else {
			r.park(waits.p, waits)
		}
		return true
	}
	first := -1
	for p := range r.processes() {
		for i, w := range r.calls {
			if w.p == p && (first < 0 || r.calls[first].p == p && w.by < r.calls[first].by) {
				first = i
			}
		}
		if first >= 0 {
			break
		}
	}
	if first < 0 {
		r.mu.Unlock()
		return false
	}
	w := r.calls[first]
	r.calls = slices.Delete(r.calls, first, first+1)
	r.mu.Unlock()
	close(w.resume)
	synctest.Wait()
	return true
}

// releaseAll has every call of a process that is dead go on to its end.
func (r *run) releaseAll(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = slices.DeleteFunc(r.calls, func(w *waiting) bool {
		if w.p == p {
			close(w.resume)
		}
		return w.p == p
	})
	r.parks = slices.DeleteFunc(r.parks, func(w *park) bool {
		if w.p == p {
			close(w.resume)
		}
		return w.p == p
	})
}

// launch runs the parts of a process.
func (p *process) launch(parts []Part) error {
	quiet := slog.New(slog.DiscardHandler)
	cfg := manager.Config{Logger: quiet}
	if lease := p.system.Lease; lease != "" {
		cfg.Election = &leaderelect.Config{
			Store: leases{p}, Key: lease, Identity: p.name, Logger: quiet,
			LeaseDuration: leaseTime, Rand: func() float64 { return 0 },
			OnStepDownOverrun: func(*leaderelect.Leadership) { p.die("ends: it goes on working without the lease") },
		}
	}
	m, err := manager.New(cfg)
	if err != nil {
		return err
	}
	p.life = &live{
		manager: m, ended: make(chan struct{}), told: make(chan struct{}), noted: make(map[string]uint64),
	}
	for _, part := range parts {
		if err := part.live(p); err != nil {
			return err
		}
	}
	p.run.launched = append(p.run.launched, p)
	return nil
}

// begin starts the process, whose views are as they have to be.
func (l *live) begin(p *process) {
	// Ends when the context does, and the parts have. The end of the run waits for it.
	go func() {
		defer close(l.ended)
		l.err = l.manager.Run(p.ctx)
		p.run.wakeUp()
	}()
	synctest.Wait()
}

func (l *live) hasEnded() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// kill ends the process at once: what it still does has no effect.
func (l *live) kill(p *process) {
	p.dead.Store(true)
	for _, loop := range p.loops {
		loop.pause()
	}
	l.goOn(p)
	select {
	case <-l.told:
	default:
		close(l.told)
	}
	p.run.mu.Lock()
	deposed := l.deposed
	l.deposed = true
	p.run.mu.Unlock()
	if !deposed {
		p.run.leases.Delete(p.system.Lease)
	}
	p.run.releaseAll(p)
}

// depose takes the lease away. The process does not learn that before told is closed.
func (l *live) depose(p *process, hangs bool) {
	p.run.mu.Lock()
	was := l.deposed
	l.deposed = true
	if hangs && l.hang == nil {
		l.hang = make(chan struct{})
	}
	p.run.mu.Unlock()
	if !was {
		p.run.leases.Delete(p.system.Lease)
	}
}

// goOn ends a hang.
func (l *live) goOn(p *process) {
	p.run.mu.Lock()
	defer p.run.mu.Unlock()
	if l.hang != nil {
		close(l.hang)
		l.hang = nil
	}
}

// works reports whether a reconcile is in flight.
func (p *process) works() bool {
	return slices.ContainsFunc(p.loops, func(l looper) bool { return l.works() })
}

// beginOne has the first controller begin that has a key ready. It returns false if none has, or none can.
func (r *run) beginOne() bool {
	for p := range r.processes() {
		if p.inFlight.Load() || p.dead.Load() || p.zombie || p.life.quits {
			continue
		}
		for _, l := range p.loops {
			if !l.waits() {
				continue
			}
			before := l.begun()
			l.resume()
			synctest.Wait()
			l.pause()
			synctest.Wait()
			did := l.begun() - before
			if r.steps += did; r.steps > r.world.MaxReconciles {
				return r.restless(p.system)
			}
			if did > 0 {
				return true
			}
		}
	}
	return false
}

// unsettled reports whether something may happen only because time passes, beside the keys that are delayed.
func (r *run) unsettled() bool {
	for p := range r.processes() {
		switch {
		case p.background > 0:
			return true
		case p.life == nil:
		case p.works(), !p.life.deposed && p.life.manager.Stats().Stage != "leading":
			return true
		case slices.ContainsFunc(p.views, func(v *view) bool { return !v.isWaiting() }):
			return true
		}
	}
	return false
}

// reap ends the processes whose end has come: a zombie whose call has returned, and one whose Run has.
func (r *run) reap() {
	for p := range r.processes() {
		switch l := p.life; {
		case p.dead.Load():
		case p.zombie && !p.works() && !p.inFlight.Load():
			p.die("ends")
		case l != nil && l.hasEnded() && !l.quits:
			r.fail(ruleStop, "%s has ended by itself: %v", p.name, l.err)
		}
	}
}

// quit tells a process to stop, and waits until it has: its controllers drain, and the lease is released.
func (r *run) quit(p *process) {
	l := p.life
	l.quits = true
	for _, loop := range p.loops {
		loop.resume()
	}
	p.cancel(errStopped)
	synctest.Wait()
	for end := time.Now().Add(stopTime); !l.hasEnded(); {
		if r.turn() {
			continue
		}
		if !time.Now().Before(end) {
			r.fail(ruleStop, "%s has not stopped %v after it was told to", p.name, stopTime)
			break
		}
		if !l.hasEnded() {
			r.sleep(end)
		}
	}
	if l.hasEnded() && l.err != nil {
		r.leftBehind = errors.Is(l.err, manager.ErrStopTimeout)
		r.fail(ruleStop, "%s stops with an error: %v", p.name, l.err)
	}
	p.dead.Store(true)
}

// checkViews looks whether the kit drives the source of each cache.
func (r *run) checkViews() {
	for p := range r.processes() {
		for _, v := range p.views {
			if v.of() == "" {
				r.fail(ruleWorld, "a cache of %s has not listed: is its source a store of the Env?", p.name)
			}
		}
	}
}

// quitAll stops every process in order.
func (r *run) quitAll() {
	r.over = true
	for _, s := range r.systems {
		if s.p != nil && s.p.life != nil && !r.failed() {
			r.quit(s.p)
		}
	}
}

// leases is the store of leases, as a process sees it.
type leases struct{ p *process }

// enter waits while the process hangs.
func (l leases) enter() error {
	r := l.p.run
	r.mu.Lock()
	hang := l.p.life.hang
	r.mu.Unlock()
	if hang != nil {
		<-hang
	}
	if l.p.dead.Load() {
		return errEnded
	}
	return nil
}

// Get implements [leaderelect.LeaseStore].
func (l leases) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	if err := l.enter(); err != nil {
		return leaderelect.Entry{}, err
	}
	return l.p.run.leases.Get(ctx, key)
}

// Create implements [leaderelect.LeaseStore].
func (l leases) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if err := l.enter(); err != nil {
		return leaderelect.Entry{}, err
	}
	return l.p.run.leases.Create(ctx, e)
}

// Update implements [leaderelect.LeaseStore].
func (l leases) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if err := l.enter(); err != nil {
		return leaderelect.Entry{}, err
	}
	return l.p.run.leases.Update(ctx, e)
}

// Watch implements [leaderelect.Watcher]. A process that has lost its lease hears of it when told is closed.
func (l leases) Watch(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
	return func(yield func(leaderelect.Entry, error) bool) {
		for e, err := range l.p.run.leases.Watch(ctx, key) {
			l.p.run.mu.Lock()
			deposed := l.p.life.deposed
			l.p.run.mu.Unlock()
			if deposed {
				select {
				case <-l.p.life.told:
				case <-ctx.Done():
					return
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// source is an informer that a manager runs: the kit finds its view in the context.
type source struct {
	controller.Source
	v *view
}

// Run implements [controller.Source].
func (s *source) Run(ctx context.Context) error {
	return s.Source.Run(context.WithValue(ctx, viewKey{}, s.v))
}

// viewKey is the key of the view in the context of an informer.
type viewKey struct{}

// viewOf returns the view that ctx belongs to, or nil.
func viewOf(ctx context.Context) *view {
	v, _ := ctx.Value(viewKey{}).(*view)
	return v
}

// sourceOf returns the source of a view.
func (p *process) sourceOf(src any) (controller.Source, error) {
	s, ok := src.(controller.Source)
	if !ok {
		return nil, fmt.Errorf("simtest: %T is no informer, and cannot be driven", src)
	}
	v, err := p.viewOf(src)
	if err != nil {
		return nil, err
	}
	if v.source == nil {
		v.source = &source{s, v}
	}
	return v.source, nil
}

// driven is a controller that a manager runs.
type driven[K comparable] struct {
	*controller.Controller[K]
	sources []controller.Source
}

// Sources returns those of the controller, as the kit drives them.
func (d driven[K]) Sources() []controller.Source { return d.sources }

// modeOf returns the mode of a world.
func modeOf(w World) (string, error) {
	mode := w.Mode
	if *modeFlag != "" {
		mode = *modeFlag
	}
	switch mode = strings.ToLower(mode); mode {
	case "", stepMode:
		return stepMode, nil
	case runMode:
		return runMode, nil
	}
	return "", fmt.Errorf("there is no mode %q: it is %q or %q", mode, stepMode, runMode)
}
