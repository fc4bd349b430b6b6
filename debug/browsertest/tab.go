package browsertest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Tab is a tab of a browser. Its methods are for one goroutine at a time.
type Tab struct {
	browser *Browser
	target  string // also the name of its frame
	session string
	changed chan struct{} // gets a token when the tab has a new document, or has loaded it
	loaded  string        // the document that was loaded last; guarded by the lock of browser
}

// Look is the appearance of a page.
type Look struct {
	Width, Height int
	Dark          bool
	NoScript      bool // without JavaScript
}

// Open opens a tab without a page. Close it when it is no longer needed.
func (b *Browser) Open(ctx context.Context, look Look) (*Tab, error) {
	var target struct{ TargetID string }
	if err := b.call(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return nil, err
	}
	var attached struct{ SessionID string }
	err := b.call(ctx, "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	if err != nil {
		return nil, err
	}
	t := &Tab{browser: b, target: target.TargetID, session: attached.SessionID, changed: make(chan struct{}, 1)}
	b.mu.Lock()
	b.tabs[t.session] = t
	b.mu.Unlock()
	scheme := "light"
	if look.Dark {
		scheme = "dark"
	}
	features := []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}
	for _, step := range []struct {
		method string
		params map[string]any
	}{
		{"Page.enable", nil},
		{"Page.setLifecycleEventsEnabled", map[string]any{"enabled": true}}, // reports what is loaded
		{"Runtime.enable", nil}, // reports new documents
		{"Emulation.setScriptExecutionDisabled", map[string]any{"value": look.NoScript}},
		{"Emulation.setEmulatedMedia", map[string]any{"features": features}},
		{"Emulation.setDeviceMetricsOverride", map[string]any{
			"width": look.Width, "height": look.Height, "deviceScaleFactor": 1, "mobile": look.Width < 600,
		}},
	} {
		if err := b.call(ctx, t.session, step.method, step.params, nil); err != nil {
			return nil, errors.Join(err, t.Close(ctx))
		}
	}
	return t, nil
}

// Close closes the tab.
func (t *Tab) Close(ctx context.Context) error {
	t.browser.mu.Lock()
	delete(t.browser.tabs, t.session)
	t.browser.mu.Unlock()
	return t.browser.call(ctx, "", "Target.closeTarget", map[string]any{"targetId": t.target}, nil)
}

// Load loads a page, and returns when it has loaded completely.
func (t *Tab) Load(ctx context.Context, url string) error {
	var to struct{ LoaderID, ErrorText string }
	err := t.browser.call(ctx, t.session, "Page.navigate", map[string]any{"url": url}, &to)
	if err == nil && to.ErrorText != "" {
		err = errors.New(to.ErrorText)
	}
	if err == nil {
		err = t.untilLoaded(ctx, func(loaded string) bool { return loaded == to.LoaderID })
	}
	if err != nil {
		return fmt.Errorf("browsertest: load %s: %w", url, err)
	}
	return nil
}

// Follow evaluates an expression that makes the tab load another page, such as a click, and returns when that page has loaded completely.
func (t *Tab) Follow(ctx context.Context, expression string) error {
	t.browser.mu.Lock()
	before := t.loaded
	t.browser.mu.Unlock()
	if err := t.Eval(ctx, expression, nil); err != nil && !isNavigation(err) {
		return err
	}
	if err := t.untilLoaded(ctx, func(loaded string) bool { return loaded != before }); err != nil {
		return fmt.Errorf("browsertest: follow %s: %w", expression, err)
	}
	return nil
}

// untilLoaded waits until the document that was loaded last is the wanted one.
func (t *Tab) untilLoaded(ctx context.Context, wanted func(loaded string) bool) error {
	for {
		t.browser.mu.Lock()
		loaded := t.loaded
		t.browser.mu.Unlock()
		if wanted(loaded) {
			return nil
		}
		if err := t.untilChanged(ctx); err != nil {
			return err
		}
	}
}

// untilChanged waits until the tab has a new document, or has loaded it.
func (t *Tab) untilChanged(ctx context.Context) error {
	select {
	case <-t.changed:
		return nil
	case <-t.browser.gone:
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Until waits until a condition, a JavaScript expression, is true in the page. It checks whenever the document changes, and again after
// another document has replaced it.
func (t *Tab) Until(ctx context.Context, condition string) error {
	for {
		err := t.Eval(ctx, `new Promise(done => {
			const look = () => {
				if (document.body === null || !(`+condition+`)) return;
				watch.disconnect();
				done(true);
			};
			const watch = new MutationObserver(look);
			watch.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
			look();
		})`, nil)
		if isNavigation(err) {
			err = t.untilChanged(ctx)
		} else if err == nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("browsertest: until %s: %w", condition, err)
		}
	}
}

// isNavigation reports whether a call has failed because the document was replaced.
func isNavigation(err error) bool {
	said := new(callError)
	if !errors.As(err, &said) {
		return false
	}
	for _, text := range []string{"navigated or closed", "context was destroyed", "Cannot find", "Promise was collected"} {
		if strings.Contains(said.Message, text) {
			return true
		}
	}
	return false
}

// Eval evaluates an expression in the page, and decodes its value, or that of its promise.
func (t *Tab) Eval(ctx context.Context, expression string, value any) error {
	var evaluated struct {
		Result struct{ Value json.RawMessage }
		// Set if the expression throws.
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := t.browser.call(ctx, t.session, "Runtime.evaluate", map[string]any{
		"expression": expression, "awaitPromise": true, "returnByValue": true,
	}, &evaluated)
	if err != nil {
		return err
	}
	if e := evaluated.ExceptionDetails; e != nil {
		return fmt.Errorf("browsertest: evaluate: %s %s", e.Text, e.Exception.Description)
	}
	if value == nil {
		return nil
	}
	return json.Unmarshal(evaluated.Result.Value, value)
}

// Picture returns the page as PNG.
func (t *Tab) Picture(ctx context.Context) ([]byte, error) {
	var picture struct{ Data string }
	if err := t.browser.call(ctx, t.session, "Page.captureScreenshot", map[string]any{"format": "png"}, &picture); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(picture.Data)
}
