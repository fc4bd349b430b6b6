package lincheck_test

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// call is a call of the queue.
type call struct {
	op  op
	key int // of add, addAfter, done, cancel and drained
}

type op string

const (
	add      op = "Add"
	addAfter op = "AddAfter" // an Add at an unknown time after the call: it has returned when all wake-ups are over
	get      op = "Get"
	tryTake  op = "TryTake"
	done     op = "Done"
	cancel   op = "Cancel" // of a key for which nothing is scheduled
	shutDown op = "ShutDown"
	drained  op = "drained?" // asked when nothing runs any more
)

// answer is the result: for get and tryTake a key, or none; for cancel whether there was anything to cancel.
type answer struct {
	key      int
	none     bool
	canceled bool
}

// state is the state of a queue with one key. The key is ready when it is dirty and not in process.
type state struct{ dirty, processing, shutdown bool }

// step is the machine: it reports whether the call may have the answer in the state, and returns the state that follows.
func (s state) step(c call, a answer) (bool, state) {
	ready := s.dirty && !s.processing
	switch c.op {
	case add, addAfter:
		s.dirty = s.dirty || !s.shutdown
		return true, s
	case get, tryTake:
		if a.none { // Get tells a worker to stop, TryTake has found nothing
			return !ready && (s.shutdown || c.op == tryTake), s
		}
		s.dirty, s.processing = false, true
		return ready, s
	case done:
		ok := s.processing
		s.processing = false
		return ok, s
	case cancel:
		ok := a.canceled == s.dirty
		s.dirty = false
		return ok, s
	case shutDown:
		s.shutdown = true
		return true, s
	default:
		return !s.dirty && !s.processing, s
	}
}

// model is the machine for porcupine. Calls that concern all keys, such as a shutdown or an answer of none, are in the history of each key:
// if there is an order of the calls of all keys, its part for one key is an order for that key.
func model() porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			parts := make([][]porcupine.Operation, keys)
			for _, o := range history {
				for key := range parts {
					if k, all := concerns(o); all || k == key {
						parts[key] = append(parts[key], o)
					}
				}
			}
			return parts
		},
		Init: func() any { return state{} },
		Step: func(s, c, a any) (bool, any) { return s.(state).step(c.(call), a.(answer)) },
	}
}

// concerns returns the key that an operation concerns; all is true if it concerns every key.
func concerns(o porcupine.Operation) (key int, all bool) {
	c, a := o.Input.(call), o.Output.(answer)
	switch {
	case c.op == shutDown || a.none:
		return 0, true
	case c.op == get || c.op == tryTake:
		return a.key, false
	default:
		return c.key, false
	}
}

// describe writes an operation and when it ran.
func describe(o porcupine.Operation) string {
	c, a := o.Input.(call), o.Output.(answer)
	text := fmt.Sprintf("%s(%d)", c.op, c.key)
	switch {
	case c.op == shutDown:
		text = "ShutDown()"
	case a.none:
		text = fmt.Sprintf("%s() none", c.op)
	case c.op == get || c.op == tryTake:
		text = fmt.Sprintf("%s() %d", c.op, a.key)
	}
	return fmt.Sprintf("%5d to %5d: %s", o.Call, o.Return, text)
}
