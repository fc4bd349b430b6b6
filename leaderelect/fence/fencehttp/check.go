package fencehttp

import (
	"net/http"

	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/fence/internal/claim"
	"github.com/setpoint-go/setpoint/store"
)

// Check returns a [*fence.StaleError] if a [Server] has refused a request because its term is stale. It wraps fence.ErrStale, and a
// controller that gets it leaves the key to the next leader. For any other response, Check returns nil, so also for a 412 that another
// precondition has caused. A RoundTripper may not make an error of a response, so the caller has to ask. Check does not touch the body.
func Check(resp *http.Response) error {
	if resp.StatusCode != http.StatusPreconditionFailed {
		return nil
	}
	have, found, err := claim.Parse(resp.Header.Values(LeaseHeader), resp.Header.Values(TermHeader))
	if err != nil || !found {
		return nil
	}
	stale := &fence.StaleError{Lease: have.Lease, Have: have.Term}
	if sent := sentWith(resp.Request); sent.Lease == have.Lease {
		stale.Term = sent.Term
	}
	if stale.Term >= stale.Have {
		return nil
	}
	return stale
}

// sentWith returns the claim of a request that was sent. A RoundTripper around a [Transport] may have put the caller's request, which has
// no headers, in the response.
func sentWith(req *http.Request) store.Fence {
	if req == nil {
		return store.Fence{}
	}
	sent, found, err := claim.Parse(req.Header.Values(LeaseHeader), req.Header.Values(TermHeader))
	if err == nil && !found {
		sent, _ = store.FenceFrom(req.Context())
	}
	return sent
}
