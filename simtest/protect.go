package simtest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
)

// protect calls a function of the world. If it panics, or ends its goroutine, the run fails, and ok is false.
func (r *run) protect(what string, f func() error) (err error, ok bool) {
	return protect(what, f, r.failWith)
}

// protect calls a function of the world. If it panics, or ends its goroutine, protect reports that, and ok is false.
func protect(what string, f func() error, report func(problem)) (err error, ok bool) {
	defer func() {
		if ok {
			return
		}
		p := problem{rule: ruleWorld, about: what}
		if v := recover(); v != nil {
			p.text, p.stack = fmt.Sprintf("%s panicked: %v", what, v), stack()
		} else {
			p.text = what + " has ended its goroutine: it must return an error instead of a call of t.FailNow, as require makes"
		}
		report(p)
	}()
	err = f()
	return err, true
}

// limit is protect for a function that may block: after the longest time that the run waits, the run fails.
func (r *run) limit(what string, f func() error) (err error, ok bool) {
	// If f never returns, the bubble of the run ends with a deadlock, and playWorld reports the run that has failed here.
	tooLong := r.callLimit.start()
	done := r.workers.begin(func() { err, ok = r.protect(what, f) })
	defer r.callLimit.stop()
	select {
	case <-done:
		return err, ok
	case <-tooLong:
		r.failWith(problem{rule: ruleWorld, about: what, text: fmt.Sprintf("%s has not returned after %v", what, longest)})
		return errHangs, false
	}
}

var errHangs = errors.New("simtest: it hangs")

// failWith records a problem, unless there was one before.
func (r *run) failWith(p problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.problem == nil {
		r.problem = &p
	}
}

// stack returns the functions, and their places in the code, from the panic that is being recovered up to those of the kit.
func stack() (lines []string) {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	panicked := false
	for f, more := frames.Next(); more; f, more = frames.Next() {
		switch {
		case f.Function == "runtime.gopanic":
			panicked = true
		case !panicked || strings.HasPrefix(f.Function, "runtime."):
		case strings.HasSuffix(f.Function, "simtest.protect"):
			return lines
		default:
			lines = append(lines, fmt.Sprintf("%s (%s:%d)", f.Function, f.File, f.Line))
		}
	}
	return lines
}
