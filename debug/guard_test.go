package debug_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/debug"
	"github.com/setpoint-go/setpoint/debug/internal/scene"
)

func from(addr string) func(*http.Request) { return func(r *http.Request) { r.RemoteAddr = addr } }
func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
func with(header, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(header, value) }
}

func TestWithoutGuardOnlyLocalhostSeesPage(t *testing.T) {
	h := pageOf(t, debug.Config{Actions: true})
	for _, tt := range []struct {
		name   string
		edits  []func(*http.Request)
		status int
	}{
		{"localhost", nil, http.StatusOK},
		{"IPv4", []func(*http.Request){host("127.0.0.1:80")}, http.StatusOK},
		{"IPv6", []func(*http.Request){from("[::1]:1"), host("[::1]:80")}, http.StatusOK},
		{"IPv6 without a port", []func(*http.Request){from("[::1]:1"), host("[::1]")}, http.StatusOK},
		{"IPv4 in IPv6", []func(*http.Request){from("[::ffff:127.0.0.1]:1")}, http.StatusOK},
		{"upper case", []func(*http.Request){host("LOCALHOST")}, http.StatusOK},
		{"another machine", []func(*http.Request){from("192.0.2.1:1")}, http.StatusForbidden},
		{"another machine claiming to be this one", []func(*http.Request){from("192.0.2.1:1"), host("127.0.0.1")}, http.StatusForbidden},
		{"a name that resolves to this machine", []func(*http.Request){host("evil.example:6060")}, http.StatusForbidden},
		{"a name that looks like this machine", []func(*http.Request){host("localhost.evil.example")}, http.StatusForbidden},
		{"no address", []func(*http.Request){from("")}, http.StatusForbidden},
		{"a socket", []func(*http.Request){from("@")}, http.StatusForbidden},
		{"a header of a proxy", []func(*http.Request){from("192.0.2.1:1"), with("X-Forwarded-For", "127.0.0.1")}, http.StatusForbidden},
	} {
		for _, target := range []string{"", "queue?name=a", "key?queue=a&key=b", "page.js", "?format=json", "?format=events"} {
			if tt.status != http.StatusOK || target == "" {
				assert.Equal(t, tt.status, ask(h, http.MethodGet, target, nil, tt.edits...).StatusCode, "%s: %s", tt.name, target)
			}
		}
		if tt.status != http.StatusOK {
			assert.Equal(t, tt.status, ask(h, http.MethodPost, "act", url.Values{}, tt.edits...).StatusCode, tt.name)
			assert.Equal(t, http.StatusOK, ask(h, http.MethodGet, "healthz", nil, tt.edits...).StatusCode, "probes come from elsewhere")
		}
	}
}

func TestGuardChecksEveryRequest(t *testing.T) {
	h := pageOf(t, debug.Config{Actions: true, Guard: func(r *http.Request) bool {
		_, password, _ := r.BasicAuth()
		return password == "secret"
	}})
	login := func(r *http.Request) { r.SetBasicAuth("", "secret") }
	for _, target := range []string{"", "queue?name=a", "key?queue=a", "page.css", "?format=events"} {
		r := ask(h, http.MethodGet, target, nil)
		assert.Equal(t, http.StatusUnauthorized, r.StatusCode, target)
		assert.Contains(t, r.Header.Get("WWW-Authenticate"), "Basic")
	}
	assert.Equal(t, http.StatusUnauthorized, ask(h, http.MethodPost, "act", url.Values{}).StatusCode)
	assert.Equal(t, http.StatusOK, ask(h, http.MethodGet, "", nil, login, from("192.0.2.1:1"), host("shop.example")).StatusCode)
}

func TestActionsAreRefused(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene.Scene) {
		token := at(readJSON(t, s.Page, ""), "token")
		require.NotEmpty(t, token)
		const target = "act?queue=sites&key=sites/quito"
		good := url.Values{"action": {"retry"}, "token": {token}}
		for _, tt := range []struct {
			name, method, target string
			form                 url.Values
			edits                []func(*http.Request)
			status               int
		}{
			{"no token", http.MethodPost, target, url.Values{"action": {"retry"}}, nil, http.StatusForbidden},
			{"another token", http.MethodPost, target, url.Values{"action": {"retry"}, "token": {"x"}}, nil, http.StatusForbidden},
			{"a token in the URL", http.MethodPost, target + "&token=" + token, url.Values{"action": {"retry"}}, nil, http.StatusForbidden},
			{"another site", http.MethodPost, target, good, []func(*http.Request){with("Sec-Fetch-Site", "cross-site")}, http.StatusForbidden},
			{"another subdomain", http.MethodPost, target, good, []func(*http.Request){with("Sec-Fetch-Site", "same-site")}, http.StatusForbidden},
			{"another origin", http.MethodPost, target, good, []func(*http.Request){with("Origin", "http://evil.example")}, http.StatusForbidden},
			{"another port", http.MethodPost, target, good, []func(*http.Request){with("Origin", "http://localhost:1")}, http.StatusForbidden},
			{"GET", http.MethodGet, target + "&action=retry&token=" + token, nil, nil, http.StatusNotFound},
			{"no such action", http.MethodPost, target, url.Values{"action": {"explode"}, "token": {token}}, nil, http.StatusBadRequest},
			{"no such controller", http.MethodPost, "act?queue=x&key=a", good, nil, http.StatusNotFound},
			{"no such digest", http.MethodPost, "act?queue=sites&id=2000-ab", good, nil, http.StatusNotFound},
			{"too large", http.MethodPost, target, url.Values{"token": {string(make([]byte, 10_000))}}, nil, http.StatusBadRequest},
		} {
			r := ask(s.Page, tt.method, tt.target, tt.form, tt.edits...)
			assert.Equal(t, tt.status, r.StatusCode, "%s: %s", tt.name, bodyOf(t, r))
		}
		assert.Equal(t, "parked", at(readJSON(t, s.Page, "key?queue=sites&key=sites/quito"), "key.state"), "nothing has changed")
		for _, origin := range []string{"same-origin", "none"} {
			assert.Equal(t, http.StatusSeeOther, ask(s.Page, http.MethodPost, target, good, with("Sec-Fetch-Site", origin)).StatusCode)
		}
	})
}

func TestDisabledActionsAreHiddenAndRefused(t *testing.T) {
	c := controllerOf(t, "sites", controller.Config[string]{})
	c.Add("a")
	h := pageOf(t, debug.Config{}, c)
	for _, target := range []string{"", "queue?name=sites", "key?queue=sites&key=a"} {
		assert.NotContains(t, read(t, h, target), `method="post"`)
		assert.NotContains(t, read(t, h, target), "token")
		assert.NotContains(t, read(t, h, withFormat(target, "json")), "token")
	}
	r := ask(h, http.MethodPost, "act?queue=sites&key=a", url.Values{"action": {"retry"}, "token": {""}})
	assert.Equal(t, http.StatusForbidden, r.StatusCode)
	assert.Equal(t, "Actions are off: Config.Actions is not set.\n", bodyOf(t, r))
}
