package debug_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/debug"
	"github.com/setpoint-go/setpoint/debug/internal/scene"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store"
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
				"state": "leading", "elections.0.leading": "true", "elections.0.leader.identity": "web-1", "queues.0.name": "sites",
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

// A key that is done is in no list, so a search for it leads to its page, which says so.
func TestSearchLeadsToIdleKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := mirrored(t, store.Object[string]{Key: "done/<a>"})
		h, err := debug.New(m, debug.Config{Logger: quiet})
		require.NoError(t, err)
		running(t, m)
		link := `href="key?key=done%2F%3Ca%3E&amp;queue=secrets"`
		assert.Contains(t, read(t, h, "queue?name=secrets&q=done/%3Ca%3E"), link)
		assert.NotContains(t, read(t, h, "queue?name=secrets"), `href="key?`)
		assert.Contains(t, read(t, h, "key?key=done%2F%3Ca%3E&queue=secrets"), "idle")
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

// fieldsOf adds the names of the fields of t in JSON, and of what is in them.
func fieldsOf(t reflect.Type, seen map[reflect.Type]bool, names map[string]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || !strings.HasSuffix(t.PkgPath(), "/debug") || seen[t] {
		return
	}
	seen[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name != "" {
			names[name] = true
		}
		fieldsOf(f.Type, seen, names)
	}
}

func TestDocumentationListsEveryJSONField(t *testing.T) {
	names := make(map[string]bool)
	for _, page := range debug.EmptyPages() {
		fieldsOf(reflect.TypeOf(page), make(map[reflect.Type]bool), names)
	}
	page, err := os.ReadFile("README.md")
	require.NoError(t, err)
	section := string(page)
	for name := range names {
		assert.Contains(t, section, "`"+name+"`", "an undocumented field")
	}
	word := regexp.MustCompile("`([^`]+)`")
	described := 0
	for line := range strings.Lines(section) {
		if first, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok && strings.HasPrefix(line, "| `") {
			for _, m := range word.FindAllStringSubmatch(first, -1) {
				assert.True(t, names[m[1]], "there is no field %s", m[1])
				described++
			}
		}
	}
	assert.Greater(t, described, 50)
}

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
					assert.Contains(t, []int{http.StatusSeeOther, http.StatusConflict}, r.StatusCode) // the controller also starts and stops
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

// sizeOf returns the number of nodes of a tree, and the number of levels.
func sizeOf(tree any) (nodes, levels int) {
	children, _ := step(tree, "children").([]any)
	for _, child := range children {
		n, l := sizeOf(child)
		nodes, levels = nodes+n, max(levels, l)
	}
	return nodes + 1, levels + 1
}

func TestTreeIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		things, err := store.Open(db, "Thing", store.Config[int]{})
		require.NoError(t, err)
		create := func(key string, owners ...store.OwnerRef) store.OwnerRef {
			o, err := things.Create(t.Context(), store.Object[int]{Key: key, Owners: owners})
			require.NoError(t, err)
			return store.OwnerRef{Ref: o.Ref()}
		}
		wide, large, deep := create("wide"), create("large"), create("deep-0")
		for i := range 60 {
			create(fmt.Sprintf("wide-%02d", i), wide)
		}
		for i := range 10 {
			child := create(fmt.Sprintf("large-%d", i), large)
			for n := range 30 {
				create(fmt.Sprintf("large-%d-%02d", i, n), child)
			}
		}
		for i := range 9 {
			deep = create(fmt.Sprintf("deep-%d", i+1), deep)
		}
		seen, err := informer.New(things, store.Key, informer.Config{Name: "things", Logger: quiet})
		require.NoError(t, err)
		_, m, h := plain(t, manager.Config{}, idle, controller.Config[string]{}, controller.For(seen))
		running(t, m)
		for _, tt := range []struct {
			key           string
			nodes, levels int
			more          map[string]string // by path
		}{
			{"wide", 51, 2, map[string]string{"more": "10", "children.49.key": "wide-49"}},
			{"large", 200, 3, map[string]string{"more": "3", "children.5.more": "", "children.6.more": "18"}},
			{"deep-0", 7, 7, map[string]string{"children.0.children.0.children.0.children.0.children.0.children.0.more": "1"}},
			{"deep-9", 7, 7, map[string]string{"key": "deep-3"}},
		} {
			tree := step(step(readJSON(t, h, "key?queue=sites&key="+tt.key), "tree"), "0")
			nodes, levels := sizeOf(tree)
			assert.Equal(t, tt.nodes, nodes, tt.key)
			assert.Equal(t, tt.levels, levels, tt.key)
			for path, want := range tt.more {
				assert.Equal(t, want, at(tree, path), "%s: %s", tt.key, path)
			}
		}
	})
}

func TestSamplesKeepFiveMinutesOfQueuesThatExist(t *testing.T) {
	var s debug.Samples
	began := time.Unix(1000, 0)
	for i := range 200 {
		at := began.Add(time.Duration(i) * debug.SamplePeriod)
		if !s.Due(at) {
			t.Error("s.Due(at) = false, want true")
		}
		if s.Due(at.Add(debug.SamplePeriod / 2)) {
			t.Error("s.Due(at.Add(debug.SamplePeriod/2)) = true, want false")
		}
		round := map[string]debug.Point{"sites": {At: at, Ready: i}}
		if i == 0 {
			round["gone"] = debug.Point{At: at}
		}
		s.Add(round)
	}
	of := s.Get("sites")
	if len(of) != 150 {
		t.Errorf("len(of) = %d, want 150: %v", len(of), of)
	}
	if of[0].Ready != 50 {
		t.Errorf("of[0].Ready = %d, want 50", of[0].Ready)
	}
	if of[149].Ready != 199 {
		t.Errorf("of[149].Ready = %d, want 199", of[149].Ready)
	}
	if got := s.Get("gone"); len(got) != 0 {
		t.Errorf(`s.Get("gone") = %v, want none`, got)
	}
}

func TestLineHasGapWhereSamplesAreMissing(t *testing.T) {
	now := time.Unix(1000, 0)
	at := func(ago time.Duration, ready int) debug.Point { return debug.Point{At: now.Add(-ago), Ready: ready} }
	got := debug.Draw([]debug.Point{
		at(6*time.Minute, 1000), at(5*time.Minute, 20), at(time.Minute, 10), at(58*time.Second, 20), at(10*time.Second, 0), at(4*time.Second, 0),
	}, now)
	want := debug.Line{
		Path: "M0.0 2.0M240.0 24.0L242.0 2.0M290.0 46.0L296.0 46.0",
		Area: "M0.0 48V2.0V48ZM240.0 48V24.0L242.0 2.0V48ZM290.0 48V46.0L296.0 46.0V48Z",
		Max:  20, // the oldest point is not drawn
	}
	if got != want {
		t.Errorf("debug.Draw = %+v, want %+v", got, want)
	}
	if got, want := debug.Draw(nil, now), (debug.Line{Max: 1}); got != want {
		t.Errorf("debug.Draw(nil, now) = %+v, want %+v", got, want)
	}
}

func TestVisibleEscapesWhatDoesNotPrint(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain \"text\"": "plain \"text\"", "a\nb": `a\nb`, "\u202eevil": `\u202eevil`, "\xff": `\xff`, "\ufffd": "\ufffd", "é": "é",
		`a\b`: `a\b`, // nothing in it needs an escape
	} {
		if got := debug.Visible(text); got != want {
			t.Errorf("debug.Visible(%q) = %q, want %q", text, got, want)
		}
	}
	long := debug.Short(strings.Repeat("k", 119) + "é and more")
	if want := strings.Repeat("k", 119) + "… (130 bytes)"; long != want {
		t.Errorf("long = %q, want %q: a letter is not cut in half", long, want)
	}
	for text, want := range map[string]string{
		"short": "short", strings.Repeat("k", 120): strings.Repeat("k", 120), strings.Repeat("k", 121): strings.Repeat("k", 120) + "… (121 bytes)",
		strings.Repeat("\x80", 121): strings.Repeat(`\x80`, 116) + "… (121 bytes)", // no letter begins anywhere
	} {
		if got := debug.Short(text); got != want {
			t.Errorf("debug.Short(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestNumbersHaveSeparators(t *testing.T) {
	for n, want := range map[any]string{
		0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", int64(4321): "4,321", uint64(1) << 63: "9,223,372,036,854,775,808", "x": "x",
	} {
		if got := debug.Number(n); got != want {
			t.Errorf("debug.Number(%v) = %q, want %q", n, got, want)
		}
	}
	if got := debug.Times(1); got != "once" {
		t.Errorf(`debug.Times(1) = %q, want "once"`, got)
	}
	if got := debug.Times(1000); got != "1,000 times" {
		t.Errorf(`debug.Times(1000) = %q, want "1,000 times"`, got)
	}
}

func TestSpanHasAtMostTwoUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Second: "1.0 s", 10 * time.Second: "10 s", time.Minute: "1 min 0 s", time.Hour: "1 h 0 min", 48 * time.Hour: "2 days",
		-time.Hour: "0 ms", 999 * time.Microsecond: "0 ms", 1500 * time.Millisecond: "1.5 s", 59*time.Second + 999*time.Millisecond: "59 s",
		61 * time.Second: "1 min 1 s", 47*time.Hour + 59*time.Minute: "47 h 59 min", 49 * time.Hour: "2 days",
	} {
		if got := debug.Span(d); got != want {
			t.Errorf("debug.Span(%v) = %q, want %q", d, got, want)
		}
	}
	if got := debug.Seconds(2.5); got != "2.5 s" {
		t.Errorf(`debug.Seconds(2.5) = %q, want "2.5 s"`, got)
	}
}
