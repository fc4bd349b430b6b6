package debug

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/setpoint-go/setpoint/debug/internal/words"
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

// serveHealth answers a probe in the same way as the API server of Kubernetes. It says why a part fails only to clients that may see the page.
func (h *Handler) serveHealth(w http.ResponseWriter, r *http.Request, probe string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "A probe is read with GET.", http.StatusMethodNotAllowed)
		return
	}
	all := h.checks(probe)
	failed := slices.ContainsFunc(all, func(c check) bool { return c.Error != "" })
	_, verbose := r.URL.Query()["verbose"]
	if !failed && !verbose {
		writeText(w, http.StatusOK, "ok")
		return
	}
	reasons := failed && h.mayRead(r)
	var b strings.Builder
	for _, c := range all {
		switch {
		case c.Error == "":
			fmt.Fprintf(&b, "[+]%s ok\n", words.Visible(c.Name))
		case reasons:
			fmt.Fprintf(&b, "[-]%s failed: %s\n", words.Visible(c.Name), words.Visible(c.Error))
		default:
			fmt.Fprintf(&b, "[-]%s failed: reason withheld\n", words.Visible(c.Name))
		}
	}
	if failed {
		fmt.Fprintf(&b, "%s check failed\n", probe)
		writeText(w, http.StatusInternalServerError, b.String())
		return
	}
	fmt.Fprintf(&b, "%s check passed\n", probe)
	writeText(w, http.StatusOK, b.String())
}

// writeText writes a response in plain text.
func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	// The client has gone, if this fails.
	_, _ = w.Write([]byte(text))
}
