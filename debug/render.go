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
	"slices"
	"strconv"
	"strings"
	"time"
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
	State    string    `json:"state,omitempty"` // of the manager
	Health   string    `json:"health"`          // one of the constants below
	Problems []string  `json:"problems"`        // why the health is not healthReady
	Actions  bool      `json:"actions"`
	Token    string    `json:"token,omitempty"` // for actions
	Here     string    `json:"-"`               // the subject of the page
}

// The health of the process, which decides about the color at the top of each page.
const (
	healthReady    = "ready"
	healthDegraded = "degraded"  // it is ready, but degraded has something to say
	healthNotReady = "not ready" // the readiness probe fails
)

// Color returns the class of the color of the health.
func (v header) Color() string {
	return map[string]string{healthReady: "good", healthDegraded: "warn", healthNotReady: "bad"}[v.Health]
}

// HealthText returns the health as a heading.
func (v header) HealthText() string { return strings.ToUpper(v.Health[:1]) + v.Health[1:] }

// longReconcile is the time in flight after which a reconcile is a problem, whether or not its controller has a limit such as StuckAfter.
const longReconcile = time.Minute

// slowTakeover is the time after which it is a problem that a new leader waits for its caches.
const slowTakeover = 10 * time.Second

// delayed reports whether it is a problem, after a minute, that something keeps changes from a cache.
func delayed(since, now time.Time) bool { return !since.IsZero() && now.Sub(since) >= time.Minute }

func (h *Handler) header(ps parts, here string) header {
	v := header{Now: time.Now(), Title: h.cfg.Title, State: ps.state, Problems: []string{}, Actions: h.cfg.Actions, Here: here}
	if v.Actions {
		v.Token = h.token
	}
	failing := h.notReady(ps)
	for _, p := range failing {
		v.Problems = append(v.Problems, p.text)
	}
	for _, p := range degraded(ps) {
		if !slices.ContainsFunc(failing, func(f problem) bool { return p.part != "" && f.part == p.part }) { // said already
			v.Problems = append(v.Problems, p.text)
		}
	}
	switch {
	case len(failing) > 0:
		v.Health = healthNotReady
	case len(v.Problems) > 0:
		v.Health = healthDegraded
	default:
		v.Health = healthReady
	}
	return v
}

// problem is a sentence about a part, or about the manager.
type problem struct{ part, text string }

// notReady returns why the manager is not ready, and which parts that it does not run are not healthy.
func (h *Handler) notReady(ps parts) (all []problem) {
	if h.manager != nil {
		for _, err := range flatten(h.manager.Ready()) {
			p := problem{text: strings.TrimPrefix(err.Error(), "manager: ")}
			if of, ok := err.(interface{ Part() (kind, name string) }); ok {
				_, p.part = of.Part()
			}
			all = append(all, p)
		}
	}
	for _, p := range ps.all {
		if one, ok := p.value.(interface{ Check() error }); ok && p.managed == nil {
			for _, err := range flatten(one.Check()) {
				all = append(all, problem{p.name, err.Error()})
			}
		}
	}
	return all
}

// degraded returns the caches that lack records, the sources and stores of leases that do not answer, and the controllers that wait for their
// caches, or have a reconcile that takes long.
func degraded(ps parts) (all []problem) {
	each(ps, func(name string, in anInformer) {
		s := in.Stats()
		if s.Unread > 0 || s.Missing > 0 {
			all = append(all, problem{text: fmt.Sprintf("informer %q: the cache lacks the current state of %s (unread) and %s (missing)", name,
				counted(s.Unread, "object", "objects"), counted(s.Missing, "record", "records"))})
		}
		if now := time.Now(); delayed(s.DelayedSince, now) {
			all = append(all, problem{text: fmt.Sprintf("informer %q: something, such as an open transaction, has kept changes from its cache for %s", name,
				span(now.Sub(s.DelayedSince)))})
		}
		if s.LastError != nil && !s.Watching {
			all = append(all, problem{text: fmt.Sprintf("informer %q: its source has not answered since: %v", name, s.LastError)})
		}
	})
	leases := func(name string, err error) {
		if err != nil {
			all = append(all, problem{text: fmt.Sprintf("election %q: the store of leases has not answered since: %v", name, err)})
		}
	}
	each(ps, func(name string, e anElector) { leases(name, e.Stats().LastError) })
	each(ps, func(name string, s someSlots) { leases(name, s.Stats().LastError) })
	long := func(name string, longest time.Duration) {
		if longest >= longReconcile {
			all = append(all, problem{name, fmt.Sprintf("queue %q: a key has been in flight for %s", name, span(longest))})
		}
	}
	each(ps, func(name string, c aController) {
		s := c.Stats()
		long(name, s.Queue.LongestRunning)
		if s.TakingOver >= slowTakeover {
			all = append(all, problem{name, fmt.Sprintf("controller %q: it leads, and has waited for %s for its caches", name, span(s.TakingOver))})
		}
	})
	each(ps, func(name string, q aQueue) { long(name, q.Stats().LongestRunning) })
	return all
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

// pages has the templates of the pages.
type pages struct {
	templates map[string]*template.Template
}

func newPages() pages {
	p := pages{templates: make(map[string]*template.Template)}
	functions := template.FuncMap{
		"text": visible, "short": short, "num": number, "span": span, "seconds": seconds, "charts": charts, "queueLink": queueLink, "cacheLink": cacheLink,
		"until": func(t, now time.Time) string { return span(t.Sub(now)) },
		"ago":   func(t, now time.Time) string { return span(now.Sub(t)) },
		"slug":  func(s string) string { return strings.ReplaceAll(s, " ", "-") },
		"bytes": func(s string) int { return len(s) }, "address": address,
		"delayed": delayed,
	}
	for _, name := range []string{"overview", "queue", "key", "find", "informer", "confirm"} {
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
	h.cfg.Logger.LogAttrs(r.Context(), slog.LevelError, "page failed", slog.String("path", r.URL.Path), slog.Any("error", err))
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
			if state := h.manager.Stats().State; state == "stopping" || state == "ended" {
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
	return listLink("queue", name, state, query, number)
}

// cacheLink returns the link to the page of the keys of a cache.
func cacheLink(informer, query string, number int) string {
	return listLink("informer", informer, "", query, number)
}

func listLink(page, name, state, query string, number int) string {
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
	return page + "?" + form.Encode()
}

// withError returns a link to a queue, limited to the keys with an error.
func withError(link, err string) string {
	if err == "" {
		return link
	}
	return link + "&" + url.Values{"error": {err}}.Encode()
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
