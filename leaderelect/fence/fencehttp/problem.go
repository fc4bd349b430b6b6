package fencehttp

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/fence/internal/claim"
	"github.com/setpoint-go/setpoint/store"
)

// types is what the types of all problems begin with.
const types = "https://pkg.go.dev/github.com/setpoint-go/setpoint/leaderelect/fence/fencehttp"

// problem is a problem document (RFC 9457). Terms are strings, because readers of JSON may round large numbers.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Lease  string `json:"lease,omitempty"`
	Term   string `json:"term,omitempty"`
	Have   string `json:"have,omitempty"`
}

// write sends a problem document.
func write(w http.ResponseWriter, p problem) {
	p.Type = types + p.Type
	p.Title = http.StatusText(p.Status)
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // it is plain data
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(text, '\n')) // a client that has gone needs no answer
}

// refuseBy sends the response of a request that is not served.
func refuseBy(w http.ResponseWriter, no *claim.Refusal) {
	p := problem{Detail: no.Err.Error()}
	switch no.Reason {
	case claim.Missing:
		p.Type, p.Status = "#missing", http.StatusPreconditionRequired
	case claim.Malformed:
		p.Type, p.Status = "#malformed", http.StatusBadRequest
	case claim.OtherLease:
		p.Type, p.Status = "#other-lease", http.StatusForbidden
	case claim.TooManyLeases:
		p.Type, p.Status = "#too-many-leases", http.StatusServiceUnavailable
	case claim.Ended:
		p.Type, p.Status = "#ended", http.StatusServiceUnavailable
	case claim.Stale:
		p.Type, p.Status = "#stale", http.StatusPreconditionFailed
		if stale := new(fence.StaleError); errors.As(no.Err, &stale) {
			lease, have := claim.Text(store.Fence{Lease: stale.Lease, Term: stale.Have})
			w.Header().Set(LeaseHeader, lease)
			w.Header().Set(TermHeader, have)
			p.Lease, p.Term, p.Have = stale.Lease, strconv.FormatUint(stale.Term, 10), have
		}
	}
	write(w, p)
}
