package simtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
)

// process is one incarnation of a system.
type process struct {
	run    *run
	system *system
	name   string // of the system, and its number
	ctx    context.Context
	cancel context.CancelCauseFunc
	depose func(why error) // ends its leadership; nil without a Lease
	until  time.Time       // of a process that has lost its lease: when it notices at the latest
	ends   []func()        // in the order of the parts
	loops  []looper
	views  []*view

	reading    reading         // of the reconcile in progress
	turn       int             // the reconcile in progress, or the last one
	base       context.Context // without the leadership
	life       *live           // of run mode
	background int             // parts that run in the background

	dead     atomic.Bool
	inFlight atomic.Bool // a reconcile is
	zombie   bool        // another process has taken over: it ends with the reconcile in flight
	parked   chan *park  // a call of the reconcile in flight waits
}

// start starts a process of a system.
func (r *run) start(s *system) {
	s.started++
	p := &process{run: r, system: s, name: fmt.Sprintf("%s.%d", s.Name, s.started)}
	p.base, p.cancel = context.WithCancelCause(context.Background())
	p.ctx = p.base
	if s.Lease != "" && r.mode == stepMode {
		p.ctx, p.depose = leaderelect.Appoint(p.ctx, s.Lease, uint64(s.started))
	}
	s.p = p
	parts, err := s.New(&Env{p})
	if err != nil {
		r.fail(ruleWorld, "%s cannot be made: %v", p.name, err)
		return
	}
	if err := p.join(parts); err != nil {
		r.fail(ruleWorld, "%s cannot be made: %v", p.name, err)
		return
	}
	synctest.Wait()
	if s.travel > 0 {
		at := r.db.version() - min(informer.Version(s.travel), r.db.version())
		s.travel = 0
		r.note(p.name, "FAULT it starts, and its caches begin at version %d", at)
		p.freeze("", at)
	} else if s.started > 1 {
		r.note(p.name, "starts")
	}
	if p.life != nil {
		p.life.begin(p)
	}
}

// join makes the parts those of the process.
func (p *process) join(parts []Part) error {
	if p.run.mode == runMode {
		return p.launch(parts)
	}
	for _, part := range parts {
		if err := part.join(p); err != nil {
			return err
		}
	}
	return nil
}

// stop ends a process that is dead, or that nothing calls.
func (p *process) stop() {
	p.dead.Store(true)
	if p.life != nil {
		p.life.kill(p)
	}
	p.cancel(errEnded)
	p.run.releaseAll(p)
	if p.depose != nil {
		p.depose(errEnded)
	}
	for _, end := range slices.Backward(p.ends) {
		end()
	}
	synctest.Wait()
}

// Why the context of a process has ended.
var (
	errEnded   = errors.New("simtest: the process has ended")
	errStopped = errors.New("simtest: the process was told to stop")
)

// replace ends a process of the system that is dead, or starts one if there is none. It returns false if there was nothing to do.
func (s *system) replace() bool {
	for i, p := range s.former {
		if p.dead.Load() && !p.inFlight.Load() {
			p.stop()
			s.former = slices.Delete(s.former, i, i+1)
			return true
		}
	}
	if s.p != nil && s.p.dead.Load() && !s.p.inFlight.Load() {
		s.p.stop()
		s.p = nil
		return true
	}
	if s.p == nil && !s.down && !s.run.over {
		s.run.start(s)
		return true
	}
	return false
}
