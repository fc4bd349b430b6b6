package debug

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/debug/internal/words"
)

// assets are the templates, the style sheet, the script, and the icon.
//
//go:embed assets
var assets embed.FS

// page is a page and the template that shows it.
type page struct {
	name string
	view any
}

// header is the common part of all pages.
type header struct {
	Now      time.Time `json:"now"`
	Title    string    `json:"title"`
	Stage    string    `json:"stage,omitempty"` // of the manager
	Problems []string  `json:"problems"`        // why the process is not ready
	Actions  bool      `json:"actions"`
	Token    string    `json:"token,omitempty"` // for actions
	Here     string    `json:"-"`               // the subject of the page
}

func (h *Handler) header(ps parts, here string) header {
	v := header{Now: time.Now(), Title: h.cfg.Title, Stage: ps.stage, Problems: []string{}, Actions: h.cfg.Actions, Here: here}
	if v.Actions {
		v.Token = h.token
	}
	if h.manager != nil {
		for _, err := range flatten(h.manager.Ready()) {
			v.Problems = append(v.Problems, strings.TrimPrefix(err.Error(), "manager: "))
		}
	}
	return v
}

// httpError is an error with a status.
type httpError struct {
	status int
	text   string
}

func (e *httpError) Error() string { return e.text }

func notFound(format string, args ...any) error {
	return &httpError{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

// pages has the templates of the pages, and the last stacks.
type pages struct {
	templates map[string]*template.Template
	stacks    *stacks
}

func newPages() pages {
	p := pages{templates: make(map[string]*template.Template), stacks: new(stacks)}
	functions := template.FuncMap{
		"text": words.Visible, "short": words.Short, "num": words.Number, "span": words.Span, "seconds": words.Seconds, "line": lineOf, "queueLink": queueLink,
		"until": func(t, now time.Time) string { return words.Span(t.Sub(now)) },
		"ago":   func(t, now time.Time) string { return words.Span(now.Sub(t)) },
		"slug":  func(s string) string { return strings.ReplaceAll(s, " ", "-") },
		"bytes": func(s string) int { return len(s) },
	}
	for _, name := range []string{"overview", "queue", "key"} {
		p.templates[name] = template.Must(template.New("layout.html").Funcs(functions).ParseFS(
			assets, "assets/layout.html", "assets/"+name+".html"))
	}
	return p
}

// render returns a template of a page.
func (p *pages) render(of page, name string) ([]byte, error) {
	var b bytes.Buffer
	err := p.templates[of.name].ExecuteTemplate(&b, name, of.view)
	return b.Bytes(), err
}

// serve serves a page in the format that the client asks for.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, make func(*http.Request) (page, error)) {
	if r.FormValue("format") == "events" {
		h.stream(w, r, make)
		return
	}
	p, err := make(r)
	if err != nil {
		h.serveError(w, r, err)
		return
	}
	var body []byte
	kind := "text/html; charset=utf-8"
	if r.FormValue("format") == "json" {
		kind = "application/json"
		if body, err = json.MarshalIndent(p.view, "", "  "); err == nil {
			body = append(body, '\n')
		}
	} else {
		body, err = h.pages.render(p, "layout.html")
	}
	if err != nil {
		h.serveError(w, r, err)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	// If this fails, the client is gone.
	_, _ = w.Write(body)
}

// serveError responds with an error instead of a page.
func (h *Handler) serveError(w http.ResponseWriter, r *http.Request, err error) {
	if e, ok := err.(*httpError); ok {
		http.Error(w, e.text, e.status)
		return
	}
	h.cfg.Logger.LogAttrs(r.Context(), slog.LevelError, "debug: page failed", slog.String("path", r.URL.Path), slog.Any("error", err))
	http.Error(w, "The page cannot be made. The log says why.", http.StatusInternalServerError)
}

const (
	updatePeriod = time.Second
	streamLimit  = 30 * time.Second // after which the browser reconnects, so that a stream does not delay the shutdown of a server for long
	writeLimit   = 10 * time.Second
)

// stream sends the changing part of a page whenever it has changed. If an update takes long, stream updates less often, so that a viewer
// costs at most a tenth of a processor.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, make func(*http.Request) (page, error)) {
	to := http.NewResponseController(w)
	ctx := r.Context()
	end := time.NewTimer(streamLimit)
	defer end.Stop()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	var last []byte
	for first := true; ; first = false {
		began := time.Now()
		p, err := make(r)
		var body []byte
		if err == nil {
			body, err = h.pages.render(p, "live")
		}
		if err != nil {
			if first {
				h.serveError(w, r, err)
			}
			return
		}
		// Not every writer has deadlines.
		_ = to.SetWriteDeadline(time.Now().Add(writeLimit))
		message := ":\n\n" // shows whether the client is still there
		if !bytes.Equal(body, last) {
			message = "data: " + strings.ReplaceAll(string(body), "\n", "\ndata: ") + "\n\n"
		}
		if first {
			message = "retry:1000\n" + message
		}
		last = body
		if _, err := w.Write([]byte(message)); err != nil || to.Flush() != nil {
			return
		}
		if h.manager != nil {
			if stage := h.manager.Stats().Stage; stage == "stopping" || stage == "ended" {
				return
			}
		}
		pause := time.NewTimer(max(updatePeriod, 10*time.Since(began)))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		case <-end.C:
			pause.Stop()
			return
		}
	}
}

// serveAsset serves a file that is the same for all clients.
func serveAsset(w http.ResponseWriter, r *http.Request, name string) {
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeFileFS(w, r, assets, "assets/"+name)
}

// queueLink returns the link to the page of a queue.
func queueLink(name, state, query string, number int) string {
	form := url.Values{"name": {name}}
	if state != "" && state != filterAll {
		form.Set("state", state)
	}
	if query != "" {
		form.Set("q", query)
	}
	if number > 1 {
		form.Set("page", strconv.Itoa(number))
	}
	return "queue?" + form.Encode()
}

// keyLink returns the link to the page of a key.
func keyLink(queue, key string) string { return linkTo("queue", queue, key) }

// informerLink returns the link to the page of an object without a controller.
func informerLink(informer, key string) string { return linkTo("informer", informer, key) }

func linkTo(what, name, key string) string {
	form := url.Values{what: {name}}
	if len(key) > mostInLink {
		form.Set("id", digest(key))
	} else {
		form.Set("key", key)
	}
	return "key?" + form.Encode()
}
