package controller

import (
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/written"
)

// maxBehind is how long a key is held at most until a cache shows what its last reconcile has written. A store tells its version
// every few seconds, also to those who watch a part of it, so a cache that takes longer is cut off.
const maxBehind = 10 * time.Second

// mirror is a source of the controller that mirrors a store.
type mirror[K comparable] struct {
	clock    written.Clock
	informer versioned
	seen     *expectations.Versions[K] // the versions for which keys wait
}

// versioned is an informer, to which no type matters.
type versioned interface {
	Version() informer.Version
	OnVersion(f func(informer.Version)) (stop func())
}

// newMirrors returns a mirror for each source that mirrors a store.
func newMirrors[K comparable](sources []Source) (mirrors []*mirror[K]) {
	for _, s := range sources {
		of, ok := s.(interface {
			versioned
			Source() any
		})
		if !ok {
			continue
		}
		clock, ok := written.ClockOf(of.Source())
		if !ok {
			continue
		}
		seen, err := expectations.NewVersions(expectations.Config[K]{
			TTL: maxBehind, Logger: slog.New(slog.DiscardHandler), // a key that was held for too long is logged by awaits
		})
		if err != nil {
			panic(err) // nothing in this Config comes from the caller
		}
		mirrors = append(mirrors, &mirror[K]{clock, of, seen})
	}
	return mirrors
}

// follow tells m of each version that the cache reaches, until stop is called.
func (m *mirror[K]) follow() (stop func()) {
	stop = m.informer.OnVersion(m.observe)
	m.catchUp()
	return stop
}

// catchUp tells m of the version that the cache has reached before.
func (m *mirror[K]) catchUp() {
	// If a new history begins meanwhile, the version that was read belongs to the old one.
	for v := m.informer.Version(); v > 0; v = m.informer.Version() {
		if m.observe(v); m.informer.Version() >= v {
			return
		}
		m.observe(0)
	}
}

func (m *mirror[K]) observe(v informer.Version) { m.seen.VersionObserved(uint64(v)) }

// Wrote is called by a store whose write under the context of t was accepted: the key of t is not reconciled again before the
// caches of the controller show that. A version that they show already is not waited for.
func (t *try[K]) Wrote(clock written.Clock, version uint64) {
	for _, m := range t.of.mirrors {
		if m.clock.Is(clock) {
			t.of.wrote.Store(true)
			m.seen.ExpectVersion(t.key, version)
		}
	}
}

// behind asks the mirrors, as expires asks the expectations.
func (c *Controller[K]) behind(key K) (until time.Time, waiting bool) {
	if !c.wrote.Load() {
		return until, false
	}
	for _, m := range c.mirrors {
		if at, waits := m.seen.Expires(key); waits {
			waiting = true
			if at.After(until) {
				until = at
			}
		}
	}
	return until, waiting
}
