package gate

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/retry"
)

const (
	shortestPause = time.Second     // for a Retry-After that is over already
	defaultPause  = 5 * time.Second // for 429 without a Retry-After
	longestPause  = time.Hour       // whatever a server says
)

// Transport returns a RoundTripper that makes the requests of base, http.DefaultTransport if it is nil, as far as the limit
// allows: each request is a call as in [Limiter.Do]. A request that comes too early is not sent.
//
// A response 429, or 503 with a Retry-After, is an error of [retry.NotYet] too. Its body is closed. It also holds up all other
// requests: for as long as the server says, in seconds or by a date, but at least a second and at most an hour; and for five
// seconds after a 429 that says nothing sensible. Every other response is passed on.
func (l *Limiter) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{l, base}
}

type transport struct {
	limiter *Limiter
	base    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.limiter.enter(req.Context()); err != nil {
		if req.Body != nil {
			req.Body.Close() // as a RoundTripper has to, also with an error
		}
		return nil, err
	}
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return resp, err
	}
	d, busy := busyFor(resp)
	if !busy {
		return resp, nil
	}
	t.limiter.pause(d)
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // so that the connection can be used again, if that is all
	resp.Body.Close()
	return nil, retry.NotYet(fmt.Errorf("gate: the server answered %s", resp.Status), d)
}

// CloseIdleConnections does what that of http.Client asks for.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// busyFor returns how long a server that answered resp asks to be left alone, if it does.
func busyFor(resp *http.Response) (d time.Duration, busy bool) {
	d, told := retryAfter(resp.Header)
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		if !told {
			d = defaultPause
		}
		return d, true
	case http.StatusServiceUnavailable:
		return d, told
	}
	return 0, false
}

// retryAfter reads the header Retry-After: a number of seconds, or a date. A date is compared with the clock of the server, if
// that is in the header Date.
func retryAfter(h http.Header) (d time.Duration, ok bool) {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" {
		return 0, false
	}
	if strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds > int64(longestPause/time.Second) { // err: out of range
			return longestPause, true
		}
		return max(time.Duration(seconds)*time.Second, shortestPause), true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return min(max(at.Sub(now), shortestPause), longestPause), true
}
