package simtest

import "github.com/setpoint-go/setpoint/simtest/internal/fault"

// Plan has the faults of one run, each of which happens once. The flag -simtest.plan takes the text of a plan.
type Plan []Fault

// String returns the text of the plan, such as "crash-after(rmq update sts/a#1)".
func (p Plan) String() string { return p.faults().String() }

// ParsePlan returns the plan with the given text. An error names the fault that cannot be read.
func ParsePlan(text string) (Plan, error) {
	plan, err := fault.Parse(text)
	return planOf(plan), err
}

// Fault is one thing that goes wrong, once. Every one of these faults happens to real systems, and the contracts of this library allow each
// of them:
//
//	crash-before  the process ends right before a write or an effect; a new one starts, with empty caches
//	crash-after   the process ends right after a write or an effect; a new one starts
//	down          like crash-after, and the new process starts after the next step of the user
//	restart       the process ends, and a new one starts, after a step of the user
//	lose-request  the call fails with ErrLost, and has done nothing
//	lose-reply    the call fails with ErrLost, and has done its work
//	conflict      another writer writes the object right before the write
//	slow          the call takes a minute, while everything else goes on
//	pause         the process hangs for eleven minutes before a call or a read, while everything else goes on
//	zombie        the process hangs; a new one takes over; then the old one finishes its reconcile
//	lose-lease    the process loses its lease and does not know; a new one takes over; both go on until the old one notices: 10 s
//	              later, or after the next step of the user
//	regain        the process loses its lease, learns it, and stands by; when its successor ends, it leads again, with the next term and
//	              all that it remembers; its call of the former term arrives after the next step of the user
//	late          the process ends while an effect is on its way, which arrives when a new one has taken over
//	cold          like crash-after; in the new process, the controllers that watch a kind begin when nothing else is left to do: the
//	              state that they fill, such as a map, is empty while the others act
//	lag           from this write on, the caches of a kind receive nothing until nothing else is left to do
//	travel        like crash-after; the caches of the new process begin in the past, and then catch up
//	gap           a watch breaks between two changes of an object, and a new list merges them
//	read-fails    a read of the store fails
//
// The faults lose-lease, regain, and late are for systems with a Lease: each process of such a system has a leadership with the next term.
// In the text of a plan, skip(step#2) means that the user leaves out the second step. It makes a plan smaller, and is not a fault.
type Fault struct {
	// Do is the kind of fault, such as "crash-after".
	Do     string
	System string

	// Op, Object, and Nth give the position: at the Nth "update" of "sts/a" by the system, counted from 1. For a gap, Object is the one
	// whose changes are merged, Nth is the first of these changes, and Op is empty. For a restart and a skip, Nth is the step, and Op and
	// Object are empty. For a skip, System is empty too.
	Op, Object string
	Nth        int

	// Kind is the kind whose caches lag, or whose controllers begin last.
	Kind string

	// N is how many commits the caches go back in a travel, or the last change that a gap merges. For a late effect, N is how many times
	// nothing is left to do before it arrives: 1 is within the step of the user, 2 is after the next.
	N int
}

// String returns the text of the fault.
func (f Fault) String() string { return fault.Fault(f).String() }

func (p Plan) faults() fault.Plan {
	var plan fault.Plan
	for _, f := range p {
		plan = append(plan, fault.Fault(f))
	}
	return plan
}

func planOf(faults fault.Plan) Plan {
	var plan Plan
	for _, f := range faults {
		plan = append(plan, Fault(f))
	}
	return plan
}
