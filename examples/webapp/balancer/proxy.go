package balancer

import (
	"context"
	"io"
	"net"
	"sync"
)

// pass passes one connection on to a backend, until both have ended.
func (b *Balancer) pass(client *net.TCPConn) {
	var addr string // of the backend
	refused := false
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.stats.Open--
		if refused {
			b.stats.Refused++
		}
		if addr != "" {
			b.unsendLocked(addr)
		}
	}()
	defer b.untrack(client)
	if !b.track(client) {
		return
	}
	var backend *net.TCPConn
	backend, addr = b.dial()
	if backend == nil {
		refused = true
		return
	}
	defer b.untrack(backend)
	if !b.track(backend) {
		return
	}
	join(client, backend)
}

// dial connects to the first reachable backend, and returns the connection and the address; nil if none is reachable.
func (b *Balancer) dial() (*net.TCPConn, string) {
	var tried []string
	for addr := b.next(nil); addr != ""; addr = b.next(tried) {
		c, err := b.dialOne(addr)
		if err == nil {
			return c.(*net.TCPConn), addr
		}
		b.unsend(addr)
		tried = append(tried, addr)
		if b.cut.Err() == nil {
			b.cfg.Logger.Debug("balancer: backend skipped", "addr", b.Addr(), "backend", addr, "error", err)
		}
	}
	return nil, ""
}

func (b *Balancer) dialOne(addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(b.cut, b.cfg.DialTimeout)
	defer cancel()
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

// join copies both ways until both sides have ended, or one of them breaks.
func join(a, b *net.TCPConn) {
	forward := func(to, from *net.TCPConn) {
		if _, err := io.Copy(to, from); err != nil {
			a.Close() // which also ends the other direction, which could wait forever
			b.Close()
			return
		}
		_ = to.CloseWrite() // a broken side shows in the other direction
	}
	var back sync.WaitGroup
	// The other direction. It ends when b ends or either side breaks; join waits.
	back.Go(func() { forward(a, b) })
	forward(b, a)
	back.Wait()
}
