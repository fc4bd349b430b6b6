package leaderelect_test

import (
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// actPeriod is the time from one action of a leader to the next.
const actPeriod = 1100 * time.Millisecond

// act is work with effects outside of the process. It asks whether it leads, and sends a write with its term to a fenced
// register. The write is in flight for a while, sometimes for longer than a lease.
//
// Even if processes are suspended, two of them must never be told at the same time that they lead. The register must refuse
// every write of an earlier leader.
func (p *party) act(l *leaderelect.Leadership, done <-chan struct{}) {
	w := p.world
	for n := 0; ; n++ {
		w.mu.Lock()
		leads := l.Err() == nil && !time.Now().Before(w.paused[p.name])
		for _, other := range w.parties {
			if leads && other != p && other.IsLeader() && !p.mayMeet(other) {
				w.violateLocked("%s acts in term %d while %s leads", p.name, l.Term(), other.name)
			}
		}
		w.mu.Unlock()
		if leads {
			underWay := time.Duration(n%7) * 3 * time.Second
			time.AfterFunc(underWay, func() { w.arrive(p.name, l.Term()) })
		}
		select {
		case <-done:
			return
		case <-time.After(actPeriod):
		}
	}
}

// arrive handles the write of a leader at the register.
func (w *world) arrive(party string, term uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.register.Write(term, party)
	switch {
	case err == nil && term < w.accepted:
		w.violateLocked("the register takes term %d of %s after term %d", term, party, w.accepted)
	case err != nil && term >= w.accepted:
		w.violateLocked("the register refuses term %d of %s after term %d", term, party, w.accepted)
	case err == nil:
		w.accepted = term
	default:
		w.refused++
	}
}

// refusals returns how many writes the register has refused.
func (w *world) refusals() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}

// pauseLocked stops the timers of a process for d. Timers that become due in the meantime fire after that.
func (w *world) pauseLocked(party string, d time.Duration) {
	for _, p := range w.parties {
		if p.name == party && p.open != nil {
			p.open.paused = true
			l := p.open.leadership
			l.StopTimer()
			time.AfterFunc(d, l.FireTimer)
		}
	}
}

// mayForgetLocked reports whether so many candidates know the current term. The others cannot notice if the store loses it.
func (w *world) mayForgetLocked(candidates int) bool {
	know := 0
	for _, p := range w.parties {
		if leader, known := p.Leader(); known && w.entry != nil && leader.Term == w.entry.Term {
			know++
		}
	}
	return know == candidates
}
