package simtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store/backend"
)

// stepDriver steps informers and controllers, one at a time. Every cache reads what it may before a key is reconciled. Only a part in the
// background has a goroutine of its own, and each of its calls waits for its turn.
type stepDriver struct{}

func (d *stepDriver) start(p *process) (processDriver, error) {
	s := &stepProcess{p: p, base: p.ctx}
	if p.program.Lease != "" && p.share == nil {
		p.ctx, s.endTerm = leaderelect.Appoint(p.ctx, p.program.Lease, p.term)
	}
	return s, nil
}

func (d *stepDriver) end() {}

// stepProcess is the [processDriver] of step mode.
type stepProcess struct {
	p          *process
	base       context.Context  // without the leadership
	endTerm    func(why error)  // ends the leadership; nil without a lease
	ends       []func()         // in the order of the parts
	disconnect []func()         // of each loop
	leading    []leadingPart    // parts that run in the background with the leadership
	background int              // parts that run in the background
	waiting    []manager.Part   // the ones that wait until the caches have synced
	begins     informer.Version // of the database when the process began to lead
	limit      limitTimer       // of the reconcile in flight
}

func (s *stepProcess) joinLoop(l loop) error {
	for _, src := range l.Informers() {
		if err := s.joinCache(src); err != nil {
			return err
		}
	}
	disconnect, err := l.Connect(s.p.ctx)
	if err != nil {
		return err
	}
	i := len(s.disconnect)
	s.disconnect = append(s.disconnect, disconnect)
	s.ends = append(s.ends, func() { s.disconnect[i]() })
	s.p.loops = append(s.p.loops, l)
	return nil
}

// joinCache drives an informer, once.
func (s *stepProcess) joinCache(src controller.Informer) error {
	in, err := s.p.inputOf(src)
	if err != nil || in.steps != nil {
		return err
	}
	stepper, ok := src.(interface {
		Steps(ctx context.Context) (informer.Steps, error)
	})
	if !ok {
		return fmt.Errorf("simtest: %T is not an informer, and cannot be driven", src)
	}
	in.ctx = in.context(s.base)
	if in.steps, err = stepper.Steps(in.ctx); err != nil {
		return err
	}
	s.ends = append(s.ends, in.steps.Stop)
	return nil
}

func (s *stepProcess) joinBackground(part manager.Part) error {
	s.background++
	s.p.run.concurrent = true
	if stageOf(part) == manager.Outer {
		s.runInBackground(part)
	} else {
		s.waiting = append(s.waiting, part)
	}
	return nil
}

func (s *stepProcess) begin() { s.takeOver() }

// takeOver does what a controller does before the first reconcile of a term: it raises the fence, and notes the version that the caches must
// reach.
func (s *stepProcess) takeOver() {
	if s.endTerm == nil || len(s.p.inputs) == 0 {
		return
	}
	db := s.p.run.db
	db.acceptFences([]backend.Fence{{Lease: s.p.program.Lease, Term: s.p.term}})
	s.begins = db.version()
}

// caughtUp reports whether the caches have everything from before the term.
func (s *stepProcess) caughtUp() bool {
	for _, in := range s.p.inputs {
		if in.version() < s.begins {
			return false
		}
	}
	return true
}

// backgroundKey marks the context of a part in the background.
type backgroundKey struct{}

// leadingPart is a part that runs in the background, with the leadership, until ended is closed.
type leadingPart struct {
	part  manager.Part
	ended chan struct{}
}

// stageOf returns the stage of a part, as the manager knows it.
func stageOf(part manager.Part) manager.Stage {
	if staged, ok := part.(interface{ Stage() manager.Stage }); ok {
		return staged.Stage()
	}
	return manager.Leading
}

func (s *stepProcess) runInBackground(part manager.Part) {
	ctx := s.base
	if stageOf(part) == manager.Leading {
		ctx = s.p.ctx
	}
	ended := make(chan struct{})
	if stageOf(part) == manager.Leading {
		s.leading = append(s.leading, leadingPart{part, ended})
	}
	// Ends with its context, or when it makes a call after the end of the process. The end of the process waits for it.
	go func() {
		defer close(ended)
		err := part.Run(context.WithValue(ctx, backgroundKey{}, true))
		if !s.p.dead.Load() && ctx.Err() == nil {
			s.p.run.fail(ruleStop, "%s: %s has ended by itself: %v", s.p.name, part.Name(), err)
		}
	}()
	s.ends = append(s.ends, func() { <-ended })
}

func (s *stepProcess) deliver() (did bool) {
	p := s.p
	if p.zombie {
		return false
	}
	for _, in := range p.inputs {
		for tries := 0; in.behind() && !p.dead.Load(); tries++ {
			if tries > 100+int(p.run.db.version()) {
				remedy := "is its source a store of the Env?"
				if in.polls() {
					remedy = "its source polls, so set poll.Config.Version to the version of the store's list"
				}
				p.run.fail(ruleWorld, "the cache of %s by %s cannot catch up: %s", in.kind(), p.name, remedy)
				return false
			}
			if !s.read(in) {
				p.run.failUnlisted(in)
				return false
			}
			p.addKind(in.kind())
			in.apply()
			if did = true; p.share != nil {
				in.answered()
				synctest.Wait() // a controller that waits for this list or version may ask for more
			}
		}
		did = in.apply() || did
	}
	if waiting := s.waiting; !did && len(waiting) > 0 && !p.dead.Load() && !p.zombie {
		s.waiting, did = nil, true
		for _, part := range waiting {
			s.runInBackground(part)
		}
	}
	return did
}

// read makes an input read one list or event. It returns false if the source has polled for too long without a list. A cache needs no
// leadership.
func (s *stepProcess) read(in *input) bool {
	ctx := in.ctx
	if in.polls() { // or is going to watch, which takes no time
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, longest)
		defer cancel()
	}
	in.steps.Read(ctx)
	return !errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// apply applies the changes that were read, and calls the handlers. Nothing else queues calls of handlers.
func (in *input) apply() (did bool) {
	for in.steps.Apply() {
		did = true
	}
	if did {
		in.deliver()
	}
	return did
}

// deliver calls every handler until nothing is pending.
func (in *input) deliver() {
	for _, h := range in.steps.Handlers() {
		for in.steps.Deliver(h) {
		}
	}
}

// work reconciles the first key that is ready.
func (s *stepProcess) work(l loop) bool {
	if !s.caughtUp() {
		return false
	}
	keys := l.readyKeys()
	if len(keys) > 1 && s.p.choose() {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		if s.p.run.countReconciles(s.p, 1) || s.reconcile(l, key) {
			return true
		}
	}
	return false
}

// reconcile makes a controller reconcile a key, and waits for it. It returns false if the key was not ready.
func (s *stepProcess) reconcile(l loop, key string) bool {
	p := s.p
	p.beginReads(l.Name(), key)
	p.run.turns++
	p.turn = p.run.turns
	var outcome string
	p.held = make(chan *held)
	p.inFlight.Store(true)
	endless := s.limit.start()
	done := p.run.workers.begin(func() { outcome = l.step(p.ctx, key) })
	for ended := false; !ended; {
		select {
		case h := <-p.held:
			p.run.park(h)
		case <-done:
			ended = true
		case <-endless:
			p.run.fail(ruleStop, "%s: the reconcile of %s by %s has not returned after %v", p.name, key, l.Name(), longest)
			p.kill()
		}
	}
	s.limit.stop()
	p.inFlight.Store(false)
	synctest.Wait()
	if p.zombie {
		p.die("ends")
		p.remove()
	}
	switch {
	case p.dead.Load():
	case outcome == "":
		p.run.timeline.removeLast() // it had to wait
		return false
	case outcome != "Succeeded":
		p.note("%s: %s %s", l.Name(), key, outcome)
		if strings.HasPrefix(outcome, controller.Panicked.String()) {
			p.checkPanics()
		}
	}
	return true
}

func (s *stepProcess) takesTurns(ctx context.Context) bool { return ctx.Value(backgroundKey{}) != nil }

func (s *stepProcess) unsettled() bool { return s.background > 0 }

func (s *stepProcess) noticeLoss() { s.endTerm(leaderelect.ErrLeaseTaken) }

func (s *stepProcess) onStandby() bool {
	for _, b := range s.leading {
		select {
		case <-b.ended:
		default:
			return false
		}
	}
	return true
}

// lead makes the process lead again. As with a manager, parts of stage Leading run again, and caches keep their content.
func (s *stepProcess) lead() {
	s.p.ctx, s.endTerm = leaderelect.Appoint(s.base, s.p.program.Lease, s.p.term)
	s.takeOver()
	for i, loop := range s.p.loops {
		s.disconnect[i]()
		disconnect, err := loop.Connect(s.p.ctx)
		if err != nil {
			s.p.run.fail(ruleWorld, "%s cannot lead again: %v", s.p.name, err)
			return
		}
		s.disconnect[i] = disconnect
	}
	for _, in := range s.p.inputs {
		in.deliver()
	}
	again := s.leading
	s.leading = nil
	for _, b := range again {
		s.runInBackground(b.part)
	}
}

func (s *stepProcess) restart() { s.p.die("CRASH") }

func (s *stepProcess) end() {
	s.p.share.close()
	if s.endTerm != nil {
		s.endTerm(errEnded)
	}
	for _, end := range slices.Backward(s.ends) {
		end()
	}
}

// The following do nothing: either step mode needs no help, or the terms alone suffice.

func (s *stepProcess) check() {}

func (s *stepProcess) depose(bool) {}

func (s *stepProcess) unhang() {}

func (s *stepProcess) stop() {}

func (s *stepProcess) kill() {}
