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

// MaxBehind is how long a key waits at most until a cache shows what its last reconcile has written. A store tells its version
// every few seconds, also to those who watch a part of it, so a cache that takes longer is cut off.
const MaxBehind = 10 * time.Second

// Cache is an informer, to which no type matters.
type Cache interface {
	Version() informer.Version
	WaitForVersion(ctx context.Context, v informer.Version) error
	OnVersion(f func(informer.Version)) (stop func())
	Source() any
}

// Mirrors are the sources of one controller that mirror stores. Their methods may be called by several goroutines at once.
type Mirrors[K comparable] struct {
	all    []*Mirror[K] // never changed after New
	active atomic.Bool
}

// Mirror is one source.
type Mirror[K comparable] struct {
	of    *Mirrors[K]
	clock written.Clock
	cache Cache
	seen  *expectations.Versions[K] // the versions for which keys wait
	lag   *lag
}

// New returns the mirrors among sources.
func New[K comparable, S any](sources []S) *Mirrors[K] {
	ms := &Mirrors[K]{}
	for _, s := range sources {
		cache, ok := any(s).(Cache)
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

// Wrote makes key wait until the caches of clock show version. A version that they show already is not waited for.
func (ms *Mirrors[K]) Wrote(key K, clock written.Clock, version uint64) {
	for _, m := range ms.all {
		if m.clock.Is(clock) {
			ms.active.Store(true)
			m.seen.ExpectVersion(key, version)
			m.lag.wrote(version)
			if shown := m.cache.Version(); shown > 0 {
				m.lag.saw(uint64(shown)) // it may show the write already
			}
		}
	}
}

// Each returns the mirrors.
func (ms *Mirrors[K]) Each() []*Mirror[K] { return ms.all }

// Expires reports whether key waits, and until when at most.
func (m *Mirror[K]) Expires(key K) (until time.Time, waiting bool) {
	if !m.of.Active() {
		return until, false
	}
	return m.seen.Expires(key)
}

// Notify has f called for each key that waits for the cache no more, until stop is called.
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

// Lags returns how far each mirror is behind that something was written to, by its name: see lag. Of two with one name, the one that is
// further behind counts.
func (ms *Mirrors[K]) Lags() map[string]time.Duration {
	lags := make(map[string]time.Duration)
	for i, name := range ms.Names() {
		if lag := ms.all[i].lag.now(); lag >= 0 {
			lags[name] = max(lags[name], lag)
		}
	}
	return lags
}

// Follow hears of each version that a cache reaches, until stop is called.
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

// CatchUp asks the caches how far they are, for a time in which nobody follows them.
func (ms *Mirrors[K]) CatchUp() {
	for _, m := range ms.all {
		m.catchUp()
	}
}

func (m *Mirror[K]) catchUp() {
	// If a new history begins meanwhile, the version that was read belongs to the old one.
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
