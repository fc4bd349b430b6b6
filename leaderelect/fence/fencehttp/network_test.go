package fencehttp_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// direct is a network that hands a request to a handler in the same goroutine.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// roundTrip is a RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// listener accepts connections of net.Pipe.
type listener struct {
	conns chan net.Conn
	done  chan struct{}
	close func()
}

func newListener() *listener {
	l := &listener{conns: make(chan net.Conn), done: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.done) })
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { l.close(); return nil }
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// dial connects to the listener.
func (l *listener) dial(ctx context.Context) (net.Conn, error) {
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

// serve serves a handler of real HTTP until the end of the test, and returns a way to it, and the number of its connections.
func serve(t *testing.T, h http.Handler) (way *http.Transport, dials *int) {
	l := newListener()
	server := &http.Server{Handler: h, ErrorLog: silent()}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(l) })
	dials = new(int)
	way = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		*dials++
		return l.dial(ctx)
	}}
	t.Cleanup(func() {
		way.CloseIdleConnections()
		server.Close()
		served.Wait()
	})
	return way, dials
}

// closable is a body that notes whether it was closed.
type closable struct {
	bytes.Reader
	closed bool
}

func (c *closable) Close() error { c.closed = true; return nil }

// readAll reads a body, and closes it.
func readAll(resp *http.Response) (string, error) {
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}
