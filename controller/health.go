package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// StuckError is what [Controller.Check] returns when there is something to do and nothing gets done.
type StuckError struct {
	Controller string    // its name
	Key        any       // of the reconcile that is under way for longest, or else of the key that is ready for longest
	InFlight   bool      // there is a reconcile under way
	Since      time.Time // when it began, or the key became ready
	Idle       time.Duration

	// Stack is that of the worker, nil unless InFlight. Error leaves it out, so that it fits in a line.
	Stack []byte
}

// Error says which key it is, and since when.
func (e *StuckError) Error() string {
	what := "is ready"
	if e.InFlight {
		what = "is in flight"
	}
	return fmt.Sprintf("controller: check %q: no reconcile has ended for %v: key %v %s since %s",
		e.Controller, e.Idle.Round(time.Second), e.Key, what, e.Since.Format(time.RFC3339))
}

// Check tells whether c does what it is there for. It returns nil while no Run is under way, or it waits for its caches. Else
// it returns a [*StuckError] if there has been something to do for longer than Config.StuckAfter and no reconcile has ended
// in that time, and an error for each of its sources that is silent for
// Config.SilentAfter: see [informer.Informer.Stale]. It looks at all goroutines if a reconcile is stuck, and else costs little. A
// manager asks it.
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
		errs = append(errs, c.checkSources()...)
	}
	return errors.Join(errs...)
}

// checkProgress returns a *StuckError if nothing gets done.
func (c *Controller[K]) checkProgress(working *workers[K], paused bool) error {
	last := c.started.Add(time.Duration(c.ended.Load())) // before it there was progress
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
			stuck.Key, stuck.InFlight, stuck.Since, stack = t.key, true, began, s.Stack
		}
	}
	if !stuck.InFlight {
		if paused {
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

// checkSources returns an error for each source that is silent.
func (c *Controller[K]) checkSources() (errs []error) {
	for _, source := range c.inputs.Sources() {
		s, ok := source.(interface {
			Name() string
			Stale(d time.Duration) bool
		})
		if ok && s.Stale(c.cfg.SilentAfter) {
			errs = append(errs, fmt.Errorf("controller: check %q: %s: %w", c.name, s.Name(), after(errSilent, c.cfg.SilentAfter)))
		}
	}
	return errs
}
