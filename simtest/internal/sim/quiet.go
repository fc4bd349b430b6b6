package sim

import (
	"time"

	"github.com/setpoint-go/setpoint/simtest/internal/rule"
	"github.com/setpoint-go/setpoint/simtest/internal/view"
)

// Touch records that something has happened whose consequences count: a commit, a step of the user, a fault or its end, the start of a
// process, or news in a cache.
func (r *Run) Touch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.quiet = time.Now()
}

// lastTouch is when the last of what Touch lists happened.
func (r *Run) lastTouch() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.quiet
}

// settle runs the systems until nothing is left to do: no key is ready, every cache is up to date, no reconcile is in flight, and no key
// becomes ready until the horizon.
func (r *Run) settle() {
	for !r.Failed() {
		if r.Turn() {
			continue
		}
		r.idle++
		if r.thaw(false) {
			continue
		}
		end := r.lastTouch().Add(r.World.Horizon)
		next := r.next()
		if next.IsZero() || next.After(end) {
			if next = end; r.works() {
				next = r.lastTouch().Add(Longest)
			} else if !r.unsettled() {
				return
			}
			if !time.Now().Before(next) {
				return
			}
		}
		r.Sleep(next)
	}
}

// bringBack ends the outages that last until the next step. It returns false if there was none.
func (r *Run) bringBack() (did bool) {
	for _, s := range r.Programs {
		did = did || s.down
		s.down = false
	}
	return did
}

// heal ends every fault that lasts. It returns false if there was none.
func (r *Run) heal() bool {
	did := r.bringBack()
	for r.thaw(true) {
		did = true
	}
	did = r.notice(true) || did
	return r.arrive(true) || did
}

// thaw ends a lag or a cold start. With all, it also ends a gap whose last change has not come. It returns false if there was none.
func (r *Run) thaw(all bool) bool {
	if r.warm() {
		r.Touch()
		return true
	}
	for p := range r.Processes() {
		var did bool
		for _, v := range p.Views {
			did = v.Thaw(all) || did
		}
		if did {
			r.Touch()
			p.Note("its caches catch up")
			return true
		}
	}
	return false
}

// next returns when the first delayed key becomes ready, or zero.
func (r *Run) next() (next time.Time) {
	for p := range r.Processes() {
		for _, l := range p.Loops {
			if t := l.Next(); !t.IsZero() && (next.IsZero() || t.Before(next)) {
				next = t
			}
		}
	}
	return next
}

// unsettled reports whether something may happen just because time passes, apart from delayed keys.
func (r *Run) unsettled() bool {
	for p := range r.Processes() {
		if p.life.Unsettled() {
			return true
		}
	}
	return false
}

// works reports whether a reconcile is in flight.
func (r *Run) works() bool {
	for p := range r.Processes() {
		if p.Works() {
			return true
		}
	}
	return false
}

// AwaitList sleeps until the source of a view lists, or something else can happen. It returns false, and the run fails, if the source should
// have listed long ago.
func (r *Run) AwaitList(p *Process, v *view.View, since time.Time) bool {
	end := since.Add(Longest)
	if !time.Now().Before(end) {
		r.FailUnlisted(p, v)
		return false
	}
	r.Sleep(end)
	return true
}

// FailUnlisted fails the run because the source of a view has not listed for the Longest time that the run waits.
func (r *Run) FailUnlisted(p *Process, v *view.View) {
	r.Fail(rule.World, "the cache of %s by %s cannot catch up: its source has not polled for %v; set poll.Config.Interval to less",
		v.Kind(), p.Name, Longest)
}
