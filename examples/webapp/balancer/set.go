package balancer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
)

// Set has one balancer per name. Call Close when done. All methods may be called concurrently.
type Set struct {
	cfg    Config
	drains context.Context    // ends when Close cuts draining connections
	cutNow context.CancelFunc // ends drains
	ended  sync.WaitGroup     // balancers that drain

	// mu guards the following, and is taken before that of a Balancer. Ports are opened and closed under it, which never
	// blocks.
	mu      sync.Mutex
	closed  bool
	members map[string]*Balancer
	retired map[*Balancer]struct{} // those that drain
}

// NewSet returns an empty Set.
func NewSet(cfg Config) (*Set, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("balancer: new set: %w", err)
	}
	s := &Set{cfg: cfg, members: make(map[string]*Balancer), retired: make(map[*Balancer]struct{})}
	s.drains, s.cutNow = context.WithCancel(context.Background())
	return s, nil
}

// Ensure makes the balancer of a name listen on a port, with these backends. Port 0 means any: the current one, or a free
// one. The connections of a balancer that moves to another port may continue for Config.Drain.
//
// It fails with ErrPortTaken if the port is in use. If another program has the port, a balancer on another port stays
// there, with the new backends. If another balancer of the Set has the port, this balancer gives up its own port, which is
// no longer wanted. So two balancers that swap ports do not wait for each other.
func (s *Set) Ensure(name string, port int, backends []string) error {
	if port < 0 || port > 65535 {
		return fmt.Errorf("balancer: ensure %q: port %d: the limits are 0 and 65535", name, port)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("balancer: ensure %q: %w", name, ErrClosed)
	}
	old, exists := s.members[name]
	if exists {
		old.SetBackends(backends)
		if port == 0 || old.port() == port {
			return nil
		}
	}
	if other := s.holderLocked(port); other != "" {
		if exists {
			s.retireLocked(name)
		}
		return fmt.Errorf("balancer: ensure %q: port %d: %w by %q", name, port, ErrPortTaken, other)
	}
	b, err := Listen(net.JoinHostPort(s.cfg.Host, strconv.Itoa(port)), s.cfg)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w: %w", ErrPortTaken, err)
		}
		return fmt.Errorf("balancer: ensure %q: port %d: %w", name, port, err)
	}
	b.SetBackends(backends)
	if exists {
		s.retireLocked(name)
	}
	s.members[name] = b
	return nil
}

// Remove closes the balancer of a name, if there is one. Its port is free when Remove returns. Its connections may continue
// for Config.Drain.
func (s *Set) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.members[name]; exists {
		s.retireLocked(name)
	}
}

// Get returns the balancer of a name. The Set closes it.
func (s *Set) Get(name string) (*Balancer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, exists := s.members[name]
	return b, exists
}

// Busy reports whether a backend has connections of any balancer of the Set, or may still get one: see [Balancer.Busy]. A
// backend that was removed from all of them and is not Busy can be stopped safely.
func (s *Set) Busy(addr string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.members {
		if b.Busy(addr) {
			return true
		}
	}
	for b := range s.retired {
		if b.Busy(addr) {
			return true
		}
	}
	return false
}

// Names returns the names that have a balancer, in order.
func (s *Set) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.members))
}

// Close closes all balancers, and those that were removed and still drain, as [Balancer.Close] does. If connections of the
// latter had to be cut, that is logged, and is not an error. Ensure fails from then on.
func (s *Set) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	members := s.members
	s.members = nil
	s.mu.Unlock()

	stop := context.AfterFunc(ctx, s.cutNow)
	defer stop()
	var wg sync.WaitGroup
	errs := make([]error, len(members))
	for i, name := range slices.Sorted(maps.Keys(members)) {
		// All drain at once. Each ends when ctx does, at the latest; waited for below.
		wg.Go(func() { errs[i] = members[name].Close(ctx) })
	}
	wg.Wait()
	s.ended.Wait()
	s.cutNow()
	return errors.Join(errs...)
}

// holderLocked returns the name whose balancer listens on port, or "" if none does.
func (s *Set) holderLocked(port int) string {
	for name, b := range s.members { // at most one does
		if b.port() == port {
			return name
		}
	}
	return ""
}

// retireLocked takes a balancer out of the Set and lets it drain.
func (s *Set) retireLocked(name string) {
	b := s.members[name]
	delete(s.members, name)
	s.retired[b] = struct{}{}
	b.shut()
	// Drains open connections. It ends when they have ended, when Config.Drain is over, or when Close cuts; Close waits.
	s.ended.Go(func() {
		ctx, cancel := context.WithTimeout(s.drains, s.cfg.Drain)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			s.cfg.Logger.Info("balancer: drained", "name", name, "error", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.retired, b)
	})
}
