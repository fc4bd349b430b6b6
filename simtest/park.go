package simtest

import (
	"slices"
	"time"
)

// park runs everything else while a call of p waits, and has it go on.
func (r *run) park(p *process, waits *park) {
	switch waits.fault.Do {
	case Zombie:
		r.note(p.name, "FAULT it hangs, and another process takes over")
		if p.system.p == p {
			p.system.p = nil
		}
		if p.life != nil {
			p.life.depose(p, true)
		}
		r.turnAll()
		r.note(p.name, "goes on where it hung")
		p.zombie = true
		if p.life != nil {
			p.life.goOn(p)
		}
		if !p.inFlight.Load() && !slices.Contains(p.system.former, p) {
			p.system.former = append(p.system.former, p) // no goroutine waits for the call
		}
		close(waits.resume)
		return
	case LoseLease:
		r.loseLease(p)
		defer p.busy()()
		r.turnAll()
		r.note(p.name, "its call goes on")
		close(waits.resume)
		return
	}
	defer p.busy()()
	takes := slowness
	if waits.fault.Do == Pause {
		takes = pause
		r.note(p.name, "FAULT it stands still for %v", takes)
	} else {
		r.note(p.name, "FAULT the call takes %v", takes)
	}
	for end := time.Now().Add(takes); !r.failed(); {
		for r.turn() {
		}
		next := r.next()
		if next.IsZero() || !next.Before(end) || !next.After(time.Now()) {
			next = end
		}
		if !time.Now().Before(end) {
			break
		}
		r.sleep(next)
	}
	r.mu.Lock()
	r.quiet = time.Now() // what the end of the fault leads to counts
	r.mu.Unlock()
	close(waits.resume)
}

// busy notes that a call is in flight, until done is called.
func (p *process) busy() (done func()) {
	was := p.inFlight.Swap(true)
	return func() { p.inFlight.Store(was) }
}

// turnAll has everything happen that can without that time passes.
func (r *run) turnAll() {
	for !r.failed() && (r.turn() || r.thaw(false)) {
	}
}
