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
	shortestPause = time.Second     // for a Retry-After in the past
	defaultPause  = 5 * time.Second // for 429 without a Retry-After
	longestPause  = time.Hour       // even if a server says longer
)

// shortBody is how long a caller waits for the body of a refusal.
const shortBody = 100 * time.Millisecond

// Transport returns a RoundTripper that sends requests through base within the limit. Each request is a call as in [Limiter.Do]: a request
// that comes too early is not sent. A nil base means http.DefaultTransport.
//
// If the server responds with 429, or with 503 and a valid Retry-After, RoundTrip closes the body and returns an error of
// [retry.NotYet]. Until the time of the Retry-After, the limiter refuses all other requests too: for at least a second and at
// most an hour. After a 429 without a valid Retry-After, it refuses them for five seconds. All other responses are returned
// unchanged.
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
			req.Body.Close() // as a RoundTripper must, even on an error
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
	discard(resp.Body)
	return nil, retry.NotYet(fmt.Errorf("gate: the server answered %s", resp.Status), d)
}

// discard reads a short body, so that its connection can be reused, and closes it. If the body does not come, it is closed before its end.
func discard(body io.ReadCloser) {
	limit := time.AfterFunc(shortBody, func() { body.Close() })
	_, _ = io.CopyN(io.Discard, body, 4<<10)
	limit.Stop()
	body.Close()
}

// CloseIdleConnections closes the idle connections of base, for http.Client.CloseIdleConnections.
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
