package balancer

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// Balancer listens on one address and passes each connection on to one of its backends. All methods may be called by
// several goroutines at once.
type Balancer struct {
	cfg      Config
	listener net.Listener
	closing  chan struct{}      // closed by shut: accept no more
	cut      context.Context    // ends when what is open is to be cut
	cutNow   context.CancelFunc // ends cut
	ended    sync.WaitGroup     // the acceptor, and what serves each connection

	mu       sync.Mutex            // guards the following
	backends []string              // never changed in place
	turn     int                   // index of the backend that is next
	closed   bool                  // shut was called
	conns    map[net.Conn]struct{} // both sides of what is open; nil when cut
	sent     map[string]int        // by backend: connections that it has, or that are being dialed; none is zero
	stats    Stats
}

// Listen returns a balancer that accepts on a TCP address, such as "127.0.0.1:8001". It has no backends yet. Close has
// to be called.
func Listen(addr string, cfg Config) (*Balancer, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("balancer: listen: %w", err)
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("balancer: %w", err)
	}
	return serve(listener, cfg), nil
}

// serve returns a balancer that accepts from listener.
func serve(listener net.Listener, cfg Config) *Balancer {
	b := &Balancer{
		cfg:      cfg,
		listener: listener,
		closing:  make(chan struct{}),
		conns:    make(map[net.Conn]struct{}),
		sent:     make(map[string]int),
	}
	b.cut, b.cutNow = context.WithCancel(context.Background())
	// The acceptor. It ends when shut closes the listener; Close waits.
	b.ended.Go(b.accept)
	return b
}

// Addr returns the address that b listens on.
func (b *Balancer) Addr() net.Addr { return b.listener.Addr() }

func (b *Balancer) port() int { return b.Addr().(*net.TCPAddr).Port }

// SetBackends replaces the backends, addresses such as "127.0.0.1:34567". Connections that are open stay as they are.
func (b *Balancer) SetBackends(addrs []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = slices.Clone(addrs)
}

// Backends returns the backends.
func (b *Balancer) Backends() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.backends)
}

// Close accepts no more connections, waits for those that are open to end by themselves, and cuts them when ctx ends,
// which is an error. Every goroutine of b has ended when it returns. It may be called again.
func (b *Balancer) Close(ctx context.Context) error {
	b.shut()
	drained := make(chan struct{})
	// A wait group cannot be waited for with a context. This ends when the connections have, which is before we return.
	go func() {
		b.ended.Wait()
		close(drained)
	}()
	select {
	case <-drained:
		b.cutNow()
		return nil
	case <-ctx.Done():
	}
	n := b.cutOff()
	<-drained
	if n == 0 {
		return nil
	}
	return fmt.Errorf("balancer: close %s: %d connections cut: %w", b.Addr(), n, context.Cause(ctx))
}

// shut accepts no more; the port is free when it returns.
func (b *Balancer) shut() {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	b.mu.Unlock()
	if first {
		close(b.closing)
		_ = b.listener.Close() // it was open, and is closed now whatever the system says
	}
}

// cutOff closes what is open, and returns how many connections that were.
func (b *Balancer) cutOff() int {
	b.cutNow() // ends dials, and comes first: what opens from now on sees it
	b.mu.Lock()
	n := b.stats.Open
	conns := b.conns
	b.conns = nil
	b.mu.Unlock()
	for c := range conns {
		c.Close()
	}
	return n
}

// accept accepts connections until shut is called.
func (b *Balancer) accept() {
	const longest = time.Second
	wait := 5 * time.Millisecond
	for {
		c, err := b.listener.Accept()
		if err != nil && b.isClosed() {
			return
		}
		if err != nil { // out of descriptors or memory, most likely: leave time for some to come back
			b.cfg.Logger.Warn("balancer: accept", "addr", b.Addr(), "error", err)
			select {
			case <-time.After(wait):
			case <-b.closing:
			}
			wait = min(2*wait, longest)
			continue
		}
		wait = 5 * time.Millisecond
		if !b.admit() {
			c.Close()
			return
		}
		// Serves one connection. It ends when both sides have, or when Close cuts them; Close waits.
		b.ended.Go(func() { b.pass(c.(*net.TCPConn)) })
	}
}

// admit counts a connection that was accepted. It reports false if b accepts no more.
func (b *Balancer) admit() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.stats.Accepted++
	b.stats.Open++
	return true
}

func (b *Balancer) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// track has Close cut c. It reports false when that has happened already.
func (b *Balancer) track(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conns == nil {
		return false
	}
	b.conns[c] = struct{}{}
	return true
}

func (b *Balancer) untrack(c net.Conn) {
	b.mu.Lock()
	delete(b.conns, c)
	b.mu.Unlock()
	c.Close()
}

// next returns the backend that a connection tries next, after those that it has tried, and counts the connection as
// sent to it; "" when there is none left. To choose and to count are one step, so that a backend that is not Busy stays so.
func (b *Balancer) next(tried []string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.backends)
	if n == 0 {
		return ""
	}
	if len(tried) == 0 {
		b.turn = b.turn%n + 1
	}
	for i := range n {
		if addr := b.backends[(b.turn-1+i)%n]; !slices.Contains(tried, addr) {
			b.sent[addr]++
			return addr
		}
	}
	return ""
}

// unsend ends what next has counted.
func (b *Balancer) unsend(addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unsendLocked(addr)
}

func (b *Balancer) unsendLocked(addr string) {
	if b.sent[addr]--; b.sent[addr] == 0 {
		delete(b.sent, addr)
	}
}

// Busy reports whether a backend has connections of b, or may still get one. Once it is false it stays false, until
// SetBackends names the backend again.
func (b *Balancer) Busy(addr string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sent[addr] > 0 {
		return true
	}
	undecided := b.stats.Open // connections that have no backend yet
	for _, n := range b.sent {
		undecided -= n
	}
	return slices.Contains(b.backends, addr) && (!b.closed || undecided > 0)
}
