package step

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/simtest/internal/part"
	"github.com/setpoint-go/setpoint/simtest/internal/rule"
	"github.com/setpoint-go/setpoint/simtest/internal/sim"
	"github.com/setpoint-go/setpoint/simtest/internal/view"
)

// Driver is a [sim.Driver].
type Driver struct {
	run     *sim.Run
	workers workers
}

// New returns the driver of a run.
func New(r *sim.Run) *Driver { return &Driver{run: r} }

// Live implements [sim.Driver].
func (d *Driver) Live(p *sim.Process) sim.Life {
	l := &life{p: p, base: p.Context}
	if p.Program.Lease != "" {
		p.Context, l.depose = leaderelect.Appoint(p.Context, p.Program.Lease, p.Term())
	}
	return l
}

// Work implements [sim.Driver]: it reconciles the first key that is ready.
func (d *Driver) Work() bool {
	for p := range d.run.Processes() {
		if p.Busy() || p.Dead() || p.Standby() {
			continue
		}
		for _, l := range p.Loops {
			if p.IsCold(l) {
				continue
			}
			for _, key := range l.Ready() {
				if over, again := d.run.Count(p, 1); over {
					return again
				}
				if p.Reconcile(l, key, d.workers.begin) {
					return true
				}
			}
		}
	}
	return false
}

// End implements [sim.Driver].
func (d *Driver) End() { d.workers.dismiss() }

// life is a [sim.Life].
type life struct {
	p          *sim.Process
	base       context.Context // without the leadership
	depose     func(why error) // ends the leadership; nil without a lease
	ends       []func()        // in the order of the parts
	disconnect []func()        // of each loop
	leading    []inBackground  // parts that run with the leadership
	background int             // parts that run in the background
	waiting    []manager.Part  // the ones that wait until the caches have synced
}

// Join implements [sim.Life].
func (l *life) Join(parts []part.Part) error {
	for _, part := range parts {
		if err := l.join(part); err != nil {
			return err
		}
	}
	return nil
}

func (l *life) join(part part.Part) error {
	switch {
	case part.Background != nil:
		l.background++
		l.p.Run.Concurrent = true
		if stageOf(part.Background) == manager.Outer {
			l.runInBackground(part.Background)
		} else {
			l.waiting = append(l.waiting, part.Background)
		}
		return nil
	case part.Cache != nil:
		return l.watch(part.Cache)
	}
	for _, src := range part.Loop.Informers() {
		if err := l.watch(src); err != nil {
			return err
		}
	}
	disconnect, err := part.Loop.Connect(l.p.Context)
	if err != nil {
		return err
	}
	i := len(l.disconnect)
	l.disconnect = append(l.disconnect, disconnect)
	l.ends = append(l.ends, func() { l.disconnect[i]() })
	l.p.Loops = append(l.p.Loops, part.Loop)
	return nil
}

// watch drives an informer, once.
func (l *life) watch(in any) error {
	v, err := l.p.View(in)
	if err != nil || v.Steps != nil {
		return err
	}
	stepper, ok := in.(interface {
		Steps(ctx context.Context) (informer.Steps, error)
	})
	if !ok {
		return fmt.Errorf("simtest: %T is not an informer, and cannot be driven", in)
	}
	v.Context = v.In(l.base)
	if v.Steps, err = stepper.Steps(v.Context); err != nil {
		return err
	}
	l.ends = append(l.ends, v.Steps.Stop)
	return nil
}

// background marks the context of a part in the background.
type background struct{}

// inBackground is a part that runs in the background until ended is closed.
type inBackground struct {
	part  manager.Part
	ended chan struct{}
}

// stageOf returns the stage of a part, as the manager knows it.
func stageOf(part manager.Part) manager.Stage {
	if s, ok := part.(interface{ Stage() manager.Stage }); ok {
		return s.Stage()
	}
	return manager.Leading
}

func (l *life) runInBackground(part manager.Part) {
	ctx := l.base
	if stageOf(part) == manager.Leading {
		ctx = l.p.Context
	}
	ended := make(chan struct{})
	if stageOf(part) == manager.Leading {
		l.leading = append(l.leading, inBackground{part, ended})
	}
	// Ends with its context, or when it makes a call after the end of the process. The end of the process waits for it.
	go func() {
		defer close(ended)
		err := part.Run(context.WithValue(ctx, background{}, true))
		if !l.p.Dead() && ctx.Err() == nil {
			l.p.Run.Fail(rule.Stop, "%s: %s has ended by itself: %v", l.p.Name, part.Name(), err)
		}
	}()
	l.ends = append(l.ends, func() { <-ended })
}

// Deliver implements [sim.Life].
func (l *life) Deliver() (did bool) {
	p := l.p
	if p.Zombie() {
		return false
	}
	for _, v := range p.Views {
		for tries := 0; v.Behind() && !p.Dead(); tries++ {
			if tries > 100+int(p.Run.Version()) {
				remedy := "is its source a store of the Env?"
				if v.Polls() {
					remedy = "its source polls, so set poll.Config.Version to the version of the store's list"
				}
				p.Run.Fail(rule.World, "the cache of %s by %s cannot catch up: %s", v.Kind(), p.Name, remedy)
				return false
			}
			if !l.read(v) {
				p.Run.FailUnlisted(p, v)
				return false
			}
			p.Sees(v.Kind())
			apply(v)
			did = true
		}
		did = apply(v) || did
	}
	if waiting := l.waiting; !did && len(waiting) > 0 && !p.Dead() && !p.Zombie() {
		l.waiting, did = nil, true
		for _, part := range waiting {
			l.runInBackground(part)
		}
	}
	return did
}

// read makes a view read one list or event. It returns false if the source has polled for too long without a list. A cache needs no
// leadership.
func (l *life) read(v *view.View) bool {
	ctx := v.Context
	if v.Polls() { // or is going to watch, which takes no time
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, sim.Longest)
		defer cancel()
	}
	v.Steps.Read(ctx)
	return !errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// apply applies the changes that were read, and calls the handlers. Nothing else queues calls of handlers.
func apply(v *view.View) (did bool) {
	for v.Steps.Apply() {
		did = true
	}
	if did {
		deliver(v)
	}
	return did
}

// deliver calls every handler until nothing is pending.
func deliver(v *view.View) {
	for _, h := range v.Steps.Handlers() {
		for v.Steps.Deliver(h) {
		}
	}
}

// TakesTurns implements [sim.Life].
func (l *life) TakesTurns(ctx context.Context) bool { return ctx.Value(background{}) != nil }

// Unsettled implements [sim.Life].
func (l *life) Unsettled() bool { return l.background > 0 }

// Learn implements [sim.Life].
func (l *life) Learn() { l.depose(leaderelect.ErrLeaseTaken) }

// StandsBy implements [sim.Life].
func (l *life) StandsBy() bool {
	for _, b := range l.leading {
		select {
		case <-b.ended:
		default:
			return false
		}
	}
	return true
}

// Lead implements [sim.Life]. As with a manager, parts of stage Leading run again, and caches keep their content.
func (l *life) Lead() {
	l.p.Context, l.depose = leaderelect.Appoint(l.base, l.p.Program.Lease, l.p.Term())
	for i, loop := range l.p.Loops {
		l.disconnect[i]()
		disconnect, err := loop.Connect(l.p.Context)
		if err != nil {
			l.p.Run.Fail(rule.World, "%s cannot lead again: %v", l.p.Name, err)
			return
		}
		l.disconnect[i] = disconnect
	}
	for _, v := range l.p.Views {
		deliver(v)
	}
	again := l.leading
	l.leading = nil
	for _, b := range again {
		l.runInBackground(b.part)
	}
}

// Restart implements [sim.Life].
func (l *life) Restart() { l.p.Die("CRASH") }

// End implements [sim.Life].
func (l *life) End() {
	if l.depose != nil {
		l.depose(sim.ErrEnded)
	}
	for _, end := range slices.Backward(l.ends) {
		end()
	}
}

// The following do nothing: either step mode needs no help, or the terms alone suffice.

// Begin implements [sim.Life].
func (l *life) Begin() {}

// Check implements [sim.Life].
func (l *life) Check() {}

// Depose implements [sim.Life].
func (l *life) Depose(bool) {}

// GoOn implements [sim.Life].
func (l *life) GoOn() {}

// Quit implements [sim.Life].
func (l *life) Quit() {}

// Kill implements [sim.Life].
func (l *life) Kill() {}
