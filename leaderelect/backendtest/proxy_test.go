//go:build linux

package backendtest

import (
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// proxy is the network between a client and a server, which can be made to fail.
type proxy struct {
	listener net.Listener
	server   string // its address
	running  sync.WaitGroup

	mu sync.Mutex
	// mu guards the following.
	links    map[*link]bool
	open     chan struct{} // closed while everything flows
	delay    time.Duration // of everything that is sent, either way
	cutReply bool          // the next request
	closed   bool
}

// link is a connection of a client and one to the server.
type link struct {
	client, server net.Conn // server is nil until it is dialled
	victim         bool     // the next reply is cut
}

// newProxy returns a proxy for a server. It is closed when the test is over.
func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, server: server, links: make(map[*link]bool), open: make(chan struct{})}
	close(p.open)
	// Accepts connections. It ends when the listener is closed; close waits for it.
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// stall lets nothing through until heal. What is sent meanwhile arrives then.
func (p *proxy) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
		p.open = make(chan struct{})
	default:
	}
}

// slow delays everything, either way, until heal.
func (p *proxy) slow(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// heal ends everything that is wrong.
func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay, p.cutReply = 0, false
	select {
	case <-p.open:
	default:
		close(p.open)
	}
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// cutNextReply closes the connection of the next request when its reply comes.
func (p *proxy) cutNextReply() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutReply = true
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.heal()
	p.cut()
	p.running.Wait()
}

func (p *proxy) accept() {
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

func (p *proxy) serve(l *link) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		l.close()
		delete(p.links, l)
	}()
	p.pass()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	p.mu.Lock()
	l.server = server
	p.mu.Unlock()
	var back sync.WaitGroup
	// The way back. It ends when either side does.
	back.Go(func() {
		p.copy(l.client, server, func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return !l.victim
		})
		_ = l.client.Close()
	})
	p.copy(server, l.client, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.cutReply {
			p.cutReply, l.victim = false, true
		}
		return true
	})
	_ = server.Close()
	back.Wait()
}

// pass returns when something may pass. It returns how long that takes.
func (p *proxy) pass() time.Duration {
	p.mu.Lock()
	open, delay := p.open, p.delay
	p.mu.Unlock()
	<-open
	return delay
}

// copy copies until one side ends, or until passes says no.
func (p *proxy) copy(dst io.Writer, src io.Reader, passes func() bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := src.Read(buffer)
		if n > 0 {
			time.Sleep(p.pass())
			p.pass() // it may have been stalled meanwhile
			if !passes() {
				return
			}
			if _, err := dst.Write(buffer[:n]); err != nil {
				return
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

func TestTheProxyFailsAsItIsTold(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = echo.Close() })
	arrived := make(chan string, 10)
	go func() { // ends with the listener
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection
				buffer := make([]byte, 100)
				for {
					n, err := c.Read(buffer)
					if err != nil {
						return
					}
					arrived <- string(buffer[:n])
					_, _ = c.Write(buffer[:n])
				}
			}()
		}
	}()
	p := newProxy(t, echo.Addr().String())
	dial := func() net.Conn {
		c, err := net.Dial("tcp", p.addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ask := func(c net.Conn, text string, patience time.Duration) (string, error) {
		_, err := c.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
		buffer := make([]byte, 100)
		n, err := c.Read(buffer)
		return string(buffer[:n]), err
	}
	c := dial()
	got, err := ask(c, "hello", 10*time.Second)
	require.NoError(t, err)
	assert.Equal(t, "hello", got)
	assert.Equal(t, "hello", <-arrived)

	p.stall()
	_, err = ask(c, "stalled", 50*time.Millisecond)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	assert.Empty(t, arrived)
	p.heal()
	assert.Equal(t, "stalled", <-arrived)
	got, err = ask(c, "", 10*time.Second)
	require.NoError(t, err)
	assert.Equal(t, "stalled", got)

	p.slow(30 * time.Millisecond)
	begin := time.Now()
	_, err = ask(c, "slow", 10*time.Second)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, time.Since(begin), 60*time.Millisecond)
	assert.Equal(t, "slow", <-arrived)
	p.heal()

	p.cutNextReply()
	_, err = ask(c, "cut", 10*time.Second)
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	assert.Equal(t, "cut", <-arrived)

	c = dial()
	_, err = ask(c, "again", 10*time.Second)
	require.NoError(t, err)
	p.cut()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}
