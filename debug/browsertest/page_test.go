//go:build linux

package browsertest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/debug"
	"github.com/setpoint-go/setpoint/debug/browsertest"
	"github.com/setpoint-go/setpoint/debug/internal/scene"
	"github.com/setpoint-go/setpoint/internal/servertest"
)

// deadline is the longest time that a test may take.
const deadline = 2 * time.Minute

// site is a page behind a server, and a browser.
type site struct {
	*browsertest.Browser
	url string
}

// serve serves a page under a prefix, and starts a browser.
func serve(t *testing.T, page http.Handler) (context.Context, site) {
	t.Helper()
	b, err := browsertest.Start()
	if errors.Is(err, browsertest.ErrNotInstalled) {
		servertest.Program(t, "chromium", "chromium")
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	mux := http.NewServeMux()
	mux.Handle("/debug/", http.StripPrefix("/debug", page))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // the streams
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx, site{b, server.URL + "/debug/"}
}

// play is serve of a scene that runs, which has further sites.
func play(t *testing.T, further ...string) (context.Context, site, *scene.Scene) {
	t.Helper()
	s, err := scene.New(further...)
	require.NoError(t, err)
	running, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Manager.Run(running) }() // ends with running
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, controller.ErrDrainTimeout) // of the reconcile that hangs
	})
	ctx, at := serve(t, s.Page)
	return ctx, at, s
}

// queueOnly returns the page of a controller that does not run, and so reconciles nothing, and has no informer.
func queueOnly(t *testing.T) (*controller.Controller[string], http.Handler) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	c, err := controller.New("raw", func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, nil
	}, controller.Config[string]{Logger: quiet})
	require.NoError(t, err)
	page, err := debug.New(nil, debug.Config{Actions: true, Logger: quiet})
	require.NoError(t, err)
	require.NoError(t, page.Add("raw", c))
	return c, page
}

// tab opens a page, and returns when the browser shows a first update. The tab is closed at the end of the test.
func (s site) tab(ctx context.Context, t *testing.T, path string, look browsertest.Look) *browsertest.Tab {
	t.Helper()
	tab, err := s.Open(ctx, look)
	require.NoError(t, err)
	require.NoError(t, tab.Load(ctx, s.url+path))
	if !look.NoScript {
		require.NoError(t, tab.Until(ctx, `document.getElementById("feed").textContent === "live"`))
	}
	return tab
}

// value returns the value of an expression in a page.
func value[T any](ctx context.Context, t *testing.T, tab *browsertest.Tab, expression string) (v T) {
	t.Helper()
	v, err := browsertest.Eval[T](ctx, tab, expression)
	require.NoError(t, err)
	return v
}

// shows waits until a page shows a text.
func shows(ctx context.Context, t *testing.T, tab *browsertest.Tab, text string) {
	t.Helper()
	require.NoError(t, tab.Until(ctx, fmt.Sprintf(`document.body.innerText.includes(%q)`, text)))
}

func desktop() browsertest.Look { return browsertest.Look{Width: 1000, Height: 800} }

// click is an expression that clicks at what a selector finds.
func click(selector string) string {
	return fmt.Sprintf(`document.querySelector(%q).click()`, selector)
}

func TestEveryPageRendersLightDarkAndOnPhone(t *testing.T) {
	ctx, s, _ := play(t)
	looks := []browsertest.Look{{Width: 1200, Height: 800}, {Width: 1200, Height: 800, Dark: true}, {Width: 390, Height: 800}}
	for path, want := range map[string]string{
		"": "FastStart", "queue?name=sites": "sites/quito", "key?queue=sites&key=sites/osaka": "osaka/server-1",
		"key?queue=sites&key=sites/lisbon": "waitForServer", "key?informer=servers&key=lisbon/server-0": "small",
	} {
		for _, look := range looks {
			tab := s.tab(ctx, t, path, look)
			shows(ctx, t, tab, want)
			wide := value[int](ctx, t, tab, `document.documentElement.scrollWidth - innerWidth`)
			assert.LessOrEqual(t, wide, 0, "%q is wider than the screen of %d", path, look.Width)
			background := value[string](ctx, t, tab, `getComputedStyle(document.body).backgroundColor`)
			assert.Equal(t, look.Dark, background == "rgb(17, 19, 21)", "the style sheet was loaded: %s", background)
			require.NoError(t, tab.Close(ctx))
		}
	}
}

func TestOpenPageIsUpdated(t *testing.T) {
	ctx, s, scene := play(t)
	tab := s.tab(ctx, t, "key?queue=sites&key=sites/accra", desktop())
	scene.Sites.PauseKey("sites/accra")
	shows(ctx, t, tab, "It was paused")
	scene.Sites.ResumeKey("sites/accra")
	require.NoError(t, tab.Until(ctx, `!document.body.innerText.includes("It was paused")`))
}

func TestButtonsAct(t *testing.T) {
	ctx, s, scene := play(t)
	tab := s.tab(ctx, t, "key?queue=sites&key=sites/oslo", desktop())
	shows(ctx, t, tab, "It will be reconciled after it is resumed")
	require.NoError(t, tab.Follow(ctx, click("button[value=resume]")))
	shows(ctx, t, tab, "It will be reconciled again")
	info, ok := scene.Sites.Inspect().Key("sites/oslo")
	assert.True(t, ok)
	assert.False(t, info.Paused)
}

func TestPageReloadsAndButtonsActWithoutJavaScript(t *testing.T) {
	ctx, s, scene := play(t)
	look := desktop()
	look.NoScript = true
	tab := s.tab(ctx, t, "key?queue=sites&key=sites/oslo", look)
	require.NoError(t, tab.Follow(ctx, click("button[value=resume]")))
	info, _ := scene.Sites.Inspect().Key("sites/oslo")
	assert.False(t, info.Paused)
	scene.Sites.PauseKey("sites/oslo")
	require.NoError(t, tab.Follow(ctx, `"the page does so on its own"`))
	assert.Contains(t, value[string](ctx, t, tab, `document.body.innerText`), "It was paused")
}

func TestOpenTabsDoNotBlockOthers(t *testing.T) {
	ctx, s, _ := play(t)
	for range 10 { // more than the connections that a browser opens to one server
		s.tab(ctx, t, "", desktop())
	}
}

func TestSearchOfHundredThousandKeysIsPaged(t *testing.T) {
	c, page := queueOnly(t)
	for i := range 100_000 {
		c.Add(fmt.Sprintf("many/%06d", i))
	}
	ctx, s := serve(t, page)
	tab := s.tab(ctx, t, "queue?name=raw", desktop())
	const rows = `document.querySelectorAll("table.keys tbody tr").length`
	assert.Equal(t, 100, value[int](ctx, t, tab, rows))
	shows(ctx, t, tab, "1 to 100 of 100,000")
	require.NoError(t, tab.Follow(ctx, click("a[rel=next]")))
	shows(ctx, t, tab, "101 to 200 of 100,000")
	require.NoError(t, tab.Follow(ctx, `document.getElementById("q").value = "99999", `+click(".search button")))
	shows(ctx, t, tab, "1 to 1 of 1")
	assert.Equal(t, 1, value[int](ctx, t, tab, rows))
	require.NoError(t, tab.Follow(ctx, click("th.key a")))
	shows(ctx, t, tab, "many/099999")
}

// hostile are keys that try to break out of where they stand, and that a store accepts.
func hostile() []string {
	return []string{
		`<script>document.title="owned"</script>`, `"><img src=x onerror="document.title='owned'">`, `'-(document.title="owned")-'`,
		`</script><script>document.title="owned"</script>`, "line\nbreak", "carriage\r\nreturn", "\u202eevil", "../../etc/passwd",
		"//evil.example/x", "100%", "%00%2f", "a&b=c#d?e", "javascript:document.title='owned'", "{{.Token}}", "a+b c", " ",
		strings.Repeat("<b>", 341), strings.Repeat("k", 1021) + "é!",
	}
}

// survives searches for hostile keys, follows each link of the list, and pauses the key there.
func (s site) survives(ctx context.Context, t *testing.T, queue string, keys []string, in controller.Inspector) {
	t.Helper()
	tab := s.tab(ctx, t, "queue?name="+queue, desktop())
	visit := func(path string) {
		t.Helper()
		require.NoError(t, tab.Load(ctx, s.url+path))
		require.NoError(t, tab.Until(ctx, `document.getElementById("feed").textContent === "live"`))
		assert.NotEqual(t, "owned", value[string](ctx, t, tab, `document.title`))
		strange := `document.querySelectorAll("img:not([src='icon.svg']), script:not([src='page.js']), i, b b").length`
		assert.Zero(t, value[int](ctx, t, tab, strange), "elements that the page does not have")
	}
	for _, key := range keys {
		visit("queue?" + url.Values{"name": {queue}, "q": {key}}.Encode())
		assert.NotZero(t, value[int](ctx, t, tab, `document.querySelectorAll("th.key a").length`), "%.50q is found", key)
	}
	visit("queue?name=" + queue)
	links := value[[]string](ctx, t, tab, `Array.from(document.querySelectorAll("th.key a"), (a) => a.getAttribute("href"))`)
	for _, link := range links {
		visit(link)
		if value[bool](ctx, t, tab, `document.querySelector("button[value=pause]") !== null`) {
			require.NoError(t, tab.Follow(ctx, click("button[value=pause]")))
		}
		require.NoError(t, tab.Until(ctx, `document.querySelector("button[value=resume]") !== null`))
	}
	n := 0
	for info := range in.Keys() {
		assert.True(t, info.Paused, "%.50q", info.Key)
		n++
	}
	assert.Equal(t, len(links), n, "no other key was added")
	for _, key := range keys {
		_, known := in.Key(key)
		assert.True(t, known, "%.50q", key)
	}
}

func TestHostileStoreKeysAreOnlyText(t *testing.T) {
	ctx, s, scene := play(t, hostile()...)
	s.survives(ctx, t, "sites", hostile(), scene.Sites.Inspect())
}

// A queue accepts any key, including keys that no store accepts.
func TestHostileQueueKeysAreOnlyText(t *testing.T) {
	c, page := queueOnly(t)
	keys := append(hostile(), "", "a\x00b", "\xff\xfe", strings.Repeat("<b>", 20_000), strings.Repeat("\xff", 60_000))
	for _, key := range keys {
		c.Add(key)
	}
	ctx, s := serve(t, page)
	s.survives(ctx, t, "raw", keys, c.Inspect())

	// The page follows this key, and not one that looks like it.
	tab := s.tab(ctx, t, "key?queue=raw&key=%FF%FE", desktop())
	shows(ctx, t, tab, "It was paused")
	c.ResumeKey("\xff\xfe")
	require.NoError(t, tab.Until(ctx, `document.querySelector("button[value=pause]") !== null`))
}

func TestPageThatIsFrozenIsNotLive(t *testing.T) {
	ctx, s, scene := play(t)
	tab := s.tab(ctx, t, "key?queue=sites&key=sites/accra", desktop())
	feed := func(text string) string {
		return fmt.Sprintf(`document.getElementById("feed").textContent.startsWith(%q)`, text)
	}
	value[any](ctx, t, tab, `document.querySelector("main a").focus()`)
	require.NoError(t, tab.Until(ctx, feed("frozen")))
	scene.Sites.PauseKey("sites/accra")
	value[bool](ctx, t, tab, `document.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}))`)
	shows(ctx, t, tab, "It was paused")
	require.NoError(t, tab.Until(ctx, feed("live")))
}

func TestSlashFocusesSearch(t *testing.T) {
	ctx, s, _ := play(t)
	for _, path := range []string{"", "queue?name=sites", "key?queue=sites&key=sites/accra", "find?key=sites/accra", "informer?name=sites"} {
		tab := s.tab(ctx, t, path, desktop())
		press := `(() => {
			const event = new KeyboardEvent("keydown", {key: "/", cancelable: true, bubbles: true});
			(document.activeElement || document).dispatchEvent(event);
			return event.defaultPrevented + " " + document.activeElement.id;
		})()`
		assert.Equal(t, "true q", value[string](ctx, t, tab, press), path)
		assert.Equal(t, "false q", value[string](ctx, t, tab, press), "in the search, / is a character")
		require.NoError(t, tab.Close(ctx))
	}
}
