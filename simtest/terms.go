package simtest

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"time"
)

// noticeTime is the maximum time that a leader continues after it has lost its lease: RenewDeadline of package leaderelect, by default.
const noticeTime = 10*time.Second + 3*time.Millisecond

// loseLease takes the lease away from a process, which continues. Another process takes over with the next term. If the system has slots, it is
// the leases of all its slots, and the other replicas take over.
func (r *run) loseLease(p *process) {
	if p.share != nil {
		p.share.lose()
		return
	}
	p.note("FAULT it loses its lease without noticing; its call is on its way")
	s := p.program
	p.driver.depose(false)
	if s.p == p {
		s.p = nil
	}
	if !slices.Contains(s.former, p) {
		s.former = append(s.former, p)
		p.until = time.Now().Add(noticeTime)
	}
}

// noticeLosses ends the processes that have lost their lease and notice it now, or all that have lost it. It returns false if there was none.
func (r *run) noticeLosses(all bool) (did bool) {
	for _, s := range r.programs {
		if p := s.p; p != nil && !p.dead.Load() && (all || !time.Now().Before(p.until)) {
			did = p.share.notice() || did
		}
		for _, p := range s.former {
			if p.dead.Load() || p.zombie || p.standby || !all && time.Now().Before(p.until) {
				continue
			}
			did = true
			p.driver.noticeLoss()
			if p.inFlight.Load() || p.reconciling() {
				p.note("notices that it has lost its lease")
				p.zombie = true
			} else {
				p.die("notices that it has lost its lease, and ends")
			}
		}
	}
	return did
}

// standBy lets a process notice that it has lost its lease, and makes it wait until it leads again. A process that has lost slots goes on, and gets
// slots again.
func (p *process) standBy() {
	if p.share != nil {
		p.share.notice()
		return
	}
	if p.standby || p.dead.Load() {
		return
	}
	p.standby = true
	p.driver.noticeLoss()
	p.note("notices that it has lost its lease, and stands by")
}

// regain makes the first process on standby lead again, if everything that it did in its former term has ended. Its successor ends first.
// If the successor has ended by itself, another process starts in place of both. It returns false if there was nothing to do.
func (s *program) regain() bool {
	i := slices.IndexFunc(s.former, func(p *process) bool {
		return p.standby && !p.dead.Load() && !p.inFlight.Load() && !p.reconciling() && p.driver.onStandby()
	})
	switch {
	case i < 0, s.run.over, s.p != nil && (s.p.stopping || s.p.inFlight.Load()):
		return false
	case s.p == nil, s.p.dead.Load():
		s.former[i].die("ends")
		return true
	}
	p := s.former[i]
	s.p.driver.restart()
	s.p.remove()
	s.former = slices.Delete(s.former, i, i+1)
	s.p = p
	s.terms++
	p.term, p.standby = s.terms, false
	p.note("leads again")
	p.driver.lead()
	return true
}

// lateCall is a call that is on its way.
type lateCall struct {
	by    *process
	name  string
	call  func() error
	waits int // how many times nothing is left to do before it arrives
}

// delay makes a call arrive later. It ends the process, or takes its lease away and returns an error.
func (p *process) delay(ctx context.Context, f *Fault, name string, call func() error) error {
	late := &lateCall{p, name, call, f.N}
	if f.Do == faultRegain {
		late.waits = 2
		p.hold(ctx, f, late)
		p.enter()
		return cmp.Or(context.Cause(ctx), ErrLost)
	}
	p.note("FAULT its call %q is on its way", name)
	p.run.late = append(p.run.late, late)
	p.die("CRASH")
	runtime.Goexit()
	return nil
}

// arrive makes the calls that are due, or all that are on their way. It returns false if there was none.
func (r *run) arrive(all bool) (did bool) {
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
		r.touch()
		c.by.note("its call %q arrives%s", c.name, errText(err))
	}
	return did
}
