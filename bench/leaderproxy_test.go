//go:build unix

package bench_test

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proxy is the network between a node and the register.
type proxy struct {
	listener net.Listener
	server   string // its address
	running  sync.WaitGroup

	mu sync.Mutex
	// mu guards the following.
	conns  []net.Conn
	open   chan struct{} // closed while everything passes
	last   time.Duration // the delay of the next reply, after which nothing passes; 0 is none
	closed bool
}

// newProxy returns a proxy for a server. It is closed when the test is over.
func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, server: server, open: make(chan struct{})}
	close(p.open)
	p.running.Go(p.accept) // accepts connections until close, which waits for it
	t.Cleanup(p.close)
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// stall blocks all data from now on.
func (p *proxy) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stallLocked()
}

// lastReply delivers the next reply after d, and no data that is sent after it.
func (p *proxy) lastReply(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = d
}

func (p *proxy) stallLocked() {
	select {
	case <-p.open:
		p.open = make(chan struct{})
	default:
	}
}

// close ends all connections.
func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for _, c := range p.conns {
		_ = c.Close()
	}
	select {
	case <-p.open:
	default:
		close(p.open)
	}
	p.mu.Unlock()
	p.running.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		if p.closed {
			_, _ = client.Close(), server.Close()
		}
		p.mu.Unlock()
		// Both end when either side does; close waits for them.
		p.running.Go(func() { p.copy(server, client, false) })
		p.running.Go(func() { p.copy(client, server, true) })
	}
}

// copy passes on what src sends until either side ends.
func (p *proxy) copy(dst, src net.Conn, replies bool) {
	defer dst.Close()
	defer src.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := src.Read(buffer)
		if err != nil {
			return
		}
		p.pass(replies)
		if _, err := dst.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// pass returns when data may pass.
func (p *proxy) pass(reply bool) {
	p.mu.Lock()
	open, last := p.open, p.last
	if reply && last > 0 {
		p.last = 0
		p.stallLocked()
		p.mu.Unlock()
		time.Sleep(last)
		return
	}
	p.mu.Unlock()
	<-open
}
