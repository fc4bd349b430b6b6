package httplist_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/informer/poll/httplist"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/retry"
)

type site struct {
	Name string
	Rev  int
}

func nameOf(s site) string { return s.Name }

// document is the body of a page.
type document struct {
	Items []site
	Next  string
}

func decode(page []byte) ([]site, string, error) {
	var d document
	err := json.Unmarshal(page, &d)
	return d.Items, d.Next, err
}

func body(next string, items ...site) string {
	text, err := json.Marshal(document{items, next})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// api is a server without a network.
type api func(r *http.Request) *http.Response

func (f api) RoundTrip(r *http.Request) (*http.Response, error) {
	resp := f(r)
	if resp == nil {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	resp.Request = r
	return resp, nil
}

// respond returns a response. header has pairs of names and values.
func respond(status int, body string, header ...string) *http.Response {
	resp := &http.Response{
		StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)), ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
	for i := 0; i < len(header); i += 2 {
		resp.Header.Add(header[i], header[i+1])
	}
	return resp
}

func newList(t *testing.T, f api, cfg httplist.Config) *httplist.List[site] {
	t.Helper()
	cfg.Client = &http.Client{Transport: f}
	l, err := httplist.New("http://inventory.example/sites", decode, cfg)
	require.NoError(t, err)
	return l
}

// A page that the server, or its bytes, show to be the same is not decoded again.
func TestUnchangedPageIsNotDecoded(t *testing.T) {
	early, late := "Sat, 28 Nov 2026 10:00:00 GMT", "Sat, 28 Nov 2026 10:00:01 GMT"
	for name, test := range map[string]struct {
		header    []string
		condition string // that the second request has
	}{
		"ETag":                             {[]string{"ETag", `"7"`, "Date", late}, `If-None-Match: "7"`},
		"a weak ETag":                      {[]string{"ETag", `W/"7"`}, `If-None-Match: W/"7"`},
		"ETag and Last-Modified":           {[]string{"ETag", `"7"`, "Last-Modified", early, "Date", late}, `If-None-Match: "7"`},
		"Last-Modified":                    {[]string{"Last-Modified", early, "Date", late}, "If-Modified-Since: " + early},
		"Last-Modified of the same second": {[]string{"Last-Modified", late, "Date", late}, ""},
		"Last-Modified without a Date":     {[]string{"Last-Modified", early}, ""},
		"neither":                          {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var conditions []string
			items := []site{{"a", 1}}
			n := 0
			f := func(r *http.Request) *http.Response {
				condition := ""
				if v := r.Header.Get("If-None-Match"); v != "" {
					condition = "If-None-Match: " + v
				} else if v = r.Header.Get("If-Modified-Since"); v != "" {
					condition = "If-Modified-Since: " + v
				}
				conditions = append(conditions, condition)
				if condition != "" && items[0].Rev == 1 {
					return respond(http.StatusNotModified, "", test.header...)
				}
				return respond(http.StatusOK, body("", items...), test.header...)
			}
			l, err := httplist.New("http://inventory.example/sites", func(page []byte) ([]site, string, error) {
				n++
				return decode(page)
			}, httplist.Config{Client: &http.Client{Transport: api(f)}})
			require.NoError(t, err)
			got, err := l.List(t.Context())
			require.NoError(t, err)
			assert.Equal(t, items, got)
			for range 2 {
				_, err = l.List(t.Context())
				assert.Equal(t, poll.ErrUnchanged, err)
			}
			items = []site{{"a", 2}}
			got, err = l.List(t.Context())
			require.NoError(t, err)
			assert.Equal(t, items, got)
			assert.Equal(t, 2, n, "decoded")
			assert.Equal(t, []string{"", test.condition, test.condition, test.condition}, conditions)
		})
	}
}

// Whatever goes wrong with a response, the list is an error.
func TestPartOfListIsAnError(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(body("", site{"a", 1}, site{"b", 2})))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			head, body, _ := strings.Cut(text, "\n\n")
			_, _ = io.WriteString(conn, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n\r\n"+body)
			_ = conn.Close()
		}
	}
	status := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			if status != http.StatusNoContent && status != http.StatusNotModified {
				_, _ = io.WriteString(w, body(""))
			}
		}
	}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"shorter than its length":   {raw("HTTP/1.1 200 OK\nContent-Length: 100\n\n" + body("")), "unexpected EOF"},
		"a chunk is missing":        {raw("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n18\r\n" + body("") + "\r\n"), "unexpected EOF"},
		"no length":                 {raw("HTTP/1.1 200 OK\n\n" + body("")), "neither a length nor chunks"},
		"HTTP/1.0 without a length": {raw("HTTP/1.0 200 OK\n\n" + body("")), "neither a length nor chunks"},
		"compressed, and cut short": {raw("HTTP/1.1 200 OK\nContent-Encoding: gzip\n\n" + packed.String()[:packed.Len()-9]), "unexpected EOF"},
		"no answer":                 {raw(""), "malformed HTTP response"},
		"not JSON":                  {raw("HTTP/1.1 200 OK\nContent-Length: 7\n\n<html/>"), "invalid character"},
		"too large":                 {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat(" ", 2000)) }, "more than the 1000 bytes"},
		"201":                       {status(http.StatusCreated), "the status is 201 Created, not 200"},
		"204":                       {status(http.StatusNoContent), "the status is 204 No Content, not 200"},
		"206":                       {status(http.StatusPartialContent), "the status is 206 Partial Content, not 200"},
		"304 without a condition":   {status(http.StatusNotModified), "the status is 304 Not Modified, not 200"},
		"404":                       {status(http.StatusNotFound), "the status is 404 Not Found, not 200"},
		"500":                       {status(http.StatusInternalServerError), "the status is 500 Internal Server Error, not 200"},
		"the next page is not there": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery != "" {
				http.NotFound(w, r)
				return
			}
			_, _ = io.WriteString(w, body("?page=2", site{"a", 1}))
		}, "/?page=2: the status is 404 Not Found, not 200"},
		"the next page is the first": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, body("/", site{"a", 1}))
		}, "page 1 leads back to"},
		"the next page is elsewhere": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, body("http://evil.example/", site{"a", 1}))
		}, "the next page is http://evil.example/, not under http://127.0.0.1"},
		"the next page is no URL": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, body("http://[", site{"a", 1}))
		}, "the next page: parse"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(test.handler)
			server.Config.ErrorLog = nil
			server.Start()
			t.Cleanup(server.Close)
			l, err := httplist.New(server.URL+"/", decode, httplist.Config{MaxBytes: 1000})
			require.NoError(t, err)
			items, err := l.List(t.Context())
			require.ErrorContains(t, err, test.want)
			assert.True(t, strings.HasPrefix(err.Error(), "httplist: "), err)
			assert.NotErrorIs(t, err, poll.ErrUnchanged)
			assert.Empty(t, items)
		})
	}
	server := httptest.NewServer(raw("HTTP/1.1 200 OK\nContent-Encoding: gzip\n\n" + packed.String()))
	t.Cleanup(server.Close)
	l, err := httplist.New(server.URL, decode, httplist.Config{})
	require.NoError(t, err)
	items, err := l.List(t.Context())
	require.NoError(t, err, "the compression marks the end")
	assert.Len(t, items, 2)
}

// inventory is an API with pages of two objects each, which begin at an offset.
type inventory struct {
	sites    []site
	requests int
	before   func(request int) // called before each
	links    bool              // the next page is in the header Link
	tags     bool              // pages have ETags, and answer 304
}

func (v *inventory) page(r *http.Request) *http.Response {
	v.requests++
	if v.before != nil {
		v.before(v.requests)
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("from"))
	from = min(from, len(v.sites))
	to := min(from+2, len(v.sites))
	next := ""
	if to < len(v.sites) {
		next = fmt.Sprint("?from=", to)
	}
	text := body(next, v.sites[from:to]...)
	var header []string
	if v.links {
		if text = body("", v.sites[from:to]...); next != "" {
			header = append(header, "Link", "<"+next+`>; rel="next"`)
		}
	}
	if v.tags {
		tag := strconv.Quote(fmt.Sprintf("%x", text))
		if header = append(header, "ETag", tag); r.Header.Get("If-None-Match") == tag {
			return respond(http.StatusNotModified, "", "ETag", tag) // without the header Link, as a server may do
		}
	}
	return respond(http.StatusOK, text, header...)
}

// An object that exists all the time is in each list, whenever another one is created or deleted while the pages are read.
func TestObjectIsNeverMissedBetweenPages(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f"}
	lists := 0
	for _, links := range []bool{false, true} {
		for _, tags := range []bool{false, true} {
			for at := 1; at <= 14; at++ {
				for i := range names {
					for _, insert := range []bool{false, true} {
						v := &inventory{links: links, tags: tags}
						for _, name := range names {
							v.sites = append(v.sites, site{name, 1})
						}
						v.before = func(request int) {
							switch {
							case request != at:
							case insert:
								v.sites = slices.Insert(v.sites, i, site{"new", 1})
							default:
								v.sites = slices.Delete(v.sites, i, i+1)
							}
						}
						l := newList(t, v.page, httplist.Config{Links: links})
						for n := range 4 {
							got, err := l.List(t.Context())
							lists++
							if errors.Is(err, poll.ErrUnchanged) && n > 0 {
								continue
							}
							require.NoError(t, err)
							for j, name := range names {
								if insert || j != i {
									require.Contains(t, got, site{name, 1}, "links %v, tags %v, request %d, list %d: %v", links, tags, at, n, got)
								}
							}
						}
						_, err := l.List(t.Context())
						require.ErrorIs(t, err, poll.ErrUnchanged, "it has settled")
					}
				}
			}
		}
	}
	assert.Equal(t, 2*2*14*6*2*4, lists)
}

func TestPagesThatKeepChangingAreAnError(t *testing.T) {
	v := &inventory{sites: []site{{"a", 1}, {"b", 1}, {"c", 1}}}
	v.before = func(n int) { v.sites[2].Rev = n }
	_, err := newList(t, v.page, httplist.Config{}).List(t.Context())
	require.EqualError(t, err, "httplist: list http://inventory.example/sites: the pages changed while they were read, 5 times")
	assert.Equal(t, 10, v.requests)

	v.requests = 0
	items, err := newList(t, v.page, httplist.Config{Keyset: true}).List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []site{{"a", 1}, {"b", 1}, {"c", 2}}, items)
	assert.Equal(t, 2, v.requests)
}

// A page may get a next page although its own body is the same, and a server need not say so in a 304.
func TestNewPageBehindUnchangedPageIsFound(t *testing.T) {
	for i := range 4 {
		links, tags := i&1 > 0, i&2 > 0
		v := &inventory{links: links, tags: tags, sites: []site{{"a", 1}, {"b", 1}}}
		l := newList(t, v.page, httplist.Config{Links: links})
		for _, name := range []string{"c", "d", "e", "f", "g"} {
			_, err := l.List(t.Context())
			require.NoError(t, err)
			v.sites = append(v.sites, site{name, 1})
		}
		items, err := l.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, v.sites, items, "links %v, tags %v", links, tags)
		v.sites = v.sites[:2]
		items, err = l.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, v.sites, items, "links %v, tags %v", links, tags)
	}
}

// What one page lacks makes the list incomplete, also while that page does not change.
func TestIncompletePageMakesListIncomplete(t *testing.T) {
	for _, tags := range []bool{false, true} {
		v := &inventory{tags: tags, sites: []site{{"a", 1}, {"b", -1}, {"c", 1}, {"d", 1}}}
		l, err := httplist.New("http://inventory.example/sites", func(page []byte) (good []site, next string, err error) {
			items, next, err := decode(page)
			if err != nil {
				return nil, "", err
			}
			for _, s := range items {
				if s.Rev < 0 {
					err = poll.Incomplete(fmt.Errorf("%s is broken", s.Name), errors.New("so is a record without a name"))
					continue
				}
				good = append(good, s)
			}
			return good, next, err
		}, httplist.Config{Client: &http.Client{Transport: api(v.page)}})
		require.NoError(t, err)
		for i := range 2 {
			v.sites[3].Rev = i
			items, err := l.List(t.Context())
			require.ErrorContains(t, err, "b is broken")
			assert.Len(t, poll.Missing(err), 2, "one for each record")
			assert.Equal(t, 1, strings.Count(err.Error(), "incomplete"), err)
			assert.Equal(t, []site{{"a", 1}, {"c", 1}, {"d", i}}, items)
		}
		_, err = l.List(t.Context())
		require.ErrorIs(t, err, poll.ErrUnchanged)
		v.sites[1].Rev = 1
		items, err := l.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, v.sites, items)
	}
}

// The source polls again when the server allows it, and not before, even if it is nudged.
func TestRetryAfterDelaysNextRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests looptest.Log[time.Duration]
		began := time.Now()
		var limited atomic.Bool
		l := newList(t, func(*http.Request) *http.Response {
			requests.Add(time.Since(began))
			if limited.Swap(false) {
				return respond(http.StatusTooManyRequests, "", "Retry-After", "60")
			}
			return respond(http.StatusOK, body("", site{"a", 1}))
		}, httplist.Config{})
		src, err := poll.New(l.List, nameOf, poll.Config[site]{Interval: 10 * time.Second, Jitter: -1})
		require.NoError(t, err)
		var reported looptest.Log[error]
		inf, err := informer.New(src, nameOf, informer.Config{Name: "sites", OnError: reported.Add})
		require.NoError(t, err)
		looptest.Start(t, inf.Run)
		time.Sleep(15 * time.Second)
		limited.Store(true)
		time.Sleep(10 * time.Second)
		errs := reported.Take()
		require.Len(t, errs, 1)
		assert.ErrorContains(t, errs[0], "get http://inventory.example/sites: the status is 429 Too Many Requests, not 200")
		src.Nudge()
		synctest.Wait()
		errs = reported.Take()
		require.Len(t, errs, 1)
		assert.ErrorContains(t, errs[0], "the server has asked for no request in the next 55s")
		d, ok := retry.Delay(errs[0])
		assert.True(t, ok)
		assert.Equal(t, 55*time.Second, d)
		time.Sleep(70 * time.Second)
		const s = time.Second
		assert.Equal(t, []time.Duration{0, 10 * s, 20 * s, 80 * s, 90 * s}, requests.All())
		assert.Empty(t, reported.Take())
		_, ok = inf.Get("a")
		assert.True(t, ok)
	})
}

func TestRetryAfterIsRead(t *testing.T) {
	now := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "-1": 0, "1.5": 0, "soon": 0, "86400": time.Hour, "99999999999999999999": 0,
		"Sat, 28 Nov 2026 10:01:00 GMT": time.Minute, "Sat, 28 Nov 2026 09:00:00 GMT": 0, "Sat, 28 Nov 2026 18:00:00 GMT": time.Hour,
	} {
		assert.Equal(t, want, httplist.RetryAfter(header, now), header)
	}
}

func TestRequestThatHangsTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList(t, func(*http.Request) *http.Response { return nil }, httplist.Config{Timeout: time.Second})
		began := time.Now()
		_, err := l.List(t.Context())
		require.EqualError(t, err, "httplist: get http://inventory.example/sites: no complete response within 1s: context deadline exceeded")
		assert.Equal(t, time.Second, time.Since(began))

		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("stopped"))
		_, err = l.List(ctx)
		require.ErrorIs(t, err, context.Cause(ctx))
	})
}

func TestPrepareChangesRequest(t *testing.T) {
	token := "secret"
	l := newList(t, func(r *http.Request) *http.Response {
		if r.Header.Get("Authorization") != "Bearer secret" {
			return respond(http.StatusUnauthorized, "")
		}
		return respond(http.StatusOK, body(""))
	}, httplist.Config{Prepare: func(r *http.Request) error {
		if token == "" {
			return errors.New("no token")
		}
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}})
	items, err := l.List(t.Context())
	require.NoError(t, err)
	assert.Empty(t, items)
	token = "another"
	_, err = l.List(t.Context())
	require.ErrorContains(t, err, "401 Unauthorized")
	token = ""
	_, err = l.List(t.Context())
	require.EqualError(t, err, "httplist: get http://inventory.example/sites: no token")
}

func TestNewRejectsBadInput(t *testing.T) {
	for _, bad := range []string{"", "sites", "/sites", "ftp://a/", "http:///sites", "http://[", "https://%zz"} {
		_, err := httplist.New(bad, decode, httplist.Config{})
		assert.ErrorContains(t, err, "httplist: new list: ", bad)
	}
	_, err := httplist.New("http://a.example", decode, httplist.Config{Timeout: -1, MaxBytes: -1})
	assert.ErrorContains(t, err, "Config.Timeout is -1ns, must not be negative")
	assert.ErrorContains(t, err, "Config.MaxBytes is -1, must not be negative")
	assert.Panics(t, func() { _, _ = httplist.New[site]("http://a.example", nil, httplist.Config{}) })
}

func TestConcurrentListPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList(t, func(*http.Request) *http.Response { return nil }, httplist.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _, _ = l.List(ctx) }() // ends with ctx
		synctest.Wait()
		assert.PanicsWithValue(t, "httplist: List called concurrently: use one List for each poll.Source", func() { _, _ = l.List(ctx) })
	})
}

func TestNextLinkIsRead(t *testing.T) {
	for header, want := range map[string]string{
		``:                               "",
		`<b>; rel="next"`:                "b",
		`<b>;rel=next`:                   "b",
		`<b> ; REL = "NEXT"`:             "b",
		`<b>; rel="prev next"`:           "b",
		`<b>; rel="prev"; rel="next"`:    "",
		`<b>; title="a, b; c"; rel=next`: "b",
		`<b>; title="\"rel=next"`:        "",
		`<a>; rel=prev, <b>; rel=next`:   "b",
		`<a,b>; rel=next`:                "a,b",
		`<a>, <b>; rel=next`:             "b",
		`<a>;, <b>;;rel=next`:            "b",
		`<a>; flag, <b>; rel=next`:       "b",
		`<b>; rel=nextpage`:              "",
		`<b; rel=next`:                   "",
		`b; rel=next`:                    "",
		`<b>; rel="next`:                 "b",
		`<b>; rel`:                       "",
		`<b>; rel=`:                      "",
	} {
		assert.Equal(t, want, httplist.NextLink([]string{header}), header)
	}
	assert.Equal(t, "b", httplist.NextLink([]string{`<a>; rel=first`, `<b>; rel=next`, `<c>; rel=next`}))
}

func FuzzNextLink(f *testing.F) {
	for _, seed := range []string{`<b>; rel="next"`, `<a>; title="x, \"y"; rel=prev`, `<`, `<>;=;"\`} {
		f.Add(seed, "c")
	}
	f.Fuzz(func(t *testing.T, before, target string) {
		got := httplist.NextLink([]string{before}) // it returns
		if got != "" && !strings.Contains(before, "<"+got+">") {
			t.Errorf("%q is no target of %q", got, before)
		}
		if got == "" && target != "" && !strings.Contains(target, ">") {
			if got = httplist.NextLink([]string{before, "<" + target + `>; a="b"; rel="next"`}); got != target {
				t.Errorf("%q after %q, not %q", got, before, target)
			}
		}
	})
}

func TestSourceKeepsTheContract(t *testing.T) {
	informertest.Run(t, func(t *testing.T) informertest.Subject[site] {
		var mu sync.Mutex
		v := &inventory{tags: true}
		l := newList(t, func(r *http.Request) *http.Response {
			mu.Lock()
			defer mu.Unlock()
			return v.page(r)
		}, httplist.Config{})
		p, err := poll.New(l.List, nameOf, poll.Config[site]{Interval: -1, Valid: func(s site) error {
			if s.Rev < 0 {
				return errors.New("it is broken")
			}
			return nil
		}})
		require.NoError(t, err)
		change := func(name string, with ...site) error {
			mu.Lock()
			if i := slices.IndexFunc(v.sites, func(s site) bool { return s.Name == name }); i < 0 {
				v.sites = append(v.sites, with...)
			} else {
				v.sites = slices.Replace(v.sites, i, i+1, with...)
			}
			mu.Unlock()
			_, err := p.List(context.Background())
			return err
		}
		return informertest.Subject[site]{
			Source:   p,
			Put:      func(name string, rev int) error { return change(name, site{Name: name, Rev: rev}) },
			Delete:   func(name string) error { return change(name) },
			Spoil:    func(name string) error { return change(name, site{Name: name, Rev: -1}) },
			Read:     func(s site) (string, int) { return s.Name, s.Rev },
			History:  1,
			Bookmark: func() error { p.Nudge(); return nil },
		}
	})
}

func TestMain(m *testing.M) { looptest.Main(m) }
