package simtest

import (
	"slices"
)

// single is a fault that can happen to the run without faults.
type single struct {
	Fault
	like *Fault // an earlier one whose run does not differ in anything that counts; nil if there is none
}

// singles returns every fault that can happen to the run without faults.
func singles(fair *run) (all []single) {
	for i := range fair.positions {
		all = append(all, faultsAt(fair, i)...)
	}
	for _, s := range fair.programs {
		if s.Trusted {
			continue
		}
		for step := 1; step <= len(fair.world.Steps); step++ {
			all = append(all, single{Fault: Fault{Do: faultRestart, System: s.Name, Nth: step}})
		}
		if s.chose {
			all = append(all, single{Fault: Fault{Do: faultReorder, System: s.Name}})
		}
		for _, gap := range gaps(fair, s) {
			all = append(all, single{Fault: gap})
		}
	}
	return all
}

// faultsAt returns the faults at position i of the run without faults.
func faultsAt(r *run, i int) (all []single) {
	p := r.positions[i]
	f := Fault{System: p.system, Op: p.op, Object: p.object, Nth: p.nth}
	add := func(do string) *single {
		c := single{Fault: f}
		c.Do = do
		all = append(all, c)
		return &all[len(all)-1]
	}
	if p.step < len(r.world.Steps) {
		add(faultEarly)
	}
	if !p.write {
		add(faultReadFails)
		add(faultPause)
		return all
	}
	add(faultCrashBefore).like = crashLike(r, i)
	for _, do := range []string{faultCrashAfter, faultDown, faultLoseRequest, faultLoseReply, faultSlow, faultPause, faultZombie} {
		add(do)
	}
	if p.op == "update" || p.op == "delete" {
		add(faultConflict)
	}
	s := r.program(p.system)
	if s.Lease != "" {
		add(faultLoseLease)
	}
	if p.op == "effect" {
		last := len(r.world.Steps) - p.step + 1
		if s.Lease == "" {
			last = 1
		}
		for n := 1; n <= last; n++ {
			if n <= 2 || n == last { // at once, after the next step, and at the end
				add(faultLate).N = n
			}
		}
	}
	if s.Lease != "" {
		add(faultRegain)
	}
	for _, kind := range s.kinds {
		lag := add(faultLag)
		lag.Kind, lag.like = kind, lagLike(r, i, kind)
	}
	if s.fleet != nil && len(s.fleet.replicas) > 1 {
		for _, kind := range s.kinds {
			add(faultMove).Kind = kind
		}
	}
	for _, kind := range s.partlyWatched() {
		add(faultCold).Kind = kind
	}
	// The past begins right before each change that the system can see, the last of which is the write itself.
	now := p.before
	if p.op != "effect" {
		now++
	}
	for v := now; v > 0; v-- {
		if slices.Contains(s.kinds, r.db.after(v-1, v)[0].kind) {
			add(faultTravel).N = int(now - (v - 1))
		}
	}
	return all
}

// crashLike returns the crash after the previous write, if that is the same as a crash before the write at position i: both are in one
// reconcile, and no other actor has done anything in between. The work of the process itself in between is lost with it.
func crashLike(r *run, i int) *Fault {
	p := r.positions[i]
	if p.turn == 0 { // in run mode, reconciles are not told apart
		return nil
	}
	for _, q := range slices.Backward(r.positions[:i]) {
		if q.turn != p.turn {
			return nil
		}
		if !q.write {
			continue
		}
		after := q.before
		if q.op != "effect" {
			after++
		}
		if after != p.before || q.when != p.when {
			return nil
		}
		return &Fault{Do: faultCrashAfter, System: q.system, Op: q.op, Object: q.object, Nth: q.nth}
	}
	return nil
}

// lagLike returns the earliest lag of a kind that is the same as the one from position i on: in between, nothing of the kind has changed,
// and nothing has ended a lag.
func lagLike(r *run, i int, kind string) (like *Fault) {
	p := r.positions[i]
	if p.turn == 0 {
		return nil
	}
	for _, q := range slices.Backward(r.positions[:i]) {
		if q.idle != p.idle {
			break
		}
		if q.system != p.system || !q.write {
			continue
		}
		if slices.ContainsFunc(r.db.after(q.before, p.before), func(c *change) bool { return c.kind == kind }) {
			break
		}
		like = &Fault{Do: faultLag, System: q.system, Op: q.op, Object: q.object, Nth: q.nth, Kind: kind}
	}
	return like
}

// gaps returns the gaps of a system: each pair of changes of an object, where the second follows the first, or is the last, and a gap from the last
// change on, which ends when nothing else is left to do.
func gaps(fair *run, s *program) (faults []Fault) {
	last := make(map[string]int)
	var order []string
	for _, c := range fair.db.after(0, fair.db.version()) {
		if !slices.Contains(s.kinds, c.kind) {
			continue
		}
		if last[c.object] == 0 {
			order = append(order, c.object)
		}
		last[c.object]++
	}
	for _, object := range order {
		for n := 1; n <= last[object]; n++ {
			gap := Fault{Do: faultGap, System: s.Name, Object: object, Nth: n, N: n + 1}
			faults = append(faults, gap)
			if n+1 < last[object] {
				gap.N = last[object]
				faults = append(faults, gap)
			}
		}
	}
	return faults
}
