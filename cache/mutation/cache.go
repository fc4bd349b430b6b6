package mutation

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/internal/problems"
)

// Config is the configuration of a [Cache]. Its zero value can be used.
type Config struct {
	// TTL is the longest time for which a write is remembered, and also a deletion that the cache has shown. Defaults to one minute.
	TTL time.Duration

	// Limit is the maximum number of remembered writes, and also of remembered deletions that the cache has shown. Beyond it, the oldest is
	// forgotten. Defaults to 1024.
	Limit int

	// Version returns a version up to which the underlying cache shows every change, such as informer.Informer.Version. It must count the
	// changes of all objects together, as the versions of a store do. With Version, a Cache forgets the write of an object that the
	// underlying cache lacks as soon as Version has reached the version of the write. Nil means that the version is not known.
	Version func() uint64

	_ [0]func() // not comparable
}

func (cfg Config) withDefaults() Config {
	cfg.TTL = cmp.Or(cfg.TTL, time.Minute)
	cfg.Limit = cmp.Or(cfg.Limit, 1024)
	return cfg
}

func (cfg Config) validate() error {
	var errs []error
	if cfg.TTL < 0 {
		errs = append(errs, fmt.Errorf("Config.TTL is %v, must not be negative", cfg.TTL))
	}
	if cfg.Limit < 0 {
		errs = append(errs, fmt.Errorf("Config.Limit is %d, must not be negative", cfg.Limit))
	}
	return problems.Join(errs...)
}

// Cache shows another cache as it will be when it has caught up with the writes of this process. Versions decide which of two states of an
// object is newer. They increase with every change to an object, even when it is deleted and created again.
//
// A Cache forgets a write when the underlying cache shows the write, something newer, or the deletion of the object. It notices
// that when Get, All, or a reader of ByIndex reads the key. It also forgets a write after [Config].TTL, or if there are more than
// [Config].Limit writes. Without a write, Get returns the object of the underlying cache.
//
// If the underlying cache lacks an object that was written, either it has not seen the write yet, or it has already seen the deletion.
// [Config].Version tells the two apart. [Cache.OnDelete] does so for deletions that an informer reports. Use at least one of them:
// otherwise an object that another process deletes may stay visible until the TTL has passed.
//
// A Cache has no goroutine and no timer. It calls user functions without locks. Several goroutines may call its methods concurrently.
type Cache[K comparable, T any] struct {
	base    cache.Reader[K, T]
	key     cache.KeyFunc[K, T]
	version func(T) uint64
	reached func() uint64 // Config.Version
	limit   int

	mu sync.Mutex
	// mu guards the following. Invariant: a write is newer than the deletion of its key.
	writes  aging[K, write[T]]
	deleted aging[K, uint64] // the last versions of objects whose deletion the underlying cache has shown
}

// write is the last write to a key: an object, or the deletion of the state with this version.
type write[T any] struct {
	obj     T
	version uint64
	deleted bool
}

// New returns a Cache of base without writes. version returns the version of an object. The error names each field of cfg
// that is out of its bounds. New panics if base, key or version is nil.
func New[K comparable, T any](base cache.Reader[K, T], key cache.KeyFunc[K, T], version func(T) uint64, cfg Config) (*Cache[K, T], error) {
	if base == nil || key == nil || version == nil {
		panic("mutation: New: the base, the key function or the version function is nil")
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("mutation: new cache: %w", err)
	}
	cfg = cfg.withDefaults()
	return &Cache[K, T]{
		base: base, key: key, version: version, reached: cfg.Version, limit: cfg.Limit,
		writes:  newAging[K, write[T]](cfg.TTL),
		deleted: newAging[K, uint64](cfg.TTL),
	}, nil
}

// Get returns the newer of the cached object and the one that was written.
func (c *Cache[K, T]) Get(key K) (T, bool) {
	now := c.progress()
	w, own := c.find(key) // before the cache is read: a write that is forgotten in the meantime is in the cache
	if !own {
		return c.base.Get(key)
	}
	return c.newer(key, w, now)
}

// Wrote remembers an object that was created or updated, as the store returned it. Wrote does nothing if a newer write to the key is
// remembered, or if the underlying cache has shown the deletion of the object since.
func (c *Cache[K, T]) Wrote(obj T) {
	c.remember(c.key(obj), write[T]{obj: obj, version: c.version(obj)})
}

// WroteDeletion remembers the deletion of an object that had the given version: while it is remembered, Get does not find the key until
// the underlying cache shows a newer object. WroteDeletion does nothing if a newer write to the key is remembered, or if the
// underlying cache has already shown the deletion.
func (c *Cache[K, T]) WroteDeletion(key K, version uint64) {
	c.remember(key, write[T]{version: version, deleted: true})
}

// OnDelete reports that the underlying cache has lost an object. The Cache forgets each write of the object up to the object's last
// state, even if the reply to a write arrives later. Use it as the OnDelete of an informer's handler.
//
// If the final state is unknown, the object may have changed since its last known state. So OnDelete drops a newer write too, unless the
// Config has a Version, which is exact. In rare cases, that write created the object again after the list that lacks it. Then Get returns
// the cached state until the cache has caught up.
func (c *Cache[K, T]) OnDelete(t cache.Tombstone[K, T]) {
	checkKey(t.Key)
	last := c.version(t.Object)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.deleted.expire(now, sweep)
	if e := c.deleted.alive(t.Key, now); e == nil || e.Value.v <= last {
		c.deleted.put(t.Key, last, now)
	}
	if c.deleted.Len() > c.limit {
		c.deleted.Remove(c.deleted.First())
	}
	guess := t.FinalStateUnknown && c.reached == nil
	if e := c.writes.Get(t.Key); e != nil && (e.Value.v.version <= last || guess) {
		c.writes.Remove(e)
	}
}

// Len returns the number of remembered writes. They include those that the underlying cache has shown since their keys were last read.
func (c *Cache[K, T]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes.expire(time.Now(), c.limit)
	return c.writes.Len()
}

// progress is how far the underlying cache is.
type progress struct {
	version uint64
	known   bool
}

// progress returns how far the underlying cache is at least. Call it before reading objects from that cache.
func (c *Cache[K, T]) progress() (p progress) {
	if c.reached != nil {
		p = progress{c.reached(), true}
	}
	return p
}

// newer returns the newer of the cached object and w, a write to key. It forgets w if the cache is past it.
func (c *Cache[K, T]) newer(key K, w write[T], at progress) (obj T, ok bool) {
	cached, ok := c.base.Get(key)
	switch {
	case !ok && at.known && w.version <= at.version: // the object was deleted after w
	case w.deleted && (!ok || c.version(cached) <= w.version):
		return obj, false
	case !w.deleted && (!ok || c.version(cached) < w.version):
		return w.obj, true
	}
	c.forget(key, w)
	return cached, ok
}

func (c *Cache[K, T]) remember(key K, w write[T]) {
	checkKey(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.writes.expire(now, sweep)
	if e := c.deleted.alive(key, now); e != nil && w.version <= e.Value.v {
		return // the cache is past it
	}
	if e := c.writes.alive(key, now); e != nil {
		if last := e.Value.v; last.version > w.version || last.version == w.version && last.deleted {
			return
		}
	}
	c.writes.put(key, w, now)
	if c.writes.Len() > c.limit {
		c.writes.Remove(c.writes.First())
	}
}

// find returns the remembered write to key.
func (c *Cache[K, T]) find(key K) (w write[T], ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.writes.expire(now, sweep)
	if e := c.writes.alive(key, now); e != nil {
		return e.Value.v, true
	}
	return w, false
}

// forget removes a write to key, unless a different one is remembered by now.
func (c *Cache[K, T]) forget(key K, w write[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.writes.Get(key); e != nil && e.Value.v.version == w.version && e.Value.v.deleted == w.deleted {
		c.writes.Remove(e)
	}
}

// checkKey panics if key is not equal to itself (a NaN).
func checkKey[K comparable](key K) {
	if key != key {
		panic("mutation: a key is not equal to itself")
	}
}
