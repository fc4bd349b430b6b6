package mirror

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/written"
)

// MaxBehind is the longest time that a key waits until a cache shows what its last reconcile wrote. A store reports its version every few
// seconds, even to a watch of only some objects, so a cache that takes longer is disconnected.
const MaxBehind = 10 * time.Second

// Cache is an informer without its types.
type Cache interface {
	Version() informer.Version
	WaitForVersion(ctx context.Context, v informer.Version) error
	OnVersion(f func(informer.Version)) (stop func())
	Source() any
}

// Mirrors are the informers of one controller that mirror stores. They are safe for concurrent use.
type Mirrors[K comparable] struct {
	all    []*Mirror[K] // never changed after New
	active atomic.Bool
}

// Mirror is one informer.
type Mirror[K comparable] struct {
	of    *Mirrors[K]
	clock written.Clock
	cache Cache
	seen  *expectations.Versions[K] // the versions for which keys wait
	lag   *lag
}

// New returns the mirrors among informers.
func New[K comparable, S any](informers []S) *Mirrors[K] {
	ms := &Mirrors[K]{}
	for _, in := range informers {
		cache, ok := any(in).(Cache)
		if !ok {
			continue
		}
		clock, ok := written.ClockOf(cache.Source())
		if !ok {
			continue
		}
		seen, err := expectations.NewVersions(expectations.Config[K]{
			TTL: MaxBehind, Logger: slog.New(slog.DiscardHandler), // the controller logs a key that was held for too long
		})
		if err != nil {
			panic(err) // nothing in this Config comes from the caller
		}
		ms.all = append(ms.all, &Mirror[K]{ms, clock, cache, seen, newLag()})
	}
	return ms
}

// Of returns the caches that mirror a kind.
func (ms *Mirrors[K]) Of(kind string) (caches []Cache) {
	for _, m := range ms.all {
		if m.clock.Kind == kind {
			caches = append(caches, m.cache)
		}
	}
	return caches
}

// Active reports whether a key has ever had to wait.
func (ms *Mirrors[K]) Active() bool { return ms.active.Load() }

// Wrote makes key wait until the caches of clock show version. It does not wait for a version that they already show.
func (ms *Mirrors[K]) Wrote(key K, clock written.Clock, version uint64) {
	for _, m := range ms.all {
		if m.clock.Is(clock) {
			ms.active.Store(true)
			m.seen.ExpectVersion(key, version)
			m.lag.wrote(version)
			if shown := m.cache.Version(); shown > 0 {
				m.lag.saw(uint64(shown)) // it may already show the write
			}
		}
	}
}

// Each returns the mirrors.
func (ms *Mirrors[K]) Each() []*Mirror[K] { return ms.all }

// Expires reports whether key waits, and when the wait expires.
func (m *Mirror[K]) Expires(key K) (until time.Time, waiting bool) {
	if !m.of.Active() {
		return until, false
	}
	return m.seen.Expires(key)
}

// Notify registers f to be called for each key that no longer waits for the cache, until stop is called.
func (m *Mirror[K]) Notify(f func(key K)) (stop func()) { return m.seen.Notify(f) }

// Names returns the names of the mirrors, in the order of [Mirrors.Each].
func (ms *Mirrors[K]) Names() []string {
	names := make([]string, len(ms.all))
	for i, m := range ms.all {
		if named, ok := m.cache.(interface{ Name() string }); ok {
			names[i] = named.Name()
		}
	}
	return names
}

// Lags returns, by name, how far each mirror that was written to is behind: see lag. Of two with the same name, the one further behind
// counts.
func (ms *Mirrors[K]) Lags() map[string]time.Duration {
	lags := make(map[string]time.Duration)
	for i, name := range ms.Names() {
		if lag := ms.all[i].lag.now(); lag >= 0 {
			lags[name] = max(lags[name], lag)
		}
	}
	return lags
}

// Follow observes each version that a cache reaches, until stop is called.
func (ms *Mirrors[K]) Follow() (stop func()) {
	stops := make([]func(), len(ms.all))
	for i, m := range ms.all {
		stops[i] = m.cache.OnVersion(m.observe)
		m.catchUp()
	}
	return func() {
		for i, stop := range stops {
			stop()
			ms.all[i].lag.forget()
		}
	}
}

// CatchUp reads the versions of the caches, for times in which they are not followed.
func (ms *Mirrors[K]) CatchUp() {
	for _, m := range ms.all {
		m.catchUp()
	}
}

func (m *Mirror[K]) catchUp() {
	// If a new history begins in the meantime, the version that was read belongs to the old one.
	for v := m.cache.Version(); v > 0; v = m.cache.Version() {
		if m.observe(v); m.cache.Version() >= v {
			return
		}
		m.observe(0)
	}
}

func (m *Mirror[K]) observe(v informer.Version) {
	m.seen.VersionObserved(uint64(v))
	m.lag.saw(uint64(v))
}
