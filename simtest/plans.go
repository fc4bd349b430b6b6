package simtest

import (
	"slices"

	"github.com/setpoint-go/setpoint/informer"
)

// singles returns every fault that can happen to the run without faults.
func singles(fair *run) (faults []Fault) {
	commits := fair.db.log
	for _, p := range fair.positions {
		f := Fault{System: p.system, Op: p.op, Object: p.object, Nth: p.nth}
		with := func(do Do) Fault { f.Do = do; return f }
		if !p.write {
			faults = append(faults, with(ReadFails))
			continue
		}
		for _, do := range []Do{CrashBefore, CrashAfter, Down, LoseRequest, LoseReply, Slow, Zombie} {
			faults = append(faults, with(do))
		}
		if p.op == "update" || p.op == "delete" {
			faults = append(faults, with(Conflict))
		}
		s := fair.systemOf(p.system)
		if s.Lease != "" {
			faults = append(faults, with(LoseLease))
		}
		for n := 1; s.Lease != "" && p.op == "effect" && n <= len(fair.world.Steps)-p.step+1; n++ {
			late := with(Late)
			late.N = n
			faults = append(faults, late)
		}
		for _, kind := range s.kinds {
			lag := with(Lag)
			lag.Kind = kind
			faults = append(faults, lag)
		}
		// The past begins right before each change that the system can see. The version after the write is one more than that
		// before it.
		for v := p.before; v > 0; v-- {
			if !slices.Contains(s.kinds, commits[v-1].kind) {
				continue
			}
			travel := with(Travel)
			travel.N = int(p.before - (v - 1))
			if p.op != "effect" {
				travel.N++
			}
			faults = append(faults, travel)
		}
	}
	for _, s := range fair.systems {
		if s.Trusted {
			continue
		}
		for step := 1; step <= len(fair.world.Steps); step++ {
			faults = append(faults, Fault{Do: Restart, System: s.Name, Nth: step})
		}
		faults = append(faults, gaps(fair, s)...)
	}
	return faults
}

// gaps returns the gaps of a system: each pair of changes of an object, where the second follows the first, or is the last.
func gaps(fair *run, s *system) (faults []Fault) {
	last := make(map[string]int)
	kinds := make(map[string]string)
	var order []string
	for _, c := range fair.db.after(0, informer.Version(len(fair.db.log))) {
		if !slices.Contains(s.kinds, c.kind) {
			continue
		}
		if last[c.object()] == 0 {
			order = append(order, c.object())
		}
		last[c.object()]++
		kinds[c.object()] = c.kind
	}
	for _, object := range order {
		for n := 1; n < last[object]; n++ {
			gap := Fault{Do: Gap, System: s.Name, Object: object, Nth: n, N: n + 1}
			faults = append(faults, gap)
			if n+1 < last[object] {
				gap.N = last[object]
				faults = append(faults, gap)
			}
		}
	}
	return faults
}
