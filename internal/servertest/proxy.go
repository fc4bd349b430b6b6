//go:build linux

package servertest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy is the network between a client and a server, which can be made to fail.
type Proxy struct {
	listener net.Listener
	running  sync.WaitGroup

	mu sync.Mutex
	// mu guards the following.
	links    map[*link]bool
	open     chan struct{} // closed while everything flows
	delay    time.Duration // of all data, in both directions
	cutReply bool          // the next request
	closed   bool
	server   string // the address of the server
}

// link is a connection of a client and one to the server.
type link struct {
	client, server net.Conn // server is nil until it is connected
	victim         bool     // the next reply is cut
	hung           bool     // no data arrives any more, and neither side learns of it
}

// NewProxy returns a network to a server. It is closed when the test is over.
func NewProxy(t testing.TB, server string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &Proxy{listener: l, server: server, links: make(map[*link]bool), open: make(chan struct{})}
	close(p.open)
	// Accepts connections. It ends when the listener is closed; close waits for it.
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr returns the address that clients dial.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Stall lets nothing through until Heal. Data that is sent in between arrives then.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
		p.open = make(chan struct{})
	default:
	}
}

// Slow delays all data, in both directions, until Heal.
func (p *Proxy) Slow(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Heal ends all faults.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay, p.cutReply = 0, false
	select {
	case <-p.open:
	default:
		close(p.open)
	}
}

// Redirect makes connections from now on go to another server. Open connections stay.
func (p *Proxy) Redirect(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = server
}

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// Hang makes all connections half-open: both sides consider them open, and no data arrives. New connections work.
func (p *Proxy) Hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.hung = true
	}
}

// CutNextReply closes the connection of the next request when its reply arrives.
func (p *Proxy) CutNextReply() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutReply = true
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Heal()
	p.Cut()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		l := &link{client: client}
		p.mu.Lock()
		p.links[l] = true
		closed := p.closed
		p.mu.Unlock()
		if closed {
			_ = client.Close()
			return
		}
		// Serves a connection. It ends when either side does; close waits for it.
		p.running.Go(func() { p.serve(l) })
	}
}

func (p *Proxy) serve(l *link) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		l.close()
		delete(p.links, l)
	}()
	p.pass()
	p.mu.Lock()
	addr := p.server
	p.mu.Unlock()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	p.mu.Lock()
	l.server = server
	p.mu.Unlock()
	var back sync.WaitGroup
	// The reverse direction. It ends when either side does or, for a half-open connection, when the client does.
	back.Go(func() {
		p.copy(l, l.client, server, func() bool { return !l.victim })
		if p.mu.Lock(); !l.hung {
			_ = l.client.Close()
		}
		p.mu.Unlock()
	})
	p.copy(l, server, l.client, func() bool {
		if p.cutReply {
			p.cutReply, l.victim = false, true
		}
		return true
	})
	_ = server.Close()
	back.Wait()
}

// pass waits until data may pass, and returns its delay.
func (p *Proxy) pass() time.Duration {
	p.mu.Lock()
	open, delay := p.open, p.delay
	p.mu.Unlock()
	<-open
	return delay
}

// copy copies until one side ends, or until passes, which is called under the lock, returns false.
func (p *Proxy) copy(l *link, dst io.Writer, src io.Reader, passes func() bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := src.Read(buffer)
		if n > 0 {
			time.Sleep(p.pass())
			p.pass() // it may have been stalled in the meantime
			p.mu.Lock()
			hung := l.hung
			ok := hung || passes()
			p.mu.Unlock()
			if !ok {
				return
			}
			if !hung {
				if _, err := dst.Write(buffer[:n]); err != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// close closes both sides. The caller holds the lock of the proxy.
func (l *link) close() {
	if tcp, ok := l.client.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a reset, not an orderly end
	}
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}
