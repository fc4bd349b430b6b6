package debug

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// secure sets the headers of all responses.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "+
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // not to other sites, because the URL contains the key
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// mayRead reports whether the client that sent r may see the page.
func (h *Handler) mayRead(r *http.Request) bool {
	if h.cfg.Guard != nil {
		return h.cfg.Guard(r)
	}
	return isLocal(r)
}

// admit reports whether the client that sent r may see the page. If not, it has sent the response.
func (h *Handler) admit(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case h.mayRead(r):
		return true
	case h.cfg.Guard != nil:
		w.Header().Set("WWW-Authenticate", `Basic realm="debug", charset="UTF-8"`)
		http.Error(w, "This page needs authentication.", http.StatusUnauthorized)
	default:
		http.Error(w, "This page is served to its own machine only, under the name localhost or a loopback address. "+
			"Use an SSH tunnel, or set Config.Guard.", http.StatusForbidden)
	}
	return false
}

// isLocal reports whether r comes from this machine and names this machine as its host. The name matters because the name of another site
// can resolve to a loopback address. A browser then treats that site as the same origin.
func isLocal(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !from.Addr().Unmap().IsLoopback() {
		return false
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	to, err := netip.ParseAddr(host)
	return err == nil && to.Unmap().IsLoopback()
}

// actionsOff says why there are no actions.
const actionsOff = "Actions are off: Config.Actions is not set."

// mayAct returns why the action of r is refused, or "".
func (h *Handler) mayAct(r *http.Request) (refused string) {
	switch {
	case !h.cfg.Actions:
		return actionsOff
	case h.cross.Check(r) != nil:
		return "The request comes from another site."
	case subtle.ConstantTimeCompare([]byte(r.PostFormValue("token")), []byte(h.token)) != 1:
		return "The token is wrong. The program may have restarted: load the page again."
	}
	return ""
}
