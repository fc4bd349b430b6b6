package outcome

import (
	"errors"
	"slices"
	"time"
)

// PermanentError is the mark of retry.Permanent.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// AfterError is the mark of retry.After.
type AfterError struct {
	Err   error
	Delay time.Duration
}

func (e *AfterError) Error() string             { return e.Err.Error() }
func (e *AfterError) Unwrap() error             { return e.Err }
func (e *AfterError) RetryAfter() time.Duration { return e.Delay }

// NotYetError is the mark of retry.NotYet.
type NotYetError struct {
	Err   error
	Delay time.Duration // zero until an event
}

func (e *NotYetError) Error() string { return e.Err.Error() }
func (e *NotYetError) Unwrap() error { return e.Err }

// IsPermanent is retry.IsPermanent.
func IsPermanent(err error) bool {
	var p *PermanentError
	return errors.As(err, &p)
}

// IsNotYet is retry.IsNotYet.
func IsNotYet(err error) bool { return read(err).notYet && !IsPermanent(err) }

// IsConflict is retry.IsConflict. It is true even if a failure is joined with the conflict, for which [Of] returns Failed.
func IsConflict(err error) bool {
	var c interface{ Conflict() bool }
	return errors.As(err, &c) && c.Conflict()
}

// Delay is retry.Delay.
func Delay(err error) (d time.Duration, ok bool) {
	d = read(err).delay
	return d, d > 0
}

// IsFenced reports whether a store has refused a write because a later leader has written: whether the tree of err has an error with a
// method Fenced() bool that returns true.
func IsFenced(err error) bool {
	if e, ok := err.(interface{ Fenced() bool }); ok && e.Fenced() {
		return true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return IsFenced(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), IsFenced)
	}
	return false
}

// marks are what the marks of an error say. A joined error is a failure if neither notYet nor conflict is set.
type marks struct {
	notYet   bool          // every branch of the tree has a mark of NotYet
	conflict bool          // at least one branch is a conflict, and all others are conflicts or have a mark of NotYet
	delay    time.Duration // not positive if the error requests none
}

// read reads the marks of err. Of two marks in one chain the outer one decides.
func read(err error) (m marks) {
	switch e := err.(type) {
	case nil:
		return m
	case interface{ Unwrap() error }:
		m = read(e.Unwrap())
	case interface{ Unwrap() []error }:
		m = readAll(e.Unwrap())
	}
	if e, ok := err.(*NotYetError); ok {
		return marks{notYet: true, conflict: m.conflict, delay: e.Delay}
	}
	if e, ok := err.(interface{ Conflict() bool }); ok {
		m.conflict = e.Conflict()
	}
	if e, ok := err.(interface{ RetryAfter() time.Duration }); ok {
		if d := e.RetryAfter(); d > 0 {
			m.delay = d
		}
	}
	return m
}

// readAll joins the marks of errs: a failure takes precedence over a conflict, a conflict over an unfinished attempt, and then the longest
// delay counts.
func readAll(errs []error) (all marks) {
	first, failed := true, false
	for _, err := range errs {
		if err == nil {
			continue
		}
		m := read(err)
		failed = failed || !m.notYet && !m.conflict
		switch {
		case first:
			all, first = m, false
			continue
		case all.notYet && !m.notYet:
			all.delay = m.delay
		case all.notYet == m.notYet:
			all.delay = max(all.delay, m.delay)
		}
		all.notYet = all.notYet && m.notYet
		all.conflict = all.conflict || m.conflict
	}
	all.conflict = all.conflict && !failed
	return all
}
