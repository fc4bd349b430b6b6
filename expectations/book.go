package expectations

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// book holds expectations by key, and forgets those that have expired.
//
// Invariants:
//  1. There is exactly one page for each waiting key.
//  2. The list from oldest to newest holds the same pages, in order of expiry.
//  3. met is empty while mu is free.
type book[K comparable, E any] struct {
	cfg     Config[K]
	removed func(*page[K, E]) // called under mu for each page that is removed; may be nil
	attrs   func(E) slog.Attr // describes in the log what a page expects; may be nil

	mu             sync.Mutex // guards the following
	pages          map[K]*page[K, E]
	peak           int            // the largest length of pages since it was made
	oldest, newest *page[K, E]    // the same pages, in order of expiry
	listeners      []*listener[K] // never changed in place
	met            []K            // the keys that unlock reports to listeners
}

// page is the expectations of one key.
type page[K comparable, E any] struct {
	key          K
	expected     E
	expires      time.Time // zero means never
	asked        bool      // a caller has asked, and key waited
	older, newer *page[K, E]
}

// listener is a function given to Notify.
type listener[K comparable] struct{ f func(key K) }

func newBook[K comparable, E any](cfg Config[K]) book[K, E] {
	return book[K, E]{cfg: cfg.withDefaults(), pages: make(map[K]*page[K, E])}
}

// lock locks mu and removes expired pages. Its result is for unlock: defer b.unlock(b.lock()).
func (b *book[K, E]) lock() (expired []*page[K, E]) {
	b.mu.Lock()
	return b.sweepLocked()
}

func (b *book[K, E]) sweepLocked() (expired []*page[K, E]) {
	if b.oldest == nil || b.oldest.expires.IsZero() {
		return nil // without reading the clock: most events come while no key waits
	}
	now := time.Now()
	for p := b.oldest; p != nil && !now.Before(p.expires); p = b.oldest {
		b.removeLocked(p)
		expired = append(expired, p)
	}
	return expired
}

// unlock unlocks mu, and reports the keys that have expired or are satisfied.
func (b *book[K, E]) unlock(expired []*page[K, E]) {
	met, listeners := b.met, b.listeners
	b.met = nil
	b.mu.Unlock()
	for _, p := range expired {
		if b.cfg.OnExpired != nil {
			b.cfg.OnExpired(p.key)
		} else {
			b.warn(p)
		}
	}
	for _, key := range met {
		for _, l := range listeners {
			l.f(key)
		}
	}
}

// warn logs that p has expired.
func (b *book[K, E]) warn(p *page[K, E]) {
	attrs := []slog.Attr{slog.String("name", b.cfg.Name), slog.Any("key", p.key)}
	if b.attrs != nil {
		attrs = append(attrs, b.attrs(p.expected))
	}
	attrs = append(attrs, slog.Duration("waited", time.Since(p.expires.Add(-b.cfg.TTL))))
	b.cfg.Logger.LogAttrs(context.Background(), slog.LevelWarn, "expectations expired", attrs...)
}

// ask returns when the page of key expires, and records that a caller has asked, and key waited.
func (b *book[K, E]) ask(key K) (at time.Time, waiting bool) {
	defer b.unlock(b.lock())
	p := b.pages[key]
	if p == nil {
		return time.Time{}, false
	}
	p.asked = true
	return p.expires, true
}

// notify adds a function to call for each satisfied key that ask has reported.
func (b *book[K, E]) notify(f func(key K)) (stop func()) {
	if f == nil {
		panic("expectations: Notify needs a function")
	}
	l := &listener[K]{f}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners = append(slices.Clip(b.listeners), l)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if i := slices.Index(b.listeners, l); i >= 0 {
			b.listeners = slices.Concat(b.listeners[:i], b.listeners[i+1:])
		}
	}
}

// forget removes the expectations of key.
func (b *book[K, E]) forget(key K) {
	defer b.unlock(b.lock())
	if p := b.pages[key]; p != nil {
		b.meetLocked(p)
	}
}

// pageLocked returns the page of key. It makes one if there is none.
func (b *book[K, E]) pageLocked(key K) *page[K, E] {
	p := b.pages[key]
	if p == nil {
		if key != key {
			panic("expectations: a key is not equal to itself")
		}
		p = &page[K, E]{key: key}
		b.pages[key] = p
		b.peak = max(b.peak, len(b.pages))
		b.renewLocked(p)
	}
	return p
}

// renewLocked renews the TTL of p.
func (b *book[K, E]) renewLocked(p *page[K, E]) {
	b.unlinkLocked(p)
	if b.cfg.TTL > 0 {
		p.expires = time.Now().Add(b.cfg.TTL)
	}
	if p.older = b.newest; p.older != nil {
		p.older.newer = p
	} else {
		b.oldest = p
	}
	b.newest = p
}

// meetLocked removes p, whose key is satisfied.
func (b *book[K, E]) meetLocked(p *page[K, E]) {
	b.removeLocked(p)
	if p.asked && len(b.listeners) > 0 {
		b.met = append(b.met, p.key)
	}
}

func (b *book[K, E]) removeLocked(p *page[K, E]) {
	b.unlinkLocked(p)
	delete(b.pages, p.key)
	if len(b.pages) == 0 && b.peak > 64 {
		b.pages, b.peak = make(map[K]*page[K, E]), 0 // a map never shrinks
	}
	if b.removed != nil {
		b.removed(p)
	}
}

func (b *book[K, E]) unlinkLocked(p *page[K, E]) {
	if p.older != nil {
		p.older.newer = p.newer
	} else if b.oldest == p {
		b.oldest = p.newer
	}
	if p.newer != nil {
		p.newer.older = p.older
	} else if b.newest == p {
		b.newest = p.older
	}
	p.older, p.newer = nil, nil
}
