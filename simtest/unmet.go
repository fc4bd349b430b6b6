package simtest

import (
	"fmt"
	"slices"
	"strings"
)

// unmet returns why faults of the plan of a run have not happened. unknown is true if the reason is a name that is not in the world.
func unmet(r *run) (why []string, unknown bool) {
	for i, f := range r.plan {
		if r.hits[i] && f.Kind == "" { // no cache may hold the kind
			continue
		}
		text, u := unmetFault(r, f)
		if text != "" {
			why, unknown = append(why, fmt.Sprintf("%s: %s", f, text)), unknown || u
		}
	}
	return why, unknown
}

func unmetFault(r *run, f Fault) (why string, unknown bool) {
	if f.Do == faultSkip || f.Do == faultRestart {
		if f.Nth > len(r.world.Steps) {
			return fmt.Sprintf("the user takes only %d steps", len(r.world.Steps)), true
		}
		if f.Do == faultSkip {
			return "", false
		}
	}
	s := r.program(f.System)
	switch {
	case s == nil:
		var names []string
		for _, s := range r.programs {
			names = append(names, s.Name)
		}
		return fmt.Sprintf("there is no system %q, only %s", f.System, strings.Join(names, ", ")), true
	case f.Do == faultRestart:
		return "the system was down", false
	case f.Do == faultReorder:
		return fmt.Sprintf("%s never has two keys ready at once", s.Name), false
	case f.Kind != "" && !slices.Contains(s.kinds, f.Kind):
		return fmt.Sprintf("%s has no cache of the kind %q", s.Name, f.Kind), true
	case f.Kind != "" && r.hits[slices.Index(r.plan, f)]:
		return "", false
	case f.Do == faultGap:
		kind, _, _ := strings.Cut(f.Object, "/")
		return fmt.Sprintf("%s has only %d changes", f.Object, r.changes[f.Object]), !slices.Contains(s.kinds, kind)
	}
	ops := make(map[string]bool)
	n := 0
	for _, p := range r.positions {
		if p.system == s.Name && kindOf(p.object, p.op) == kindOf(f.Object, f.Op) {
			ops[p.op+" "+p.object] = true
			if p.op == f.Op && p.object == f.Object {
				n++
			}
		}
	}
	switch {
	case n > 0:
		return fmt.Sprintf("%s does it only %d times", s.Name, n), false
	case len(ops) == 0:
		return fmt.Sprintf("%s never does this, or anything to the kind %q", s.Name, kindOf(f.Object, f.Op)), true
	default:
		names := make([]string, 0, len(ops))
		for name := range ops {
			names = append(names, name)
		}
		slices.Sort(names)
		return fmt.Sprintf("%s never does this, but %s", s.Name, strings.Join(names[:min(len(names), 5)], ", ")), false
	}
}

// kindOf returns the kind of an object at a position: for an effect, its name.
func kindOf(object, op string) string {
	if op == "effect" {
		return object
	}
	kind, _, _ := strings.Cut(object, "/")
	return kind
}
