package debug

import (
	"log/slog"
	"net/http"
	"net/url"
	"slices"

	"github.com/setpoint-go/setpoint/controller"
)

// mostForm is the largest body of an action, in bytes.
const mostForm = 4096

// serveAction takes an action, and sends the browser back to the page of the key or the queue.
func (h *Handler) serveAction(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "The form cannot be read.", http.StatusBadRequest)
		return
	}
	if refused := h.mayAct(r); refused != "" {
		http.Error(w, refused, http.StatusForbidden)
		return
	}
	// The key stands in the URL, because a browser changes bytes that are not text, and line ends, in a form.
	target, action := r.URL.Query(), r.PostFormValue("action")
	queue, key := target.Get("queue"), target.Get("key")
	c, ok := find[aController](h.parts(), queue)
	if !ok {
		http.Error(w, "There is no such controller.", http.StatusNotFound)
		return
	}
	in := c.Inspect()
	if id := target.Get("id"); id != "" {
		if key, ok = lookUp(c, cachesOf(c), id); !ok {
			http.Error(w, "There is no such key.", http.StatusNotFound)
			return
		}
	}
	keys, chosen := 1, choice{target.Get("q"), target.Get("error")}
	back, do := keyLink(queue, key), in.Retry
	switch action {
	case "retry":
	case "forget":
		do = in.Forget
	case "pause":
		do = in.PauseKey
	case "resume":
		do = in.ResumeKey
	case actionRetryParked:
		back = queueLink(queue, "", chosen.query, 0)
		do = func(string) bool { keys = retryAll(in, chosen.parked(in)); return true }
	case actionResync:
		back = queueLink(queue, "", "", 0)
		do = func(string) bool { keys = in.Resync(); return true }
	default:
		http.Error(w, "There is no such action.", http.StatusBadRequest)
		return
	}
	if slices.Contains([]string{"retry", actionRetryParked, actionResync}, action) && !c.Stats().Running {
		http.Error(w, "This process does not reconcile. Take this action on the page of the leader.", http.StatusConflict)
		return
	}
	if !do(key) {
		http.Error(w, "There is no such key.", http.StatusNotFound)
		return
	}
	h.cfg.Logger.LogAttrs(r.Context(), slog.LevelInfo, "action taken", slog.String("action", action),
		slog.String("controller", queue), slog.String("key", key), slog.Int("keys", keys), slog.String("from", r.RemoteAddr))
	w.Header().Set("Location", back)
	w.WriteHeader(http.StatusSeeOther)
}

// The actions on many keys. The page asks before it sends them.
const (
	actionRetryParked = "retry-parked"
	actionResync      = "resync"
)

// retryAll retries keys, and returns how many of them the controller still knows.
func retryAll(in controller.Inspector, keys []string) (n int) {
	for _, key := range keys {
		if in.Retry(key) {
			n++
		}
	}
	return n
}

// confirmPage asks before an action on many keys.
type confirmPage struct {
	header
	Queue  string `json:"queue"`
	Action string `json:"action"`
	Query  string `json:"query"`
	Error  string `json:"error,omitempty"` // the digest of a message, if the action is about the keys with this error
	Count  int    `json:"count"`           // number of keys, or of objects in the caches
}

// confirm makes the page that asks before an action on many keys.
func (h *Handler) confirm(r *http.Request) (page, error) {
	ps := h.parts()
	form := r.URL.Query()
	p := &confirmPage{
		header: h.header(ps, ""), Queue: form.Get("queue"), Action: form.Get("action"), Query: form.Get("q"), Error: form.Get("error"),
	}
	c, ok := find[aController](ps, p.Queue)
	switch {
	case !ok:
		return page{}, notFound("There is no controller %q.", p.Queue)
	case !h.cfg.Actions:
		return page{}, &httpError{http.StatusForbidden, actionsOff}
	}
	switch p.Action {
	case actionRetryParked:
		p.Count = len(p.keys().parked(c.Inspect()))
	case actionResync:
		for _, s := range c.Informers() {
			if in, ok := s.(anInformer); ok {
				p.Count += in.Stats().Objects
			}
		}
	default:
		return page{}, notFound("There is no such action.")
	}
	return page{"confirm", p}, nil
}

// keys returns the keys that the action is about.
func (p *confirmPage) keys() choice { return choice{p.Query, p.Error} }

// ActLink returns the address of the action, JSONLink the link to the page as JSON, and BackLink the link to the queue.
func (p *confirmPage) ActLink() string {
	return "act?" + p.keys().form(p.Queue).Encode()
}
func (p *confirmPage) JSONLink() string {
	return confirmLink(p.Queue, p.Action, p.keys()) + "&format=json"
}
func (p *confirmPage) BackLink() string {
	return withError(queueLink(p.Queue, "", p.Query, 0), p.Error)
}

// form returns the values that name the keys in a URL.
func (c choice) form(queue string) url.Values {
	form := url.Values{"queue": {queue}}
	if c.query != "" {
		form.Set("q", c.query)
	}
	if c.err != "" {
		form.Set("error", c.err)
	}
	return form
}

// confirmLink returns the link to the page that asks before an action.
func confirmLink(queue, action string, keys choice) string {
	form := keys.form(queue)
	form.Set("action", action)
	return "confirm?" + form.Encode()
}
