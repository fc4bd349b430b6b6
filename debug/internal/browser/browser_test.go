package browser_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/debug/internal/browser"
	"github.com/setpoint-go/setpoint/debug/internal/scene"
)

// site is a scene that runs behind a server, and a browser.
type site struct {
	*scene.Scene
	*browser.Browser
	url string
}

// open starts a site. It skips the test where there is no browser.
func open(t *testing.T, further ...string) (context.Context, site) {
	if testing.Short() {
		t.Skip("a browser takes seconds")
	}
	b, err := browser.Start()
	if errors.Is(err, browser.ErrNotInstalled) {
		t.Skip("Chromium is not installed: apt-get install chromium")
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	s, err := scene.New(further...)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Manager.Run(ctx) // the reconcile that hangs makes an error
	}()
	t.Cleanup(func() { cancel(); <-ended })
	mux := http.NewServeMux()
	mux.Handle("/debug/", http.StripPrefix("/debug", s.Page))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // the streams
	return ctx, site{s, b, server.URL + "/debug/"}
}

// tab opens a page, and returns when the browser shows a first update.
func (s site) tab(t *testing.T, ctx context.Context, path string, look browser.Look) *browser.Tab {
	t.Helper()
	tab, err := s.Open(ctx, look)
	require.NoError(t, err)
	require.NoError(t, tab.Load(ctx, s.url+path))
	if !look.NoScript {
		require.NoError(t, tab.Eval(ctx, browser.Until(`document.getElementById("feed").textContent === "live"`), nil))
	}
	return tab
}

// until waits until a page shows a text, or does not.
func until(t *testing.T, ctx context.Context, tab *browser.Tab, text string, shown bool) {
	t.Helper()
	require.NoError(t, tab.Eval(ctx, browser.Until(fmt.Sprintf(`document.body.innerText.includes(%q) === %t`, text, shown)), nil))
}

func TestEveryPageIsShownLightDarkAndOnAPhone(t *testing.T) {
	ctx, s := open(t)
	for _, look := range []browser.Look{{Width: 1200, Height: 800}, {Width: 1200, Height: 800, Dark: true}, {Width: 390, Height: 800}} {
		for path, want := range map[string]string{
			"": "FastStart", "queue?name=sites": "sites/quito", "key?queue=sites&key=sites/osaka": "osaka/server-1",
		} {
			tab := s.tab(t, ctx, path, look)
			until(t, ctx, tab, want, true)
			var wide bool
			require.NoError(t, tab.Eval(ctx, `document.documentElement.scrollWidth > innerWidth`, &wide))
			assert.False(t, wide, "%q is wider than the screen of %d", path, look.Width)
			var background string
			require.NoError(t, tab.Eval(ctx, `getComputedStyle(document.body).backgroundColor`, &background))
			assert.Equal(t, look.Dark, background == "rgb(17, 19, 21)", "the style sheet was loaded: %s", background)
		}
	}
}

func TestThePageIsUpdatedWhileItIsOpen(t *testing.T) {
	ctx, s := open(t)
	tab := s.tab(t, ctx, "key?queue=sites&key=sites/accra", browser.Look{Width: 1000, Height: 800})
	s.Sites.PauseKey("sites/accra")
	until(t, ctx, tab, "It is paused", true)
	s.Sites.ResumeKey("sites/accra")
	until(t, ctx, tab, "It is paused", false)
}

func TestAButtonActsAndWithoutJavaScriptThePageReloads(t *testing.T) {
	ctx, s := open(t)
	tab := s.tab(t, ctx, "key?queue=sites&key=sites/oslo", browser.Look{Width: 1000, Height: 800})
	require.NoError(t, tab.Eval(ctx, `document.querySelector("button[value=resume]").click()`, nil))
	until(t, ctx, tab, "It asked to be reconciled again", true)
	info, ok := s.Sites.Inspect().Key("sites/oslo")
	assert.True(t, ok)
	assert.False(t, info.Paused)

	plain := s.tab(t, ctx, "", browser.Look{Width: 1000, Height: 800, NoScript: true})
	var reloads bool
	require.NoError(t, plain.Eval(ctx, `document.querySelector('meta[http-equiv="refresh"]') !== null`, &reloads))
	assert.True(t, reloads)
}

func TestAHundredThousandKeysAndHostileOnesAreShown(t *testing.T) {
	hostile := []string{
		`<script>document.title="owned"</script>`, `"><img src=x onerror="document.title='owned'">`, "a\x00b", "\xff", "line\nbreak",
		"\u202eevil", strings.Repeat("<b>", 20_000), "javascript:document.title='owned'",
	}
	keys := hostile
	for i := range 100_000 {
		keys = append(keys, fmt.Sprintf("many/%06d", i))
	}
	ctx, s := open(t, keys...)
	look := browser.Look{Width: 1000, Height: 800}
	tab := s.tab(t, ctx, "queue?name=sites", look)
	var rows int
	require.NoError(t, tab.Eval(ctx, `document.querySelectorAll("table.keys tbody tr").length`, &rows))
	assert.Equal(t, 100, rows)
	for _, key := range hostile[:3] {
		s.tab(t, ctx, "queue?"+url.Values{"name": {"sites"}, "q": {key}}.Encode(), look)
	}
	for _, key := range hostile {
		if len(key) > 1000 {
			continue // its link has a digest
		}
		tab := s.tab(t, ctx, "key?"+url.Values{"queue": {"sites"}, "key": {key}}.Encode(), look)
		var title, kind string
		require.NoError(t, tab.Eval(ctx, `document.title`, &title))
		assert.NotEqual(t, "owned", title)
		require.NoError(t, tab.Eval(ctx, `document.querySelector("main h2:not(:empty)").innerText`, &kind))
		assert.NotEmpty(t, kind)
		require.NoError(t, tab.Eval(ctx, `document.querySelector("button[value=pause]").click()`, nil))
		require.NoError(t, tab.Eval(ctx, browser.Until(`document.querySelector("button[value=resume]") !== null`), nil))
		info, _ := s.Sites.Inspect().Key(key)
		assert.True(t, info.Paused, "%q", key)
	}
}
