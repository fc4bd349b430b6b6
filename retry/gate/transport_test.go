package gate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/retry/gate"
)

// body notes whether it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error { b.closed = true; return nil }

// server sends prepared responses.
type server struct {
	status   int
	header   http.Header
	body     *body
	requests int
	err      error
	idle     int
}

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	s.requests++
	if s.err != nil {
		return nil, s.err
	}
	s.body = &body{Reader: strings.NewReader(strings.Repeat("x", 1<<20))}
	return &http.Response{StatusCode: s.status, Status: fmt.Sprint(s.status, " told"), Header: s.header, Body: s.body, Request: req}, nil
}

func (s *server) CloseIdleConnections() { s.idle++ }

func header(kv ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(kv); i += 2 {
		h.Set(kv[i], kv[i+1])
	}
	return h
}

func TestTransportReturnsNotYetForBusyServerOnly(t *testing.T) {
	const none = time.Duration(0)
	at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for name, test := range map[string]struct {
		status int
		header func() http.Header
		want   time.Duration // none if the response is passed on
	}{
		"200":                  {200, func() http.Header { return header("Retry-After", "9") }, none},
		"500":                  {500, func() http.Header { return header("Retry-After", "9") }, none},
		"301 with Retry-After": {301, func() http.Header { return header("Retry-After", "9") }, none},
		"503":                  {503, func() http.Header { return header() }, none},
		"503, 9 s":             {503, func() http.Header { return header("Retry-After", "9") }, 9 * time.Second},
		"503, a date":          {503, func() http.Header { return header("Retry-After", at(9*time.Second)) }, 9 * time.Second},
		"503, nonsense":        {503, func() http.Header { return header("Retry-After", "soon") }, none},
		"429":                  {429, func() http.Header { return header() }, 5 * time.Second},
		"429, 9 s":             {429, func() http.Header { return header("Retry-After", " 9 ") }, 9 * time.Second},
		"429, a date":          {429, func() http.Header { return header("Retry-After", at(time.Minute)) }, time.Minute},
		"429, a date by another clock": {429, func() http.Header {
			return header("Date", at(-24*time.Hour), "Retry-After", at(time.Minute-24*time.Hour))
		}, time.Minute},
		"429, a date in the past":           {429, func() http.Header { return header("Retry-After", at(-time.Hour)) }, time.Second},
		"429, a date in the far past":       {429, func() http.Header { return header("Retry-After", "Mon, 01 Jan 0001 00:00:00 GMT") }, time.Second},
		"429, a date in the far future":     {429, func() http.Header { return header("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT") }, time.Hour},
		"429, 0":                            {429, func() http.Header { return header("Retry-After", "0") }, time.Second},
		"429, an hour and more":             {429, func() http.Header { return header("Retry-After", "3601") }, time.Hour},
		"429, huge":                         {429, func() http.Header { return header("Retry-After", "9223372036854775807") }, time.Hour},
		"429, larger than any integer":      {429, func() http.Header { return header("Retry-After", strings.Repeat("9", 400)) }, time.Hour},
		"429, negative":                     {429, func() http.Header { return header("Retry-After", "-9") }, 5 * time.Second},
		"429, a fraction":                   {429, func() http.Header { return header("Retry-After", "1.5") }, 5 * time.Second},
		"429, hexadecimal":                  {429, func() http.Header { return header("Retry-After", "0x9") }, 5 * time.Second},
		"429, several":                      {429, func() http.Header { return header("Retry-After", "9, 10") }, 5 * time.Second},
		"429, a date in an obsolete format": {429, func() http.Header { return header("Retry-After", "Saturday, 01-Jan-00 00:01:00 GMT") }, time.Minute},
		"429, non-ASCII digits":             {429, func() http.Header { return header("Retry-After", "٩") }, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{status: test.status, header: test.header()}
				l := gate.NewLimiter(1000, 1000)
				client := &http.Client{Transport: l.Transport(s), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
				resp, err := client.Get("http://api/")
				l.CheckInvariants(t)
				if test.want == none {
					require.NoError(t, err)
					assert.Equal(t, test.status, resp.StatusCode)
					assert.False(t, s.body.closed)
					_, err = client.Get("http://api/")
					require.NoError(t, err, "no other caller is delayed")
					return
				}
				require.ErrorContains(t, err, fmt.Sprint(test.status, " told"))
				assert.True(t, retry.IsNotYet(err), "through the error of the client")
				d, _ := retry.Delay(err)
				assert.Equal(t, test.want, d)
				assert.True(t, s.body.closed)
				unread, err := io.Copy(io.Discard, s.body)
				require.NoError(t, err)
				assert.EqualValues(t, 1<<20-4<<10, unread, "a short body is read, so that the connection can be used again")

				s.status = 200
				_, err = client.Get("http://api/")
				assert.True(t, retry.IsNotYet(err), "no other caller contacts a busy server")
				assert.Equal(t, 1, s.requests)
				time.Sleep(test.want - 1)
				_, err = client.Get("http://api/")
				assert.True(t, retry.IsNotYet(err))
				time.Sleep(time.Nanosecond)
				_, err = client.Get("http://api/")
				require.NoError(t, err)
				assert.Equal(t, 2, s.requests)
				client.CloseIdleConnections()
				assert.Equal(t, 1, s.idle)
			})
		})
	}
}

// stalled is a body that a server never ends.
type stalled chan struct{}

func (b stalled) Read([]byte) (int, error) { <-b; return 0, io.ErrUnexpectedEOF }
func (b stalled) Close() error {
	select {
	case <-b:
	default:
		close(b)
	}
	return nil
}

func TestBodyThatNeverEndsDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(inFlight, 1)
		answers <- &http.Response{StatusCode: 429, Header: header("Retry-After", "30"), Body: make(stalled)}
		began := time.Now()
		_, err := gate.NewLimiter(1, 1).Transport(answers).RoundTrip(&http.Request{})
		assert.True(t, retry.IsNotYet(err))
		assert.LessOrEqual(t, time.Since(began), time.Second)
	})
}

func TestUnsentRequestBodyIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 200}
		transport := gate.NewLimiter(1, 1).Transport(s)
		for i := range 3 {
			b := &body{Reader: strings.NewReader("x")}
			ctx, cancel := context.WithCancel(t.Context())
			if i == 2 {
				cancel()
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://api/", b)
			require.NoError(t, err)
			_, err = transport.RoundTrip(req)
			assert.Equal(t, i == 0, err == nil)
			assert.Equal(t, i != 0, b.closed, "the transport owns the sent request")
			assert.Equal(t, i == 1, retry.IsNotYet(err))
			cancel()
		}
		assert.Equal(t, 1, s.requests)
	})
}

func TestConnectionErrorIsAFailure(t *testing.T) {
	s := &server{err: errors.New("no route")}
	_, err := gate.NewLimiter(1, 1).Transport(s).RoundTrip(&http.Request{})
	assert.True(t, err == s.err)
}

func TestPauseDelaysEarlierReservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 200}
		l := gate.NewLimiter(1, 1)
		transport := l.Transport(s)
		do := func(key string) error {
			ctx, end := attempt(t.Context(), key)
			defer end()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api/", nil)
			require.NoError(t, err)
			_, err = transport.RoundTrip(req)
			l.CheckInvariants(t)
			return err
		}
		delay := func(err error) time.Duration { d, _ := retry.Delay(err); return d }
		require.NoError(t, do("a"))
		assert.Equal(t, time.Second, delay(do("b")))
		assert.Equal(t, 2*time.Second, delay(do("c")))
		time.Sleep(time.Second)
		s.status, s.header = 429, header("Retry-After", "30")
		assert.Equal(t, 30*time.Second, delay(do("b")))
		assert.Equal(t, 31*time.Second, delay(do("c")), "a second after the pause, as a second after b")
		s.status = 200
		time.Sleep(30 * time.Second)
		assert.Equal(t, time.Second, delay(do("c")))
		time.Sleep(time.Second)
		require.NoError(t, do("c"), "its place was kept")
		assert.Equal(t, 3, s.requests)
	})
}

// inFlight answers when it is told.
type inFlight chan *http.Response

func (f inFlight) RoundTrip(*http.Request) (*http.Response, error) { return <-f, nil }

func TestOverlappingPausesAreUnited(t *testing.T) {
	for name, test := range map[string]struct {
		second string
		want   time.Duration // the end, from the first answer on
	}{"longer": {"30", 35 * time.Second}, "shorter": {"2", 10 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, answers := gate.NewLimiter(1, 3), make(inFlight)
				transport := l.Transport(answers)
				do := func(key string) error {
					ctx, end := attempt(t.Context(), key)
					defer end()
					req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api/", nil)
					assert.NoError(t, err)
					_, err = transport.RoundTrip(req)
					return err
				}
				delay := func(err error) time.Duration { d, _ := retry.Delay(err); return d }
				for range 3 {
					go func() { _ = do("x") }()
				}
				synctest.Wait()
				assert.Equal(t, time.Second, delay(do("a")), "its place")
				answers <- &http.Response{StatusCode: 429, Header: header("Retry-After", "10"), Body: http.NoBody}
				synctest.Wait()
				time.Sleep(5 * time.Second)
				answers <- &http.Response{StatusCode: 429, Header: header("Retry-After", test.second), Body: http.NoBody}
				synctest.Wait()
				left := test.want - 5*time.Second
				assert.Equal(t, left+time.Second, delay(do("a")), "a second after the pause, as before")
				assert.Equal(t, left+2*time.Second, delay(do("b")))
				time.Sleep(left + time.Second - 1)
				assert.Equal(t, time.Duration(1), delay(do("a")))
				time.Sleep(time.Nanosecond)
				go func() { _ = do("a") }()
				answers <- &http.Response{StatusCode: 200, Body: http.NoBody} // to the third, or to a
				answers <- &http.Response{StatusCode: 200, Body: http.NoBody}
				synctest.Wait()
				assert.Equal(t, 1, l.Places(), "that of b")
				l.CheckInvariants(t)
			})
		})
	}
}

func TestPauseInMiddleOfAttemptLeavesItAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, answers := gate.NewLimiter(1, 2), make(inFlight)
		do := func(ctx context.Context) time.Duration {
			d, _ := retry.Delay(l.Do(ctx, func(context.Context) error { return nil }))
			l.CheckInvariants(t)
			return d
		}
		go func() { _, _ = l.Transport(answers).RoundTrip(&http.Request{}) }()
		synctest.Wait()
		a, end := attempt(t.Context(), "a")
		require.Zero(t, do(a))
		require.Equal(t, 2*time.Second, do(a), "a place for two calls")
		end()

		time.Sleep(2 * time.Second)
		a, end = attempt(t.Context(), "a")
		require.Zero(t, do(a))
		answers <- &http.Response{StatusCode: 429, Header: header("Retry-After", "10"), Body: http.NoBody}
		synctest.Wait()
		require.Equal(t, 11*time.Second, do(a), "a second after the pause there is room for two calls")
		end()
		b, endB := attempt(t.Context(), "b")
		assert.Equal(t, 12*time.Second, do(b), "it came later")
		endB()

		time.Sleep(11 * time.Second)
		a, end = attempt(t.Context(), "a")
		assert.Zero(t, do(a))
		assert.Zero(t, do(a))
		end()
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, text := range []string{"", "0", "9", "-1", "1e9", "99999999999999999999", "Mon, 01 Jan 0001 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		f.Add(text, "")
		f.Add(text, "Fri, 31 Dec 9999 23:59:59 GMT")
	}
	f.Fuzz(func(t *testing.T, text, date string) {
		d, ok := gate.RetryAfter(http.Header{"Retry-After": {text}, "Date": {date}})
		if ok != (d != 0) || ok && (d < time.Second || d > time.Hour) {
			t.Errorf("%q, %q: %v %v", text, date, d, ok)
		}
	})
}

func TestNilBaseIsDefaultTransport(t *testing.T) {
	s, usual := &server{status: 200}, http.DefaultTransport
	http.DefaultTransport = s
	defer func() { http.DefaultTransport = usual }()
	resp, err := (&http.Client{Transport: gate.NewLimiter(1, 1).Transport(nil)}).Get("http://api/")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, 1, s.requests)
}
