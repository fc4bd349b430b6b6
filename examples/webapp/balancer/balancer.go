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
	closing  chan struct{}      // closed by shut, to stop accepting
	cut      context.Context    // ends when open connections must be cut
	cutNow   context.CancelFunc // ends cut
	ended    sync.WaitGroup     // the acceptor, and the goroutines that serve connections

	mu       sync.Mutex            // guards the following
	backends []string              // never changed in place
	turn     int                   // index of the next backend
	closed   bool                  // shut was called
	conns    map[net.Conn]struct{} // both sides of open connections; nil when cut
	sent     map[string]int        // by backend: connections that are open or being dialed; no entry is zero
	stats    Stats
}

// Listen returns a balancer that accepts on a TCP address, such as "127.0.0.1:8001". It has no backends yet. Call Close
// when done.
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

// SetBackends replaces the backends, addresses such as "127.0.0.1:34567". Open connections are not affected.
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

// Close stops accepting, waits for open connections to end by themselves, and cuts them if ctx ends first, which is an
// error. Every goroutine of b has ended when Close returns. Close may be called again.
func (b *Balancer) Close(ctx context.Context) error {
	b.shut()
	drained := make(chan struct{})
	// WaitGroup.Wait takes no context. This goroutine ends with the connections, before Close returns.
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

// shut stops accepting. The port is free when it returns.
func (b *Balancer) shut() {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	b.mu.Unlock()
	if first {
		close(b.closing)
		_ = b.listener.Close() // it was open, and is closed now even after an error
	}
}

// cutOff closes all open connections, and returns their number.
func (b *Balancer) cutOff() int {
	b.mu.Lock()
	n := b.stats.Open // before the dials end, since a connection whose dial is cut is not open for long
	b.cutNow()        // ends dials. A connection that gets its backend from now on sees it
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
		if err != nil { // most likely out of descriptors or memory: leave time for some to be released
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
		// Serves one connection. It ends when both sides have ended, or when Close cuts them; Close waits.
		b.ended.Go(func() { b.pass(c.(*net.TCPConn)) })
	}
}

// admit counts a connection that was accepted. It returns false if b has stopped accepting.
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

// track registers c to be cut by Close. It returns false if Close has already cut.
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

// next returns the backend that a connection tries next, or "" if the connection has tried all. It counts the connection
// as sent to that backend. Choice and count are one step, so that a backend that is not Busy stays so.
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

// unsend ends the count of next.
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

// Busy reports whether a backend has connections of b, or may still get one. After Busy has returned false, it returns
// false until SetBackends names the backend again.
func (b *Balancer) Busy(addr string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sent[addr] > 0 {
		return true
	}
	undecided := b.stats.Open // connections without a backend
	for _, n := range b.sent {
		undecided -= n
	}
	return slices.Contains(b.backends, addr) && (!b.closed || undecided > 0)
}
