package sim

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/simtest/internal/fault"
)

// oblivious is the maximum time that a leader continues after it has lost its lease: RenewDeadline of package leaderelect, by default.
const oblivious = 10*time.Second + 3*time.Millisecond

// loseLease takes the lease away from a process, which continues. Another process takes over with the next term.
func (r *Run) loseLease(p *Process) {
	p.Note("FAULT it loses its lease, and does not know; its call is on its way")
	s := p.Program
	p.life.Depose(false)
	if s.p == p {
		s.p = nil
	}
	if !slices.Contains(s.former, p) {
		s.former = append(s.former, p)
		p.until = time.Now().Add(oblivious)
	}
}

// notice ends the processes that have lost their lease and learn of it now, or all that have lost it. It returns false if there was none.
func (r *Run) notice(all bool) (did bool) {
	for _, s := range r.Programs {
		for _, p := range s.former {
			if p.dead.Load() || p.zombie || p.standby || !all && time.Now().Before(p.until) {
				continue
			}
			did = true
			p.life.Learn()
			if p.inFlight.Load() || p.Works() {
				p.Note("learns that it has lost its lease")
				p.zombie = true
			} else {
				p.Die("learns that it has lost its lease, and ends")
			}
		}
	}
	return did
}

// standBy tells a process that it has lost its lease, and makes it wait until it leads again.
func (p *Process) standBy() {
	if p.standby || p.dead.Load() {
		return
	}
	p.standby = true
	p.life.Learn()
	p.Note("learns that it has lost its lease, and stands by")
}

// Standby reports whether the process waits until it leads again.
func (p *Process) Standby() bool { return p.standby }

// regain makes the first process on standby lead again, if everything that it did in its former term has ended. Its successor ends first.
// If the successor has ended by itself, another process starts in place of both. It returns false if there was nothing to do.
func (s *Program) regain() bool {
	i := slices.IndexFunc(s.former, func(p *Process) bool {
		return p.standby && !p.dead.Load() && !p.inFlight.Load() && !p.Works() && p.life.StandsBy()
	})
	switch {
	case i < 0, s.run.over, s.p != nil && (s.p.stopping || s.p.inFlight.Load()):
		return false
	case s.p == nil, s.p.dead.Load():
		s.former[i].Die("ends")
		return true
	}
	p := s.former[i]
	s.p.life.Restart()
	s.p.bury()
	s.former = slices.Delete(s.former, i, i+1)
	s.p = p
	s.terms++
	p.term, p.standby = s.terms, false
	p.Note("leads again")
	p.life.Lead()
	return true
}

// lateCall is a call that is on its way.
type lateCall struct {
	by    *Process
	name  string
	call  func() error
	waits int // how many times nothing is left to do before it arrives
}

// delay makes a call arrive later. It ends the process, or takes its lease away and returns an error.
func (p *Process) delay(ctx context.Context, f *fault.Fault, name string, call func() error) error {
	late := &lateCall{p, name, call, f.N}
	if f.Do == fault.Regain {
		late.waits = 2
		p.hold(ctx, f, late)
		p.enter()
		return cmp.Or(context.Cause(ctx), ErrLost)
	}
	p.Note("FAULT its call %q is on its way", name)
	p.Run.late = append(p.Run.late, late)
	p.Die("CRASH")
	runtime.Goexit()
	return nil
}

// arrive makes the calls that are due, or all that are on their way. It returns false if there was none.
func (r *Run) arrive(all bool) (did bool) {
	calls := r.late
	r.late = nil
	for _, c := range calls {
		if c.waits--; c.waits > 0 && !all {
			r.late = append(r.late, c)
			continue
		}
		did = true
		var err error
		done := make(chan struct{})
		// Ends with the call, which may end by a Goexit of a store of the dead process. The code below waits for it.
		go func() {
			defer close(done)
			err = c.call()
		}()
		for ended := false; !ended; {
			if r.release() {
				continue // in run mode, the call makes other calls, which wait for their turn
			}
			select {
			case <-done:
				ended = true
			case <-r.wake:
			}
		}
		r.Touch()
		c.by.Note("its call %q arrives%s", c.name, errText(err))
	}
	return did
}
