package debug

import (
	"log/slog"
	"net/http"
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
	back, do := keyLink(queue, key), in.Retry
	switch action {
	case "retry":
	case "forget":
		do = in.Forget
	case "pause":
		do = in.Pause
	case "resume":
		do = in.Resume
	case "resync":
		back = queueLink(queue, "", "", 0)
		do = func(string) bool { in.Resync(); return true }
	default:
		http.Error(w, "There is no such action.", http.StatusBadRequest)
		return
	}
	if !do(key) {
		http.Error(w, "There is no such key.", http.StatusNotFound)
		return
	}
	h.cfg.Logger.LogAttrs(r.Context(), slog.LevelInfo, "debug: action taken", slog.String("action", action),
		slog.String("controller", queue), slog.String("key", key), slog.String("from", r.RemoteAddr))
	w.Header().Set("Location", back)
	w.WriteHeader(http.StatusSeeOther)
}
