package fencetest

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"
)

// Listener accepts connections of net.Pipe.
type Listener struct {
	conns chan net.Conn
	done  chan struct{}
	close func()
}

// NewListener returns a listener.
func NewListener() *Listener {
	l := &Listener{conns: make(chan net.Conn), done: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.done) })
	return l
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error { l.close(); return nil }

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// Dial connects to the listener.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// piece is what is in the network.
type piece struct {
	data    []byte
	arrives time.Time
}

// lateConn is a connection of a process. Sent bytes arrive, even if the process is suspended or has closed the connection since.
type lateConn struct {
	net.Conn
	p     *process
	close func()

	mu sync.Mutex
	// mu guards the following.
	queue  chan piece
	closed bool
}

// late returns a connection to the other side of conn over a network that delays.
func (p *process) late(conn net.Conn) net.Conn {
	c := &lateConn{Conn: conn, p: p, queue: make(chan piece, 10_000)}
	c.close = sync.OnceFunc(func() { close(c.queue) })
	p.m.wires.Go(c.deliver) // ends after the connection was closed
	return c
}

func (c *lateConn) Write(b []byte) (int, error) {
	n := 0
	for len(b) > 0 {
		c.p.gate()
		data := b[:min(len(b), 1+c.p.m.roll(2000))]
		latency := time.Duration(c.p.m.roll(40)) * time.Millisecond
		if c.p.m.roll(20) == 0 {
			latency = time.Duration(c.p.m.roll(2000)) * time.Millisecond
		}
		c.mu.Lock()
		closed := c.closed
		if !closed {
			c.queue <- piece{slices.Clone(data), time.Now().Add(latency)}
		}
		c.mu.Unlock()
		if closed {
			return n, net.ErrClosed
		}
		b, n = b[len(data):], n+len(data)
	}
	return n, nil
}

func (c *lateConn) Read(b []byte) (int, error) {
	c.p.gate()
	n, err := c.Conn.Read(b)
	c.p.gate()
	return n, err
}

func (c *lateConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.close()
	return nil
}

// deliver delivers what was sent, in order. It ends after the connection was closed, or has broken.
func (c *lateConn) deliver() {
	broken := false
	for p := range c.queue {
		time.Sleep(time.Until(p.arrives))
		if !broken {
			_, err := c.Conn.Write(p.data)
			broken = err != nil
		}
	}
	time.Sleep(time.Duration(c.p.m.roll(1000)) * time.Millisecond) // the end of the connection is late too
	c.Conn.Close()
}
