package expectations

import (
	"log/slog"
	"sync"
	"time"
)

// book holds what is expected, by key, and forgets what has expired.
type book[K comparable, E any] struct {
	cfg  Config[K]
	moot func(E) bool // under mu: an expired expectation was met and nobody asked; nil means never

	mu             sync.Mutex // guards the following
	pages          map[K]*page[K, E]
	peak           int         // the most that pages has held since it was made
	oldest, newest *page[K, E] // the same pages, in order of expiry
}

// page is what is expected for one key. There is none for a key whose expectations are met.
type page[K comparable, E any] struct {
	key          K
	expected     E
	expires      time.Time // zero means never
	older, newer *page[K, E]
}

func newBook[K comparable, E any](cfg Config[K]) book[K, E] {
	return book[K, E]{cfg: cfg.withDefaults(), pages: make(map[K]*page[K, E])}
}

// lock locks mu and forgets what has expired. Its result is for unlock: defer b.unlock(b.lock()).
func (b *book[K, E]) lock() (expired []K) {
	b.mu.Lock()
	return b.sweepLocked()
}

func (b *book[K, E]) sweepLocked() (expired []K) {
	now := time.Now()
	for p := b.oldest; p != nil && !p.expires.IsZero() && !now.Before(p.expires); p = b.oldest {
		b.removeLocked(p)
		if b.moot == nil || !b.moot(p.expected) {
			expired = append(expired, p.key)
		}
	}
	return expired
}

// unlock unlocks mu and reports what has expired.
func (b *book[K, E]) unlock(expired []K) {
	b.mu.Unlock()
	for _, key := range expired {
		if b.cfg.OnExpired != nil {
			b.cfg.OnExpired(key)
		} else {
			b.cfg.Logger.Warn("expectations expired", slog.String("name", b.cfg.Name), slog.Any("key", key))
		}
	}
}

// expires returns when the page of key expires.
func (b *book[K, E]) expires(key K) (at time.Time, ok bool) {
	defer b.unlock(b.lock())
	p := b.pages[key]
	if p == nil {
		return time.Time{}, false
	}
	return p.expires, true
}

// forget removes the page of key, if there is one.
func (b *book[K, E]) forget(key K) {
	defer b.unlock(b.lock())
	if p := b.pages[key]; p != nil {
		b.removeLocked(p)
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

// renewLocked lets the time of p begin anew.
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

func (b *book[K, E]) removeLocked(p *page[K, E]) {
	b.unlinkLocked(p)
	delete(b.pages, p.key)
	if len(b.pages) == 0 && b.peak > 64 {
		b.pages, b.peak = make(map[K]*page[K, E]), 0 // a map never shrinks
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
