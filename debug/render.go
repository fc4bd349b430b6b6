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
	"unicode"
	"unicode/utf8"
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
		"text": visible, "short": short, "num": number, "span": span, "seconds": seconds, "line": lineOf, "queueLink": queueLink,
		"until": func(t, now time.Time) string { return span(t.Sub(now)) },
		"ago":   func(t, now time.Time) string { return span(now.Sub(t)) },
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

// sourceLink returns the link to the page of an object without a controller.
func sourceLink(source, key string) string { return linkTo("source", source, key) }

func linkTo(what, name, key string) string {
	form := url.Values{what: {name}}
	if len(key) > mostInLink {
		form.Set("id", digest(key))
	} else {
		form.Set("key", key)
	}
	return "key?" + form.Encode()
}

// visible returns text in which everything that does not print, or that changes the direction, is escaped as in a Go string.
func visible(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// short is visible for a list: the first part of a long text, and its length.
func short(text string) string {
	const most = 120
	if len(text) <= most {
		return visible(text)
	}
	cut := most
	for cut > most-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return visible(text[:cut]) + "… (" + thousands(len(text)) + " bytes)"
}

// number returns n with separators.
func number(n any) string {
	switch n := n.(type) {
	case int:
		return thousands(n)
	case int64:
		return thousands(int(n))
	case uint64:
		digits := strconv.FormatUint(n, 10)
		return separated(digits)
	}
	return fmt.Sprint(n)
}

func thousands(n int) string {
	if n < 0 {
		return "-" + separated(strconv.Itoa(n)[1:])
	}
	return separated(strconv.Itoa(n))
}

func separated(digits string) string {
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

func seconds(s float64) string { return span(time.Duration(s * float64(time.Second))) }

// span returns a duration in at most two units.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return strconv.Itoa(int(d.Milliseconds())) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%s days", thousands(int(d.Hours()/24)))
}

// line is a drawing of the depth of a queue.
type line struct {
	Path, Area string
	Max        int
}

// The size of the drawing, in its own units.
const (
	lineWidth  = 300.0
	lineHeight = 48.0
)

// lineOf draws points over the last minutes. Missing samples leave a gap.
func lineOf(points []pointView, now time.Time) line {
	drawn := line{Max: 1}
	for _, p := range points {
		drawn.Max = max(drawn.Max, p.Ready)
	}
	const window = sampleCount * samplePeriod
	var path, area strings.Builder
	open := false
	finish := func() {
		if open {
			fmt.Fprintf(&area, "V%.0fZ", lineHeight)
		}
		open = false
	}
	for i, p := range points {
		x := lineWidth * (1 - float64(now.Sub(p.At))/float64(window))
		if x < 0 {
			continue
		}
		y := lineHeight - 2 - (lineHeight-4)*float64(p.Ready)/float64(drawn.Max)
		if i > 0 && p.At.Sub(points[i-1].At) > 3*samplePeriod {
			finish()
		}
		if open {
			fmt.Fprintf(&path, "L%.1f %.1f", x, y)
			fmt.Fprintf(&area, "L%.1f %.1f", x, y)
		} else {
			fmt.Fprintf(&path, "M%.1f %.1f", x, y)
			fmt.Fprintf(&area, "M%.1f %.0fV%.1f", x, lineHeight, y)
			open = true
		}
	}
	finish()
	drawn.Path, drawn.Area = path.String(), area.String()
	return drawn
}
