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

	"github.com/setpoint-go/setpoint/leaderelect/fence/internal/fencetest"
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

// serve serves a handler of real HTTP until the end of the test, and returns a way to it, and the number of its connections.
func serve(t *testing.T, h http.Handler) (way *http.Transport, dials *int) {
	l := fencetest.NewListener()
	server := &http.Server{Handler: h, ErrorLog: silent()}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(l) })
	dials = new(int)
	way = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		*dials++
		return l.Dial(ctx)
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
