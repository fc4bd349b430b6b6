package cache

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"
)

// OverlayConfig is the configuration of an [Overlay]. Its zero value can be used.
type OverlayConfig struct {
	// TTL is how long a write is remembered that the cache does not show. Defaults to one minute.
	TTL time.Duration

	// Limit is how many writes are remembered at most, and how many deletions that the cache has shown; the oldest goes
	// first. Defaults to 1024.
	Limit int

	// Version returns a version of which the cache shows every change up to it, such as informer.Informer.Version. It must
	// count the changes of all objects together, as the versions of a store do. With it, an Overlay forgets a write of an
	// object that the cache does not have as soon as the cache is past the write. Nil means that this is not known.
	Version func() uint64

	_ [0]func() // not comparable
}

func (cfg OverlayConfig) withDefaults() OverlayConfig {
	cfg.TTL = cmp.Or(cfg.TTL, time.Minute)
	cfg.Limit = cmp.Or(cfg.Limit, 1024)
	return cfg
}

func (cfg OverlayConfig) validate() error {
	var errs []error
	if cfg.TTL < 0 {
		errs = append(errs, fmt.Errorf("OverlayConfig.TTL is %v, must not be negative", cfg.TTL))
	}
	if cfg.Limit < 0 {
		errs = append(errs, fmt.Errorf("OverlayConfig.Limit is %d, must not be negative", cfg.Limit))
	}
	return errors.Join(errs...)
}

// Overlay shows a cache as it will be once it has caught up with one's own writes: Get returns the newer of what the
// cache has and what was written through this process. Versions say which is newer: they grow with every change of an
// object, also when it is deleted and created again.
//
// An Overlay forgets a write in four cases: the cache shows the write or something newer, the cache has shown a deletion of
// it, [OverlayConfig.TTL] has passed, or there are more than [OverlayConfig.Limit] writes. Without a write, Get returns what
// the cache has. So an Overlay is never older than its cache.
//
// A cache that lacks an object says nothing about a write of it: the cache may be behind the write, or past the deletion.
// [OverlayConfig.Version] tells the two apart. [Overlay.OnDelete] does so for deletions that an informer tells. Give an
// Overlay at least one of them, or an object that somebody else deletes may stay until the TTL is over.
//
// An Overlay has no goroutine and no timer. It calls the functions of the user without locks. All methods may be called by
// several goroutines at once.
type Overlay[K comparable, T any] struct {
	base    Getter[K, T]
	key     KeyFunc[K, T]
	version func(T) uint64
	reached func() uint64 // OverlayConfig.Version
	limit   int

	mu sync.Mutex
	// mu guards the following. Invariant: a write is newer than the deletion of its key.
	writes  aging[K, ownWrite[T]]
	deleted aging[K, uint64] // the last versions of objects whose deletion the cache has shown
}

// Getter finds objects by key. *[Indexer] and *informer.Informer are two.
type Getter[K comparable, T any] interface {
	Get(key K) (T, bool)
}

// ownWrite is the last write of a key: an object, or the deletion of its state with this version.
type ownWrite[T any] struct {
	obj     T
	version uint64
	gone    bool
}

// NewOverlay returns an Overlay of base without writes. The error names each field of cfg that is out of its bounds. NewOverlay
// panics if base, key or version is nil.
func NewOverlay[K comparable, T any](base Getter[K, T], key KeyFunc[K, T], version func(T) uint64, cfg OverlayConfig) (*Overlay[K, T], error) {
	if base == nil || key == nil || version == nil {
		panic("cache: NewOverlay: the base, the key function or the version function is nil")
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("cache: new overlay: %w", err)
	}
	cfg = cfg.withDefaults()
	return &Overlay[K, T]{
		base: base, key: key, version: version, reached: cfg.Version, limit: cfg.Limit,
		writes:  newAging[K, ownWrite[T]](cfg.TTL),
		deleted: newAging[K, uint64](cfg.TTL),
	}, nil
}

// Get returns the newer of what the cache has and what was written.
func (o *Overlay[K, T]) Get(key K) (T, bool) {
	came := o.progress()
	w, own := o.find(key) // before the cache is asked: what is forgotten meanwhile is there
	if !own {
		return o.base.Get(key)
	}
	return o.newer(key, w, came)
}

// progress is how far the cache has come.
type progress struct {
	version uint64
	known   bool
}

// progress asks how far the cache has come at least. Call it before the cache is asked for an object.
func (o *Overlay[K, T]) progress() (p progress) {
	if o.reached != nil {
		p = progress{o.reached(), true}
	}
	return p
}

// newer returns the newer of what the cache has and w, a write of key, which it forgets if the cache is past it.
func (o *Overlay[K, T]) newer(key K, w ownWrite[T], came progress) (obj T, ok bool) {
	cached, ok := o.base.Get(key)
	switch {
	case !ok && came.known && w.version <= came.version: // the object was deleted after w
	case w.gone && (!ok || o.version(cached) <= w.version):
		return obj, false
	case !w.gone && (!ok || o.version(cached) < w.version):
		return w.obj, true
	}
	o.forget(key, w)
	return cached, ok
}

// Wrote remembers an object that was created or updated, as the store returned it. Wrote does nothing if a newer write of
// the key is remembered, or if the cache has shown the deletion of the object since.
func (o *Overlay[K, T]) Wrote(obj T) {
	o.remember(o.key(obj), ownWrite[T]{obj: obj, version: o.version(obj)})
}

// WroteDeletion remembers that an object was deleted which had the given version: Get does not find the key until the
// cache shows a newer object. WroteDeletion does nothing if a newer write of the key is remembered, or if the cache has shown
// the deletion already.
func (o *Overlay[K, T]) WroteDeletion(key K, version uint64) {
	o.remember(key, ownWrite[T]{version: version, gone: true})
}

// OnDelete tells that the cache has lost an object. It ends a write of the object that is not newer than its last state,
// also if the reply of that write comes later. Give it to the handler of an informer.
//
// If the final state is unknown, the object may have changed since its last known state. So OnDelete ends a newer write of
// it, too, unless there is a Version in the config, which is exact. In the rare case that the write created the object again
// after the list that lacks it, Get returns what the cache has until the cache catches up.
func (o *Overlay[K, T]) OnDelete(gone Tombstone[K, T]) {
	checkKey(gone.Key)
	last := o.version(gone.Object)
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	o.deleted.expire(now, sweep)
	if e := o.deleted.alive(gone.Key, now); e == nil || e.v.v <= last {
		o.deleted.put(gone.Key, last, now)
	}
	if o.deleted.n > o.limit {
		o.deleted.remove(o.deleted.first())
	}
	guess := gone.FinalStateUnknown && o.reached == nil
	if e := o.writes.get(gone.Key); e != nil && (e.v.v.version <= last || guess) {
		o.writes.remove(e)
	}
}

// Len returns the number of writes that are remembered.
func (o *Overlay[K, T]) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writes.expire(time.Now(), o.limit)
	return o.writes.n
}

func (o *Overlay[K, T]) remember(key K, w ownWrite[T]) {
	checkKey(key)
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	o.writes.expire(now, sweep)
	if e := o.deleted.alive(key, now); e != nil && w.version <= e.v.v {
		return // the cache is past it
	}
	if e := o.writes.alive(key, now); e != nil && (e.v.v.version > w.version || e.v.v.version == w.version && e.v.v.gone) {
		return
	}
	o.writes.put(key, w, now)
	if o.writes.n > o.limit {
		o.writes.remove(o.writes.first())
	}
}

// find returns the write of key that is remembered.
func (o *Overlay[K, T]) find(key K) (w ownWrite[T], ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	o.writes.expire(now, sweep)
	if e := o.writes.alive(key, now); e != nil {
		return e.v.v, true
	}
	return w, false
}

// forget drops a write of key, unless there is another one by now.
func (o *Overlay[K, T]) forget(key K, w ownWrite[T]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.writes.get(key); e != nil && e.v.v.version == w.version && e.v.v.gone == w.gone {
		o.writes.remove(e)
	}
}
