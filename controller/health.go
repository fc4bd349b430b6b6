package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// StuckError reports that a controller has keys to reconcile and makes no progress. The error of [Controller.Check] wraps it.
type StuckError struct {
	Controller string        // the name of the controller
	Key        any           // the key longest in flight, or, if no key is, the key longest ready
	InFlight   bool          // Key is in flight
	Since      time.Time     // when the reconcile of Key began, or Key became ready
	Idle       time.Duration // the time without progress

	// Stack is the stack of the worker, or nil if no key is in flight. Error omits it.
	Stack []byte
}

// Error names the key, and the time since which it is stuck.
func (e *StuckError) Error() string {
	what := "is ready"
	if e.InFlight {
		what = "is in flight"
	}
	return fmt.Sprintf("controller: check %q: no reconcile has ended for %v: key %v %s since %s",
		e.Controller, e.Idle.Round(time.Second), e.Key, what, e.Since.Format(time.RFC3339))
}

// Check reports whether c makes progress. Its error wraps a [*StuckError] if keys have been ready or in flight for longer than
// Config.StuckAfter and no reconcile has ended in that time. While c is paused, ready keys do not count. The error also names each informer
// whose source has been silent for Config.SilentAfter: see [informer.Informer.Stale]. Between Runs, and before the caches have synced, Check
// returns nil.
//
// A manager calls Check. It is cheap unless a reconcile is stuck: then it dumps the stacks of all goroutines.
func (c *Controller[K]) Check() error {
	c.mu.Lock()
	working, paused := c.working, c.paused
	c.mu.Unlock()
	if working == nil {
		return nil
	}
	var errs []error
	if c.cfg.StuckAfter > 0 {
		if err := c.checkProgress(working, paused); err != nil {
			errs = append(errs, err)
		}
	}
	if c.cfg.SilentAfter > 0 {
		for _, name := range c.inputs.Silent(c.cfg.SilentAfter) {
			errs = append(errs, fmt.Errorf("controller: check %q: %s: %w", c.name, name, after(errSilent, c.cfg.SilentAfter)))
		}
	}
	return errors.Join(errs...)
}

// checkProgress returns a *StuckError if there is no progress.
func (c *Controller[K]) checkProgress(working *workers[K], paused bool) error {
	last := c.started.Add(time.Duration(c.ended.Load())) // the time of the last progress
	if working.began.After(last) {
		last = working.began
	}
	if time.Since(last) <= c.cfg.StuckAfter {
		return nil
	}
	stuck := &StuckError{Controller: c.name}
	var stack func() []byte
	for _, s := range working.Seats() {
		t := s.State.current.Load()
		if t == nil {
			continue
		}
		if began := c.started.Add(t.began); !stuck.InFlight || began.Before(stuck.Since) {
			stuck.Key, stuck.InFlight, stuck.Since, stack = t.Key, true, began, s.Stack
		}
	}
	if !stuck.InFlight {
		if paused || c.queue.OldestReady() <= c.cfg.StuckAfter { // the usual case, in which no key need be looked at
			return nil
		}
		for _, k := range c.queue.Snapshot() {
			if k.State == workqueue.Ready && (stuck.Since.IsZero() || k.Since.Before(stuck.Since)) {
				stuck.Key, stuck.Since = k.Key, k.Since
			}
		}
	}
	if stuck.Since.IsZero() {
		return nil
	}
	if stuck.Since.After(last) {
		last = stuck.Since
	}
	if stuck.Idle = time.Since(last); stuck.Idle <= c.cfg.StuckAfter {
		return nil
	}
	if stuck.InFlight {
		stuck.Stack = stack()
	}
	return stuck
}
