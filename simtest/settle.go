package simtest

import (
	"time"
)

// touch records that something has happened whose consequences count: a commit, a step of the user, a fault or its end, the start of a
// process, or news in a cache.
func (r *run) touch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.quiet = time.Now()
}

// lastTouch is when the last of what touch lists happened.
func (r *run) lastTouch() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.quiet
}

// settle runs the systems until nothing is left to do: no key is ready, every cache is up to date, no reconcile is in flight, and no key
// becomes ready until the horizon.
func (r *run) settle() {
	for !r.failed() {
		if r.turn() {
			continue
		}
		r.idle++
		if r.thaw(false) {
			continue
		}
		end := r.lastTouch().Add(r.world.Horizon)
		next, inFlight := r.outlook()
		if next.IsZero() || next.After(end) {
			if next = end; inFlight {
				next = r.lastTouch().Add(longest)
			} else if !r.unsettled() {
				return
			}
			if !time.Now().Before(next) {
				return
			}
		}
		r.sleep(next)
	}
}

// bringBack ends the outages that last until the next step. It returns false if there was none.
func (r *run) bringBack() (did bool) {
	for _, s := range r.programs {
		did = did || s.down
		s.down = false
	}
	return did
}

// heal ends every fault that lasts. It returns false if there was none.
func (r *run) heal() bool {
	did := r.bringBack()
	for r.thaw(true) {
		did = true
	}
	did = r.noticeLosses(true) || did
	did = r.rebalance(true) || did
	return r.arrive(true) || did
}

// rebalance lets the replicas of each fleet share its slots equally again: without all, only if the user has taken a step since a slot has moved. It
// returns false if there was nothing to do.
func (r *run) rebalance(all bool) (did bool) {
	for _, f := range r.fleets {
		if all || f.moved < r.begun {
			did = f.rebalance() || did
		}
	}
	if did {
		r.touch()
	}
	return did
}

// thaw ends a lag or a cold start. With all, it also ends a gap whose last change has not come. It returns false if there was none.
func (r *run) thaw(all bool) bool {
	if r.warm() {
		r.touch()
		return true
	}
	for p := range r.processes() {
		var did bool
		for _, in := range p.inputs {
			did = in.thaw(all) || did
		}
		if did {
			r.touch()
			p.note("its caches catch up")
			return true
		}
	}
	return false
}

// thawLate ends each lag that has lasted for fairTime, although a process hangs: the caches of others do not wait for it. It returns false if there
// was none.
func (r *run) thawLate() (did bool) {
	for p := range r.processes() {
		for _, in := range p.inputs {
			if at := in.fairUntil(); !at.IsZero() && !time.Now().Before(at) && in.thaw(false) {
				p.note("its cache of %s catches up", in.kind())
				did = true
			}
		}
	}
	return did
}

// nextLate returns when thawLate has something to do next, or zero.
func (r *run) nextLate() (next time.Time) {
	for p := range r.processes() {
		for _, in := range p.inputs {
			next = earliest(next, in.fairUntil())
		}
	}
	return next
}

// outlook returns when the first delayed key becomes ready, or zero, and whether a reconcile is in flight.
func (r *run) outlook() (next time.Time, inFlight bool) {
	for p := range r.processes() {
		for _, l := range p.loops {
			t, busy := l.outlook()
			next, inFlight = earliest(next, t), inFlight || busy
		}
	}
	return next, inFlight
}

// unsettled reports whether something may happen just because time passes, apart from delayed keys.
func (r *run) unsettled() bool {
	for p := range r.processes() {
		if p.driver.unsettled() {
			return true
		}
	}
	return false
}

// failUnlisted fails the run because the source of an input has not listed for the longest time that the run waits.
func (r *run) failUnlisted(in *input) {
	r.fail(ruleWorld, "the cache of %s by %s cannot catch up: its source has not polled for %v; set poll.Config.Interval to less",
		in.kind(), in.p.name, longest)
}
