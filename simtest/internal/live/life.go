package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/simtest/internal/part"
	"github.com/setpoint-go/setpoint/simtest/internal/rule"
	"github.com/setpoint-go/setpoint/simtest/internal/sim"
	"github.com/setpoint-go/setpoint/simtest/internal/view"
)

// life is a [sim.Life]: the real Manager with the real election runs the parts of the process.
type life struct {
	p         *sim.Process
	driver    *Driver
	manager   *manager.Manager
	informers map[*view.View]controller.Informer // as the manager runs them
	err       error                              // of Run, when ended is closed
	ended     chan struct{}                      // closed when Run has returned

	background int // parts that run in the background

	mu sync.Mutex
	// mu guards the following.
	told    chan struct{} // closed when a process that has lost its lease may know it; replaced when it leads again
	hang    chan struct{} // of a process that hangs; closed when it goes on
	deposed bool          // another process has the lease
}

// Join implements [sim.Life].
func (l *life) Join(parts []part.Part) error {
	quiet := slog.New(slog.DiscardHandler)
	cfg := manager.Config{Logger: quiet}
	if lease := l.p.Program.Lease; lease != "" {
		cfg.Election = &leaderelect.Config{
			Store: leases{l}, Key: lease, Identity: l.p.Name, Logger: quiet,
			LeaseDuration: leaseTime, Rand: func() float64 { return 0 },
			OnStepDownOverrun: func(*leaderelect.Leadership) { l.p.Die("ends: it goes on working without the lease") },
		}
	}
	var err error
	if l.manager, err = manager.New(cfg); err != nil {
		return err
	}
	for _, part := range parts {
		if err := l.join(part); err != nil {
			return err
		}
	}
	l.driver.launched = append(l.driver.launched, l)
	return nil
}

func (l *life) join(part part.Part) error {
	switch {
	case part.Background != nil:
		l.background++
		return l.manager.Add(part.Background)
	case part.Cache != nil:
		s, err := l.informer(part.Cache)
		if err != nil {
			return err
		}
		return l.manager.Add(s)
	}
	var informers []controller.Informer
	for _, src := range part.Loop.Informers() {
		s, err := l.informer(src)
		if err != nil {
			return err
		}
		informers = append(informers, s)
	}
	part.Loop.Pause()
	l.p.Loops = append(l.p.Loops, part.Loop)
	return l.manager.Add(part.Loop.Managed(informers, l.p.AwaitReconcile))
}

// informer returns an informer as the manager runs it.
func (l *life) informer(in any) (controller.Informer, error) {
	s, ok := in.(controller.Informer)
	if !ok {
		return nil, fmt.Errorf("simtest: %T is not an informer, and cannot be driven", in)
	}
	v, err := l.p.View(in)
	if err != nil {
		return nil, err
	}
	if l.informers[v] == nil {
		l.informers[v] = &informer{s, v}
	}
	return l.informers[v], nil
}

// informer is an informer that a manager runs: its view is in the context.
type informer struct {
	controller.Informer
	v *view.View
}

// Run implements [controller.Informer].
func (s *informer) Run(ctx context.Context) error { return s.Informer.Run(s.v.In(ctx)) }

// Begin implements [sim.Life].
func (l *life) Begin() {
	// Ends after the context and the parts have ended. The end of the run waits for it.
	go func() {
		defer close(l.ended)
		l.err = l.manager.Run(l.p.Context)
		l.p.Run.WakeUp()
	}()
	synctest.Wait()
}

func (l *life) hasEnded() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// Deliver implements [sim.Life].
func (l *life) Deliver() (did bool) {
	if l.p.Zombie() {
		return false // as in step mode, where nothing is delivered to it
	}
	for _, v := range l.p.Views {
		if v.Hear() {
			synctest.Wait()
			did = true
		}
		l.p.Sees(v.Kind())
	}
	return did || l.awaitList()
}

// awaitList waits until a source that polls has listed what is new, or until something else can happen. In step mode, too, every cache
// reads what it may before a key is reconciled. It returns false if there was nothing to wait for.
func (l *life) awaitList() bool {
	if l.p.Dead() || l.p.Stopping() {
		return false
	}
	for _, v := range l.p.Views {
		if since := v.LateSince(); !since.IsZero() {
			return l.p.Run.AwaitList(l.p, v, since)
		}
	}
	return false
}

// TakesTurns implements [sim.Life].
func (l *life) TakesTurns(context.Context) bool { return true }

// Check implements [sim.Life].
func (l *life) Check() {
	if l.hasEnded() && !l.p.Stopping() {
		l.p.Run.Fail(rule.Stop, "%s has ended by itself: %v", l.p.Name, l.err)
	}
}

// Unsettled implements [sim.Life].
func (l *life) Unsettled() bool {
	switch {
	case l.background > 0, l.p.Works(), !l.isDeposed() && l.manager.Stats().Stage != "leading":
		return true
	default:
		return slices.ContainsFunc(l.p.Views, func(v *view.View) bool { return !v.Waits() })
	}
}

func (l *life) isDeposed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deposed
}

// Depose implements [sim.Life].
func (l *life) Depose(hangs bool) {
	l.mu.Lock()
	was := l.deposed
	l.deposed = true
	if hangs && l.hang == nil {
		l.hang = make(chan struct{})
	}
	l.mu.Unlock()
	if !was {
		l.driver.leases.Delete(l.p.Program.Lease)
	}
}

// GoOn implements [sim.Life].
func (l *life) GoOn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hang != nil {
		close(l.hang)
		l.hang = nil
	}
}

// untold returns a channel that is closed when the process may know that it has lost its lease; nil if it has not lost it.
func (l *life) untold() (told <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deposed {
		told = l.told
	}
	return told
}

// tell tells the process that it has lost its lease.
func (l *life) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.told:
	default:
		close(l.told)
	}
}

// Learn implements [sim.Life].
func (l *life) Learn() {
	l.tell()
	synctest.Wait()
}

// StandsBy implements [sim.Life].
func (l *life) StandsBy() bool { return l.manager.Stats().Stage == "standby" }

// Lead implements [sim.Life]. The end of the successor has ended its lease, so the process is elected.
func (l *life) Lead() {
	l.mu.Lock()
	l.deposed, l.told = false, make(chan struct{})
	l.mu.Unlock()
	synctest.Wait()
}

// Restart implements [sim.Life].
func (l *life) Restart() {
	l.p.Note("FAULT it is told to stop")
	l.Quit()
}

// Quit implements [sim.Life]: it waits until the controllers are drained and the lease is released.
func (l *life) Quit() {
	r := l.p.Run
	for _, loop := range l.p.Loops {
		loop.Resume()
	}
	l.p.Stop()
	synctest.Wait()
	for end := time.Now().Add(stopTime); !l.hasEnded() && !r.Failed(); {
		if r.Turn() {
			continue
		}
		if !time.Now().Before(end) {
			r.Fail(rule.Stop, "%s has not stopped %v after it was told to", l.p.Name, stopTime)
			break
		}
		if !l.hasEnded() {
			r.Sleep(end)
		}
	}
	if l.hasEnded() && l.err != nil {
		l.driver.leftBehind = errors.Is(l.err, manager.ErrStopTimeout)
		r.Fail(rule.Stop, "%s stops with an error: %v", l.p.Name, l.err)
	}
	l.p.HasStopped()
}

// Kill implements [sim.Life]: the process has no effect any more.
func (l *life) Kill() {
	for _, loop := range l.p.Loops {
		loop.Pause()
	}
	l.GoOn()
	l.tell()
	if !l.hasEnded() { // then it has released the lease
		l.Depose(false)
	}
}

// End implements [sim.Life]. The end of the run waits for the goroutines that are left.
func (l *life) End() {}
