package fencehttp

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/setpoint-go/setpoint/leaderelect/fence/internal/claim"
)

// The headers in which a leader names its lease and its term.
const (
	LeaseHeader = claim.LeaseHeader
	TermHeader  = claim.TermHeader
)

// ErrNoLeadership means that a request could change something and its context carries no leadership.
var ErrNoLeadership = claim.ErrNoLeadership

// Transport sends the requests of a leader. It takes the leadership from the context of each request (leaderelect.FromContext), so that one
// Transport serves all leases and slots of a process. The guarantees are in the documentation of the package.
//
// Behind a [Server], it passes the claim of the request that is being served on to the next service.
//
// The zero value is ready for use. Do not change the fields after the first use. A Transport may be used concurrently.
type Transport struct {
	// Base sends the requests. Defaults to http.DefaultTransport.
	Base http.RoundTripper

	// Unfenced also sends requests without a leadership that are not safe. Set it for a client that others than a leader use as well.
	Unfenced bool
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	c, ok := claim.Of(req.Context())
	switch {
	case !ok && !t.Unfenced && !safe(req.Method):
		return nil, refuse(req, ErrNoLeadership)
	case c.Empty():
		return t.base().RoundTrip(req)
	}
	if err := c.Err(false); err != nil {
		return nil, refuse(req, err)
	}
	bound := c.Bind(req.Context())
	resp, err := t.base().RoundTrip(outgoing(bound.Context(), req, c))
	if err != nil {
		err = inFlight(bound, err)
		bound.Release()
		return nil, err
	}
	resp.Body = incoming(resp.Body, bound, c)
	return resp, nil
}

// CloseIdleConnections closes the idle connections of Base, for http.Client.CloseIdleConnections.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// safe reports whether a method only reads (RFC 9110, section 9.2.1).
func safe(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// refuse returns the error of a request that is not sent.
func refuse(req *http.Request, err error) error {
	if req.Body != nil {
		req.Body.Close() // as a RoundTripper must
	}
	return fmt.Errorf("fencehttp: %w", err) // http.Client adds the method and the address
}

// inFlight returns the error of a request that was sent.
func inFlight(bound *claim.Bound, err error) error {
	if why := bound.Explain(err); why != err {
		return fmt.Errorf("fencehttp: %w", why)
	}
	return err
}

// outgoing returns the request that is sent for req.
func outgoing(ctx context.Context, req *http.Request, c claim.Claim) *http.Request {
	out := req.Clone(ctx)
	if out.Header == nil {
		out.Header = make(http.Header)
	}
	lease, term := claim.Text(c.Fence)
	out.Header.Set(LeaseHeader, lease)
	out.Header.Set(TermHeader, term)
	if req.Body != nil && req.Body != http.NoBody {
		out.Body = &requestBody{req.Body, c}
		if req.GetBody != nil {
			out.GetBody = func() (io.ReadCloser, error) {
				body, err := req.GetBody()
				if err != nil {
					return nil, err
				}
				return &requestBody{body, c}, nil
			}
		}
	}
	return out
}

// requestBody is the body of a request, which ends with an error when the leadership does. Otherwise, a process that was suspended while it
// sent the body would complete the request.
type requestBody struct {
	io.ReadCloser
	claim claim.Claim
}

func (b *requestBody) Read(p []byte) (int, error) {
	if err := b.claim.Err(true); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}

// incoming returns the body of a response, for the caller.
func incoming(body io.ReadCloser, bound *claim.Bound, c claim.Claim) io.ReadCloser {
	if body == nil || body == http.NoBody {
		bound.Release()
		return body
	}
	in := &responseBody{body, bound}
	if w, ok := body.(io.Writer); ok { // the connection, after 101 Switching Protocols
		context.AfterFunc(bound.Context(), func() { body.Close() })
		return &connection{in, w, c}
	}
	return in
}

// responseBody is the body of a response in flight.
type responseBody struct {
	io.ReadCloser
	bound *claim.Bound
}

func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.bound.Release()
	} else if err != nil {
		err = inFlight(b.bound, err)
	}
	return n, err
}

func (b *responseBody) Close() error {
	err := b.ReadCloser.Close()
	b.bound.Release()
	return err
}

// connection is the body of a response that can also be written to.
type connection struct {
	*responseBody
	w     io.Writer
	claim claim.Claim
}

func (c *connection) Write(p []byte) (int, error) {
	if err := c.claim.Err(true); err != nil {
		return 0, err
	}
	n, err := c.w.Write(p)
	if err != nil {
		err = inFlight(c.bound, err)
	}
	return n, err
}
