package sim

import (
	"runtime"
	"slices"
	"time"
)

// oblivious is how long a leader goes on at most after it has lost its lease: RenewDeadline of package leaderelect, by default.
const oblivious = 10*time.Second + 3*time.Millisecond

// loseLease takes the lease away from a process, which goes on. Another process takes over with the next term.
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

// notice has the processes end that have lost their lease and learn it now, or all that have lost it. It returns false if
// there was none.
func (r *Run) notice(all bool) (did bool) {
	for _, s := range r.Programs {
		for _, p := range s.former {
			if p.dead.Load() || p.zombie || !all && time.Now().Before(p.until) {
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

// lateCall is an effect that is on its way.
type lateCall struct {
	by    *Process
	name  string
	call  func() error
	waits int // how many times nothing is left to do before it arrives
}

// delay ends the process of the caller, whose effect is on its way.
func (r *Run) delay(p *Process, name string, n int, call func() error) {
	p.Note("FAULT its call %q is on its way", name)
	r.late = append(r.late, &lateCall{p, name, call, n})
	p.Die("CRASH")
	runtime.Goexit()
}

// arrive makes the calls whose time has come, or all that are on their way. It returns false if there was none.
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
		// Ends with the call, which Goexit may do: that of a store of the process that has ended. It is waited for here.
		go func() {
			defer close(done)
			err = c.call()
		}()
		<-done
		c.by.Note("its call %q arrives%s", c.name, errText(err))
	}
	return did
}
