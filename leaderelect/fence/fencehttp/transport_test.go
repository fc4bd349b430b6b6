package fencehttp_test

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence/fencehttp"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/store"
)

func silent() *log.Logger { return log.New(io.Discard, "", 0) }

// request makes a request. A body of "" is none.
func request(ctx context.Context, method, body string) *http.Request {
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://service/path", r)
	if err != nil {
		panic(err)
	}
	return req
}

// isFenced reports whether a controller leaves the key of an error to the next leader.
func isFenced(err error) bool {
	var f interface{ Fenced() bool }
	return errors.As(err, &f) && f.Fenced()
}

func TestRequestOfLeaderCarriesItsClaim(t *testing.T) {
	work, depose := leaderelect.Appoint(t.Context(), "shop", 7)
	defer depose(nil)
	odd, depose := leaderelect.Appoint(t.Context(), "größe, 1%\n", 1<<63)
	defer depose(nil)
	l, _ := leaderelect.FromContext(work)
	for name, x := range map[string]struct {
		ctx         context.Context
		lease, term string
	}{
		"the context of the work":        {work, "shop", "7"},
		"that of the lease":              {l.Context(), "shop", "7"},
		"one from elsewhere":             {l.NewContext(t.Context()), "shop", "7"},
		"one that does not end":          {context.WithoutCancel(work), "shop", "7"},
		"a name that no header can hold": {odd, "gr%C3%B6%C3%9Fe%2C%201%25%0A", "9223372036854775808"},
		"a claim that is passed on":      {store.WithFence(t.Context(), store.Fence{Lease: "shop", Term: 6}), "shop", "6"},
		"a claim instead of the leader's": {
			store.WithFence(work, store.Fence{Lease: "other", Term: 3}), "other", "3",
		},
		"no claim, by request": {store.Unfenced(work), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, method := range []string{"GET", "POST", "DELETE"} {
				var sent *http.Request
				transport := &fencehttp.Transport{Base: roundTrip(func(r *http.Request) (*http.Response, error) {
					sent = r
					return &http.Response{StatusCode: 204, Body: http.NoBody}, nil
				})}
				req := request(x.ctx, method, "")
				if x.lease != "" {
					req.Header.Set("Leader-Term", "99") // a client that was copied from another leader
				}
				before := req.Header.Clone()
				resp, err := transport.RoundTrip(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, before, req.Header, "the caller's request is as before")
				assert.Equal(t, x.lease, strings.Join(sent.Header.Values("Leader-Lease"), "; "))
				assert.Equal(t, x.term, strings.Join(sent.Header.Values("Leader-Term"), "; "))
			}
		})
	}
	bare := &http.Request{Method: "GET", URL: request(work, "GET", "").URL}
	_, err := (&fencehttp.Transport{Base: roundTrip(func(r *http.Request) (*http.Response, error) {
		assert.Equal(t, "7", r.Header.Get("Leader-Term"))
		return &http.Response{Body: http.NoBody}, nil
	})}).RoundTrip(bare.WithContext(work))
	require.NoError(t, err)
	require.Nil(t, bare.Header)
}

func TestNothingIsSentAfterLeadership(t *testing.T) {
	work, depose := leaderelect.Appoint(t.Context(), "shop", 7)
	depose(leaderelect.ErrLeaseTaken)
	l, _ := leaderelect.FromContext(work)
	transport := &fencehttp.Transport{Unfenced: true, Base: roundTrip(func(*http.Request) (*http.Response, error) {
		t.Error("it is sent")
		return nil, errors.New("sent")
	})}
	for _, ctx := range []context.Context{work, l.Context(), l.NewContext(t.Context())} { // the last has not ended
		for _, method := range []string{"GET", "POST", "BREW"} {
			body := new(closable)
			req := request(ctx, method, "")
			req.Body = body
			resp, err := transport.RoundTrip(req)
			require.Nil(t, resp)
			require.ErrorIs(t, err, leaderelect.ErrLeaseTaken)
			require.EqualError(t, err, `fencehttp: not sent, term 7 of lease "shop" is over: leaderelect: lease was taken by another`)
			assert.True(t, isFenced(err))
			assert.True(t, body.closed)
		}
	}
	_, err := (&http.Client{Transport: transport}).Do(request(l.NewContext(t.Context()), "POST", "x"))
	assert.True(t, isFenced(err), "through a client too")
}

func TestOnlySafeRequestsNeedNoLeadership(t *testing.T) {
	for _, unfenced := range []bool{false, true} {
		for method, safe := range map[string]bool{
			"GET": true, "HEAD": true, "OPTIONS": true, "TRACE": true, "": true,
			"POST": false, "PUT": false, "PATCH": false, "DELETE": false, "CONNECT": false, "BREW": false, "get": false,
		} {
			var sent *http.Request
			transport := &fencehttp.Transport{Unfenced: unfenced, Base: roundTrip(func(r *http.Request) (*http.Response, error) {
				sent = r
				return &http.Response{StatusCode: 204, Body: http.NoBody}, nil
			})}
			body := new(closable)
			req := request(t.Context(), "GET", "")
			req.Method, req.Body = method, body
			_, err := transport.RoundTrip(req)
			if safe || unfenced {
				require.NoError(t, err, method)
				assert.Same(t, req, sent, method)
				continue
			}
			require.ErrorIs(t, err, fencehttp.ErrNoLeadership, method)
			assert.False(t, isFenced(err), "it is a mistake, and no change of leader")
			assert.Nil(t, sent, method)
			assert.True(t, body.closed, method)
		}
	}
}

// hangs is a store of leases whose updates hang from a moment on, without the elector's knowledge.
type hangs struct {
	leaderelect.LeaseStore
	on atomic.Bool
}

func (h *hangs) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if h.on.Load() {
		<-ctx.Done()
		return leaderelect.Entry{}, context.Cause(ctx)
	}
	return h.LeaseStore.Update(ctx, e)
}

// At the moment of the deadline, the timer that ends the context and the requests run in any order. The clock decides.
func TestClockDecidesWhetherRequestIsSent(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			leases := &hangs{LeaseStore: memlease.New()}
			led := make(chan *leaderelect.Leadership, 1)
			elector, err := leaderelect.New(leaderelect.Config{
				Store: leases, Key: "shop", Logger: slog.New(slog.DiscardHandler),
				OnStartedLeading: func(ctx context.Context, l *leaderelect.Leadership) error { led <- l; <-ctx.Done(); return nil },
			})
			require.NoError(t, err)
			var all sync.WaitGroup
			all.Go(func() { _ = elector.RunOnce(t.Context()) })
			l := <-led
			leases.on.Store(true)
			deadline := l.Deadline()
			transport := &fencehttp.Transport{Base: roundTrip(func(*http.Request) (*http.Response, error) {
				assert.True(t, time.Now().Before(deadline), "a request is sent at %v", time.Until(deadline))
				return &http.Response{Body: http.NoBody}, nil
			})}
			for i := range 20 {
				all.Go(func() {
					time.Sleep(time.Until(deadline) - time.Duration(i%2))
					_, err := transport.RoundTrip(request(l.NewContext(t.Context()), "POST", "x"))
					assert.Equal(t, i%2 == 1, err == nil, err)
				})
			}
			all.Wait()
		})
	}
}

// drip is an endless body of one byte each second.
type drip struct{}

func (drip) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	p[0] = '.'
	return 1, nil
}

// A leadership ends at some moment of a request, or its caller cancels.
func TestRequestInFlightIsCanceled(t *testing.T) {
	own := errors.New("the caller has had enough")
	for _, phase := range []string{"before the response", "in the body of the response", "in the body of the request"} {
		for _, by := range []string{"leadership", "caller", "client's timeout"} {
			t.Run(phase+" by "+by, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					gone := make(chan struct{})
					way, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						defer close(gone)
						switch phase {
						case "in the body of the response":
							_, _ = io.WriteString(w, "some")
							w.(http.Flusher).Flush()
						case "in the body of the request":
							_, err := io.ReadAll(r.Body)
							assert.Error(t, err)
							return
						}
						<-r.Context().Done()
					}))
					work, depose := leaderelect.Appoint(context.Background(), "shop", 7)
					defer depose(nil)
					l, _ := leaderelect.FromContext(work)
					ctx, cancel := context.WithCancelCause(l.NewContext(t.Context()))
					client := &http.Client{Transport: &fencehttp.Transport{Base: way}}
					if by == "client's timeout" {
						client.Timeout = time.Minute
					}
					req := request(ctx, "POST", "")
					if phase == "in the body of the request" {
						req.Body = io.NopCloser(drip{})
					}
					var got string
					done := make(chan error, 1)
					go func() { // ends with the request
						resp, err := client.Do(req)
						if err == nil {
							got, err = readAll(resp)
						}
						done <- err
					}()
					time.Sleep(1500 * time.Millisecond)
					require.Empty(t, done)
					switch by {
					case "leadership":
						depose(leaderelect.ErrLeaseTaken)
					case "caller":
						cancel(own)
					default:
						time.Sleep(time.Minute)
					}
					time.Sleep(time.Second) // of the reader of the body
					synctest.Wait()
					require.Len(t, done, 1, "it has ended")
					err := <-done
					switch by {
					case "leadership":
						require.ErrorIs(t, err, leaderelect.ErrLeaseTaken)
						assert.ErrorContains(t, err, `canceled in flight, term 7 of lease "shop" is over`)
						assert.True(t, isFenced(err))
					case "caller":
						require.Error(t, err)
						require.True(t, errors.Is(err, context.Canceled) || errors.Is(err, own), err)
						assert.False(t, isFenced(err))
					default:
						var timeout interface{ Timeout() bool }
						require.ErrorAs(t, err, &timeout)
						assert.True(t, timeout.Timeout())
						assert.False(t, isFenced(err))
					}
					if phase == "in the body of the response" {
						assert.Equal(t, "some", got)
					}
					<-gone
					cancel(nil)
				})
			})
		}
	}
}

// The caller's own reason counts even if the leadership has ended after it.
func TestCallerKeepsOwnErrorWhenLeadershipEndsToo(t *testing.T) {
	work, depose := leaderelect.Appoint(context.Background(), "shop", 7)
	l, _ := leaderelect.FromContext(work)
	own := errors.New("own")
	ctx, cancel := context.WithCancelCause(l.NewContext(t.Context()))
	_, err := (&fencehttp.Transport{Base: roundTrip(func(r *http.Request) (*http.Response, error) {
		cancel(own)
		<-r.Context().Done()
		depose(leaderelect.ErrLeaseTaken)
		return nil, context.Cause(r.Context())
	})}).RoundTrip(request(ctx, "POST", "x"))
	require.Equal(t, own, err)
}

func TestUnrelatedErrorIsKept(t *testing.T) {
	work, depose := leaderelect.Appoint(t.Context(), "shop", 7)
	defer depose(nil)
	refused := errors.New("connection refused")
	_, err := (&fencehttp.Transport{Base: roundTrip(func(*http.Request) (*http.Response, error) { return nil, refused })}).
		RoundTrip(request(work, "POST", "x"))
	require.Equal(t, refused, err)
}

// A context of the work ends with the leadership, and with the work's caller. Only the first is a matter of the term.
func TestWorkThatDrainsIsCanceledByItsCaller(t *testing.T) {
	for name, lost := range map[string]bool{"drains": false, "is lost": true} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			work, depose := leaderelect.Appoint(ctx, "shop", 7)
			defer depose(nil)
			_, err := (&fencehttp.Transport{Base: roundTrip(func(r *http.Request) (*http.Response, error) {
				if lost {
					depose(leaderelect.ErrLeaseExpired)
				} else {
					cancel()
				}
				<-r.Context().Done()
				return nil, context.Cause(r.Context())
			})}).RoundTrip(request(work, "POST", "x"))
			assert.Equal(t, lost, isFenced(err), err)
			assert.Equal(t, !lost, errors.Is(err, context.Canceled), err)
		})
	}
}

func TestCompletedRequestLeavesConnectionOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		way, dials := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") }))
		client := &http.Client{Transport: &fencehttp.Transport{Base: way}}
		for term := range uint64(5) {
			work, depose := leaderelect.Appoint(t.Context(), "shop", term)
			resp, err := client.Do(request(work, "POST", "x"))
			require.NoError(t, err)
			text, err := readAll(resp)
			require.NoError(t, err)
			require.Equal(t, "done", text)
			depose(nil) // the connection serves the next one
			synctest.Wait()
		}
		assert.Equal(t, 1, *dials)
		client.CloseIdleConnections()
		resp, err := client.Get("http://service/")
		require.NoError(t, err)
		_, err = readAll(resp)
		require.NoError(t, err)
		assert.Equal(t, 2, *dials, "CloseIdleConnections reaches the base")
	})
}

// The context of a request ends when its response was read or closed. Otherwise, each request would stay in memory as long as the leadership.
func TestContextEndsWithResponse(t *testing.T) {
	for name, end := range map[string]func(io.ReadCloser) error{
		"read":   func(b io.ReadCloser) error { _, err := io.ReadAll(b); return err },
		"closed": io.ReadCloser.Close,
		"empty":  func(io.ReadCloser) error { return nil },
	} {
		work, depose := leaderelect.Appoint(t.Context(), "shop", 7)
		var sent context.Context
		resp, err := (&fencehttp.Transport{Base: roundTrip(func(r *http.Request) (*http.Response, error) {
			sent = r.Context()
			if name == "empty" {
				return &http.Response{Body: http.NoBody}, nil
			}
			return &http.Response{Body: io.NopCloser(strings.NewReader("text"))}, nil
		})}).RoundTrip(request(work, "POST", "x"))
		require.NoError(t, err)
		if name != "empty" {
			require.NoError(t, sent.Err(), name)
		}
		require.NoError(t, end(resp.Body))
		require.Error(t, sent.Err(), name)
		depose(nil)
	}
}

func TestBodyOfRequestEndsWithLeadership(t *testing.T) {
	for _, again := range []bool{false, true} {
		work, depose := leaderelect.Appoint(context.Background(), "shop", 7)
		l, _ := leaderelect.FromContext(work)
		_, err := (&fencehttp.Transport{Base: roundTrip(func(r *http.Request) (*http.Response, error) {
			body := r.Body
			if again {
				var err error
				body, err = r.GetBody()
				require.NoError(t, err)
			}
			piece := make([]byte, 2)
			_, err := io.ReadFull(body, piece)
			require.NoError(t, err)
			depose(leaderelect.ErrLeaseExpired)
			_, err = io.ReadFull(body, piece)
			require.ErrorIs(t, err, leaderelect.ErrLeaseExpired)
			return nil, err
		})}).RoundTrip(request(l.NewContext(t.Context()), "POST", "text"))
		assert.True(t, isFenced(err))
		assert.ErrorContains(t, err, "canceled in flight")
	}
	work, depose := leaderelect.Appoint(context.Background(), "shop", 7)
	defer depose(nil)
	req := request(work, "POST", "text")
	broken := errors.New("broken")
	req.GetBody = func() (io.ReadCloser, error) { return nil, broken }
	_, err := (&fencehttp.Transport{Base: roundTrip(func(r *http.Request) (*http.Response, error) {
		_, err := r.GetBody()
		return nil, err
	})}).RoundTrip(req)
	require.Equal(t, broken, err)
	req.GetBody, req.Body = nil, http.NoBody
	_, err = (&fencehttp.Transport{Base: roundTrip(func(r *http.Request) (*http.Response, error) {
		assert.Nil(t, r.GetBody)
		assert.Equal(t, http.NoBody, r.Body, "which transports compare")
		return &http.Response{Body: http.NoBody}, nil
	})}).RoundTrip(req)
	require.NoError(t, err)
}

func TestUpgradedConnectionEndsWithLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		way, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, both, err := http.NewResponseController(w).Hijack()
			if !assert.NoError(t, err) {
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: talk\r\n\r\n")
			word := make([]byte, 5)
			_, err = io.ReadFull(both, word)
			assert.NoError(t, err)
			assert.Equal(t, "hello", string(word))
			_, err = both.ReadByte()
			ended <- err
		}))
		work, depose := leaderelect.Appoint(t.Context(), "shop", 7)
		l, _ := leaderelect.FromContext(work)
		req := request(l.NewContext(t.Context()), "GET", "")
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "talk")
		resp, err := (&fencehttp.Transport{Base: way}).RoundTrip(req)
		require.NoError(t, err)
		conn, ok := resp.Body.(io.ReadWriteCloser)
		require.True(t, ok, "it can be written to")
		_, err = io.WriteString(conn, "hello")
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, ended)
		depose(leaderelect.ErrLeaseTaken)
		synctest.Wait()
		require.Len(t, ended, 1, "it is closed")
		_, err = io.WriteString(conn, "more")
		require.ErrorIs(t, err, leaderelect.ErrLeaseTaken)
		_, err = conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, leaderelect.ErrLeaseTaken)
	})
}

func TestZeroTransportUsesDefaultTransport(t *testing.T) {
	req := request(t.Context(), "GET", "")
	req.URL.Scheme = "nowhere"
	_, err := new(fencehttp.Transport).RoundTrip(req)
	require.ErrorContains(t, err, `unsupported protocol scheme "nowhere"`)
	new(fencehttp.Transport).CloseIdleConnections()
	(&fencehttp.Transport{Base: direct{}}).CloseIdleConnections()
}
