package debug_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/debug/internal/scene"
)

func TestEveryPageShowsItsJSON(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene.Scene) {
		for _, tt := range []struct {
			target string
			page   []string          // what the page contains
			json   map[string]string // what the JSON has, by path
		}{
			{"", []string{
				"Ready", "leading", "web-1", "this process", "sites</a>", "checks</a>", "QuotaExceeded", "FastStart", "election", "<svg",
			}, map[string]string{
				"stage": "leading", "elections.0.leading": "true", "elections.0.leader.identity": "web-1", "queues.0.name": "sites",
				"queues.0.inFlight": "1", "queues.0.parked": "1", "queues.0.heldBy.pause": "1", "queues.0.workers": "4",
				"informers.0.name": "sites", "informers.0.objects": "6", "informers.0.synced": "true",
				"features.0.name": "FastStart", "features.0.enabled": "true", "features.1.enabled": "false",
				"parts.0.kind": "informer", "recorders.0.recorded": "5",
			}},
			{"queue?name=sites", []string{"sites/lisbon", "in flight", "delayed", "1 to 6 of 6", "the quota of region sa"}, map[string]string{
				"state": "all", "counts.all": "6", "counts.parked": "1", "counts.failing": "2", "keys.0.key": "sites/lisbon",
				"keys.1.heldBy": "pause", "pages": "1",
			}},
			{"queue?name=sites&state=parked", []string{"sites/quito"}, map[string]string{"keys.0.key": "sites/quito", "keys.1": ""}},
			{"queue?name=sites&q=ber", []string{"sites/berlin"}, map[string]string{"counts.all": "1", "keys.0.key": "sites/berlin"}},
			{"key?queue=sites&key=sites/lisbon", []string{
				"A worker has been reconciling it for", "waitForServer", "sites.example/servers", "lisbon/server-0", "Starting", "Retry now",
				`action="act?key=sites%2Flisbon&amp;queue=sites"`, `href="key?key=sites%2Flisbon&amp;queue=sites&amp;format=json"`,
			}, map[string]string{
				"key.state": "in flight", "key.attempt": "1", "objects.0.kind": "Site", "objects.0.value.servers": "2",
				"tree.0.self": "true", "tree.0.children.1.key": "lisbon/server-1", "events.0.reason": "Starting",
				"tree.0.link": "key?key=sites%2Flisbon&queue=sites", "tree.0.children.1.link": "key?key=lisbon%2Fserver-1&queue=checks", "tree.0.children.1.controls": "true",
				"why.0": "A worker has been reconciling it for 0 ms. This is attempt 1.", "events.0.last": "2000-01-01T00:00:00Z",
			}},
			{"key?queue=sites&key=sites/oslo", []string{"It will be reconciled after it is resumed", "Resume"}, map[string]string{
				"key.state": "held", "key.heldBy": "pause", "key.paused": "true",
			}},
			{"key?queue=sites&key=sites/quito", []string{"It was given up"}, map[string]string{"key.state": "parked", "key.failures": "1"}},
			{"key?queue=sites&key=sites/osaka", []string{"It failed once, and will be retried in 30 s"}, map[string]string{
				"key.state": "delayed", "key.failures": "1",
			}},
			{"key?queue=sites&key=sites/accra", []string{"It will be reconciled again in 5 min 0 s"}, map[string]string{"key.state": "delayed"}},
			{"key?queue=sites&key=sites/nobody", []string{"Nothing to do"}, map[string]string{"key.state": "idle", "objects.0": ""}},
			{"key?queue=checks&key=lisbon/server-0", []string{"Site", "sites/lisbon"}, map[string]string{
				"tree.0.key": "sites/lisbon", "tree.0.children.0.self": "true", "tree.0.children.0.controls": "true",
			}},
			{"key?informer=servers&key=lisbon/server-0", []string{"small"}, map[string]string{"objects.0.value.size": "small"}},
		} {
			body := read(t, s.Page, tt.target)
			for _, want := range tt.page {
				assert.Contains(t, body, want, tt.target)
			}
			v := readJSON(t, s.Page, tt.target)
			for path, want := range tt.json {
				assert.Equal(t, want, at(v, path), "%s: %s", tt.target, path)
			}
		}
	})
}

func TestUnknownPathsAreNotFound(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene.Scene) {
		for target, want := range map[string]string{
			"nothing": "There is no such page.", "queue?name=nobody": `There is no controller "nobody".`,
			"key?queue=nobody&key=a": `There is no controller "nobody".`, "key?informer=nobody&key=a": `There is no informer "nobody".`,
			"key": `There is no informer "".`, "key?queue=sites&id=2000-abc": `There is no key with the digest "2000-abc".`,
			"assets/page.css": "There is no such page.",
		} {
			r := ask(s.Page, http.MethodGet, target, nil)
			assert.Equal(t, http.StatusNotFound, r.StatusCode, target)
			assert.Equal(t, want+"\n", bodyOf(t, r), target)
		}
		for _, target := range []string{"page.css", "page.js", "icon.svg"} {
			assert.NotEmpty(t, read(t, s.Page, target))
		}
		r := ask(s.Page, http.MethodPut, "", nil)
		assert.Equal(t, http.StatusMethodNotAllowed, r.StatusCode)
		assert.Equal(t, "GET, HEAD", r.Header.Get("Allow"))
	})
}

func TestPageHasNoInlineOrExternalResources(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene.Scene) {
		for _, target := range []string{"", "queue?name=sites", "key?queue=sites&key=sites/lisbon"} {
			r := ask(s.Page, http.MethodGet, target, nil)
			policy := r.Header.Get("Content-Security-Policy")
			assert.Contains(t, policy, "default-src 'none'")
			assert.NotContains(t, policy, "unsafe")
			body := bodyOf(t, r)
			assert.NotContains(t, body, "style=")
			assert.NotContains(t, body, "<style")
			assert.NotContains(t, body, " onclick=")
			assert.Equal(t, 1, strings.Count(body, "<script"), "page.js")
			assert.NotContains(t, body, "://")
			assert.NotContains(t, body, `href="/`, "links are relative")
		}
	})
}

func TestStreamSendsPageOnChange(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene.Scene) {
		began := time.Now()
		r := ask(s.Page, http.MethodGet, "key?queue=sites&key=sites/nobody&format=events", nil)
		assert.Equal(t, "text/event-stream", r.Header.Get("Content-Type"))
		assert.Equal(t, 30*time.Second, time.Since(began), "the browser asks again")
		body := bodyOf(t, r)
		assert.True(t, strings.HasPrefix(body, "retry:1000\ndata: "), body[:30])
		assert.Equal(t, 1, strings.Count(body, "\n\ndata:")+1, "nothing changes")
		assert.GreaterOrEqual(t, strings.Count(body, "\n:\n"), 28)

		body = bodyOf(t, ask(s.Page, http.MethodGet, "key?queue=sites&key=sites/lisbon&format=events", nil))
		assert.GreaterOrEqual(t, strings.Count(body, "\n\ndata:"), 28, "the age grows")
		assert.NotContains(t, body, "<html")

		assert.Equal(t, http.StatusNotFound, ask(s.Page, http.MethodGet, "queue?name=nobody&format=events", nil).StatusCode)
	})
}

func TestActionsChangeKeyState(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene.Scene) {
		token := at(readJSON(t, s.Page, ""), "token")
		act := func(action, key string) string {
			r := ask(s.Page, http.MethodPost, "act?"+url.Values{"queue": {"sites"}, "key": {key}}.Encode(),
				url.Values{"action": {action}, "token": {token}})
			require.Equal(t, http.StatusSeeOther, r.StatusCode, bodyOf(t, r))
			return r.Header.Get("Location")
		}
		state := func(key string) string {
			return at(readJSON(t, s.Page, "key?"+url.Values{"queue": {"sites"}, "key": {key}}.Encode()), "key.state")
		}
		assert.Equal(t, "key?key=sites%2Fquito&queue=sites", act("forget", "sites/quito"))
		assert.Equal(t, "idle", state("sites/quito"))
		act("pause", "sites/quito")
		assert.Equal(t, "paused", state("sites/quito"))
		act("resume", "sites/quito")
		assert.Equal(t, "idle", state("sites/quito"))

		act("resume", "sites/oslo")
		time.Sleep(time.Millisecond)
		assert.Equal(t, "delayed", state("sites/oslo"))

		before := s.Sites.Stats().Totals.Added
		act("retry", "sites/osaka")
		assert.Equal(t, before+1, s.Sites.Stats().Totals.Added)
		assert.Equal(t, "queue?name=sites", act("resync", ""))
		assert.GreaterOrEqual(t, s.Sites.Stats().Totals.Added, before+6)
	})
}

// at returns what is at a path, as text, or nothing.
func at(v any, path string) string {
	for name := range strings.SplitSeq(path, ".") {
		v = step(v, name)
	}
	return text(v)
}
