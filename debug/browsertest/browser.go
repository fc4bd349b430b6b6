package browsertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

// ErrNotInstalled means that Chromium is not installed.
var ErrNotInstalled = errors.New("browsertest: none of chromium, chromium-browser, google-chrome is in the path")

// errGone means that the browser has ended.
var errGone = errors.New("it has ended")

// patience is how long a browser may take to exit cleanly. Then it is killed.
const patience = 5 * time.Second

// Browser is a running browser. Use Start to make one. All methods are safe for concurrent use.
type Browser struct {
	process *exec.Cmd
	profile string
	to      *os.File
	read    sync.WaitGroup
	gone    chan struct{} // closed with the pipe from the browser

	mu sync.Mutex
	// mu guards the following.
	last    int
	answers map[int]chan<- answer // by the number of the call
	tabs    map[string]*Tab       // by session
}

// answer is the reply of the browser to a call, or an event.
type answer struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *callError      `json:"error"`

	// Of an event.
	Session string `json:"sessionId"`
	Event   string `json:"method"`
	Params  struct {
		FrameID, LoaderID, Name string
	} `json:"params"`
}

// callError is an error of the browser, not of the connection to it.
type callError struct {
	Message string `json:"message"`
}

func (e *callError) Error() string { return e.Message }

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
	b := &Browser{profile: profile, gone: make(chan struct{}), answers: make(map[int]chan<- answer), tabs: make(map[string]*Tab)}
	if err := b.start(path); err != nil {
		return nil, errors.Join(fmt.Errorf("browsertest: start: %w", err), os.RemoveAll(profile))
	}
	return b, nil
}

func (b *Browser) start(path string) error {
	theirIn, to, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = theirIn.Close() }() // the browser has its own copy
	from, theirOut, err := os.Pipe()
	if err != nil {
		return errors.Join(err, to.Close())
	}
	defer func() { _ = theirOut.Close() }()
	b.to = to
	// No sandbox, because root may not use it. The only pages are those of the test.
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

// listen hands each answer to the call that waits for it, and each event to its tab.
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
		if json.Unmarshal(bytes.TrimSuffix(message, []byte{0}), &a) != nil {
			continue
		}
		b.mu.Lock()
		to, tab := b.answers[a.ID], b.tabs[a.Session]
		delete(b.answers, a.ID)
		loaded := tab != nil && a.Event == "Page.lifecycleEvent" && a.Params.Name == "load" && a.Params.FrameID == tab.target
		if loaded {
			tab.loaded = a.Params.LoaderID
		}
		b.mu.Unlock()
		if to != nil {
			to <- a
		}
		if loaded || tab != nil && a.Event == "Runtime.executionContextCreated" {
			select {
			case tab.changed <- struct{}{}:
			default: // it was notified already
			}
		}
	}
}

// Close ends the browser. It returns when its process has ended.
func (b *Browser) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = b.call(ctx, "", "Browser.close", nil, nil) // it may have exited
	select {
	case <-b.gone:
	case <-ctx.Done():
		_ = b.process.Process.Kill()
	}
	_ = b.process.Wait() // it may have been killed, which is an error
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
	err := b.send(id, session, method, params)
	if err == nil {
		select {
		case a := <-answers:
			if a.Error != nil {
				err = a.Error
			} else if result != nil {
				err = json.Unmarshal(a.Result, result)
			}
		case <-b.gone:
			err = errGone
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		b.mu.Lock()
		delete(b.answers, id)
		b.mu.Unlock()
		return fmt.Errorf("browsertest: %s: %w", method, err)
	}
	return nil
}

// send sends a call. A message is smaller than the atomic write of a pipe, so no other message interleaves with it.
func (b *Browser) send(id int, session, method string, params any) error {
	message, err := json.Marshal(struct {
		ID      int    `json:"id"`
		Session string `json:"sessionId,omitempty"`
		Method  string `json:"method"`
		Params  any    `json:"params,omitempty"`
	}{id, session, method, params})
	if err != nil {
		return err
	}
	_, err = b.to.Write(append(message, 0))
	return err
}
