package debug

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/featuregate"
	"github.com/setpoint-go/setpoint/manager"
)

// Config configures a [Handler]. The zero value is ready for use: only this machine can see the page, and the page changes nothing.
type Config struct {
	// Title is the heading of the page. Defaults to "setpoint".
	Title string

	// Guard reports whether the client that sent r may see the page, and take the actions. If it returns false, the client receives status
	// 401 and the challenge of Basic authentication, so a Guard that calls r.BasicAuth works in a browser. Guard is called concurrently. If
	// it is nil, the page serves only requests from this machine: see the package documentation.
	Guard func(r *http.Request) bool

	// Actions allows the page to change the program: to retry, forget, pause, and resume a key, to retry parked keys, and to resync a
	// controller. Off by default.
	Actions bool

	// Redact returns the value that the page shows instead of an object of a cache: for example, a copy without its secrets. The object is
	// shared with the cache, so Redact must not change it. If it returns nil or panics, the page shows no content, labels, or finalizers. If
	// Redact is nil, the page shows objects as encoding/json encodes them.
	Redact func(object any) any

	// Gates are the feature gates that the page lists: a *featuregate.Gates. Optional.
	Gates interface {
		All() iter.Seq[featuregate.Status]
	}

	// Logger receives the actions that were taken, pages that could not be rendered, and why the liveness probe fails, whenever other parts fail
	// than in the probe before. Defaults to slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Title = cmp.Or(c.Title, "setpoint")
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// validate returns an error that names the invalid field.
func (c Config) validate() error {
	if v := reflect.ValueOf(c.Gates); v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("Config.Gates is a nil %T", c.Gates)
	}
	return nil
}

// Handler is the page of a [manager.Manager]. Use New to make one.
//
// It is also a part of a manager: Run samples the depth of the queues. All methods are safe for concurrent use.
type Handler struct {
	cfg     Config
	manager *manager.Manager
	token   string // of the forms
	cross   http.CrossOriginProtection
	pages   pages
	samples samples

	mu sync.Mutex
	// mu guards the following.
	added   []part
	running bool
	failing []string // the parts that failed in the last liveness probe
}

// New returns the page of m and its parts. It finds the controllers, queues, informers, elections, slots, and event recorders among them,
// including those that are added later. A nil m has no parts: see [Handler.Add]. The error names the invalid field of cfg.
func New(m *manager.Manager, cfg Config) (*Handler, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("debug: new: %w", err)
	}
	h := &Handler{cfg: cfg.withDefaults(), manager: m, token: rand.Text(), pages: newPages()}
	return h, nil
}

// Add shows a part that the manager does not run: a *controller.Controller, a *workqueue.Queue, an *informer.Informer, an
// *events.Recorder, a *leaderelect.Elector, or a *shard.Slots. It returns an error if the part is none of these, is nil, or was added
// before.
func (h *Handler) Add(name string, p any) error {
	if !isKnown(p) {
		return fmt.Errorf("debug: add %q: the page cannot show a %T", name, p)
	}
	if v := reflect.ValueOf(p); v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("debug: add %q: it is a nil %T", name, p)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.ContainsFunc(h.added, func(other part) bool { return same(other.value, p) }) {
		return fmt.Errorf("debug: add %q: it was added before", name)
	}
	h.added = append(h.added, part{name: name, value: p})
	return nil
}

// Name returns "debug", the name of the part.
func (h *Handler) Name() string { return "debug" }

// Run samples the depth of the queues every two seconds until ctx ends, and returns nil. Without Run, the page has samples only from the
// times when it was open. If Run is already running, it returns an error.
func (h *Handler) Run(ctx context.Context) error {
	h.mu.Lock()
	busy := h.running
	h.running = true
	h.mu.Unlock()
	if busy {
		return errors.New("debug: run: already running")
	}
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.running = false
	}()
	t := time.NewTicker(samplePeriod)
	defer t.Stop()
	for {
		h.sample(h.parts())
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// sample takes a sample of each queue, unless the last one is too recent.
func (h *Handler) sample(ps parts) {
	now := time.Now()
	if !h.samples.due(now) {
		return
	}
	points := make(map[string]point)
	each(ps, func(name string, c aController) {
		s := c.Stats()
		points[name] = point{At: now, Ready: s.Queue.Ready, InFlight: s.Queue.InProcess, Done: s.Durations.Count()}
	})
	each(ps, func(name string, q aQueue) {
		s := q.Stats()
		points[name] = point{At: now, Ready: s.Ready, InFlight: s.InProcess, Done: q.Totals().Worked.Count()}
	})
	h.samples.add(points)
}

// ServeHTTP serves the pages and the probes.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	path := strings.TrimPrefix(r.URL.Path, "/")
	if path == "healthz" || path == "readyz" {
		h.serveHealth(w, r, path)
		return
	}
	if !h.admit(w, r) {
		return
	}
	if r.Method == http.MethodPost && path == "act" {
		h.serveAction(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "The page is read with GET.", http.StatusMethodNotAllowed)
		return
	}
	switch path {
	case "":
		h.serve(w, r, h.overview)
	case "queue":
		h.serve(w, r, h.queue)
	case "key":
		h.serve(w, r, h.key)
	case "find":
		h.serve(w, r, h.find)
	case "confirm":
		h.serve(w, r, h.confirm)
	case "informer":
		h.serve(w, r, h.informer)
	case "page.css", "page.js", "icon.svg":
		serveAsset(w, r, path)
	default:
		http.Error(w, "There is no such page.", http.StatusNotFound)
	}
}
