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

	// Limit is how many writes are remembered at most; the oldest goes first. Defaults to 1024.
	Limit int

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
// A write is forgotten when the cache shows it or something newer, when it was remembered for [OverlayConfig.TTL], or
// when there are more than [OverlayConfig.Limit]. Without an entry, Get returns what the cache has: an Overlay is never
// older than its cache, and knows no more than hints. It has no goroutine and no timer. The functions of the user are
// called without locks.
//
// All methods may be called by several goroutines at once.
type Overlay[K comparable, T any] struct {
	base    Getter[K, T]
	key     KeyFunc[K, T]
	version func(T) uint64
	limit   int

	mu     sync.Mutex // guards the following
	writes aging[K, ownWrite[T]]
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
		base: base, key: key, version: version, limit: cfg.Limit,
		writes: newAging[K, ownWrite[T]](cfg.TTL),
	}, nil
}

// Get returns the newer of what the cache has and what was written.
func (o *Overlay[K, T]) Get(key K) (obj T, ok bool) {
	w, own := o.find(key) // before the cache is asked: what is forgotten meanwhile is there
	cached, ok := o.base.Get(key)
	switch {
	case !own:
		return cached, ok
	case w.gone && (!ok || o.version(cached) <= w.version):
		return obj, false
	case !w.gone && (!ok || o.version(cached) < w.version):
		return w.obj, true
	}
	o.forget(key, w)
	return cached, ok
}

// Wrote remembers an object that was created or updated, as the store returned it. It is ignored when a newer write of
// the same key is remembered.
func (o *Overlay[K, T]) Wrote(obj T) {
	o.remember(o.key(obj), ownWrite[T]{obj: obj, version: o.version(obj)})
}

// WroteDeletion remembers that an object was deleted which had the given version: Get does not find the key until the
// cache shows a newer object. A cache without the object proves nothing, for it may not even have heard of the creation;
// so a deletion is remembered until [Overlay.OnDelete] or the TTL ends it. It is ignored when a newer write of the same key is remembered.
func (o *Overlay[K, T]) WroteDeletion(key K, version uint64) {
	o.remember(key, ownWrite[T]{version: version, gone: true})
}

// OnDelete tells that the cache has lost an object: a write or deletion that is not newer than its last state is forgotten, so that
// Get does not bring it back. Give it to the handler of an informer. Without it, an object that somebody else deletes
// before the cache was asked for it stays until the TTL is over.
func (o *Overlay[K, T]) OnDelete(gone Tombstone[K, T]) {
	if w, own := o.find(gone.Key); own && w.version <= o.version(gone.Object) {
		o.forget(gone.Key, w)
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
