package fencehttp

import (
	"net/http"

	"github.com/setpoint-go/setpoint/leaderelect/fence/internal/claim"
)

// Refuse sends the response to a stale request if err says that the term is stale, and reports whether it did. Call it in a handler when a write
// to a store has failed: the database may know a greater term than the [Server], which has seen only the requests of its own process. Then err
// wraps a [*backend.FencedError]. It may also be a [*fence.StaleError] of another guard.
func Refuse(w http.ResponseWriter, err error) bool {
	if no := claim.Fenced(err); no != nil {
		refuseBy(w, no)
		return true
	}
	return false
}
