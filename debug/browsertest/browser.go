package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// ErrNotInstalled means that Chromium is not installed.
var ErrNotInstalled = errors.New("browsertest: none of chromium, chromium-browser, google-chrome is in the path")

// patience is how long a browser may take to exit cleanly. Then it is killed.
const patience = 5 * time.Second

// Browser is a running browser. Use Start to make one. All methods are safe for concurrent use.
type Browser struct {
	ctx     context.Context
	kill    context.CancelFunc
	profile string
}

// Start starts a browser. It returns an error that wraps [ErrNotInstalled] if there is none.
func Start() (*Browser, error) {
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return nil, ErrNotInstalled
	}
	profile, err := os.MkdirTemp("", "browser")
	if err != nil {
		return nil, err
	}
	// No sandbox, because root may not use it. The only pages are those of the test.
	// Without the default options of chromedp, which make tabs in the background behave as if they were in front.
	allocator, kill := chromedp.NewExecAllocator(context.Background(), chromedp.ExecPath(path), chromedp.UserDataDir(profile),
		chromedp.Headless, chromedp.NoSandbox, chromedp.NoFirstRun, chromedp.DisableGPU, chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-extensions", true), chromedp.Flag("disable-background-networking", true))
	ctx, cancel := chromedp.NewContext(allocator)
	b := &Browser{ctx: ctx, kill: func() { cancel(); kill() }, profile: profile}
	if err := chromedp.Do(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("browsertest: start: %w", err), b.Close())
	}
	return b, nil
}

// Close ends the browser. It returns when its process has ended.
func (b *Browser) Close() error {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	_ = chromedp.Cancel(ctx) // it may have exited
	b.kill()
	return errors.Join(chromedp.WaitClosed(b.ctx), os.RemoveAll(b.profile))
}

// Look is the appearance of a page.
type Look struct {
	Width, Height int
	Dark          bool
	NoScript      bool // without JavaScript
}

// Tab is a tab of a browser. Its methods are for one goroutine at a time.
type Tab struct {
	ctx      context.Context
	replaced chan struct{} // gets a token when the tab has a new document
}

// Open opens a tab without a page. Close it when it is no longer needed.
func (b *Browser) Open(ctx context.Context, look Look) (*Tab, error) {
	own, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewWindow(false)) // so that a tab behind others is hidden
	t := &Tab{own, make(chan struct{}, 1)}                                   // it ends with the browser, or in Close
	err := chromedp.Listen(own, func(event any) {
		if _, ok := event.(*runtime.EventExecutionContextCreated); ok {
			select {
			case t.replaced <- struct{}{}:
			default: // it was notified already
			}
		}
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("browsertest: open: %w", err)
	}
	scheme := "light"
	if look.Dark {
		scheme = "dark"
	}
	shape := []chromedp.EmulateViewportOption{}
	if look.Width < 600 {
		shape = append(shape, chromedp.EmulateMobile)
	}
	err = t.do(ctx, chromedp.EmulateViewport(int64(look.Width), int64(look.Height), shape...), chromedp.Func(
		func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			if err == nil {
				_, err = cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: look.NoScript})
			}
			return err
		}))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("browsertest: open: %w", err)
	}
	return t, nil
}

// Close closes the tab.
func (t *Tab) Close(ctx context.Context) error {
	own, end := t.until(ctx)
	defer end()
	return errors.Join(chromedp.Cancel(own), context.Cause(ctx))
}

// until returns the context of the tab, which also ends with ctx.
func (t *Tab) until(ctx context.Context) (context.Context, func()) {
	own, cancel := context.WithCancelCause(t.ctx)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return own, func() { stop(); cancel(nil) }
}

func (t *Tab) do(ctx context.Context, steps ...chromedp.Action[chromedp.Void]) error {
	own, end := t.until(ctx)
	defer end()
	return chromedp.Do(own, steps...)
}

// Load loads a page, and returns when it has loaded completely.
func (t *Tab) Load(ctx context.Context, url string) error {
	if err := t.do(ctx, chromedp.Navigate(url)); err != nil {
		return fmt.Errorf("browsertest: load %s: %w", url, err)
	}
	return nil
}

// Follow evaluates an expression that makes the tab load another page, such as a click, and returns when that page has loaded completely.
func (t *Tab) Follow(ctx context.Context, expression string) error {
	own, end := t.until(ctx)
	defer end()
	evaluate := func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		v, err := chromedp.Evaluate[chromedp.Void](expression)(ctx, target)
		if isNavigation(err) {
			err = nil
		}
		return v, err
	}
	if _, err := chromedp.RunResponse(own, evaluate); err != nil {
		return fmt.Errorf("browsertest: follow %s: %w", expression, err)
	}
	return nil
}

// Until waits until a condition, a JavaScript expression, is true in the page. It checks whenever the document changes, and again after
// another document has replaced it.
func (t *Tab) Until(ctx context.Context, condition string) error {
	own, end := t.until(ctx)
	defer end()
	for {
		_, err := chromedp.Run(own, chromedp.Poll[chromedp.Void](
			`document.body !== null && (`+condition+`)`, chromedp.WithPollingMutation(), chromedp.WithPollingTimeout(0)))
		if isNavigation(err) {
			select {
			case <-t.replaced:
				continue
			case <-own.Done():
				err = context.Cause(own)
			}
		}
		if err != nil {
			return fmt.Errorf("browsertest: until %s: %w", condition, err)
		}
		return nil
	}
}

// isNavigation reports whether a call has failed because the document was replaced.
func isNavigation(err error) bool {
	said := new(cdproto.Error)
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

// Eval evaluates an expression in the page, and returns its value, or that of its promise.
func Eval[T any](ctx context.Context, t *Tab, expression string) (T, error) {
	own, end := t.until(ctx)
	defer end()
	v, err := chromedp.Run(own, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		return v, fmt.Errorf("browsertest: evaluate: %w", err)
	}
	return v, nil
}

// Picture returns the page as PNG.
func (t *Tab) Picture(ctx context.Context) ([]byte, error) {
	own, end := t.until(ctx)
	defer end()
	return chromedp.Run(own, chromedp.CaptureScreenshot())
}
