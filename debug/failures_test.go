package debug_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/debug"
	"github.com/setpoint-go/setpoint/debug/internal/scene"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/retry"
)

// ailing is the page of a controller whose keys fail by their names, and which runs.
func ailing(t *testing.T, keys ...string) (*controller.Controller[string], *debug.Handler) {
	t.Helper()
	c, err := controller.New("sites", func(_ context.Context, key string) (controller.Result, error) {
		kind, _, _ := strings.Cut(key, "-")
		switch kind {
		case "quota":
			return controller.Result{}, retry.Permanent(fmt.Errorf("create server of %s: over quota", key))
		case "moon":
			return controller.Result{}, retry.Permanent(errors.New("there is no region moon"))
		case "down":
			return controller.Result{}, retry.After(errors.New("status 503"), time.Hour)
		case "own":
			return controller.Result{}, retry.Permanent(fmt.Errorf("number %s", key[4:]))
		}
		return controller.Result{}, nil
	}, controller.Config[string]{Logger: quiet})
	require.NoError(t, err)
	m, err := manager.New(manager.Config{Logger: quiet}, c)
	require.NoError(t, err)
	h, err := debug.New(m, debug.Config{Actions: true, Logger: quiet})
	require.NoError(t, err)
	running(t, m)
	for _, key := range keys {
		c.Add(key)
	}
	synctest.Wait()
	return c, h
}

// numbered returns n keys of a kind.
func numbered(kind string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("%s-%04d", kind, i))
	}
	return keys
}

func TestErrorsAreGroupedByMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, h := ailing(t, append(append(numbered("quota", 300), numbered("down", 5)...), numbered("moon", 7)...)...)
		v := readJSON(t, h, "queue?name=sites")
		var got []string
		for _, e := range v["errors"].([]any) {
			got = append(got, strings.Join([]string{at(e, "message"), at(e, "keys"), at(e, "parked")}, " | "))
		}
		assert.Equal(t, []string{
			"create server of KEY: over quota | 300 | 300", "there is no region moon | 7 | 7", "status 503 | 5 | 0",
		}, got)
		assert.Equal(t, "0 307", at(v, "otherErrors")+" "+at(v, "parked"))
		page := read(t, h, "queue?name=sites")
		assert.Contains(t, page, ">create server of KEY: over quota</a></td><td class=\"n\">300</td><td class=\"n\">300</td>")
		assert.Contains(t, page, "Retry 300…</a>")
		assert.Contains(t, page, "Retry 307 parked keys…</a>")

		only := at(v, "errors.1.link")
		assert.Contains(t, page, strings.ReplaceAll(only, "&", "&amp;"))
		v = readJSON(t, h, only)
		assert.Len(t, v["keys"], 7)
		assert.Equal(t, "moon-0000 7 7", at(v, "keys.0.key")+" "+at(v, "counts.all")+" "+at(v, "parked"))
		assert.Len(t, v["errors"], 3, "the other errors stay in view")
		page = read(t, h, only)
		assert.Contains(t, page, "Retry 7 parked keys…</a>")
		assert.Contains(t, page, "1 to 7 of 7")
		assert.Contains(t, page, `aria-current="true">`+"\n<td class=\"reason\"><a href=\""+strings.ReplaceAll(only, "&", "&amp;")+`">there is no region moon`)
		assert.Contains(t, read(t, h, only+"&state=failing"), "&amp;error=", "the filters keep the error")
	})
}

func TestErrorsOnPageAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, h := ailing(t, append(numbered("own", 1500), numbered("moon", 2)...)...)
		v := readJSON(t, h, "queue?name=sites")
		assert.Len(t, v["errors"], 20)
		assert.Contains(t, read(t, h, "queue?name=sites"), "keys have other errors.")
		sum := 0
		for _, e := range v["errors"].([]any) {
			sum += int(step(e, "keys").(float64))
		}
		assert.Equal(t, 1502, sum+int(v["otherErrors"].(float64)), "each key counts once")
	})
}

func TestKeyInMessageIsReplacedWhereItIsWord(t *testing.T) {
	for _, tt := range []struct{ message, key, want string }{
		{"create a: no", "a", "create KEY: no"}, {"a", "a", "KEY"}, {"banana", "a", "banana"}, {"aa", "a", "aa"}, {"a a", "a", "KEY KEY"},
		{`site "eu/berlin"`, "eu/berlin", `site "KEY"`}, {"status 503", "503", "status KEY"}, {"x", "", "x"}, {"é a é", "é", "KEY a KEY"}, {"aé", "é", "aé"},
	} {
		assert.Equal(t, tt.want, debug.WithoutKey(tt.message, tt.key), "%q without %q", tt.message, tt.key)
	}
}

// act sends an action to where a form of the page sends it.
func act(t *testing.T, h http.Handler, target, action string) string {
	t.Helper()
	r := ask(h, http.MethodPost, target, url.Values{"action": {action}, "token": {at(readJSON(t, h, ""), "token")}})
	require.Equal(t, http.StatusSeeOther, r.StatusCode, bodyOf(t, r))
	return r.Header.Get("Location")
}

func TestParkedKeysAreRetriedAfterConfirmation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := ailing(t, append(append(numbered("quota", 1200), numbered("moon", 30)...), numbered("down", 4)...)...)
		v := readJSON(t, h, "queue?name=sites&q=0")
		id := at(v, "errors.1.id")
		for _, tt := range []struct {
			of      string // of the queue
			count   string
			retried uint64
		}{
			{"", "1,230", 1230}, {"&q=moon-001", "10", 10}, {"&error=" + id, "30", 30}, {"&q=moon-0001&error=" + id, "1", 1}, {"&q=nobody", "0", 0},
		} {
			before := c.Stats().Totals.Added
			asks := read(t, h, "confirm?action=retry-parked&queue=sites"+tt.of)
			assert.Equal(t, before, c.Stats().Totals.Added, "the question changes nothing")
			keys := "keys"
			if tt.count == "1" {
				keys = "key"
			}
			assert.Contains(t, asks, "Retry "+tt.count+" parked "+keys+" of <b>sites</b>?", tt.of)
			assert.Equal(t, tt.count == "0", strings.Contains(asks, "disabled>"), tt.of)
			_, form, _ := strings.Cut(asks, `<form class="actions" method="post" action="`)
			form, _, _ = strings.Cut(form, `"`)
			act(t, h, strings.ReplaceAll(form, "&amp;", "&"), "retry-parked")
			synctest.Wait() // until they are parked again
			assert.Equal(t, tt.retried, c.Stats().Totals.Added-before, tt.of)
			assert.Equal(t, 1230, c.Stats().Queue.Parked)
		}
		assert.Equal(t, "retry-parked 30", at(readJSON(t, h, "confirm?action=retry-parked&queue=sites&error="+id), "action")+" "+
			at(readJSON(t, h, "confirm?action=retry-parked&queue=sites&error="+id), "count"))
	})
}

func TestResyncAsksFirst(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene.Scene) {
		page := read(t, s.Page, "queue?name=sites")
		assert.Contains(t, page, `<a class="button" href="confirm?action=resync&amp;queue=sites">Resync all keys…</a>`)
		assert.NotContains(t, page, `method="post"`, "no button of the list acts at once")
		before := s.Sites.Stats().Totals.Added
		asks := read(t, s.Page, "confirm?action=resync&queue=sites")
		assert.Contains(t, asks, "Its caches have 18 objects.")
		assert.Contains(t, asks, `<form class="actions" method="post" action="act?queue=sites">`)
		assert.Equal(t, before, s.Sites.Stats().Totals.Added)
		assert.Equal(t, "queue?name=sites", act(t, s.Page, "act?queue=sites", "resync"))
		assert.Greater(t, s.Sites.Stats().Totals.Added, before)
		for target, status := range map[string]int{
			"confirm?action=resync&queue=nobody": http.StatusNotFound, "confirm?action=forget&queue=sites": http.StatusNotFound,
		} {
			assert.Equal(t, status, ask(s.Page, http.MethodGet, target, nil).StatusCode, target)
		}
	})
	c := controllerOf(t, "sites", controller.Config[string]{})
	h := pageOf(t, debug.Config{}, c)
	assert.Equal(t, http.StatusForbidden, ask(h, http.MethodGet, "confirm?action=resync&queue=sites", nil).StatusCode, "actions are off")
	assert.NotContains(t, read(t, h, "queue?name=sites"), "confirm?")
}
