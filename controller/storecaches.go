package controller

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/reconcile"
)

// maxBehind is the longest time that a key waits, from the end of its last reconcile, until a cache shows what that reconcile wrote. A store
// reports its version every few seconds, even to a watch of only some objects, so a cache that takes longer is disconnected.
const maxBehind = 10 * time.Second

// versionedCache is an informer that shows versions, without its types.
type versionedCache interface {
	Version() informer.Version
	WaitForVersion(ctx context.Context, v informer.Version) error
	OnVersion(f func(informer.Version)) (stop func())
	Source() any
}

// storeCaches are the informers of one controller that mirror stores, for read-your-writes: they have the versions that the caches must
// show before a key may be reconciled again, those that its last reconcile has written.
//
//  1. After wrote, the key waits until each cache that mirrors the kind shows the version. observeNow checks a cache that already shows it, or
//     that is not followed.
//  2. No key waits for longer than maxBehind after the end of its last reconcile (startTimers). A wait that has expired is remembered until
//     expired has reported it, or until the cache shows the version, whether or not anything asked for the key.
//  3. As long as nothing was written, the only cost is one atomic read.
//
// They are safe for concurrent use.
type storeCaches[K comparable] struct {
	all    []*storeCache[K] // never changed
	active atomic.Bool      // a key has written
}

// storeCache is one of them.
type storeCache[K comparable] struct {
	of      *storeCaches[K]
	name    string
	clock   reconcile.Clock
	cache   versionedCache
	awaited *expectations.Versions[K] // the versions that keys have written and the cache does not show; none expires
	lag     *lag

	mu sync.Mutex
	// mu guards the following. It is locked before that of awaited. Invariant: while mu is free, behind has the keys that wait in
	// awaited.
	behind map[K]awaitedWrite
}

// awaitedWrite is the last write of a key that the cache does not show.
type awaitedWrite struct {
	version uint64
	began   time.Time // when the reconcile that wrote it ended; until then, when it wrote
}

func (w awaitedWrite) until() time.Time { return w.began.Add(maxBehind) }

// newStoreCaches returns the informers of stores among informers.
func newStoreCaches[K comparable, S any](informers []S) *storeCaches[K] {
	cs := &storeCaches[K]{}
	for _, in := range informers {
		cache, ok := any(in).(versionedCache)
		if !ok {
			continue
		}
		clock, ok := reconcile.ClockOf(cache.Source())
		if !ok {
			continue
		}
		awaited := expectations.NewVersions(expectations.Config[K]{TTL: -1}) // the time begins at the end of the reconcile
		c := &storeCache[K]{of: cs, clock: clock, cache: cache, awaited: awaited, lag: newLag(), behind: make(map[K]awaitedWrite)}
		if named, ok := cache.(interface{ Name() string }); ok {
			c.name = named.Name()
		}
		awaited.Notify(c.shown) // never stopped, and called before pending.met, which is registered later: see guarantee Notify of Versions
		cs.all = append(cs.all, c)
	}
	return cs
}

// of returns the caches that mirror a kind.
func (cs *storeCaches[K]) of(kind string) (caches []versionedCache) {
	for _, c := range cs.all {
		if c.clock.Kind == kind {
			caches = append(caches, c.cache)
		}
	}
	return caches
}

// misspelled returns a cache whose kind differs from kind only in upper and lower case. It returns nil if there is none, or if a cache has
// this kind.
func (cs *storeCaches[K]) misspelled(kind string) (other *storeCache[K]) {
	for _, c := range cs.all {
		switch {
		case c.clock.Kind == kind:
			return nil
		case other == nil && strings.EqualFold(c.clock.Kind, kind):
			other = c
		}
	}
	return other
}

// mistakes reports whether an Owns with the given kind, and a child whose owner is of another kind, belong together, so that the given kind
// is a mistake: the kinds differ only in upper and lower case, or a For has that of the owner, and no informer has the given one.
func (c *Controller[K]) mistakes(ofOwner, given string) bool {
	return strings.EqualFold(ofOwner, given) || len(c.caches.of(given)) == 0 && slices.ContainsFunc(c.inputs.feeds, func(f *feed[K]) bool {
		cache, ok := f.informer.(versionedCache)
		if f.contains == nil || !ok { // it is no For, or mirrors no store
			return false
		}
		clock, ok := reconcile.ClockOf(cache.Source())
		return ok && clock.Kind == ofOwner
	})
}

// mirrors reports whether one of the caches mirrors the objects of clock.
func (cs *storeCaches[K]) mirrors(clock reconcile.Clock) bool {
	return slices.ContainsFunc(cs.all, func(c *storeCache[K]) bool { return c.clock.Is(clock) })
}

// wrote makes key wait until the caches of clock show version. It does not wait for a version that they already show. The reconcile that
// wrote it is usually still in progress, and its transaction may still be open: see startTimers.
func (cs *storeCaches[K]) wrote(key K, clock reconcile.Clock, version uint64) {
	for _, c := range cs.all {
		if c.clock.Is(clock) {
			cs.active.Store(true)
			c.wrote(key, version)
			c.lag.wrote(version)
			if shown := c.cache.Version(); shown > 0 {
				c.lag.saw(uint64(shown)) // it may already show the write
			}
		}
	}
}

func (c *storeCache[K]) wrote(key K, version uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaited.ExpectVersion(key, version)
	if _, waiting := c.awaited.Expires(key); waiting { // from now on, shown is called
		c.behind[key] = awaitedWrite{max(version, c.behind[key].version), time.Now()}
	}
}

// shown is called when the cache may show everything that key has written.
func (c *storeCache[K]) shown(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, waiting := c.awaited.Expires(key); !waiting { // it has not written again in the meantime
		delete(c.behind, key)
	}
}

// startTimers begins the time for which key waits: its reconcile ends now. What it wrote is committed, or never will be.
func (cs *storeCaches[K]) startTimers(key K) {
	if !cs.active.Load() {
		return
	}
	for _, c := range cs.all {
		c.mu.Lock()
		if w, ok := c.behind[key]; ok {
			w.began = time.Now()
			c.behind[key] = w
		}
		c.mu.Unlock()
	}
}

// Expires reports whether key waits, and when the wait expires.
func (c *storeCache[K]) Expires(key K) (until time.Time, waiting bool) {
	if !c.of.active.Load() {
		return until, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.behind[key]
	if until = w.until(); !ok || !time.Now().Before(until) {
		return time.Time{}, false
	}
	return until, true
}

// expired reports whether the wait of key has expired although the cache still lacks version, which key has written. waited is the time
// since the end of the reconcile that wrote it. Each expiry is reported once, and is remembered until then, or until the cache shows version.
func (c *storeCache[K]) expired(key K) (version uint64, waited time.Duration, expired bool) {
	if !c.of.active.Load() {
		return 0, 0, false
	}
	c.mu.Lock()
	w, ok := c.behind[key]
	waited = time.Since(w.began)
	if !ok || waited < maxBehind || uint64(c.cache.Version()) >= w.version { // a handler may run before observe is called
		c.mu.Unlock()
		return 0, 0, false
	}
	delete(c.behind, key)
	c.mu.Unlock()
	c.awaited.DeleteExpectations(key) // calls shown, and then pending.met, which finds no hold
	c.mu.Lock()
	defer c.mu.Unlock()
	if again, ok := c.behind[key]; ok { // written in the meantime
		c.awaited.ExpectVersion(key, again.version)
	}
	return w.version, waited, true
}

// Notify registers f to be called for each key that no longer waits for the cache, until stop is called.
func (c *storeCache[K]) Notify(f func(key K)) (stop func()) { return c.awaited.Notify(f) }

// lags returns, by name, how far each cache that was written to is behind: see lag. Of two with the same name, the one further behind
// counts.
func (cs *storeCaches[K]) lags() map[string]time.Duration {
	lags := make(map[string]time.Duration)
	for _, c := range cs.all {
		if lag := c.lag.current(); lag >= 0 {
			lags[c.name] = max(lags[c.name], lag)
		}
	}
	return lags
}

// follow observes each version that a cache reaches, until stop is called.
func (cs *storeCaches[K]) follow() (stop func()) {
	stops := make([]func(), len(cs.all))
	for i, c := range cs.all {
		stops[i] = c.cache.OnVersion(c.observe)
		c.observeNow()
	}
	return func() {
		for i, stop := range stops {
			stop()
			cs.all[i].lag.forget()
		}
	}
}

// observeNow reads the versions of the caches, for times in which they are not followed.
func (cs *storeCaches[K]) observeNow() {
	for _, c := range cs.all {
		c.observeNow()
	}
}

func (c *storeCache[K]) observeNow() {
	// If a new history begins in the meantime, the version that was read belongs to the old one.
	for v := c.cache.Version(); v > 0; v = c.cache.Version() {
		if c.observe(v); c.cache.Version() >= v {
			return
		}
		c.observe(0)
	}
}

func (c *storeCache[K]) observe(v informer.Version) {
	c.awaited.VersionObserved(uint64(v))
	c.lag.saw(uint64(v))
}

// lag measures the time from a write to the moment at which the cache shows it. It follows one write at a time: the oldest that the cache
// does not show. So its cost does not depend on the number of writes.
type lag struct {
	followed atomic.Pointer[unseenWrite]
	last     atomic.Int64 // nanoseconds that the previous write took; negative if there is none
}

// unseenWrite is a write that the cache does not show yet.
type unseenWrite struct {
	version uint64
	at      time.Time
}

func newLag() *lag {
	l := &lag{}
	l.last.Store(-1)
	return l
}

// wrote records that a version was written, which the cache may already show.
func (l *lag) wrote(version uint64) {
	if l.followed.Load() == nil {
		l.followed.CompareAndSwap(nil, &unseenWrite{version, time.Now()})
	}
}

// saw records that the cache shows a version. 0 begins a new history, in which versions of the old one never appear.
func (l *lag) saw(version uint64) {
	w := l.followed.Load()
	if w == nil || version != 0 && version < w.version {
		return
	}
	if l.followed.CompareAndSwap(w, nil) && version != 0 {
		l.last.Store(int64(time.Since(w.at)))
	}
}

// forget ends the wait for a write, because the versions of the cache are no longer reported.
func (l *lag) forget() { l.followed.Store(nil) }

// current returns how long the last write took to appear, or how long the current one has been missing, if that is more. It is negative if
// there was no write.
func (l *lag) current() time.Duration {
	last := time.Duration(l.last.Load())
	if w := l.followed.Load(); w != nil {
		return max(last, time.Since(w.at))
	}
	return last
}
