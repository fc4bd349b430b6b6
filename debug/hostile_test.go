package debug_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/debug"
)

// hostile are keys that try to break out of where they stand.
func hostile() []string {
	return []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'-alert(1)-'`, "a&b=c#d?e", "../../etc/passwd", "/", "//evil.example/x",
		"javascript:alert(1)", "a\x00b", "\xff\xfe", "line\nbreak\r\n", "{{.Token}}", "\u202eevil", "%00%2f", " ", "]]>", "a+b c",
		"</textarea></pre></table>", strings.Repeat("<b>x", 2<<10), strings.Repeat("\xff", 8<<10), strings.Repeat("k", 999) + "é",
	}
}

func TestHostileKeysAreEscapedAndUsable(t *testing.T) {
	c := controllerOf(t, "q<i>\"", controller.Config[string]{})
	h := pageOf(t, debug.Config{Actions: true}, c)
	for _, key := range hostile() {
		c.AddWith(key, controller.AddOptions{Reason: key})
	}
	queue := "queue?" + url.Values{"name": {`q<i>"`}}.Encode()
	v := readJSON(t, h, queue)
	keys := v["keys"].([]any)
	require.Len(t, keys, len(hostile()))
	bodies := []string{read(t, h, ""), read(t, h, queue)}
	seen := make(map[string]bool)
	for _, k := range keys {
		link := at(k, "link")
		require.False(t, seen[link], "links are unique")
		seen[link] = true
		bodies = append(bodies, read(t, h, link), read(t, h, queue+"&q="+url.QueryEscape(at(k, "key"))))

		// The action goes to this key, and to no other.
		r := ask(h, http.MethodPost, "act"+strings.TrimPrefix(link, "key"), url.Values{"action": {"pause"}, "token": {at(v, "token")}})
		require.Equal(t, http.StatusSeeOther, r.StatusCode, bodyOf(t, r))
		assert.Equal(t, link, r.Header.Get("Location"))
		assert.Equal(t, "true", at(readJSON(t, h, link), "key.paused"))
	}
	n := 0
	for k := range c.Inspect().Keys() {
		assert.True(t, k.Paused, "%q", k.Key[:min(len(k.Key), 30)])
		n++
	}
	assert.Len(t, hostile(), n, "no other key was added")
	tags := regexp.MustCompile(`(?i)<(img src=x|i>|b>x|script>|/textarea)|onerror=alert\(1\)>|href="javascript:|href="//`)
	searched := regexp.MustCompile(`value="[^"]*" placeholder`) // shows the typed text unchanged
	for _, body := range bodies {
		body = searched.ReplaceAllString(body, "")
		assert.NotRegexp(t, tags, body)
		assert.NotContains(t, body, "\x00")
		assert.NotContains(t, body, "\u202e")
		assert.NotContains(t, body, "ZgotmplZ")
	}
}

func TestThousandsOfKeysArePaged(t *testing.T) {
	c := controllerOf(t, "many", controller.Config[int]{})
	const n = 10_000
	for i := range n {
		c.Add(i)
	}
	h := pageOf(t, debug.Config{}, c)
	v := readJSON(t, h, "queue?name=many")
	assert.Equal(t, "10000", fmt.Sprintf("%.0f", step(step(v, "counts"), "ready")))
	assert.Equal(t, "100", at(v, "pages"))
	assert.Equal(t, "0", at(v, "keys.0.key"), "the oldest first")
	first, last := read(t, h, "queue?name=many&state=ready"), read(t, h, "queue?name=many&page=100&q=")
	assert.Less(t, len(first), 100_000, "a page is small")
	assert.Contains(t, first, "1 to 100 of 10,000")
	assert.Contains(t, first, `href="queue?name=many&amp;page=2&amp;state=ready" rel="next"`)
	assert.NotContains(t, first, `rel="prev"`)
	assert.Contains(t, last, "9,901 to 10,000 of 10,000")
	assert.Contains(t, last, `href="queue?name=many&amp;page=99" rel="prev"`)
	assert.NotContains(t, last, `rel="next"`)
	assert.Equal(t, http.StatusNotFound, ask(h, http.MethodGet, "key?queue=many&key=one", nil).StatusCode, "a number")
	v = readJSON(t, h, "queue?name=many&page=100")
	assert.Equal(t, "9999", at(v, "keys.99.key"))
	v = readJSON(t, h, "queue?name=many&page=999999999999999999999")
	assert.Equal(t, "1", at(v, "page"))
	v = readJSON(t, h, "queue?name=many&page=5000")
	assert.Equal(t, "100", at(v, "page"), "the last one")
	v = readJSON(t, h, "queue?name=many&q=999")
	assert.Equal(t, "19", at(v, "counts.all"))
	none := read(t, h, "queue?name=many&q=999&state=parked")
	assert.Contains(t, none, "No key is in this state")
	assert.Contains(t, none, "no keys")
	assert.Contains(t, none, `href="queue?name=many&amp;q=999&amp;state=failing"`)
}

func TestPagesAreReadDuringChanges(t *testing.T) {
	c := controllerOf(t, "busy", controller.Config[int]{Workers: 4, DrainTimeout: time.Nanosecond})
	h := pageOf(t, debug.Config{Actions: true}, c)
	token := at(readJSON(t, h, ""), "token")
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if err := c.Run(ctx); err != nil {
			assert.ErrorIs(t, err, controller.ErrDrainTimeout)
		}
	})
	all.Go(func() { assert.NoError(t, h.Run(ctx)) })
	all.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			c.Add(i % 500)
		}
	})
	var readers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() {
			for n := range 5 {
				key := fmt.Sprint((i + n) % 3)
				for _, target := range []string{"", "queue?name=busy", "key?queue=busy&key=" + key, "queue?name=busy&format=json&state=ready", "readyz"} {
					r := ask(h, http.MethodGet, target, nil)
					assert.Contains(t, []int{http.StatusOK, http.StatusInternalServerError}, r.StatusCode)
				}
				for _, action := range []string{"pause", "retry", "forget", "resume", "resync"} {
					r := ask(h, http.MethodPost, "act?queue=busy&key="+key, url.Values{"action": {action}, "token": {token}})
					assert.Equal(t, http.StatusSeeOther, r.StatusCode)
				}
			}
		})
	}
	readers.Wait()
	cancel()
	all.Wait()
}

// controllerOf returns a controller whose reconcile does nothing, or fails.
func controllerOf[K comparable](t testing.TB, name string, cfg controller.Config[K]) *controller.Controller[K] {
	cfg.Logger = quiet
	c, err := controller.New(name, func(_ context.Context, key K) (controller.Result, error) {
		if len(fmt.Sprint(key))%2 == 0 {
			return controller.Result{}, errors.New("it does not work")
		}
		return controller.Result{}, nil
	}, cfg)
	require.NoError(t, err)
	return c
}
