package debug

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
)

// check is one line of a probe.
type check struct {
	Name  string `json:"name"`
	Error string `json:"error,omitempty"`
}

// checks returns a line for each part of the manager, and one for each problem that belongs to no single part.
func (h *Handler) checks(probe string) []check {
	if h.manager == nil {
		return []check{{Name: "manager"}}
	}
	var err error
	if probe == "readyz" {
		err = h.manager.Ready()
	} else {
		err = h.manager.Check()
	}
	failed := make(map[string][]string)
	for _, one := range flatten(err) {
		name := "manager"
		if e, ok := one.(interface{ Part() (kind, name string) }); ok {
			name = checkName(e.Part())
		}
		failed[name] = append(failed[name], one.Error())
	}
	names := make([]string, 0, len(failed))
	for _, p := range h.manager.Stats().Parts {
		names = append(names, checkName(p.Kind, p.Name))
	}
	for name := range failed {
		names = append(names, name) // also of a part that was just removed
	}
	slices.Sort(names)
	all := []check{{"manager", strings.Join(failed["manager"], "; ")}}
	for _, name := range slices.Compact(names) {
		if name != "manager" {
			all = append(all, check{name, strings.Join(failed[name], "; ")})
		}
	}
	return all
}

// checkName names a part in a probe. A part and its source may have the same name.
func checkName(kind, name string) string {
	if kind == "part" && name != "manager" {
		return name
	}
	return kind + "/" + name
}

// flatten returns the errors that err joins.
func flatten(err error) (all []error) {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, one := range joined.Unwrap() {
		all = append(all, flatten(one)...)
	}
	return all
}

// serveHealth answers a probe in the same way as the API server of Kubernetes. Only clients that may see the page get the names of the parts,
// and the reasons of failures.
func (h *Handler) serveHealth(w http.ResponseWriter, r *http.Request, probe string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "A probe is read with GET.", http.StatusMethodNotAllowed)
		return
	}
	all := h.checks(probe)
	failed := slices.ContainsFunc(all, func(c check) bool { return c.Error != "" })
	if probe == "healthz" {
		h.logHealth(r.Context(), all)
	}
	status, result := http.StatusOK, "passed"
	if failed {
		status, result = http.StatusInternalServerError, "failed"
	}
	_, verbose := r.URL.Query()["verbose"]
	trusted := (failed || verbose) && h.mayRead(r)
	if !failed && !trusted {
		writeText(w, status, "ok")
		return
	}
	var b strings.Builder
	for _, c := range all {
		switch {
		case !trusted:
		case c.Error == "":
			fmt.Fprintf(&b, "[+]%s ok\n", visible(c.Name))
		default:
			fmt.Fprintf(&b, "[-]%s failed: %s\n", visible(c.Name), visible(c.Error))
		}
	}
	fmt.Fprintf(&b, "%s check %s\n", probe, result)
	writeText(w, status, b.String())
}

// logHealth logs why the liveness probe fails, whenever other parts fail than before. So the log of a process that was
// restarted says why, whether or not a person has read the page.
func (h *Handler) logHealth(ctx context.Context, all []check) {
	var names, errs []string
	for _, c := range all {
		if c.Error != "" {
			names, errs = append(names, c.Name), append(errs, c.Error)
		}
	}
	h.mu.Lock()
	same := slices.Equal(h.failing, names)
	h.failing = names
	h.mu.Unlock()
	if !same && len(names) > 0 {
		h.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "liveness probe failed", slog.Any("parts", names), slog.Any("errors", errs))
	}
}

// writeText writes a response in plain text.
func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	// The client has gone, if this fails.
	_, _ = w.Write([]byte(text))
}
