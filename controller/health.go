package controller

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Check reports whether c makes progress. It returns an error
//
//   - if a key has been in flight for longer than Config.StuckAfter, whatever the other workers do. The error names the key; Stack of an
//     [Inspector] shows where it hangs.
//   - if a function of the Config has not returned for that long before or after a reconcile,
//   - if keys have been ready for that long, none is in flight, and no reconcile has ended in that time. While c is paused, ready keys do
//     not count.
//   - if the cache of an informer of c has waited for that long for a function that the informer calls itself: one of [Watch.Where] or
//     [Watch.When] of any controller, of an index, or of [informer.Informer.OnVersion]. The error names the informer. See Applying of
//     [informer.Stats].
//   - if the source of an informer has been silent for Config.SilentAfter: see [informer.Informer.Stale],
//   - if a Run under a leadership has waited for half of Config.SyncTimeout for its caches to catch up.
//
// Between Runs, Check returns nil. Before the caches have synced, only the cache that waits for a function, and the last case, count.
//
// A manager calls Check. It is cheap.
func (c *Controller[K]) Check() error {
	c.mu.Lock()
	running, working, paused, takingOver := c.running, c.working, c.paused, c.takingOver
	c.mu.Unlock()
	var errs []error
	if c.cfg.StuckAfter > 0 && running {
		errs = append(errs, c.checkCaches())
	}
	if working == nil {
		return errors.Join(append(errs, c.checkTakeover(takingOver))...)
	}
	if c.cfg.StuckAfter > 0 {
		errs = append(errs, c.checkProgress(working, paused))
	}
	if c.cfg.SilentAfter > 0 {
		for _, name := range c.inputs.silent(c.cfg.SilentAfter) {
			errs = append(errs, fmt.Errorf("controller: check %q: %s: %w", c.name, name, after(errSilent, c.cfg.SilentAfter)))
		}
	}
	return errors.Join(errs...)
}

// checkCaches returns an error that wraps errStuck if a cache waits for a function of the user.
func (c *Controller[K]) checkCaches() error {
	for _, inf := range c.inputs.informers {
		in, ok := inf.(interface{ Stats() informer.Stats })
		if !ok {
			continue
		}
		if s := in.Stats(); s.Applying > c.cfg.StuckAfter {
			return fmt.Errorf("controller: check %q: %w: the cache of %s has waited for %v for %s", c.name, errStuck, inf.Name(),
				s.Applying.Round(time.Second), cmp.Or(s.Calling, "a function of an index, of OnVersion, or of its source"))
		}
	}
	return nil
}

// checkProgress returns an error that wraps errStuck if a worker, or all of c, makes no progress.
func (c *Controller[K]) checkProgress(working *workers[K], paused bool) error {
	var longest *attempt[K]
	for _, w := range working.list() {
		since := time.Duration(w.since.Load())
		switch a := w.current.Load(); {
		case a != nil && (longest == nil || a.began < longest.began):
			longest = a
		case a == nil && since > 0 && time.Since(c.started)-since > c.cfg.StuckAfter:
			return fmt.Errorf("controller: check %q: %w: a worker has a key since %s, and is not in its reconcile: a method of "+
				"Config.Expectations, or ShardKey, has not returned", c.name, errStuck, c.started.Add(since).Format(time.RFC3339))
		}
	}
	if longest != nil {
		began := c.started.Add(longest.began)
		lasts := time.Since(began)
		if lasts <= c.cfg.StuckAfter {
			return nil
		}
		return fmt.Errorf("controller: check %q: %w: key %v is in flight for %v, since %s",
			c.name, errStuck, longest.key, lasts.Round(time.Second), began.Format(time.RFC3339))
	}
	last := c.started.Add(time.Duration(c.ended.Load())) // the time of the last progress
	if working.began.After(last) {
		last = working.began
	}
	if paused || time.Since(last) <= c.cfg.StuckAfter || c.queue.OldestReady() <= c.cfg.StuckAfter {
		return nil // the usual case, in which no key need be looked at
	}
	var key K
	var since time.Time // when the key longest ready became so
	for _, k := range c.queue.Snapshot() {
		if k.State == workqueue.Ready && (since.IsZero() || k.Since.Before(since)) {
			key, since = k.Key, k.Since
		}
	}
	if since.IsZero() {
		return nil
	}
	if since.After(last) {
		last = since
	}
	idle := time.Since(last)
	if idle <= c.cfg.StuckAfter {
		return nil
	}
	return fmt.Errorf("controller: check %q: %w: no reconcile has ended for %v, and key %v is ready since %s",
		c.name, errStuck, idle.Round(time.Second), key, since.Format(time.RFC3339))
}
