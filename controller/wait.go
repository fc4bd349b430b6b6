package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/setpoint-go/setpoint/controller/internal/mirror"
	"github.com/setpoint-go/setpoint/controller/internal/waiters"
	"github.com/setpoint-go/setpoint/informer"
)

// Written is an object that a write to a store has returned. Any [store.Object] is one.
type Written interface {
	// At returns the kind of the object, and the version of the write.
	At() (kind string, version informer.Version)
}

// WaitReconciled waits until a reconcile of key has succeeded that began after the caches of c had seen the given writes.
//
//	site, err := sites.Update(ctx, site)
//	err = c.WaitReconciled(ctx, site.Key, site)
//
// It waits for each object in every informer of c ([Controller.Informers]) that mirrors the kind of the object. For a source that is not a
// store, call [informer.Informer.WaitForVersion] first. Without objects, the reconcile must begin after the call of WaitReconciled.
//
// If no such reconcile is in flight, WaitReconciled adds the key. So it works for an old write, and for a key that no mapper
// returns.
//
// A reconcile succeeds if it returns no error. If it is unfinished, fails, or is canceled, WaitReconciled waits for the next one.
// While no Run reconciles the key, it waits too. If the key is parked instead, it returns an error that wraps [ErrParked] and the
// error of the reconcile. It also returns an error if ctx ends first, which wraps the cause of ctx; if an informer ends, which
// wraps [informer.ErrEnded]; if the key belongs to another replica ([Controller.Share]); and at once if no informer mirrors the
// kind of an object. It panics as Add does, and if an object is nil.
func (c *Controller[K]) WaitReconciled(ctx context.Context, key K, wrote ...Written) error {
	checkKey(key)
	seen, err := c.shows(wrote)
	if err == nil {
		err = c.waitReconciled(ctx, key, seen)
	}
	if err != nil {
		return fmt.Errorf("controller: wait for %q to reconcile %v: %w", c.name, key, err)
	}
	return nil
}

// shows returns the versions that the caches of c must show after the given writes.
func (c *Controller[K]) shows(wrote []Written) (seen []cacheAt, err error) {
	for _, w := range wrote {
		if isNil(w) {
			panic("controller: WaitReconciled called with a nil object")
		}
		kind, version := w.At()
		caches := c.mirrors.Of(kind)
		if len(caches) == 0 {
			return nil, fmt.Errorf("no informer of the controller mirrors a store of kind %q", kind)
		}
		for _, cache := range caches {
			seen = append(seen, cacheAt{cache, version})
		}
	}
	return seen, nil
}

func (c *Controller[K]) waitReconciled(ctx context.Context, key K, seen []cacheAt) error {
	w := waiters.New(func() bool { return !slices.ContainsFunc(seen, cacheAt.behind) })
	c.waiters.Enter(key, w)
	defer c.waiters.Leave(key, w)
	for _, s := range seen {
		if err := s.WaitForVersion(ctx, s.version); err != nil {
			return err
		}
	}
	if !c.waiters.Served(w) {
		c.add(key, AddOptions{}, false)
	}
	select {
	case err := <-w.Done():
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// cacheAt is a cache, and a version that it must show.
type cacheAt struct {
	mirror.Cache
	version informer.Version
}

// behind reports whether the cache does not show the version yet.
func (s cacheAt) behind() bool { return s.Version() < s.version }

// answer returns the verdict for callers of WaitReconciled about a reconcile of key that has ended.
func (c *Controller[K]) answer(key K, o Outcome, err error) waiters.Verdict {
	if !c.waiters.Any() {
		return waiters.Verdict{}
	}
	decides := o == Succeeded || o == Parked || errors.Is(err, errNotOwned)
	if o == Parked {
		err = fmt.Errorf("%w: %w", ErrParked, err)
	}
	return c.waiters.End(key, decides, err)
}

// WaitIdle waits until everything that the caches of the watched informers hold at the call has been mapped. Then it waits
// for a moment with no key ready, in flight, or held.
//
// The watches belong to Run or to [Controller.Connect]. So if c watches informers, WaitIdle waits until one of these has
// connected the watches and the informers have synced. If the Run ends before the mappers are done, WaitIdle waits for the next
// Run.
//
// If c watches no informer, WaitIdle waits only for keys that were added. Between Runs, or while c is paused, ready keys stay
// ready.
//
// WaitIdle does not wait for keys that wait for a retry or a RequeueAfter, or for objects that wait to be mapped again:
// [Controller.Stats] counts them. Nor does it wait for changes that the caches do not show yet: use [Controller.WaitReconciled]
// after a write.
//
// WaitIdle returns an error that wraps the cause of ctx if ctx ends first, or [informer.ErrEnded] if an informer that c watches
// ends. Do not call WaitIdle from a mapper or a reconcile: it would wait for itself.
func (c *Controller[K]) WaitIdle(ctx context.Context) error {
	err := c.inputs.WaitMapped(ctx)
	if err == nil {
		err = c.agenda.WaitIdle(ctx)
	}
	if err != nil {
		return fmt.Errorf("controller: wait for %q to be idle: %w", c.name, err)
	}
	return nil
}
