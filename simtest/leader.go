package simtest

import (
	"runtime"
	"slices"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// oblivious is how long a leader goes on at most after it has lost its lease: RenewDeadline of package leaderelect, by default.
const oblivious = 10*time.Second + 3*time.Millisecond

// loseLease takes the lease away from a process, which goes on. Another process takes over with the next term.
func (r *run) loseLease(p *process) {
	r.note(p.name, "FAULT it loses its lease, and does not know; its call is on its way")
	s := p.system
	if p.life != nil {
		p.life.depose(p, false)
	}
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
func (r *run) notice(all bool) (did bool) {
	for _, s := range r.systems {
		for _, p := range s.former {
			if p.dead.Load() || p.zombie || !all && time.Now().Before(p.until) {
				continue
			}
			did = true
			if p.life != nil {
				close(p.life.told)
				synctest.Wait()
			} else {
				p.depose(leaderelect.ErrLeaseTaken)
			}
			if p.inFlight.Load() || p.works() {
				r.note(p.name, "learns that it has lost its lease")
				p.zombie = true
			} else {
				p.die("learns that it has lost its lease, and ends")
			}
		}
	}
	return did
}

// lateCall is an effect that is on its way.
type lateCall struct {
	by    *process
	name  string
	call  func() error
	waits int // how many times nothing is left to do before it arrives
}

// delay ends the process of the caller, whose effect is on its way.
func (r *run) delay(p *process, name string, n int, call func() error) {
	r.note(p.name, "FAULT its call %q is on its way", name)
	r.late = append(r.late, &lateCall{p, name, call, n})
	p.die("CRASH")
	runtime.Goexit()
}

// arrive makes the calls whose time has come, or all that are on their way. It returns false if there was none.
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
		// Ends with the call, which Goexit may do: that of a store of the process that has ended. It is waited for here.
		go func() {
			defer close(done)
			err = c.call()
		}()
		<-done
		r.note(c.by.name, "its call %q arrives%s", c.name, errText(err))
	}
	return did
}
