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

// Written is what a write to a store has returned: any [store.Object] is one.
type Written interface {
	// At returns the kind of the object, and the version of the write.
	At() (kind string, version informer.Version)
}

// WaitReconciled waits until a reconcile of key has succeeded that began when the caches of c had seen what was written: it has
// been acted upon.
//
//	site, err := sites.Update(ctx, site)
//	err = c.WaitReconciled(ctx, site.Key, site)
//
// Each object is waited for in every source of c ([Controller.Sources]) that mirrors its kind. Of what comes from no store, wait for
// the cache first, by [informer.Informer.WaitForVersion]. Without an object, the reconcile begins after WaitReconciled was called.
//
// If there is no such reconcile under way, WaitReconciled adds the key, so that there will be one. So it can be called for what was
// written long ago, and for a key that no mapper knows.
//
// A reconcile succeeds if it returns no error. One that is unfinished or fails comes again, and is waited for. If a reconcile
// that began late enough is given up, WaitReconciled returns an error that wraps its error and [ErrParked]. It returns an error
// that wraps the cause of ctx when that ends before, or [informer.ErrEnded] when an informer ends, and at once an error that
// names the kind of an object that no source mirrors. It panics as Add does, and if an object is nil.
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

// shows returns what the caches of c have to show when they have seen what was written.
func (c *Controller[K]) shows(wrote []Written) (seen []cacheAt, err error) {
	for _, w := range wrote {
		if isNil(w) {
			panic("controller: WaitReconciled called with a nil object")
		}
		kind, version := w.At()
		caches := c.mirrors.Of(kind)
		if len(caches) == 0 {
			return nil, fmt.Errorf("no source of the controller mirrors a store of kind %q", kind)
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

// cacheAt is a cache, and a version that it has to show.
type cacheAt struct {
	mirror.Cache
	version informer.Version
}

// behind reports whether the cache does not show the version yet.
func (s cacheAt) behind() bool { return s.Version() < s.version }

// answer returns what those who have waited for a reconcile of key are told of how it has ended.
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

// WaitIdle waits until everything that the caches of the watched informers hold when it is called has been mapped, and its
// keys and all others that were added have been reconciled: there is a moment at which no key is ready, in flight or held.
//
// The watches belong to Run or to [Controller.Connect]. So if c watches informers, WaitIdle waits until one of these has
// connected the watches and the informers have synced. If it ends before the mappers are done, WaitIdle waits for the next
// one. No Run hears of an object that was deleted before it began.
//
// If c watches no informer, WaitIdle only waits for keys that were added. While no Run is under way, or c is paused, keys
// that are ready stay ready.
//
// Keys that wait for another try, for a RequeueAfter or for a Gate do not count, nor do objects that wait to be mapped
// again: [Controller.Stats] tells how many there are. Nor do changes that the caches do not show yet: use
// [Controller.WaitReconciled] after a write.
//
// WaitIdle returns an error that wraps the cause of ctx when ctx ends first, and one that wraps [informer.ErrEnded] when an
// informer ends while c watches it. A mapper must not call WaitIdle, nor must a Reconcile: each would wait for itself.
func (c *Controller[K]) WaitIdle(ctx context.Context) error {
	err := c.inputs.WaitMapped(ctx)
	if err == nil {
		err = c.waitIdle(ctx)
	}
	if err != nil {
		return fmt.Errorf("controller: wait for %q to be idle: %w", c.name, err)
	}
	return nil
}

// waitIdle waits until there is a moment at which no key is ready, in flight or held.
func (c *Controller[K]) waitIdle(ctx context.Context) error {
	for {
		changes, err := c.holds.WaitEmpty(ctx)
		if err != nil {
			return err
		}
		if err = c.queue.WaitIdle(ctx); err != nil {
			return err
		}
		// Nothing was held in all the time in which the queue came to be idle. Otherwise a key may have gone from the one
		// to the other, and was seen in neither.
		if c.holds.Unchanged(changes) {
			return nil
		}
	}
}
