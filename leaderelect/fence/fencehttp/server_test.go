package fencehttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/fence/fencehttp"
	"github.com/setpoint-go/setpoint/leaderelect/fence/internal/fencetest"
	"github.com/setpoint-go/setpoint/store"
)

func newServer(t testing.TB, cfg fencehttp.ServerConfig) *fencehttp.Server {
	s, err := fencehttp.NewServer(cfg)
	require.NoError(t, err)
	return s
}

// shop fixes the lease of all routes.
func shop(*http.Request) string { return "shop" }

// ask makes a request with headers, given as lines.
func ask(h http.Handler, method, headers, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	for line := range strings.Lines(headers) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// as returns the headers of a leader of the lease "shop".
func as(term string) string { return "Leader-Lease: shop\nLeader-Term: " + term }

const done = "done"

var doing = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, done) })

func TestServerDecidesByTable(t *testing.T) {
	long := strings.Repeat("x", 1025)
	for name, x := range map[string]struct {
		headers     string
		safe, other int // statuses
		detail      string
	}{
		"no term":            {"", 200, 428, "the request needs Leader-Lease and Leader-Term, those of a leader"},
		"only a term":        {"Leader-Term: 8", 400, 400, "there are 0 values of Leader-Lease and 1 of Leader-Term, must be one of each"},
		"only a lease":       {"Leader-Lease: shop", 400, 400, "there are 1 values of Leader-Lease and 0 of Leader-Term, must be one of each"},
		"two terms":          {as("8") + "\nLeader-Term: 9", 400, 400, "there are 1 values of Leader-Lease and 2 of Leader-Term, must be one of each"},
		"joined terms":       {as("8, 9"), 400, 400, "Leader-Term is not a decimal number of 64 bits"},
		"joined leases":      {"Leader-Lease: shop, shop\nLeader-Term: 8", 400, 400, "Leader-Lease is not percent-encoded"},
		"a negative term":    {as("-8"), 400, 400, "Leader-Term is not a decimal number of 64 bits"},
		"a signed term":      {as("+8"), 400, 400, "Leader-Term is not a decimal number of 64 bits"},
		"a hexadecimal term": {as("0x8"), 400, 400, "Leader-Term is not a decimal number of 64 bits"},
		"too large a term":   {as("18446744073709551616"), 400, 400, "Leader-Term is not a decimal number of 64 bits"},
		"an empty term":      {as(""), 400, 400, "Leader-Term is not a decimal number of 64 bits"},
		"an empty lease":     {"Leader-Lease: \nLeader-Term: 8", 400, 400, "Leader-Lease is empty"},
		"a bad escape":       {"Leader-Lease: sh%4\nLeader-Term: 8", 400, 400, "Leader-Lease is not percent-encoded"},
		"a worse escape":     {"Leader-Lease: sh%+4p\nLeader-Term: 8", 400, 400, "Leader-Lease is not percent-encoded"},
		"too long a lease":   {"Leader-Lease: " + long + "\nLeader-Term: 8", 400, 400, "Leader-Lease is longer than 1024 bytes"},
		"much too long":      {"Leader-Lease: " + long + long + long + "\nLeader-Term: 8", 400, 400, "Leader-Lease is longer than 1024 bytes"},
		"another lease":      {"Leader-Lease: Shop\nLeader-Term: 9", 200, 403, `the leader of lease "Shop" may not do this`},
		"a stale term":       {as("6"), 412, 412, `fence: lease "shop": term 6 after term 7: term is stale`},
		"the term":           {as("7"), 200, 200, ""},
		"a greater term":     {as("18446744073709551615"), 200, 200, ""},
		"an escaped lease":   {"Leader-Lease: %73h%6Fp\nLeader-Term: 8", 200, 200, ""},
	} {
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE", "POST", "PUT", "DELETE", "PATCH", "BREW"} {
			s := newServer(t, fencehttp.ServerConfig{Lease: shop})
			require.NoError(t, s.Guard("shop").Raise(7))
			w := ask(s.Wrap(doing), method, x.headers, "body")
			want := x.other
			if method == "GET" || method == "HEAD" || method == "OPTIONS" || method == "TRACE" {
				want = x.safe
			}
			require.Equal(t, want, w.Code, "%s with %s", method, name)
			if w.Code == 200 {
				require.Equal(t, done, w.Body.String())
				continue
			}
			require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
			var p map[string]any
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
			require.Equal(t, http.StatusText(w.Code), p["title"])
			require.EqualValues(t, w.Code, p["status"])
			require.Equal(t, x.detail, p["detail"], "%s with %s", method, name)
			require.Contains(t, p["type"], "fencehttp#")
			if w.Code != http.StatusPreconditionFailed {
				require.Empty(t, w.Header().Values("Leader-Term"))
				require.NotContains(t, p, "have")
				continue
			}
			require.Equal(t, "7", w.Header().Get("Leader-Term"))
			require.Equal(t, "shop", w.Header().Get("Leader-Lease"))
			require.Equal(t, []any{"shop", "6", "7"}, []any{p["lease"], p["term"], p["have"]})
		}
	}
}

func TestRouteOfNoLeaseAcceptsNoLeader(t *testing.T) {
	s := newServer(t, fencehttp.ServerConfig{Lease: func(*http.Request) string { return "" }})
	assert.Equal(t, 403, ask(s.Wrap(doing), "POST", as("1"), "").Code)
	assert.Equal(t, 428, ask(s.Wrap(doing), "POST", "", "").Code)
	assert.Equal(t, 200, ask(s.Wrap(doing), "GET", as("1"), "").Code)
}

func TestLeasesHaveTermsOfTheirOwn(t *testing.T) {
	s := newServer(t, fencehttp.ServerConfig{MaxLeases: 2})
	h := s.Wrap(doing)
	require.Equal(t, 200, ask(h, "POST", as("7"), "").Code)
	require.Equal(t, 200, ask(h, "GET", "Leader-Lease: b\nLeader-Term: 3", "").Code)
	require.Equal(t, 412, ask(h, "POST", "Leader-Lease: b\nLeader-Term: 2", "").Code)
	require.Equal(t, 412, ask(h, "POST", as("6"), "").Code)
	for _, method := range []string{"GET", "POST"} {
		w := ask(h, method, "Leader-Lease: c\nLeader-Term: 3", "")
		require.Equal(t, 503, w.Code)
		require.Contains(t, w.Body.String(), `"detail":"there are 2 other leases already"`)
	}
	require.NoError(t, s.Guard("c").Raise(4), "the program itself has no limit")
	require.Equal(t, 412, ask(h, "POST", "Leader-Lease: c\nLeader-Term: 3", "").Code)
	require.Equal(t, 200, ask(h, "POST", "Leader-Lease: c\nLeader-Term: 4", "").Code)
}

func TestTermCountsEvenIfRequestIsRefusedLater(t *testing.T) {
	s := newServer(t, fencehttp.ServerConfig{Lease: shop, MaxBody: 3})
	h := s.Wrap(doing)
	require.Equal(t, 413, ask(h, "POST", as("8"), "text").Code)
	require.Equal(t, 412, ask(h, "POST", as("7"), "").Code)
	require.Equal(t, 200, ask(h, "GET", as("9"), "").Code)
	require.Equal(t, 412, ask(h, "POST", as("8"), "").Code, "what leader 9 has read does not change")
	require.Equal(t, 200, ask(h, "GET", "Leader-Lease: other\nLeader-Term: 99", "").Code)
	require.EqualValues(t, 9, s.Guard("shop").Highest())
	require.Zero(t, s.Guard("other").Highest())
}

func TestHandlerGetsBodyAndClaim(t *testing.T) {
	s := newServer(t, fencehttp.ServerConfig{Lease: shop})
	type got struct {
		body   string
		length int64
		coding []string
		fence  store.Fence
		fenced bool
	}
	var have got
	h := s.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		f, fenced := store.FenceFrom(r.Context())
		have = got{string(text), r.ContentLength, r.TransferEncoding, f, fenced}
	}))
	ask(h, "POST", as("7"), "text")
	require.Equal(t, got{"text", 4, nil, store.Fence{Lease: "shop", Term: 7}, true}, have)
	ask(h, "POST", as("7"), "")
	require.Equal(t, got{"", 0, nil, store.Fence{Lease: "shop", Term: 7}, true}, have)
	ask(h, "GET", as("7"), "")
	require.Equal(t, store.Fence{Lease: "shop", Term: 7}, have.fence)
	ask(h, "GET", "", "")
	require.False(t, have.fenced)
	ask(h, "GET", "Leader-Lease: other\nLeader-Term: 7", "")
	require.False(t, have.fenced, "the claim does not count here")

	r := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader("te"), strings.NewReader("xt"))) // without a length
	r.TransferEncoding = []string{"chunked"}
	r.Header = http.Header{"Leader-Lease": {"shop"}, "Leader-Term": {"7"}}
	h.ServeHTTP(httptest.NewRecorder(), r)
	require.Equal(t, got{"text", 4, nil, store.Fence{Lease: "shop", Term: 7}, true}, have)
	require.Equal(t, []string{"chunked"}, r.TransferEncoding, "the request of the caller is as before")
	r.Body = nil
	s.Wrap(doing).ServeHTTP(httptest.NewRecorder(), r)
}

func TestBodyHasLimit(t *testing.T) {
	s := newServer(t, fencehttp.ServerConfig{Lease: shop, MaxBody: 4})
	served := 0
	h := s.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		served++
		text, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.Equal(t, "text", string(text))
	}))
	require.Equal(t, 200, ask(h, "POST", as("7"), "text").Code)
	for name, body := range map[string]io.Reader{
		"a length that is too large": strings.NewReader("texts"),
		"no length":                  io.MultiReader(strings.NewReader("tex"), strings.NewReader("ts")),
	} {
		r := httptest.NewRequest("POST", "/", body)
		r.Header = http.Header{"Leader-Lease": {"shop"}, "Leader-Term": {"7"}}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, 413, w.Code, name)
		require.Contains(t, w.Body.String(), `"detail":"the body has more than 4 bytes"`, name)
	}
	require.Equal(t, 1, served)
	defaults := newServer(t, fencehttp.ServerConfig{Lease: shop})
	require.Equal(t, 200, ask(defaults.Wrap(doing), "POST", as("7"), strings.Repeat("x", 4<<20)).Code)
	require.Equal(t, 413, ask(defaults.Wrap(doing), "POST", as("7"), strings.Repeat("x", 4<<20+1)).Code)
	require.Equal(t, 200, ask(defaults.Wrap(doing), "GET", as("7"), strings.Repeat("x", 4<<20+1)).Code, "its body is not read")
}

func TestBodyThatIsCutOffDoesNotReachHandler(t *testing.T) {
	s := newServer(t, fencehttp.ServerConfig{Lease: shop})
	h := s.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it is served") }))
	r := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader("half"), errorReader{io.ErrUnexpectedEOF}))
	r.Header = http.Header{"Leader-Lease": {"shop"}, "Leader-Term": {"7"}}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, 400, w.Code)
	require.Contains(t, w.Body.String(), `"detail":"the body was cut off: unexpected EOF"`)
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }

func TestSuccessorWaitsForWorkInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, fencehttp.ServerConfig{Lease: shop})
		begin := time.Now()
		var mu sync.Mutex
		began := map[string]time.Duration{}
		h := s.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			began[r.Method+" "+r.Header.Get("Leader-Term")] = time.Since(begin)
			mu.Unlock()
			time.Sleep(time.Second)
		}))
		var all sync.WaitGroup
		for _, x := range []struct{ method, term string }{{"PUT", "1"}, {"GET", "2"}, {"PUT", "2"}, {"GET", "3"}, {"PUT", "3"}} {
			all.Go(func() {
				assert.Equal(t, 200, ask(h, x.method, as(x.term), "").Code, "%s %s", x.method, x.term)
			})
			time.Sleep(100 * time.Millisecond)
			if x.term == "2" && x.method == "PUT" { // it waits, and a context may end
				time.Sleep(800 * time.Millisecond)
			}
		}
		all.Wait()
		assert.Equal(t, map[string]time.Duration{
			"PUT 1": 0,
			"GET 2": time.Second, // it waits for the write
			"PUT 2": time.Second,
			"GET 3": 2 * time.Second,
			"PUT 3": 2 * time.Second, // it waits for no read
		}, began)
	})
}

func TestWaitEndsWithRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, fencehttp.ServerConfig{Lease: shop})
		release := make(chan struct{})
		h := s.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
		var all sync.WaitGroup
		all.Go(func() { ask(h, "PUT", as("1"), "") })
		synctest.Wait()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("enough"))
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, "PUT", "/", nil)
		r.Header = http.Header{"Leader-Lease": {"shop"}, "Leader-Term": {"2"}}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, 503, w.Code)
		require.Contains(t, w.Body.String(), `"detail":"fence: wait for work of terms before 2: enough"`)

		all.Go(func() {
			w := ask(h, "PUT", as("2"), "")
			assert.Equal(t, 412, w.Code, "a greater term arrives while it waits")
			assert.Equal(t, "3", w.Header().Get("Leader-Term"))
		})
		synctest.Wait()
		require.NoError(t, s.Guard("shop").Raise(3))
		synctest.Wait()
		close(release)
		all.Wait()
	})
}

// A client is suspended in the middle of its request, or before it reads the response. Its connection stays open.
func TestSuspendedClientDelaysNoSuccessor(t *testing.T) {
	head := "POST / HTTP/1.1\r\nHost: service\r\nLeader-Lease: shop\r\nLeader-Term: 1\r\n"
	for name, sent := range map[string]string{
		"in its headers":          head,
		"in its body":             head + "Content-Length: 10\r\n\r\nhalf",
		"in its chunks":           head + "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
		"before it reads":         head + "Content-Length: 5\r\n\r\nlarge",
		"before it reads a flush": head + "Content-Length: 5\r\n\r\nflush",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, fencehttp.ServerConfig{Lease: shop})
				l := fencetest.NewListener()
				server := &http.Server{WriteTimeout: time.Minute, Handler: s.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch text, _ := io.ReadAll(r.Body); string(text) {
					case "large":
						_, _ = w.Write(make([]byte, 1<<20))
					case "flush":
						_, _ = w.Write(make([]byte, 1<<20))
						w.(http.Flusher).Flush()
					}
				}))}
				var served sync.WaitGroup
				served.Go(func() { _ = server.Serve(l) })
				conn, err := l.Dial(t.Context())
				require.NoError(t, err)
				_, err = io.WriteString(conn, sent)
				require.NoError(t, err)
				synctest.Wait()
				begin := time.Now()
				require.Equal(t, 200, ask(server.Handler, "POST", as("2"), "").Code)
				if name == "before it reads a flush" {
					assert.Equal(t, time.Minute, time.Since(begin), "it waits for the WriteTimeout, as documented")
				} else {
					assert.Zero(t, time.Since(begin))
				}
				conn.Close()
				server.Close()
				served.Wait()
			})
		})
	}
}

// A handler sees a ResponseWriter like that of net/http, whose response arrives later.
func TestResponseIsThatOfHandler(t *testing.T) {
	handlers := map[string]http.HandlerFunc{
		"nothing":       func(http.ResponseWriter, *http.Request) {},
		"a body":        func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"a status":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(418) },
		"two statuses":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(418); w.WriteHeader(200) },
		"no content":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204); _, _ = io.WriteString(w, "x") },
		"late headers":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); w.Header().Set("Late", "x") },
		"later headers": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x"); w.Header().Del("Outer") },
		"headers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Inner", w.Header().Get("Outer"))
			w.Header().Del("Outer")
			w.WriteHeader(201)
		},
		"trailers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "Sum")
			_, _ = io.WriteString(w, "x")
			w.Header().Set("Sum", "1")
			w.Header().Set(http.TrailerPrefix+"Other", "2")
		},
		"pieces": func(w http.ResponseWriter, _ *http.Request) {
			for range 5 {
				_, _ = w.Write(bytes.Repeat([]byte("x"), 300<<10))
			}
		},
		"flushes": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Inner", "x")
			w.(http.Flusher).Flush()
			w.Header().Set("Late", "x")
			_, _ = io.WriteString(w, "text")
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "text")
		},
		"hints": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>")
			w.WriteHeader(103)
			w.WriteHeader(202)
		},
		"a connection": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 299 Mine\r\nConnection: close\r\n\r\nown")
				conn.Close()
			}
		},
		"a deadline": func(w http.ResponseWriter, _ *http.Request) {
			err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Hour))
			_, _ = fmt.Fprint(w, err)
		},
	}
	outer := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Outer", "x"); next.ServeHTTP(w, r) })
	}
	s := newServer(t, fencehttp.ServerConfig{Lease: shop})
	for name, h := range handlers {
		synctest.Test(t, func(t *testing.T) {
			get := func(h http.Handler) (string, http.Header, http.Header, string) {
				way, _ := serve(t, outer(h))
				req := request(t.Context(), "POST", "x")
				req.Header = http.Header{"Leader-Lease": {"shop"}, "Leader-Term": {"7"}}
				resp, err := way.RoundTrip(req)
				require.NoError(t, err, name)
				text, err := readAll(resp)
				require.NoError(t, err, name)
				return resp.Status, resp.Header, resp.Trailer, text
			}
			status, header, trailer, text := get(h)
			status2, header2, trailer2, text2 := get(s.Wrap(h))
			assert.Equal(t, status, status2, name)
			assert.Equal(t, trailer, trailer2, name)
			assert.True(t, text == text2, name)
			if name == "pieces" { // each knows another part of the length
				header.Del("Content-Length")
				header2.Del("Content-Length")
			}
			assert.Equal(t, header, header2, name)
		})
	}
}

func TestPanicOfHandlerEndsItsWork(t *testing.T) {
	s := newServer(t, fencehttp.ServerConfig{Lease: shop})
	h := s.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "half")
		if r.Header.Get("Leader-Term") == "1" {
			panic(http.ErrAbortHandler)
		}
	}))
	w := httptest.NewRecorder()
	require.PanicsWithValue(t, http.ErrAbortHandler, func() {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header = http.Header{"Leader-Lease": {"shop"}, "Leader-Term": {"1"}}
		h.ServeHTTP(w, r)
	})
	require.Empty(t, w.Body.String())
	require.Equal(t, 200, ask(h, "POST", as("2"), "").Code)
}

func TestBadServerConfigIsRejected(t *testing.T) {
	_, err := fencehttp.NewServer(fencehttp.ServerConfig{MaxBody: -1, MaxLeases: math.MinInt})
	require.EqualError(t, err, fmt.Sprintf("fencehttp: new server: ServerConfig.MaxBody is -1, must not be negative; "+
		"ServerConfig.MaxLeases is %d, must not be negative", math.MinInt))
	newServer(t, fencehttp.ServerConfig{MaxBody: math.MaxInt64, MaxLeases: math.MaxInt})
}

func TestCheckKnowsStaleTerm(t *testing.T) {
	work, depose := leaderelect.Appoint(t.Context(), "größe", 6)
	defer depose(nil)
	with := func(lease, term string) *http.Request {
		r := request(t.Context(), "POST", "")
		r.Header = http.Header{"Leader-Lease": {lease}, "Leader-Term": {term}}
		return r
	}
	stale := &fence.StaleError{Lease: "größe", Term: 6, Have: 7}
	for name, x := range map[string]struct {
		status      int
		lease, term string
		sent        *http.Request
		want        error
	}{
		"stale":                          {412, "gr%C3%B6%C3%9Fe", "7", with("gr%c3%b6%c3%9fe", "6"), stale},
		"the request of the caller":      {412, "gr%C3%B6%C3%9Fe", "7", request(work, "POST", ""), stale},
		"no request":                     {412, "gr%C3%B6%C3%9Fe", "7", nil, &fence.StaleError{Lease: "größe", Have: 7}},
		"the lease of another service":   {412, "other", "7", request(work, "POST", ""), &fence.StaleError{Lease: "other", Have: 7}},
		"a failed If-Match":              {412, "", "", with("shop", "6"), nil},
		"a term that is not greater":     {412, "shop", "6", with("shop", "6"), nil},
		"a response that makes no sense": {412, "shop", "much", with("shop", "6"), nil},
		"another status":                 {409, "shop", "7", with("shop", "6"), nil},
		"success":                        {200, "shop", "7", with("shop", "6"), nil},
	} {
		resp := &http.Response{StatusCode: x.status, Header: http.Header{}, Request: x.sent}
		if x.term != "" {
			resp.Header = http.Header{"Leader-Lease": {x.lease}, "Leader-Term": {x.term}}
		}
		err := fencehttp.Check(resp)
		if x.want == nil {
			require.NoError(t, err, name)
			continue
		}
		require.Equal(t, x.want, err, name)
		require.ErrorIs(t, err, fence.ErrStale)
		require.True(t, isFenced(err))
	}
}

// Two replicas of a service write to one database, which knows a term that one of them has not seen.
func TestRefuseTellsWhatDatabaseKnows(t *testing.T) {
	db := store.NewMemory(store.MemoryConfig{})
	replica := func() http.Handler {
		texts, err := store.Open(db, "Text", store.Config[string]{})
		require.NoError(t, err)
		return newServer(t, fencehttp.ServerConfig{Lease: shop}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := store.CreateOrUpdate(r.Context(), texts, "a", func(o *store.Object[string]) error {
				o.Value = r.Header.Get("Leader-Term")
				return nil
			})
			if err != nil && !fencehttp.Refuse(w, err) {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}))
	}
	a, b := replica(), replica()
	require.Equal(t, 200, ask(a, "PUT", as("6"), "").Code)
	require.Equal(t, 200, ask(b, "PUT", as("7"), "").Code)
	w := ask(a, "PUT", as("6"), "")
	require.Equal(t, 412, w.Code)
	resp := w.Result()
	work, depose := leaderelect.Appoint(t.Context(), "shop", 6)
	defer depose(nil)
	resp.Request = request(work, "PUT", "")
	require.Equal(t, &fence.StaleError{Lease: "shop", Term: 6, Have: 7}, fencehttp.Check(resp))
	require.Contains(t, w.Body.String(), `"lease":"shop","term":"6","have":"7"`)

	w = httptest.NewRecorder()
	require.True(t, fencehttp.Refuse(w, fmt.Errorf("wrapped: %w", &fence.StaleError{Lease: "x", Term: 1, Have: 2})))
	require.Equal(t, "2", w.Header().Get("Leader-Term"))
	w = httptest.NewRecorder()
	require.False(t, fencehttp.Refuse(w, errors.New("other")))
	require.False(t, fencehttp.Refuse(w, nil))
	require.Empty(t, w.Header())
}

// A service that is called by a leader calls another one, which fences the same leader.
func TestClaimIsPassedOnToNextService(t *testing.T) {
	back := newServer(t, fencehttp.ServerConfig{Lease: shop})
	next := &http.Client{Transport: &fencehttp.Transport{Base: direct{back.Wrap(doing)}}}
	front := newServer(t, fencehttp.ServerConfig{Lease: shop}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, err := next.Do(request(r.Context(), "POST", "x"))
		if assert.NoError(t, err) && !fencehttp.Refuse(w, fencehttp.Check(resp)) {
			w.WriteHeader(resp.StatusCode)
		}
	}))
	require.Equal(t, 200, ask(front, "POST", as("6"), "").Code)
	require.EqualValues(t, 6, back.Guard("shop").Highest())
	require.NoError(t, back.Guard("shop").Raise(7))
	w := ask(front, "POST", as("6"), "")
	require.Equal(t, 412, w.Code)
	require.Equal(t, "7", w.Header().Get("Leader-Term"))
}
