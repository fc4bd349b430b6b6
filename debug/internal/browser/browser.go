package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// ErrNotInstalled says that there is no Chromium.
var ErrNotInstalled = errors.New("browser: neither chromium nor google-chrome is in the path")

// errGone says that the browser has ended.
var errGone = errors.New("browser: it has ended")

// Browser is a running browser. Use Start to make one. All methods are safe for concurrent use.
type Browser struct {
	process *exec.Cmd
	profile string
	to      *os.File
	read    sync.WaitGroup
	gone    chan struct{} // closed when the pipe from the browser is

	mu sync.Mutex
	// mu guards the following.
	last    int
	answers map[int]chan<- answer // by the number of the call
}

// answer is what the browser answers to a call.
type answer struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
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
	b := &Browser{profile: profile, gone: make(chan struct{}), answers: make(map[int]chan<- answer)}
	if err := b.start(path); err != nil {
		return nil, errors.Join(fmt.Errorf("browser: start: %w", err), os.RemoveAll(profile))
	}
	return b, nil
}

func (b *Browser) start(path string) error {
	theirIn, to, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = theirIn.Close() }() // the browser has its own
	from, theirOut, err := os.Pipe()
	if err != nil {
		return errors.Join(err, to.Close())
	}
	defer func() { _ = theirOut.Close() }()
	b.to = to
	// Without a sandbox, which root may not use: the only pages are those of the test.
	b.process = exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--no-first-run", "--disable-extensions", "--disable-background-networking", "--user-data-dir="+b.profile,
		"--remote-debugging-pipe")
	b.process.ExtraFiles = []*os.File{theirIn, theirOut}
	if err := b.process.Start(); err != nil {
		return errors.Join(err, to.Close(), from.Close())
	}
	// It reads answers until the browser has ended; Close waits for it.
	b.read.Go(func() { b.listen(from) })
	return nil
}

// listen hands each answer to the call that waits for it.
func (b *Browser) listen(from *os.File) {
	defer close(b.gone)
	defer func() { _ = from.Close() }()
	r := bufio.NewReader(from)
	for {
		message, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var a answer
		if json.Unmarshal(bytes.TrimSuffix(message, []byte{0}), &a) != nil || a.ID == 0 {
			continue // an event
		}
		b.mu.Lock()
		to := b.answers[a.ID]
		delete(b.answers, a.ID)
		b.mu.Unlock()
		if to != nil {
			to <- a
		}
	}
}

// Close ends the browser.
func (b *Browser) Close() error {
	_ = b.process.Process.Kill() // it may have ended
	_ = b.process.Wait()         // it was killed, which is an error
	_ = b.to.Close()
	b.read.Wait()
	return os.RemoveAll(b.profile)
}

// call calls a method of the protocol, and decodes its result.
func (b *Browser) call(ctx context.Context, session, method string, params, result any) error {
	answers := make(chan answer, 1)
	b.mu.Lock()
	b.last++
	id := b.last
	b.answers[id] = answers
	b.mu.Unlock()
	message, err := json.Marshal(map[string]any{"id": id, "sessionId": session, "method": method, "params": params})
	if session == "" {
		message, err = json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	}
	if err == nil {
		_, err = b.to.Write(append(message, 0))
	}
	if err != nil {
		return fmt.Errorf("browser: %s: %w", method, err)
	}
	select {
	case a := <-answers:
		if a.Error != nil {
			return fmt.Errorf("browser: %s: %s", method, a.Error.Message)
		}
		if result != nil {
			err = json.Unmarshal(a.Result, result)
		}
	case <-b.gone:
		err = errGone
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("browser: %s: %w", method, err)
	}
	return nil
}

// Tab is a page of a browser.
type Tab struct {
	browser *Browser
	session string
}

// Look is how a page looks.
type Look struct {
	Width, Height int
	Dark          bool
	NoScript      bool // without JavaScript
}

// Open opens a tab without a page.
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
	t := &Tab{b, attached.SessionID}
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
		{"Emulation.setScriptExecutionDisabled", map[string]any{"value": look.NoScript}},
		{"Emulation.setEmulatedMedia", map[string]any{"features": features}},
		{"Emulation.setDeviceMetricsOverride", map[string]any{
			"width": look.Width, "height": look.Height, "deviceScaleFactor": 1, "mobile": look.Width < 600,
		}},
	} {
		if err := b.call(ctx, t.session, step.method, step.params, nil); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Load loads a page, and returns when its document is complete.
func (t *Tab) Load(ctx context.Context, url string) error {
	var loaded struct{ ErrorText string }
	if err := t.browser.call(ctx, t.session, "Page.navigate", map[string]any{"url": url}, &loaded); err != nil {
		return err
	}
	if loaded.ErrorText != "" {
		return fmt.Errorf("browser: load %s: %s", url, loaded.ErrorText)
	}
	return t.Eval(ctx, `new Promise(done => document.readyState === "complete" ? done(true) : addEventListener("load", () => done(true)))`, nil)
}

// Eval evaluates an expression in the page, and decodes its value, or that of its promise.
func (t *Tab) Eval(ctx context.Context, expression string, value any) error {
	var evaluated struct {
		Result struct{ Value json.RawMessage }
		// It is set if the expression throws.
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
		return fmt.Errorf("browser: evaluate: %s %s", e.Text, e.Exception.Description)
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

// Until returns an expression for [Tab.Eval]: a promise that is kept when condition is true. It looks whenever the page changes.
func Until(condition string) string {
	return `new Promise(done => {
		const look = () => { if (` + condition + `) { watch.disconnect(); done(true); } };
		const watch = new MutationObserver(look);
		watch.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
		look();
	})`
}
